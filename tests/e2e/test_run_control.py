"""hawk run: which tasks run when, when it stops, and how their output comes."""
import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

from hawktest import BOUND, HAWK, Cluster, Daemon, run_hawk, run_tests, user_environment, wait_for


def run(*args, input=None, check=0, **more):
    r = subprocess.run([HAWK, "run", *args], input=input, capture_output=True, text=True, timeout=BOUND, **more)
    assert r.returncode == check, f"exit {r.returncode}, not {check}: {r.stdout}{r.stderr}"
    return r


def test_the_summary_names_failed_inputs():
    r = run("-l", "-", "--", "sh", "-c", 'test "${HAWK_INPUT#bad}" = "$HAWK_INPUT"',
            input="good\nbad one\nbad\ttwo\ngood\n", check=1)
    last = r.stderr.splitlines()[-1]
    assert last.startswith("hawk run: 2 of 4 tasks failed: ") and sorted(last[31:].split(", ")) == ["bad one", "bad two"], r
    # At most twenty, and where the others are.
    with tempfile.TemporaryDirectory() as d:
        r = run("-k", "--joblog", f"{d}/log", "--array", "1-30", "--", "false", check=1)
        assert r.stderr.splitlines()[-1] == "hawk run: 30 of 30 tasks failed: " + ", ".join(map(str, range(1, 21))) + (
            f", and 10 others: {d}/log has them"), r.stderr


def test_order_is_kept_and_what_waits_is_on_the_disk():
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(f"{d}/go")
        script = f"if [ $HAWK_INPUT = 1 ]; then read _ < {d}/go; fi; echo out $HAWK_INPUT; touch {d}/done$HAWK_INPUT"
        p = subprocess.Popen([HAWK, "run", "-k", "-j2", "--array", "1-20", "--", "sh", "-c", script],
                             stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": d})
        wait_for("all but the first", lambda: os.path.exists(f"{d}/done20"))
        assert not select.select([p.stdout], [], [], 0.2)[0]
        with open(f"{d}/go", "w") as go:
            go.write("\n")
        assert p.communicate(timeout=BOUND)[0] == "".join(f"out {i}\n" for i in range(1, 21)) and p.returncode == 0
    assert "give one" in run("-k", "--line-buffer", "--", "true", check=2).stderr


def test_a_single_tasks_output_comes_at_once():
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(f"{d}/go")
        p = subprocess.Popen([HAWK, "run", "--", "sh", "-c", f"printf 'no newline'; printf err >&2; read _ < {d}/go; echo; echo x"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert select.select([p.stdout], [], [], BOUND)[0] and os.read(p.stdout.fileno(), 100) == b"no newline"
        assert select.select([p.stderr], [], [], BOUND)[0] and os.read(p.stderr.fileno(), 100) == b"err"
        with open(f"{d}/go", "w") as go:
            go.write("\n")
        assert p.communicate(timeout=BOUND) == (b"\nx\n", b"") and p.returncode == 0


def test_a_single_tasks_lines_come_with_its_tag():
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(f"{d}/go")
        p = subprocess.Popen([HAWK, "run", "--tag", "--input", "in", "--", "sh", "-c", f"echo x; read _ < {d}/go; printf y"],
                             stdout=subprocess.PIPE)
        assert select.select([p.stdout], [], [], BOUND)[0] and os.read(p.stdout.fileno(), 100) == b"in\tx\n"
        with open(f"{d}/go", "w") as go:
            go.write("\n")
        assert p.communicate(timeout=BOUND)[0] == b"in\ty\n" and p.returncode == 0


def test_lines_of_running_tasks_come_with_a_tag():
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(f"{d}/goa")
        os.mkfifo(f"{d}/gob")
        script = f"echo first; printf part; read _ < {d}/go$HAWK_INPUT; echo ed; printf last"
        p = subprocess.Popen([HAWK, "run", "-j2", "--line-buffer", "--tag", "-l", "-", "--", "sh", "-c", script],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        p.stdin.write("a\nb\n")
        p.stdin.close()
        lines = [p.stdout.readline(), p.stdout.readline()]
        assert sorted(lines) == ["a\tfirst\n", "b\tfirst\n"], lines
        for x in "ab":
            with open(f"{d}/go{x}", "w") as go:
                go.write("\n")
            lines += [p.stdout.readline(), p.stdout.readline()]  # what was written of a line waits for the rest
        assert sorted(lines) == sorted(f"{x}\t{y}\n" for x in "ab" for y in ("first", "parted", "last")), lines
        assert p.wait(BOUND) == 0
    # Without --line-buffer tasks are printed whole.
    r = run("--tag", "-k", "--array", "1-2", "--", "sh", "-c", "echo x; echo y; echo e >&2")
    assert (r.stdout, r.stderr) == ("1\tx\n1\ty\n2\tx\n2\ty\n", "1\te\n2\te\n"), r


def test_dry_run_prints_what_a_shell_can_read():
    with tempfile.TemporaryDirectory() as d:
        r = run("--dry-run", "-l", "-", "--", "printf", "<%s>", "x{}", "$HOME", "it's", "{}", input="a b\n$(touch oops)\n", cwd=d)
        again = subprocess.run(["sh", "-c", r.stdout], capture_output=True, text=True, cwd=d, check=True)
        assert again.stdout == "<xa b><$HOME><it's><a b><x$(touch oops)><$HOME><it's><$(touch oops)>", again
        assert os.listdir(d) == []
        # What was done before is left out.
        run("--joblog", f"{d}/log", "--array", "1-2", "--", "true")
        assert run("--dry-run", "--resume", "--joblog", f"{d}/log", "--array", "1-3", "--", "echo", "{}").stdout == "echo 3\n"


def test_dry_run_as_a_document():
    said = json.loads(run("--dry-run", "-o", "json", "--array", "3-4", "--", "printf", "it's {}").stdout)
    assert said == {"schema": "hawk.v1", "commands": [{"task": 0, "index": 3, "command": ["printf", "it's 3"]},
                                                      {"task": 1, "index": 4, "command": ["printf", "it's 4"]}]}, said
    said = json.loads(run("--dry-run", "-o", "json", "-l", "-", "--", "sh", "-c", "echo `echo {}`", input="b c\n", check=1).stdout)
    assert said["commands"] == [] and "task 0 would not start" in said["warnings"][0]["message"], said
    assert json.loads(run("--dry-run", "-o", "json", "-l", "-", "--", "true", input="").stdout)["commands"] == []


def test_dry_run_tells_what_would_not_start_and_writes_nothing():
    with tempfile.TemporaryDirectory() as d:
        log = f"{d}/log"
        r = run("--dry-run", "--joblog", log, "-l", "-", "--", "sh", "-c", "echo `echo {}`", input="a\nb c\n", check=1)
        assert r.stdout == "sh -c 'echo `echo a`'\n" and "task 1 would not start" in r.stderr, r
        assert os.listdir(d) == []
        run("--joblog", log, "-l", "-", "--", "echo", "{}", input="a\n")
        with open(log, "a") as f:
            f.write("half a line")
        before = open(log).read()
        r = run("--dry-run", "--joblog", log, "--resume", "-l", "-", "--", "echo", "{}", input="a\nb\n")
        assert r.stdout == "echo b\n" and open(log).read() == before, r
        assert "not empty" in run("--dry-run", "--joblog", log, "--", "true", check=2).stderr


def test_halt_soon_lets_what_runs_end():
    with tempfile.TemporaryDirectory() as d:
        # The second fails while the first runs; no third starts.
        script = (f"echo $HAWK_INPUT >> {d}/ran; if [ $HAWK_INPUT = 2 ]; then exit 1; fi; "
                  f"sleep 0.5; echo end $HAWK_INPUT")
        r = run("-j2", "--halt", "soon,fail=1", "--array", "1-50", "--", "sh", "-c", script, check=1)
        assert r.stdout == "end 1\n" and sorted(open(f"{d}/ran").read().split()) == ["1", "2"], r
        assert r.stderr.splitlines()[-1] == "hawk run: --halt: 1 of 50 tasks done, 1 failed, 48 cancelled; failed: 2", r


def test_halt_soon_does_not_wait_for_another_try():
    # b fails a try after a has ended the run: it is tried no more, at once or later.
    for which, code, said in (("success", 0, "1 of 2 tasks done, 0 failed"), ("fail", 2, "0 of 2 tasks done, 1 failed")):
        for delay in ((), ("--retry-delay", "1h")):
            with tempfile.TemporaryDirectory() as d:
                script = f"if [ {{}} = a ]; then echo a; exit {code}; fi; until [ -e {d}/go ]; do sleep 0.1; done; exit 1"
                p = subprocess.Popen([HAWK, "run", "-j2", "--retries", "1", "--retry-on", "1", *delay, "--halt", f"soon,{which}=1",
                                      "--input", "b", "a", "--", "sh", "-c", script],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                assert p.stdout.readline() == "a\n"
                open(f"{d}/go", "w").close()
                try:
                    err = p.communicate(timeout=BOUND)[1]
                finally:
                    p.kill()
                assert p.returncode == (1 if code else 0) and f"--halt: {said}, 1 cancelled" in err, (which, delay, err)


def test_halt_now_ends_what_runs():
    began = time.monotonic()
    r = run("-j2", "--halt", "now,fail=1", "--array", "1-50", "--", "sh", "-c", "test $HAWK_INPUT = 1 && exec sleep 600; exit 3",
            check=1)
    assert "0 of 50 tasks done, 1 failed, 49 cancelled; failed: 2" in r.stderr and time.monotonic() - began < BOUND, r


def test_halt_now_prints_nothing_of_what_it_cancels():
    for how in (["--halt", "now,fail=1"], ["--halt", "now,done=1"], ["--max-fails", "1"]):
        for form in ([], ["--keep-order"], ["--output", "json"]):
            with tempfile.TemporaryDirectory() as d:
                script = f"echo {{}}; if [ {{}} = a ]; then touch {d}/wrote; exec sleep 600; fi; " \
                         f"until [ -e {d}/wrote ]; do sleep 0.1; done; exit 1"
                r = run("-j2", *how, *form, "--input", "a", "b", "--", "sh", "-c", script, check=1)
                assert "1 failed, 1 cancelled" in r.stderr, (how, form, r)
                if "json" in form:
                    tasks = {t["argument"]: t.get("stdout") for t in json.loads(r.stdout)["tasks"]}
                    assert tasks == {"a": None, "b": "b\n"}, (how, tasks)
                else:
                    assert r.stdout == "b\n", (how, form, r)


def test_halt_counts_successes_and_shares():
    r = run("-j1", "--halt", "now,success=1", "--array", "1-9", "--", "sh", "-c", "test $HAWK_INPUT = 3")
    assert "1 of 9 tasks done, 2 failed, 6 cancelled" in r.stderr, r
    # A share counts once three have ended.
    r = run("-j1", "--halt", "soon,fail=50%", "--array", "1-9", "--", "sh", "-c", "test $HAWK_INPUT = 2 -o $HAWK_INPUT = 3", check=1)
    assert "2 of 9 tasks done, 2 failed, 5 cancelled" in r.stderr, r
    r = run("-j1", "--halt", "soon,fail=50%", "--array", "1-9", "--", "sh", "-c", "test $HAWK_INPUT = 2", check=1)
    assert "1 of 9 tasks done, 2 failed, 6 cancelled" in r.stderr, r
    assert "--halt" not in run("-j1", "--halt", "soon,done=2", "--array", "1-2", "--", "true", check=0).stdout
    for bad in ("now", "fail=1", "now,fail=0", "now,fail=0%", "later,fail=1", "now,fail=x", "now,lost=1"):
        assert bad in run("--halt", bad, "--", "true", check=2).stderr


def test_slots_may_be_a_share():
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as d:
        p = subprocess.Popen([HAWK, "run", "-q", "-j", "200%", "--array", f"1-{2 * cores + 1}", "--", "sh", "-c",
                              f"printf + >> {d}/ran; while [ ! -e {d}/go ]; do sleep 0.1; done; printf - >> {d}/ran"])
        # All of them wait for each other, and the last one for an end.
        wait_for("twice as many as cores", lambda: os.path.exists(f"{d}/ran") and open(f"{d}/ran").read().count("+") >= 2 * cores)
        open(f"{d}/go", "w").close()
        assert p.wait(BOUND) == 0
        ran = open(f"{d}/ran").read()
        running = [ran[:i].count("+") - ran[:i].count("-") for i in range(1, len(ran) + 1)]
        assert max(running) == 2 * cores and ran.count("+") == ran.count("-") == 2 * cores + 1, ran
    for bad in ("0%", "%", "-50%", "1.5", "x"):
        assert bad in run("-j", bad, "--", "true", check=2).stderr


def test_slots_are_the_cores_that_it_may_use():
    cores = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as d:
        os.sched_setaffinity(0, {min(cores)})  # what it starts has it as well
        try:
            run("--array", "1-4", "--", "sh", "-c", f"mkdir {d}/alone && sleep 0.1 && rmdir {d}/alone")
            env = user_environment(d)
            up = Daemon("up", "--output-dir", f"{d}/out", env=env)
            try:
                up.ready()
                assert [n["slots"] for n in json.loads(run_hawk(env, "nodes", "-o", "json").stdout)["nodes"] if n["role"] == "worker"] == [1]
            finally:
                up.stop()
            with Cluster(workers=1, slots="auto") as c:
                assert [n["slots"] for n in c.json("nodes")["nodes"] if n["role"] == "worker"] == [1]
        finally:
            os.sched_setaffinity(0, cores)


def test_delay_keeps_starts_apart():
    before = time.monotonic()
    r = run("-j9", "--delay", "100ms", "--array", "1-6", "--", "echo", "x")
    assert r.stdout.count("x") == 6 and time.monotonic() - before >= 0.5  # the last of them starts so late


def test_shuffled_with_a_seed():
    def order(*flags):
        r = run("-j1", "--shuf", *flags, "--array", "1-30", "--", "sh", "-c", "echo $HAWK_INPUT $HAWK_TASK_INDEX")
        lines = [x.split() for x in r.stdout.splitlines()]
        assert all(a == b for a, b in lines), lines
        return [int(a) for a, _ in lines], r.stderr
    first, said = order("--seed", "7")
    assert sorted(first) == list(range(1, 31)) != first and said == "", (first, said)
    assert order("--seed", "7")[0] == first and order("--seed", "8")[0] != first
    again, said = order()
    assert order("--seed", re.search(r"--seed (\d+)", said).group(1))[0] == again, said
    dry = run("--dry-run", "--shuf", "--seed", "7", "--array", "1-30", "--", "echo", "{}").stdout.split()[1::2]
    assert list(map(int, dry)) == first
    # The log goes by the inputs' positions.
    with tempfile.TemporaryDirectory() as d:
        run("-j1", "--shuf", "--joblog", f"{d}/log", "--array", "1-9", "--", "sh", "-c", "test $HAWK_INPUT != 4", check=1)
        r = run("--resume-failed", "--shuf", "-q", "--joblog", f"{d}/log", "--array", "1-9", "--", "echo", "{}")
        assert r.stdout == "4\n", r


def progress(env, *args):
    """What a terminal sees."""
    master, slave = pty.openpty()
    p = subprocess.Popen([HAWK, "run", *args], stdout=subprocess.DEVNULL, stderr=slave, env={**os.environ, **env})
    os.close(slave)
    said = b""
    while True:
        try:
            got = os.read(master, 4096)
        except OSError:
            got = b""
        if not got:
            break
        said += got
    os.close(master)
    p.wait(BOUND)
    return said.decode()


def test_no_more_run_than_is_allowed():
    with tempfile.TemporaryDirectory() as d:
        alone = ("--", "sh", "-c", f"mkdir {d}/lock || exit 9; sleep 0.02; rmdir {d}/lock")
        run("-j4", "--array", "1-8%1", *alone)
        run("-j4", "--max-running", "1", "--each-line", "-", *alone, input="a\nb\nc\nd\n")


def test_progress():
    args = ("-j1", "--array", "1-6", "--", "sh", "-c", "sleep 0.3; test $HAWK_INPUT != 1")
    seen = r"of 6 done, 1 running, .*1 failed.*, [\d.]+/s, [\d.]+(ms|s) left, "
    colour = progress({"TERM": "xterm"}, *args)
    assert re.search(seen, colour) and "\033[31m1 failed" in colour, colour
    plain = progress({"TERM": "xterm", "NO_COLOR": "1"}, *args)
    assert re.search(seen, plain) and "\033[31m" not in plain, plain
    dumb = progress({"TERM": "dumb"}, *args)
    assert "1 of 6 tasks failed" in dumb and "\033" not in dumb, dumb
    # Nothing is drawn over where there is no terminal.
    r = run("-p", *args, check=1)
    assert re.search(seen, r.stderr) and "\033" not in r.stderr and "\r" not in r.stderr, r.stderr
    assert " left, " not in run(*args, check=1).stderr


run_tests(sys.modules[__name__])
