"""Arguments, variables, directories, patterns, inputs and output are bytes: names that are not UTF-8, from the command
line to the file system and into JSON."""
import base64
import json
import os
import subprocess
import sys

from grpctest import Caller, pb
from hawktest import BOUND, HAWK, Cluster, run_tests

NAME = b"caf\xe9"  # Latin-1
TEXT = 'printf "%s.%s.%s.%s" "$1" "$2" "$V" "${PWD##*/}"'


def hawk(c, *args, check=0):
    r = subprocess.run([HAWK.encode(), *args], capture_output=True, timeout=BOUND, cwd=c.dir,
                       env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
    assert r.returncode == check, (args, r)
    return r.stdout


def encoded(value):
    return {"base64": base64.b64encode(value).decode()}


def read(*path):
    with open(b"/".join(path), "rb") as f:
        return f.read()


def test_names_that_are_not_utf8():
    with Cluster(workers=1) as c:
        d = c.dir.encode()
        where = d + b"/dir-" + NAME
        os.mkdir(where)
        with open(f"{c.dir}/list", "wb") as f:
            f.write(NAME + b"\nplain\n" + "é".encode() * 600 + b"\n")
        command = [b"sh", b"-c", TEXT.encode(), b"sh", b"arg-" + NAME]
        for kind in (b"short", b"long"):
            job = hawk(c, b"submit", b"--wait", b"-q", b"--class", kind, b"--cwd", where, b"--env", b"V=env-" + NAME, b"--stdout",
                       b"out-" + NAME + b"-%t", b"--each-line", b"list", b"--", *command).strip()
            assert read(where, b"out-" + NAME + b"-0") == b"arg-%s.%s.env-%s.dir-%s" % ((NAME,) * 4)
            assert hawk(c, b"cat", job, b"1") == b"arg-%s.plain.env-%s.dir-%s" % ((NAME,) * 3)
            # Text stays text; what is not is told exactly. A long input is cut between characters.
            shown = json.loads(hawk(c, b"job", b"--output", b"json", job))["jobs"][0]
            assert shown["command"] == ["sh", "-c", TEXT, "sh", encoded(b"arg-" + NAME)], shown
            assert shown["directory"] == encoded(where), shown
            assert [t["input"] for t in shown["task_list"]] == [encoded(NAME), "plain", "é" * 512], shown
            details = json.loads(hawk(c, b"explain", b"--output", b"json", job))["jobs"][0]["details"]
            assert (details["command"], details["directory"]) == (shown["command"], shown["directory"]), details
            text = hawk(c, b"job", job)  # a terminal gets no bytes that it may stumble over
            assert b"  command   sh -c " in text and b"dir-caf?\n" in text and NAME not in text, text
        spec = Caller(c.dist_addrs[0])("GetJob", pb.GetJobRequest(job=job.decode(), spec=True), pb.GetJobReply).spec
        assert (list(spec.argv), spec.cwd) == (command, where), spec
        assert spec.stdout == b"out-" + NAME + b"-%t", spec


def test_run_and_its_log():
    with Cluster(workers=1) as c:
        with open(f"{c.dir}/list", "wb") as f:
            f.write(NAME + b"\nplain\n")
        flags = (b"--joblog", b"log-" + NAME, b"--each-line", b"list")
        tasks = json.loads(hawk(c, b"run", *flags, b"--output", b"json", b"--", b"touch", b"made-{}"))["tasks"]
        assert sorted((t["argument"] for t in tasks), key=str) == sorted((encoded(NAME), "plain"), key=str), tasks
        assert os.path.exists(c.dir.encode() + b"/made-" + NAME)
        assert b"caf\\xe9" in read(c.dir.encode(), b"log-" + NAME)
        # The log knows the input again.
        assert hawk(c, b"run", *flags, b"--resume", b"--", b"touch", b"made-{}") == b""


def test_output():
    """What tasks write, in the documents of `hawk cat` and `hawk run`."""
    with Cluster(workers=1) as c:
        script = rb"printf 'out-caf\351'; printf 'caf\303\251' >&2"
        job = hawk(c, b"submit", b"--wait", b"-q", b"--", b"sh", b"-c", script).strip()
        for stream, wanted in ((b"stdout", encoded(b"out-" + NAME)), (b"stderr", "café")):
            shown = json.loads(hawk(c, b"cat", b"-o", b"json", job, stream))["outputs"][0]
            assert (shown["data"], shown["truncated"]) == (wanted, False), shown
        task = json.loads(hawk(c, b"run", b"-o", b"json", b"--", b"sh", b"-c", script))["tasks"][0]
        assert (task["stdout"], task["stderr"]) == (encoded(b"out-" + NAME), "café"), task
        # What is cut stays text: the 16 MiB that the document keeps end in the midst of a character.
        task = json.loads(hawk(c, b"run", b"-o", b"json", b"--", b"sh", b"-c",
                               "printf a; yes é | tr -d '\\n' | head -c 17000000".encode()))["tasks"][0]
        assert task["stdout"] == "a" + "é" * ((1 << 23) - 1) and task["stdout_truncated"], len(task["stdout"])


run_tests(sys.modules[__name__])
