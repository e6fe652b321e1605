"""hawk run: what people use xargs -P for."""
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from hawktest import BOUND, HAWK, alive, heed_signals, run_tests, small_disk, wait_for


def run(*args, input=None, check=0, **more):
    r = subprocess.run([HAWK, "run", *args], input=input, capture_output=True, text=True, timeout=BOUND, **more)
    assert r.returncode == check, f"exit {r.returncode}, not {check}: {r.stdout}{r.stderr}"
    return r


def test_one_command():
    r = run("--", "echo", "hello")
    assert r.stdout == "hello\n" and r.stderr == "", (r.stdout, r.stderr)


def test_closed_standard_files():
    r = subprocess.run(["sh", "-c", '"$0" run -l - -- echo <&-', HAWK], capture_output=True, text=True, timeout=BOUND)
    assert (r.returncode, r.stdout) == (2, "") and "cannot read -: Bad file descriptor" in r.stderr, r
    r = subprocess.run(["sh", "-c", '"$0" run -- echo hi >&-', HAWK], capture_output=True, text=True, timeout=BOUND)
    assert r.returncode == 1 and "cannot write to standard output: it is closed" in r.stderr, r


def test_each_line_from_stdin():
    lines = [f"line {i} with 'quotes' and \"more\"" for i in range(200)]
    r = run("-j", "4", "--each-line", "-", "--", "echo", "<{}>", input="\n".join(lines) + "\n")
    assert sorted(r.stdout.splitlines()) == sorted(f"<{x}>" for x in lines)


def test_array_sets_the_environment():
    r = run("--array", "5-8", "-j2", "--", "sh", "-c", "echo $HAWK_TASK_INDEX/$HAWK_TASK_COUNT $HAWK_ATTEMPT")
    assert sorted(r.stdout.split("\n")) == ["", "5/4 1", "6/4 1", "7/4 1", "8/4 1"], r.stdout


def test_output_is_whole_per_task():
    r = run("-j4", "--array", "1-20", "--", "sh", "-c", "for i in 1 2 3 4 5; do echo {}; done")
    lines = r.stdout.splitlines()
    assert len(lines) == 100
    for i in range(0, 100, 5):
        assert len(set(lines[i:i + 5])) == 1, lines[i:i + 5]


def test_failures_are_named_and_counted():
    r = run("--array", "1-5", "--", "sh", "-c", "echo err{} >&2; test {} -ne 3", check=1)
    assert "task 3 (3): exited 1" in r.stderr and "1 of 5 tasks failed" in r.stderr and "err2" in r.stderr, r.stderr


def test_no_such_program():
    r = run("--", "/no/such/program", check=1)
    assert "not started (127)" in r.stderr, r.stderr
    assert r.stderr.count("/no/such/program: no such program") == 1, r.stderr
    r = run("--stderr", "none", "--", "/no/such/program", check=1)
    assert "(127): /no/such/program: no such program" in r.stderr, r.stderr
    r = run("--cwd", "/no/such/directory", "--", "true", check=1)
    assert "(126)" in r.stderr and "cannot enter the directory /no/such/directory" in r.stderr, r.stderr


def test_the_same_failure_is_one_line():
    r = run("--array", "1-1000", "--", "nosuchthing", check=1)
    lines = r.stderr.splitlines()
    assert len(lines) == 4, r.stderr
    assert lines[0].startswith("hawk: nosuchthing: no such program"), lines
    assert re.fullmatch(r"hawk run: task \d+: not started \(127\)", lines[1]), lines
    assert re.match(r"hawk run: 999 more tasks \((\d+, ){5}\.\.\.\): not started \(127\): nosuchthing: ", lines[2]), lines
    assert re.fullmatch(r"hawk run: 1000 of 1000 tasks failed(: | *\d+,){21} and 980 others: --joblog FILE lists them",
                        lines[3]), lines
    # Programs of different names are different failures.
    r = run("-j1", "--array", "1-3", "--", "nosuch{}", check=1)
    assert all(r.stderr.count(f"nosuch{i}: no such program") == 1 for i in (1, 2, 3)), r.stderr
    # What ran and failed is named, up to a number.
    r = run("-j1", "--array", "1-30", "--", "sh", "-c", "exit 3", check=1)
    assert [x for x in r.stderr.splitlines() if "more tasks" in x] == [
        "hawk run: 20 more tasks (11, 12, 13, 14, 15, ...): exited 3"], r.stderr
    assert "task 10 (10): exited 3" in r.stderr or "task 10: exited 3" in r.stderr, r.stderr


def test_numbers_that_make_no_sense_are_refused():
    with tempfile.NamedTemporaryFile("w", suffix=".tr") as trace:
        trace.write("0 2 0.1 0.1 0.1\n")
        trace.flush()
        commands = {
            "run": (["--", "true"], [
                ("--time-limit", "0s"), ("--time-limit", "-1s"), ("--time-limit", "1e9s"), ("--estimate", "0"),
                ("--retries", "-1"), ("--retries", "101"), ("--lost-retries", "65536"), ("--slots", "0"), ("--slots", "-1"), ("--slots", "1.5"),
                ("--slots", "999999999999"), ("--max-fails", "0"), ("--array", "5-1"), ("--array", "-1-3"),
                ("--array", "1-2000000"), ("--array", "1-4294967296")]),
            "replay": (["--dry-run", "--slots", "1", trace.name], [
                ("--time-scale", "0"), ("--time-scale", "nan"), ("--time-scale", "1e300"), ("--jobs", "0"),
                ("--max-tasks", "0"), ("--load", "0"), ("--load", "-1"), ("--duration-cap", "0s"), ("--slots", "0"),
                ("--seed", "-1"), ("--cutoff", "0s"), ("--short-partition", "101%")]),
            "sim": (["--workers", "2", "--trace", trace.name], [
                ("--workers", "0"), ("--slots", "0"), ("--dists", "0"), ("--jobs", "0"), ("--cutoff", "0s"),
                ("--short-partition", "150%"), ("--probe-ratio", "0"), ("--delay", "-1us"), ("--sample", "0s"),
                ("--sched-cost", "-1s"), ("--processes", "0"), ("--for", "0s"), ("--heal", "0s")]),
        }
        commands["submit"] = commands["run"][0], [v for v in commands["run"][1] if v[0] != "--slots"]
        for command, (rest, values) in commands.items():
            for flag, value in values:
                r = subprocess.run([HAWK, command, flag, value, *rest], capture_output=True, text=True, timeout=BOUND)
                assert r.returncode == 2 and flag in r.stderr and value in r.stderr, (command, flag, value, r)
                assert r.stdout == "" and r.stderr.count("\n") == 1, r


def test_killed_it_leaves_no_process_and_the_next_one_cleans_up():
    with tempfile.TemporaryDirectory() as d:
        env = {**os.environ, "TMPDIR": d}
        # One that ends, one that ignores SIGTERM, and one that left its process group.
        script = (f"trap '' TERM; echo output; setsid sh -c 'echo $$ >> {d}/pids; exec sleep 600' & "
                  f"echo $$ >> {d}/pids; while :; do sleep 600; done")
        p = subprocess.Popen([HAWK, "run", "-j", "3", "--array", "1-3", "--", "sh", "-c", script], env=env, stderr=subprocess.PIPE,
                             text=True)
        def pids():
            return [int(x) for x in open(f"{d}/pids").read().split()] if os.path.exists(f"{d}/pids") else []
        wait_for("six processes", lambda: len(pids()) == 6)
        left = [n for n in os.listdir(d) if n.startswith("hawk-run-")]
        assert len(left) == 1, left
        # While it lives, nobody removes what it needs.
        assert run("--", "true", env=env).stderr == ""
        assert os.listdir(f"{d}/{left[0]}"), "removed under way"
        p.kill()
        p.wait()
        wait_for("the end of every process", lambda: not any(alive(x) for x in pids()))
        told = p.communicate(timeout=BOUND)[1]
        assert "the process that ran tasks here was killed" in told and "spawner" not in told, told
        # Only what is a job's output; and what is not its user's, or has another name, is not looked at.
        own = f"hawk-run-{os.uname().nodename}@{os.geteuid()}-"
        assert left[0].startswith(own), left
        elsewhere = f"hawk-run-elsewhere@{os.geteuid()}-abcdef"  # whose lock cannot be seen here
        os.mkdir(f"{d}/{elsewhere}")
        os.mkdir(f"{d}/hawk-run-abcdef")
        os.mkdir(f"{d}/{own}keep")
        open(f"{d}/{own}keep/mine", "w").close()
        os.symlink("hawk-run-abcdef", f"{d}/{own}link")
        assert run("--", "echo", "hi", env=env).stdout == "hi\n"
        rest = sorted(n for n in os.listdir(d) if n.startswith("hawk-run-"))
        assert rest == sorted([f"{own}keep", f"{own}link", elsewhere, "hawk-run-abcdef"]), rest


def test_a_full_disk_is_told():
    with small_disk("size=256k,nr_inodes=64") as d:
        if not d:
            return
        env = {**os.environ, "TMPDIR": d}
        fill = "yes | head -c 1000000 2>/dev/null; true"  # a program that does not look whether it could write
        r = run("--", "sh", "-c", fill, env=env, check=1)
        assert r.stderr.count(f"the disk of {d}/hawk-run-") == 1 and "may be cut short" in r.stderr, r.stderr
        assert 0 < len(r.stdout) < 1000000, len(r.stdout)
        r = run("--output", "json", "--", "sh", "-c", fill, env=env, check=1)
        assert "may be cut short" in json.loads(r.stdout)["errors"][0]["message"]
        assert run("--", "sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x", env=env).stdout == "x" * 100000
        assert os.listdir(d) == []
        # No file can be made at all.
        for i in range(64):
            try:
                os.close(os.open(f"{d}/{i}", os.O_CREAT | os.O_WRONLY))
            except OSError:
                break
        r = run("--", "true", env=env, check=1)
        assert f"no directory for output can be made: {d}/hawk-run-" in r.stderr, r.stderr
        assert "No space left on device; set TMPDIR to another directory" in r.stderr, r.stderr
        r = run("--stdout", f"{d}/out", "--", "true", check=1)
        assert f"(126): cannot open the stdout file {d}/out: No space left on device" in r.stderr, r.stderr


def test_slots_are_used_and_not_exceeded():
    with tempfile.TemporaryDirectory() as d:
        fifo = f"{d}/go"
        os.mkfifo(fifo)
        # Four tasks each say that they run, and wait: all four must be there at once, the fifth only after.
        script = f"echo x >> {d}/running; read _ < {fifo}; true"
        p = subprocess.Popen([HAWK, "run", "-q", "-j", "4", "--array", "1-5", "--", "sh", "-c", script])
        def running():
            return os.path.exists(f"{d}/running") and len(open(f"{d}/running").read().split())
        wait_for("four tasks running", lambda: running() == 4)
        while p.poll() is None:
            assert running() <= 5
            try:
                fd = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
                os.write(fd, b"\n")
                os.close(fd)
            except OSError:
                pass
        assert p.returncode == 0 and running() == 5


def test_output_comes_when_the_task_ends():
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(f"{d}/go")
        p = subprocess.Popen([HAWK, "run", "-j2", "--array", "1-2", "--", "sh", "-c",
                              f"if [ {{}} = 1 ]; then echo first; else read _ < {d}/go; echo second; fi"],
                             stdout=subprocess.PIPE)
        ready, _, _ = select.select([p.stdout], [], [], BOUND)
        assert ready and p.stdout.readline() == b"first\n"
        with open(f"{d}/go", "w") as go:
            go.write("\n")
        assert p.stdout.read() == b"second\n" and p.wait(BOUND) == 0


def test_a_long_argument_is_cut_and_cleaned():
    r = run("--each-line", "-", "--", "false", input="\033[31m" + "\u00e4" * 100 + "/end\n", check=1)
    shown = f"?[31m{chr(0xe4) * 34}...{chr(0xe4) * 34}/end"
    assert f"task 0 ({shown}): exited 1" in r.stderr and f"1 of 1 task failed: {shown}\n" in r.stderr, r.stderr


def test_a_second_ctrl_c_kills_at_once():
    def took():
        with tempfile.TemporaryDirectory() as d:
            p = subprocess.Popen([HAWK, "run", "--", "sh", "-c", f"trap '' TERM; echo $$ > {d}/pid; sleep 600"],
                                 stderr=subprocess.PIPE, preexec_fn=heed_signals)
            wait_for("the task", lambda: os.path.exists(f"{d}/pid") and open(f"{d}/pid").read())
            p.send_signal(signal.SIGINT)
            assert b"once more" in p.stderr.readline()
            start = time.monotonic()
            p.send_signal(signal.SIGINT)
            assert p.wait(timeout=BOUND) == -signal.SIGINT
            took = time.monotonic() - start
            assert not alive(open(f"{d}/pid").read().strip())
            return took
    # With the grace it is two seconds each time; without, a loaded machine may once be slow, but not always.
    assert any(took() < 1 for _ in range(5))


def test_a_closed_terminal_leaves_nothing():
    for s in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        with tempfile.TemporaryDirectory() as d, tempfile.TemporaryDirectory() as tmp:
            p = subprocess.Popen([HAWK, "run", "--", "sh", "-c", f"echo out; echo $$ > {d}/pid; exec sleep 600"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=heed_signals,
                                 env={**os.environ, "TMPDIR": tmp})
            wait_for("the task", lambda: os.path.exists(f"{d}/pid") and open(f"{d}/pid").read())
            p.send_signal(s)
            assert p.wait(timeout=BOUND) == 128 + s
            assert os.listdir(tmp) == []


def test_ctrl_c_ends_the_tasks():
    with tempfile.TemporaryDirectory() as d:
        p = subprocess.Popen([HAWK, "run", "-j2", "--joblog", f"{d}/log", "--array", "1-50", "--", "sh", "-c",
                              f"echo $$ >> {d}/pids; exec sleep 600"], stderr=subprocess.PIPE, text=True,
                             preexec_fn=heed_signals)
        wait_for("two tasks running", lambda: os.path.exists(f"{d}/pids") and
                 len(open(f"{d}/pids").read().split()) == 2)
        p.send_signal(signal.SIGINT)
        said = p.communicate(timeout=BOUND)[1]
        assert p.returncode == -signal.SIGINT
        assert said.endswith("\nhawk run: the same command with --resume runs what has no line in the --joblog\n"), said
        for pid in open(f"{d}/pids").read().split():
            assert not os.path.exists(f"/proc/{pid}"), f"task {pid} lives on"


def test_nothing_is_left_in_tmp():
    with tempfile.TemporaryDirectory() as d:
        run("--array", "1-10", "--", "sh", "-c", "echo out; echo err >&2", env={**os.environ, "TMPDIR": d})
        assert os.listdir(d) == []


def test_nobody_reads_the_output():
    with tempfile.TemporaryDirectory() as d:
        p = subprocess.Popen([HAWK, "run", "-j", "1", "--array", "1-100000", "--", "printf", "%01000d", "{}"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": d})
        p.stdout.read(1)
        p.stdout.close()
        assert p.wait(BOUND) == 1, p.stderr.read()
        assert os.listdir(d) == []


def test_nobody_reads_the_output_of_a_task_that_is_to_run_again():
    with tempfile.TemporaryDirectory() as d, tempfile.TemporaryDirectory() as tmp:
        p = subprocess.Popen([HAWK, "run", "--retries", "1", "--retry-delay", "1h", "--", "sh", "-c",
                              f"until [ -e {d}/go ]; do sleep 0.1; done; echo x; exit 1"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": tmp})
        p.stdout.close()
        open(f"{d}/go", "w").close()
        err = p.stderr.read()
        assert p.wait(BOUND) == 1 and err == "", (p.returncode, err)
        assert os.listdir(tmp) == []


def test_usage_errors():
    assert "command" in run(check=2).stderr
    assert "--frob" in run("--frob", "--", "true", check=2).stderr
    assert run("--array", "9-3", "--", "true", check=2).stderr
    assert run("--each-line", "/no/such/file", "--", "true", check=2).stderr
    assert run("-j", "0", "--", "true", check=2).stderr
    assert "--stdout" in run("--stdout", "", "--", "true", check=2).stderr
    assert "%Z" in run("--stderr", "%t.%Z", "--", "true", check=2).stderr
    assert "%" in run("--stdout", "100%", "--", "true", check=2).stderr
    assert "--cwd" in run("--cwd", "", "--", "true", check=2).stderr
    assert "{}" in run("--timer", "--each-line", "-", "--", "5s", input="1s\n", check=2).stderr


def test_ctrl_c_ends_the_loop_of_a_script_too():
    """A shell goes on after a command that exits with 130, and ends after one that died of SIGINT."""
    with tempfile.TemporaryDirectory() as d:
        script = f"for i in 1 2; do {HAWK} run -q -- sh -c 'touch {d}/$0; exec sleep 600' $i; done; touch {d}/went-on"
        p = subprocess.Popen(["bash", "-c", script], process_group=0, preexec_fn=heed_signals, stderr=subprocess.PIPE)
        wait_for("the first command", lambda: os.path.exists(f"{d}/1"))
        os.killpg(p.pid, signal.SIGINT)
        p.communicate(timeout=BOUND)
        assert p.returncode == -signal.SIGINT, p.returncode
        assert not os.path.exists(f"{d}/2") and not os.path.exists(f"{d}/went-on")


def test_timers_write_nothing():
    with tempfile.TemporaryDirectory() as d:
        for flags in ((), ("-k",), ("--line-buffer",), ("--stdout", "none"), ("--joblog", f"{d}/log")):
            r = run("-a", "1-3", "--timer", *flags, "--", "10ms")
            assert r.stdout == "" and "lost" not in r.stderr, r
        with open(f"{d}/log", encoding="utf-8") as f:
            assert len(f.read().splitlines()) == 4
        tasks = json.loads(run("-a", "1-3", "--timer", "-o", "json", "--", "10ms").stdout)["tasks"]
        assert [t["state"] for t in tasks] == ["done"] * 3, tasks


def test_few_descriptors_lose_no_output():
    with tempfile.TemporaryDirectory() as d:
        wait = f"echo a{{}}; touch {d}/{{}}; until test -e {d}/40 -o -e {d}/go; do sleep 0.1; done; touch {d}/go; echo b{{}}"
        r = subprocess.run(["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", HAWK, "run", "--line-buffer", "-j", "40", "--array", "1-80",
                            "--", "sh", "-c", wait], capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 0 and sorted(r.stdout.split()) == sorted(f"{x}{i}" for x in "ab" for i in range(1, 81)), r


def test_output_that_is_followed_is_there_when_its_file_is_gone():
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/tmp")
        p = subprocess.Popen([HAWK, "run", "--", "sh", "-c", f"echo a; until test -e {d}/go; do sleep 0.1; done; echo b"],
                             stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": f"{d}/tmp"})
        assert p.stdout.readline() == "a\n"
        shutil.rmtree(f"{d}/tmp")
        open(f"{d}/go", "w").close()
        assert p.communicate(timeout=BOUND)[0] == "b\n" and p.returncode == 0


def test_json_says_what_is_left_out():
    r = run("--output", "json", "--", "sh", "-c", "head -c 17000000 /dev/zero | tr '\\0' x")
    said = json.loads(r.stdout)
    assert said["tasks"][0]["stdout_truncated"] and len(said["tasks"][0]["stdout"]) == 16 << 20
    assert "beyond 16 MiB is left out" in r.stderr and "beyond 16 MiB is left out" in str(said["warnings"]), said["warnings"]


def test_json():
    r = run("--output", "json", "--each-line", "-", "--", "sh", "-c", "echo 'out {}'; echo err >&2; exit {}",
            input="0\n3\n", check=1)
    said = json.loads(r.stdout)
    assert said["schema"] == "hawk.v1" and (said["submitted"], said["ended"], said["failed"]) == (2, 2, 1), said
    tasks = sorted(said["tasks"], key=lambda t: t["task"])
    assert [(t["argument"], t["state"], t["code"], t["stdout"], t["stderr"]) for t in tasks] == [
        ("0", "done", 0, "out 0\n", "err\n"), ("3", "failed", 3, "out 3\n", "err\n")], tasks


def test_time_limit():
    r = run("--time-limit", "200ms", "--", "sleep", "600", check=1)
    assert "killed, time limit of 200ms over" in r.stderr, r.stderr


def test_json_has_what_went_wrong():
    r = run("--output", "json", "--array", "1-3", "--", "nosuch", check=1)
    said = json.loads(r.stdout)
    messages = [e["message"] for e in said["errors"]]
    assert messages == r.stderr.splitlines(), (messages, r.stderr)
    assert "nosuch: no such program" in messages[0] and messages[-1].startswith("hawk run: 3 of 3 tasks failed: "), messages
    assert (said["failed"], said["cancelled"]) == (3, 0), said
    assert "errors" not in json.loads(run("--output", "json", "-q", "--", "true").stdout)


def test_ctrl_c_tells_what_was_cancelled():
    for form in ("table", "json"):
        with tempfile.TemporaryDirectory() as d:
            p = subprocess.Popen([HAWK, "run", "--output", form, "-j2", "--array", "1-50", "--", "sh", "-c",
                                  f"[ {{}} = 1 ] && exit 0; echo $$ >> {d}/pids; exec sleep 600"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals)
            wait_for("two tasks running", lambda: os.path.exists(f"{d}/pids") and
                     len(open(f"{d}/pids").read().split()) == 2)
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=BOUND)
            assert p.returncode == -signal.SIGINT
            assert err.splitlines()[-1] == "hawk run: 1 of 50 tasks done, 0 failed, 49 cancelled", err
            if form == "json":
                said = json.loads(out)
                assert (said["ended"], said["failed"], said["cancelled"]) == (50, 0, 49), said


run_tests(sys.modules[__name__])
