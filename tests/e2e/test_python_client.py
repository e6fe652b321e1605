"""The Python package hawk as a client: which cluster it finds, as whom it submits, and what its users hear in trouble."""
import os
import subprocess
import sys
import tempfile

import pythontest as p
from hawktest import dropped, run_tests
from userstest import BOB, others_exist

import hawk

LISTENER = """import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
s.listen()
print("ready", flush=True)
while True:
    near, _ = s.accept()
    while heard := near.recv(4096):
        print(heard, flush=True)
"""


def test_a_socket_that_another_user_has_put_there_is_nobodys():
    if not others_exist():
        return
    with tempfile.TemporaryDirectory() as d, \
            p.environment(XDG_RUNTIME_DIR=d, HAWK_DIST=None, HAWK_LOGIN="none", HAWK_TOKEN="s" * 16):
        os.chmod(d, 0o711)
        os.mkdir(f"{d}/hawk")
        os.chown(f"{d}/hawk", BOB, BOB)
        with subprocess.Popen([*dropped(BOB), sys.executable, "-c", LISTENER, f"{d}/hawk/up.sock"],
                              stdout=subprocess.PIPE, text=True) as listener:
            try:
                assert listener.stdout.readline() == "ready\n"
                hawk.submit(["true"])
                raise AssertionError("a job for whoever listens there")
            except hawk.HawkError as e:
                assert "no cluster found" in str(e), e
            finally:
                listener.kill()
            assert listener.stdout.read() == "", "something was sent"


run_tests(sys.modules[__name__])
