"""hawk run of a list that comes by and by: tasks start as lines come, whatever else is asked for."""
# seconds: 12
import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, code_of_signal, run_tests, user_environment, wait_for

def lines_of(log):
    with open(log, encoding="utf-8") as f:
        head, *rest = f.read().splitlines()
    return [dict(zip(head.split("\t"), x.split("\t"), strict=True)) for x in rest]


def start(*args, **more):
    return subprocess.Popen([HAWK, "run", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            bufsize=0, **more)


def say(p, *lines):
    p.stdin.write(b"".join(line.encode() + b"\n" for line in lines))


def hear(p):
    """The next line that it prints."""
    assert select.select([p.stdout], [], [], BOUND)[0], "nothing was printed"
    return p.stdout.readline().decode().rstrip("\n")


def end(p, code=0):
    """Closes its input; what it said since."""
    out, err = p.communicate(timeout=BOUND)
    assert p.returncode == code, f"exit {p.returncode}, not {code}: {out}{err}"
    return out.decode(), err.decode()


def test_a_task_starts_as_its_line_comes():
    p = start("-l", "-", "--", "sh", "-c", "echo {} {#} $HAWK_TASK_INDEX ${HAWK_TASK_COUNT-unset}")
    for i, line in enumerate(("a", "b b", "c")):
        say(p, line)
        assert hear(p) == f"{line} {i + 1} {i} unset"
    assert end(p) == ("", "")
    # From a file that is a pipe, and with names of columns.
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(f"{d}/list")
        p = start("--csv", "--header", "-l", f"{d}/list", "--", "echo", "{size}/{name}")
        with open(f"{d}/list", "w", buffering=1) as f:
            for i in range(3):
                f.write(f"name,size\nx{i},{i}\n" if i == 0 else f"x{i},{i}\n")
                assert hear(p) == f"{i}/x{i}"
        assert end(p) == ("", "")


def test_a_list_that_comes_by_and_by_is_one_run():
    with tempfile.TemporaryDirectory() as d:
        p = start("-k", "-o", "json", "--stdout", f"{d}/%J.%j.%%.%t", "-l", "-", "--", "sh", "-c", "echo out; test {} != 2")
        for i in range(3):
            say(p, str(i))
            wait_for("its file", lambda i=i: os.path.exists(f"{d}/1.1.1.%.{i}"))
        out, err = end(p, 1)
        document = json.loads(out)
        assert [(t["task"], t["index"], t["argument"], t["state"]) for t in document["tasks"]] == [
            (0, 0, "0", "done"), (1, 1, "1", "done"), (2, 2, "2", "failed")], document
        assert document["submitted"] == 3 and document["failed"] == 1 and "1 of 3 tasks failed: 2" in err, (document, err)


def test_a_file_that_all_lines_share_keeps_what_is_there():
    with tempfile.TemporaryDirectory() as d:
        def written():
            with open(f"{d}/log", encoding="utf-8") as f:
                return f.read()
        with open(f"{d}/log", "w", encoding="utf-8") as f:
            f.write("before\n")
        p = start("--stdout", f"{d}/log", "-l", "-", "--", "echo", "{}")
        say(p, "a")
        wait_for("the first line's output", lambda: "a\n" in written())
        assert written() == "before\na\n"
        say(p, "b")
        end(p)
        assert written() == "before\na\nb\n"


def test_few_lines_are_read_ahead():
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(f"{d}/go")
        p = start("-j1", "-l", "-", "--", "sh", "-c", f"if [ $HAWK_TASK_INDEX = 0 ]; then read _ < {d}/go; fi; echo {{}} | tail -c 7")
        fd, written = p.stdin.fileno(), 0
        os.set_blocking(fd, False)
        while select.select([], [fd], [], 1)[1]:  # a second without room: it reads no more
            written += os.write(fd, f"{written // 1000:01000d}\n"[1:].encode())
            assert written < 1 << 20, "it reads without bound"
        with open(f"{d}/go", "w") as go:
            go.write("\n")
        wait_for("room in the pipe, once tasks end", lambda: select.select([], [fd], [], 0)[1])
        assert len(end(p)[0].split()) == written // 1000


def test_order_is_kept():
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(f"{d}/go")
        p = start("-k", "-j2", "-l", "-", "--", "sh", "-c", f"if [ {{}} = 1 ]; then read _ < {d}/go; fi; echo {{}}; > {d}/done{{}}")
        say(p, "1")
        for i in range(2, 6):
            say(p, str(i))
            wait_for("another part", lambda i=i: os.path.exists(f"{d}/done{i}"))
        assert not select.select([p.stdout], [], [], 0.2)[0]
        with open(f"{d}/go", "w") as go:
            go.write("\n")
        for i in range(1, 6):
            assert hear(p) == str(i)
        say(p, "6")
        assert hear(p) == "6"
        end(p)


def test_a_log_goes_on():
    with tempfile.TemporaryDirectory() as d:
        log = f"{d}/log"
        command = ["-k", "--joblog", log, "--resume", "-l", "-", "--", "sh", "-c", "echo {}; test {} != b"]
        p = start(*command)
        say(p, "a")
        assert hear(p) == "a"
        say(p, "b")
        assert hear(p) == "b"
        assert [(x["Seq"], x["Input"], x["Exitval"]) for x in lines_of(log)] == [("1", "a", "0"), ("2", "b", "1")]
        p.kill()
        p.communicate()
        p = start(*command)
        say(p, "a", "b", "c")
        assert hear(p) == "c"
        say(p, "d")
        assert hear(p) == "d"
        assert "1 task failed in an earlier run" in end(p, 1)[1]
        assert sorted(x["Seq"] for x in lines_of(log)) == ["1", "2", "3", "4"]
        p = start(*[x.replace("--resume", "--resume-failed") for x in command])
        say(p, "a", "b", "c", "d", "e")
        assert (hear(p), hear(p)) == ("b", "e")
        end(p, 1)
        # Another input is an error when it comes; what stands before it has run.
        p = start(*command)
        say(p, "a", "b", "c", "d", "e", "f")
        assert hear(p) == "f"
        say(p, "g")
        assert hear(p) == "g"
        end(p, 1)
        p = start(*command)
        say(p, *"abcdef", "x")
        assert "input 7 was 'g', and is 'x' now" in end(p, 2)[1]
        p = start(*command)
        say(p, "a")
        assert "input 2, and there are 1" in end(p, 2)[1]


def test_it_halts_and_reads_no_more():
    for how, text in (("now,fail=1", "1 of 3 tasks done, 1 failed, 1 cancelled, and the rest of the list was not read; failed: bad"),
                      ("soon,fail=1", "2 of 3 tasks done, 1 failed, 0 cancelled, and the rest of the list was not read; failed: bad")):
        with tempfile.TemporaryDirectory() as d:
            p = start("-j2", "--halt", how, "-l", "-", "--", "sh", "-c",
                      f"if [ {{}} = slow ]; then > {d}/slow; until [ -e {d}/go ]; do sleep 0.1; done; fi; echo {{}}; test {{}} != bad")
            say(p, "good")
            assert hear(p) == "good"
            say(p, "slow")
            wait_for("the slow one", lambda d=d: os.path.exists(f"{d}/slow"))
            say(p, "bad")
            assert hear(p) == "bad"
            open(f"{d}/go", "w").close()
            # Its input is still open: it does not wait for that.
            assert p.wait(BOUND) == 1 and text in p.stderr.read().decode(), how
            p.communicate()
    # What nobody reads of an endless list is left, whoever ends the run.
    for args in (["--halt", "soon,done=20"], ["--max-fails", "3"]):
        shell = f"yes | {HAWK} run -j2 {' '.join(args)} -l - -- sh -c 'echo; exit 1'"
        r = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 1 and r.stdout.count("\n") >= 3, r
        assert f"{args[0]}: 0 of " in r.stderr and "cancelled, and the rest of the list was not read" in r.stderr, r
    r = subprocess.run(["sh", "-c", f"yes | {HAWK} run -l - -- echo {{}} | head -n 2"], capture_output=True, text=True, timeout=BOUND)
    assert r.stdout == "y\ny\n", r


def test_nobody_reads_stderr_any_more():
    # What a task wrote, and what is said of it.
    for script in ("echo {} >&2", "exit 3"):
        p = start("-l", "-", "--", "sh", "-c", script)
        say(p, "a")
        assert select.select([p.stderr], [], [], BOUND)[0]
        p.stderr.close()
        say(p, "b")
        assert p.wait(BOUND) == 1  # with its list still open
        p.stdin.close()
    # Who closes it from the beginning wants the rest.
    p = subprocess.Popen(["sh", "-c", 'exec "$0" run -l - -- sh -c "echo {} >&2; echo {}" 2>&-', HAWK], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, bufsize=0)
    for line in "abc":
        say(p, line)
        assert hear(p) == line
    p.stdin.close()
    assert p.wait(BOUND) == 0


def test_failures_run_again():
    with tempfile.TemporaryDirectory() as d:
        p = start("--retries", "1", "-l", "-", "--", "sh", "-c", f"echo {{}} $HAWK_ATTEMPT; mkdir {d}/{{}} && exit 1 || exit 0")
        for line in "ab":
            say(p, line)
            assert hear(p) == f"{line} 2"
        end(p)


def test_signals_end_a_run_that_waits():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the run would ignore it
    for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        p = start("-l", "-", "--", "echo", "{}")
        say(p, "a")
        assert hear(p) == "a"
        p.send_signal(signo)
        assert p.wait(BOUND) == code_of_signal(signo), (signo, p.returncode)
        p.communicate()
        # The same while a task runs, and before the first line.
        p = start("-l", "-", "--line-buffer", "--", "sh", "-c", "echo; exec sleep 600")
        say(p, "a")
        assert hear(p) == ""
        p.send_signal(signo)
        assert p.wait(BOUND) == code_of_signal(signo) and b"ending the tasks" in p.stderr.read(), signo
        p.communicate()


def test_progress_has_no_total_until_the_end_is_known():
    with tempfile.TemporaryDirectory() as d:
        leader, follower = pty.openpty()
        p = subprocess.Popen([HAWK, "run", "-l", "-", "--", "sh", "-c", f"test {{}} = a || until [ -e {d}/go ]; do sleep 0.1; done"],
                             stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=follower, bufsize=0)
        os.close(follower)
        seen = b""

        def shown(what):
            nonlocal seen
            while not re.search(what, seen):
                assert select.select([leader], [], [], BOUND)[0], seen
                seen += os.read(leader, 4096)

        say(p, "a", "b")
        shown(rb"1 done, 1 running, 0 failed, [0-9.]+/s, [^,l]+\x1b")
        p.stdin.close()
        shown(rb"1 of 2 done, 1 running, 0 failed, [0-9.]+/s, \S+ left")
        open(f"{d}/go", "w").close()
        assert p.wait(BOUND) == 0
        os.close(leader)


def test_a_single_tasks_output_comes_at_once_when_the_list_is_over():
    p = start("-l", "-", "--", "sh", "-c", "echo first; exec sleep 600")
    say(p, "a")
    p.stdin.close()
    assert hear(p) == "first"
    p.send_signal(signal.SIGTERM)
    assert p.wait(BOUND) == 143
    p.stdin = None
    p.communicate()


def test_a_line_that_is_refused_ends_the_list():
    p = start("--csv", "-l", "-", "--", "echo", "{2}")
    say(p, "1,a")
    assert hear(p) == "a"
    say(p, "2,b", "3", "4,d")
    out, err = end(p, 2)
    assert out == "b\n" and "line 3: 1 column, and the first line has 2" in err, (out, err)
    # The same if they come at once, and it is the last one.
    for refused, said in (("3", "line 3: 1 column, and the first line has 2"), ('3,"x', "line 3: a column in quotes")):
        p = start("-k", "--csv", "-l", "-", "--", "echo", "{2}")
        say(p, "1,a", "2,b", refused)
        out, err = end(p, 2)
        assert out == "a\nb\n" and err.count(said) == 1, (out, err)
    p = start("-l", "-", "--", "true")
    say(p, "a")
    with contextlib.suppress(BrokenPipeError):
        for _ in range(300):
            p.stdin.write(b"x" * 10000)
    assert "line 2: an input of more than 1048576 bytes" in end(p, 2)[1]


def test_what_needs_all_inputs_reads_to_the_end():
    show = ["--", "sh", "-c", "echo {1} $HAWK_TASK_COUNT"]
    r = subprocess.run([HAWK, "run", "--shuf", "-l", "-", *show], input=b"a\nb\n", capture_output=True, timeout=BOUND, check=True)
    assert sorted(r.stdout.split(b"\n")) == [b"", b"a 2", b"b 2"], r
    r = subprocess.run([HAWK, "run", "-l", "-", "--input", "x", "y", *show], input=b"a\nb\n", capture_output=True, timeout=BOUND, check=True)
    assert sorted(r.stdout.split(b"\n")) == [b"", b"a 4", b"a 4", b"b 4", b"b 4"], r
    with tempfile.TemporaryDirectory() as d, open(f"{d}/list", "w+") as f:
        f.write("a\nb\n")  # a file has an end that is known
        f.seek(0)
        r = subprocess.run([HAWK, "run", "-k", "-l", "-", *show], stdin=f, capture_output=True, timeout=BOUND, check=True)
        assert r.stdout == b"a 2\nb 2\n", r
        r = subprocess.run([HAWK, "run", "-l", "/dev/null", *show], env=user_environment(d), capture_output=True, timeout=BOUND, check=True)
        assert r.stdout == r.stderr == b"", r


run_tests(sys.modules[__name__])
