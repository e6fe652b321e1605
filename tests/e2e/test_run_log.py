"""hawk run --joblog, --resume, --resume-failed: what was done is not done again."""
import collections
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, alive, heed_signals, run_tests, small_disk, wait_for


def run(*args, input=None, check=0, **more):
    r = subprocess.run([HAWK, "run", *args], input=input, capture_output=True, text=True, timeout=BOUND, **more)
    assert r.returncode == check, f"exit {r.returncode}, not {check}: {r.stdout}{r.stderr}"
    return r


def lines_of(log):
    """The log's lines as dictionaries; the last one may not be whole while it is written."""
    with open(log, encoding="utf-8") as f:
        head, *rest = f.read().split("\n")[:-1]
    return [dict(zip(head.split("\t"), x.split("\t"), strict=True)) for x in rest]


def test_an_empty_list_is_checked_as_any_other():
    empty = ("-l", "-", "--", "true")
    with tempfile.TemporaryDirectory() as d:
        log = f"{d}/log"
        r = run("--joblog", log, *empty, input="")
        assert r.stdout == r.stderr == "" and os.path.exists(log), r
        run("--joblog", log, "--resume", "-l", "-", "--", "true", input="a\n")
        for dry in ((), ("--dry-run",)):
            r = run(*dry, "--joblog", log, "--resume", *empty, input="", check=2)
            assert "line 2 is of input 1, and there are 0" in r.stderr, r
            assert "not empty" in run(*dry, "--joblog", log, *empty, input="", check=2).stderr
            for wrong, said in ((["-j", "nonsense"], "nonsense"), (["--halt", "foo"], "--halt"), (["--resume"], "--resume"),
                                (["-k", "--line-buffer"], "give one"), (["--seed", "1"], "--seed")):
                r = run(*dry, *wrong, *empty, input="", check=2)
                assert said in r.stderr and r.stdout == "", (wrong, r)


def test_a_pipe_has_the_header_too():
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(f"{d}/pipe")
        with subprocess.Popen(["cat", f"{d}/pipe"], stdout=subprocess.PIPE, text=True) as reader:
            run("--joblog", f"{d}/pipe", "-a", "1-2", "--", "true")
            piped = reader.communicate(timeout=BOUND)[0].splitlines()
        run("--joblog", f"{d}/file", "-a", "1-2", "--", "true")
        with open(f"{d}/file", encoding="utf-8") as f:
            assert piped[0] == f.readline().rstrip("\n") and len(piped) == 3, piped


def test_a_line_per_task():
    with tempfile.TemporaryDirectory() as d:
        log = f"{d}/log"
        run("-j2", "--joblog", log, "--each-line", "-", "--", "sh", "-c", 'echo out; test "$HAWK_INPUT" != "b b"',
            "sh", input="a\nb b\nc\n", check=1)
        lines = sorted(lines_of(log), key=lambda x: int(x["Seq"]))
        assert [(x["Seq"], x["Input"], x["Exitval"], x["Signal"], x["Ending"]) for x in lines] == [
            ("1", "a", "0", "0", "exited 0"), ("2", "b b", "1", "0", "exited 1"), ("3", "c", "0", "0", "exited 0")], lines
        assert all(x["Receive"] == "4" and float(x["Starttime"]) > 1e9 and float(x["JobRuntime"]) < BOUND for x in lines)
        # Nobody's log is overwritten by a run that does not go on with it.
        r = run("--joblog", log, "--", "true", check=2)
        assert "not empty" in r.stderr and "--resume" in r.stderr, r.stderr
        assert len(lines_of(log)) == 3


def test_resume_runs_what_has_no_line():
    with tempfile.TemporaryDirectory() as d:
        log, ran = f"{d}/log", f"{d}/ran"
        command = ["--", "sh", "-c", f'echo "$HAWK_INPUT" >> {ran}; echo "out $HAWK_INPUT"; test "$HAWK_INPUT" != 2']
        run("--joblog", log, "--resume", "--array", "1-3", *command, check=1)
        # More inputs may follow; those that ran do not run again.
        r = run("--joblog", log, "--resume", "--array", "1-5", *command, check=1)
        assert sorted(r.stdout.split()) == ["4", "5", "out", "out"], r.stdout
        assert "1 task failed in an earlier run: --resume-failed runs it again" in r.stderr, r.stderr
        assert sorted(open(ran).read().split()) == list("12345")
        r = run("--joblog", log, "--resume-failed", "--array", "1-5", *command, check=1)
        assert r.stdout == "out 2\n" and r.stderr.count("1 of 1 task of this run failed") == 1, r
        # Once it does not fail any more, all is done.
        r = run("--joblog", log, "--resume-failed", "--array", "1-5", "--", "sh", "-c", "echo mended $HAWK_INPUT")
        assert r.stdout == "mended 2\n" and "another command" in r.stderr, r
        r = run("--joblog", log, "--resume", "--array", "1-5", "--", "sh", "-c", "echo mended $HAWK_INPUT")
        assert r.stdout == "", r
        r = run("--joblog", log, "--resume", "--array", "1-7", "--", "sh", "-c", "test $HAWK_INPUT != 6", check=1)
        assert "hawk run: 1 of 2 tasks of this run failed: 6\n" in r.stderr, r.stderr


def test_numbers_and_counts_stay():
    with tempfile.TemporaryDirectory() as d:
        log = f"{d}/log"
        script = "echo $HAWK_TASK_INDEX/$HAWK_TASK_COUNT $HAWK_JOB_ID; test $HAWK_TASK_INDEX != 6 -o -e " + f"{d}/ok"
        first = run("--joblog", log, "--array", "5-7", "--", "sh", "-c", script, check=1).stdout.splitlines()
        open(f"{d}/ok", "w").close()
        assert run("--joblog", log, "--resume-failed", "--array", "5-7", "--", "sh", "-c", script).stdout == "6/3 1.1\n"
        assert sorted(first) == ["5/3 1.1", "6/3 1.1", "7/3 1.1"], first


def test_other_inputs_are_refused():
    with tempfile.TemporaryDirectory() as d:
        log = f"{d}/log"
        run("--joblog", log, "--each-line", "-", "--", "true", input="a\nb\n")
        before = open(log).read()
        r = run("--joblog", log, "--resume", "--each-line", "-", "--", "true", input="a\nc\n", check=2)
        assert "input 2 was 'b', and is 'c' now" in r.stderr, r.stderr
        r = run("--joblog", log, "--resume", "--each-line", "-", "--", "true", input="a\n", check=2)
        assert "there are 1" in r.stderr, r.stderr
        assert open(log).read() == before
        assert "--joblog" in run("--resume", "--", "true", check=2).stderr
        for dry in ([], ["--dry-run"]):
            r = run(*dry, "--joblog", "-", "--", "true", check=2, cwd=d)
            assert "--joblog takes a file: '-' is none (a file of that name: ./-)" in r.stderr and not os.path.exists(f"{d}/-"), r.stderr
        run("--joblog", "./-", "--", "true", cwd=d)
        r = run("--joblog", f"{d}/no/log", "--", "true", check=2)
        assert f"{d}/no/log: No such file" in r.stderr, r.stderr


def test_resume_after_kill_9():
    with tempfile.TemporaryDirectory() as d:
        log, ran, tasks = f"{d}/log", f"{d}/ran", 40
        command = [HAWK, "run", "-j", "4", "--joblog", log, "--resume", "--array", f"1-{tasks}", "--", "sh", "-c",
                   f"sleep 0.05; echo $HAWK_INPUT >> {ran}; echo out $HAWK_INPUT"]
        printed = []
        for at_least in (3, 20):  # twice, the second time in a log that goes on
            out = open(f"{d}/out{at_least}", "w+")
            p = subprocess.Popen(command, stdout=out, env={**os.environ, "TMPDIR": d})
            wait_for(f"{at_least} lines", lambda: os.path.exists(log) and len(open(log).readlines()) > at_least)
            p.kill()
            p.wait()
            logged = {x["Input"] for x in lines_of(log)}
            out.seek(0)
            printed += [x.split()[1] for x in out]
            # What was printed has a line.
            assert set(printed) <= logged and len(logged) < tasks, (printed, logged)
        printed += [x.split()[1] for x in subprocess.run(command, capture_output=True, text=True, timeout=BOUND,
                                                           check=True).stdout.splitlines()]
        assert len(printed) == len(set(printed)), printed
        seqs = [x["Seq"] for x in lines_of(log)]
        assert sorted(seqs, key=int) == [str(i) for i in range(1, tasks + 1)], seqs
        # A task that had a line did not run again; the others did, to their ends.
        times = collections.Counter(open(ran).read().split())
        assert set(times) == set(seqs) and sum(times.values()) <= tasks + 2 * 4, times


def has_open(pid, path):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if os.readlink(f"/proc/{pid}/fd/{fd}") == path:
                return True
    return False


def test_a_lock_that_a_killed_run_leaves_for_a_moment():
    """As what it had just forked holds it. Who keeps it is another run."""
    with tempfile.TemporaryDirectory() as d, open(f"{d}/log", "w", encoding="utf-8") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        command = [HAWK, "run", "-q", "--joblog", log.name, "-a", "1-3", "--", "echo", "{}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as p:
            wait_for("it to open the log", lambda: has_open(p.pid, log.name))
            fcntl.flock(log, fcntl.LOCK_UN)
            assert sorted(p.communicate(timeout=BOUND)[0].split()) == ["1", "2", "3"] and p.returncode == 0
        fcntl.flock(log, fcntl.LOCK_EX)
        r = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
        assert r.returncode == 2 and "another `hawk run` writes to it" in r.stderr, r


def test_what_waits_to_be_printed_has_no_line():
    """So that a run which was killed loses no output, and the next one prints all of it in order."""
    with tempfile.TemporaryDirectory() as d:
        command = [HAWK, "run", "-k", "-j", "2", "--joblog", f"{d}/log", "--resume", "--array", "1-8", "--", "sh", "-c",
                   f"test $HAWK_INPUT != 1 || test -e {d}/go || sleep 1000; echo $HAWK_INPUT | tee -a {d}/ran"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": d}) as p:
            wait_for("the others", lambda: os.path.exists(f"{d}/ran") and len(open(f"{d}/ran").readlines()) == 7)
            p.kill()
            assert p.stdout.read() == b"" and len(lines_of(f"{d}/log")) == 0
        open(f"{d}/go", "w").close()
        out = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=True).stdout
        assert out == "".join(f"{i}\n" for i in range(1, 9)), out
        assert [x["Seq"] for x in lines_of(f"{d}/log")] == [str(i) for i in range(1, 9)]


def test_what_cannot_be_printed_has_no_line():
    """Someone removes the directory of what tasks have written: that is said, and the run that goes on runs them again."""
    with tempfile.TemporaryDirectory() as d:
        command = [HAWK, "run", "-k", "-j", "2", "--joblog", f"{d}/log", "--resume", "--array", "1-3", "--", "sh", "-c",
                   f"touch {d}/ran{{}}; until test {{}} != 1 || test -e {d}/go; do sleep 0.1; done; echo {{}}"]
        os.mkdir(f"{d}/tmp")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "TMPDIR": f"{d}/tmp"}) as p:
            wait_for("all to run", lambda: all(os.path.exists(f"{d}/ran{i}") for i in (1, 2, 3)))
            shutil.rmtree(f"{d}/tmp")
            open(f"{d}/go", "w").close()
            out, err = p.communicate(timeout=BOUND)
        assert p.returncode == 1 and out == "" and "what a task wrote cannot be read: No such file or directory" in err, (out, err)
        assert not lines_of(f"{d}/log")
        assert subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=True).stdout == "1\n2\n3\n"


def test_what_has_a_line_is_printed_when_ctrl_c_comes_twice():
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(f"{d}/log")
        log = os.open(f"{d}/log", os.O_RDWR | os.O_NONBLOCK)
        filler = os.write(log, b"\n" * (1 << 20))  # it is full: the log's lines wait, as for a slow disk
        script = f"echo $HAWK_INPUT; test $HAWK_INPUT != 3 && exit 0; trap '' TERM; echo $$ > {d}/pid; exec sleep 600"
        with subprocess.Popen([HAWK, "run", "-j1", "--joblog", f"{d}/log", "--array", "1-3", "--", "sh", "-c", script],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals) as p:
            wait_for("the third task", lambda: os.path.exists(f"{d}/pid") and open(f"{d}/pid").read())
            p.send_signal(signal.SIGINT)
            assert "once more" in p.stderr.readline()
            p.send_signal(signal.SIGINT)
            wait_for("the third task's end", lambda: not alive(open(f"{d}/pid").read().strip()))
            got = b""

            def ended():
                nonlocal got
                while select.select([log], [], [], 0)[0]:
                    got += os.read(log, 65536)
                return p.poll() is not None
            wait_for("its end", ended)
            ended()
            os.close(log)
            logged = [x.split("\t")[9] for x in got[filler:].decode().splitlines()]
            assert logged[0] == "Input" and logged[1:] == ["1", "2"] == p.stdout.read().split() and p.returncode == -signal.SIGINT, (logged, p.returncode)


def test_a_log_that_cannot_be_written_ends_the_run():
    with small_disk("size=16k") as d, tempfile.TemporaryDirectory() as elsewhere:
        if not d:
            return
        r = run("-j1", "--joblog", f"{d}/log", "--array", "1-2000", "--", "echo", "{}", check=1,
                env={**os.environ, "TMPDIR": elsewhere})
        assert f"--joblog {d}/log cannot be written: No space left on device" in r.stderr, r.stderr
        logged = {x["Input"] for x in lines_of(f"{d}/log")}
        assert set(r.stdout.split()) == logged and len(logged) < 2000


def test_a_cancelled_task_is_printed_by_the_run_that_goes_on():
    with tempfile.TemporaryDirectory() as d:
        script = (f"echo out $HAWK_INPUT; test -e {d}/again && exit 0; if [ $HAWK_INPUT = 2 ]; "
                  f"then until [ -e {d}/wrote ]; do sleep 0.1; done; exit 1; fi; > {d}/wrote; exec sleep 600")
        command = ["-j2", "--joblog", f"{d}/log", "--array", "1-2", "--", "sh", "-c", script]
        first = run("--halt", "now,fail=1", *command, check=1)
        assert first.stdout == "out 2\n" and "1 cancelled" in first.stderr, first
        open(f"{d}/again", "w").close()
        assert run("--resume-failed", "-k", *command).stdout == "out 1\nout 2\n"
        # The same in a document.
        for name in ("log", "again", "wrote"):
            os.unlink(f"{d}/{name}")
        document = json.loads(run("-o", "json", "--halt", "now,fail=1", *command, check=1).stdout)
        tasks = sorted(document["tasks"], key=lambda t: t["task"])
        assert [(t["state"], t.get("stdout")) for t in tasks] == [("cancelled", None), ("failed", "out 2\n")], tasks


run_tests(sys.modules[__name__])
