"""What tests of hawk-run-as share: a machine with accounts of its own (a mount namespace), and the helper, installed setuid
root in a directory of the test's and built for a configuration that lies beside it."""
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HAWK_USER, ANN, BOB, CAT, LOW, LAB = 61100, 61001, 61002, 61003, 901, 61201
ACCOUNTS = {"hawk": HAWK_USER, "ann": ANN, "bob": BOB, "cat": CAT, "low": LOW, "toor": 0}


def write_accounts(dir):
    """Files and homes of a machine with those accounts; returns the shell's text that makes this machine have them."""
    for name in ("passwd", "group"):
        with open(f"/etc/{name}", encoding="utf-8") as f, open(f"{dir}/{name}", "w", encoding="utf-8") as copy:
            copy.writelines(line for line in f if line.split(":")[0] not in {*ACCOUNTS, "staff", "lab"})
    with open(f"{dir}/passwd", "a", encoding="ascii") as f:
        f.writelines(f"{user}:x:{uid}:{uid or 1}::{dir}/{user}:/bin/sh\n" for user, uid in ACCOUNTS.items())
        f.write(f"staff:x:61004:0::{dir}:/bin/sh\n")  # of root's group
    with open(f"{dir}/group", "a", encoding="ascii") as f:
        f.writelines(f"{user}:x:{uid}:\n" for user, uid in ACCOUNTS.items() if uid)
        f.write(f"lab:x:{LAB}:ann\n")
    for user, uid in ACCOUNTS.items():
        os.mkdir(f"{dir}/{user}", 0o700)
        os.chown(f"{dir}/{user}", uid, uid)
    with open(f"{dir}/nsswitch.conf", "w", encoding="ascii") as f:
        f.write("passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
    return "; ".join(f"mount --bind {dir}/{name} /etc/{name}" for name in ("passwd", "group", "nsswitch.conf"))


def enter_machine():
    """Goes on in a machine whose accounts are those above. Ends the test where none can be made."""
    if os.environ.get("HAWK_TEST_MACHINE"):
        return os.environ["HAWK_TEST_MACHINE"]
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        print("skipped: no machine can be made here\n# tests 0")
        sys.exit(0)
    with tempfile.TemporaryDirectory(prefix="hawk-run-as-") as d:
        os.chmod(d, 0o755)
        script = f"{write_accounts(d)}; exec \"$@\""
        code = subprocess.run(["unshare", "--mount", "sh", "-ec", script, "sh", sys.executable, *sys.argv],
                              env={**os.environ, "HAWK_TEST_MACHINE": d}, check=False).returncode
    sys.exit(code)


def machine_program(dir, program="hawk-runner"):
    """The program of users' runners, where every user can execute it, and only root can have written it."""
    path = f"{dir}/{program}"
    if not os.path.exists(path):
        shutil.copy(f"{os.path.dirname(HAWK)}/{program}", path)
        os.chmod(path, 0o755)
    return path


objects = tempfile.TemporaryDirectory(prefix="hawk-run-as-objects-")


def compile_helper(path, conf):
    """hawk-run-as, with that path of its configuration. Not the one that `make` builds: other tests have that built anew.
    What does not depend on the path is compiled once in a process."""
    compiler = [*shlex.split(os.environ.get("CC", "gcc")), "-std=gnu11", "-D_GNU_SOURCE", f"-I{ROOT}"]
    parts = {f"{objects.name}/{x}.o": f"{ROOT}/runas/{x}.c" for x in ("hawk_run_as", "config", "limits")}
    for part, source in parts.items():
        if not os.path.exists(part):
            with open(f"{objects.name}/conf.h", "w", encoding="ascii") as f:
                f.write("extern const char conf[];\n")
            subprocess.run([*compiler, "-DRUN_AS_CONF=conf", "-include", f.name, "-c", "-o", part, source], check=True)
    with open(f"{path}.c", "w", encoding="utf-8") as f:
        f.write(f'extern const char conf[];\nconst char conf[] = "{conf}";\n')
    subprocess.run([*compiler, "-o", path, f.name, *parts], check=True)
    os.unlink(f.name)


def install_helper(dir, hawk, *settings, callers="caller hawk"):
    """Returns its path; `hawk` is the program of users' runners."""
    conf, helper = f"{dir}/run-as.conf", f"{dir}/hawk-run-as"
    with open(conf, "w", encoding="utf-8") as f:
        f.write("\n".join(["# for a test", f"hawk {hawk}", callers, *settings, ""]))
    os.chmod(conf, 0o644)
    if not os.path.exists(helper):
        compile_helper(helper, conf)
        os.chown(helper, 0, HAWK_USER)
        os.chmod(helper, 0o4750)
    return helper


class Started:
    """hawk-run-as start USER, as its agent starts it."""

    def __init__(self, helper, user, script=None, caller=HAWK_USER, env=None, args=None, listen=True, pairs=True, more=()):
        if script is not None:
            with open(f"{os.environ['HAWK_TEST_MACHINE']}/{user}/spawner", "w", encoding="utf-8") as f:
                f.write(script)
        self.dir = tempfile.TemporaryDirectory()
        self.ours, theirs = socket.socketpair()
        accepts = socket.socket(socket.AF_UNIX)
        accepts.bind(f"{self.dir.name}/s")
        if listen:
            accepts.listen()
        fds = (theirs.fileno(), accepts.fileno())
        moved = "3<&{} 4<&{}".format(*fds) if pairs else "3</dev/null 4</dev/null"
        self.p = subprocess.Popen(["bash", "-c", f'exec "$@" {moved}', "sh", helper, *(args or ("start", user))], pass_fds=(*fds, *more),
                                  user=caller, group=caller, extra_groups=[], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"], **(env or {})})
        theirs.close()
        accepts.close()
        self.ours.settimeout(BOUND)

    def said(self):
        """Its runner's words, up to the first empty line."""
        text = b""
        while not text.endswith(b"\n\n"):
            got = self.ours.recv(4096)
            assert got, (text, self.p.stderr.read())
            text += got
        return text.decode().strip().splitlines()

    def gone(self):
        """Until all that was started is."""
        while self.ours.recv(4096):
            pass
        return self.p.wait(timeout=BOUND)

    def end(self):
        """The code and the words of one that starts nothing."""
        code = self.p.wait(timeout=BOUND)
        return code, self.p.stderr.read().decode()
