"""Tasks that fail and run again: --retries, --retry-on, --retry-delay; with hawk run and on a cluster."""
import json
import os
import subprocess
import sys
import tempfile
import time

from hawktest import BOUND, HAWK, Cluster, run_tests, wait_for

FAILS = 'n=$(cat {0}/n$HAWK_INPUT 2>/dev/null || echo 0); echo $((n + 1)) > {0}/n$HAWK_INPUT; test $n -ge {1}'


def count(d, task):
    return int(open(f"{d}/n{task}").read())


def run(*args, check=0):
    r = subprocess.run([HAWK, "run", *args], capture_output=True, text=True, timeout=BOUND)
    assert r.returncode == check, (r.returncode, r.stdout, r.stderr)
    return r


def test_run_tries_again():
    with tempfile.TemporaryDirectory() as d:
        r = run("--retries", "2", "--array", "1-3", "--", "sh", "-c", FAILS.format(d, 2) + " && echo $HAWK_ATTEMPT")
        assert r.stdout == "3\n" * 3 and r.stderr == "", r
        r = run("--retries", "1", "--array", "4-4", "--", "sh", "-c", FAILS.format(d, 2), check=1)
        assert "task 4 (4): exited 1" in r.stderr or "task 4: exited 1" in r.stderr, r
        assert count(d, 4) == 2


def test_only_after_what_was_named():
    with tempfile.TemporaryDirectory() as d:
        def tries(flags, script, check=1):
            for f in os.listdir(d):
                os.unlink(f"{d}/{f}")
            run("--retries", "3", *flags, "--", "sh", "-c", f"echo >> {d}/n; {script}", check=check)
            return len(open(f"{d}/n").read())
        assert tries(["--retry-on", "75,76"], "exit 75") == 4
        assert tries(["--retry-on", "75,76"], "exit 1") == 1
        assert tries(["--retry-on", "signal"], "kill -9 $$") == 4
        assert tries(["--retry-on", "signal"], "exit 1") == 1
        assert tries(["--retry-on", "time-limit", "--time-limit", "100ms"], "sleep 60") == 4
        assert tries([], "exit 0", check=0) == 1
    for bad in ("0", "256", "x", "", "1,", "signals"):
        assert "--retry-on" in run("--retries", "1", "--retry-on", bad, "--", "true", check=2).stderr, bad
    assert "--retries" in run("--retry-delay", "1s", "--", "true", check=2).stderr
    assert "contradict" in run("--retries", "1", "--at-most-once", "--", "true", check=2).stderr


def followed(d, argv, env=None):
    """What it prints of a task whose first try fails once its line was read, and whose second one prints less."""
    seen = f"{d}/seen"
    script = f"if [ $HAWK_ATTEMPT = 1 ]; then echo a long line of the first try; while [ ! -e {seen} ]; do sleep 0.1; done; exit 1; fi; echo 42"
    with subprocess.Popen([HAWK, *argv(script)], stdout=subprocess.PIPE, text=True, env=env) as p:
        text = p.stdout.readline()
        with open(seen, "w", encoding="ascii"):
            pass
        text += p.stdout.read()
        assert p.wait(BOUND) == 0, text
    os.unlink(seen)
    return text


def test_who_follows_a_task_sees_each_try_whole():
    with tempfile.TemporaryDirectory() as d:
        for flags in ((), ("--line-buffer", "--array", "1-1"), ("--tag", "--line-buffer", "--array", "1-1")):
            text = followed(d, lambda script, flags=flags: ["run", "--retries", "1", *flags, "--", "sh", "-c", script])
            tag = "1\t" if "--tag" in flags else ""
            assert text == f"{tag}a long line of the first try\n{tag}42\n", (flags, text)
    with Cluster(workers=1) as c:
        def follow(script):
            job = c.submit("--retries", "1", "--retry-delay", "100ms", "--", "sh", "-c", script)
            return ["cat", "--follow", job]
        text = followed(c.dir, follow, env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
        assert text == "a long line of the first try\n42\n", text


def test_it_waits_longer_each_time():
    began = time.monotonic()
    run("--retries", "3", "--retry-delay", "100ms", "--", "false", check=1)
    assert 0.7 <= time.monotonic() - began < BOUND


def test_lists_say_what_waits_for_its_delay():
    with Cluster(workers=1) as c:
        for kind in ("short", "long"):
            job = c.submit("--class", kind, "--retries", "1", "--retry-delay", "1h", "--", "false")
            wait_for("the first failure", lambda job=job: c.json("job", job)["jobs"][0]["waits"] == "retry")
            assert "--retry-delay" in c.hawk("explain", job).stdout
            c.hawk("cancel", job)


def test_on_a_cluster():
    with tempfile.TemporaryDirectory() as d, Cluster(workers=1, slots=2) as c:
        for number, kind in enumerate(("short", "long"), 1):
            job = c.submit("--class", kind, "--retries", "2", "--array", f"{number}-{number}", "--", "sh", "-c",
                           FAILS.format(d, 2))
            c.hawk("wait", job)
            assert count(d, number) == 3
            task = c.json("job", job)["jobs"][0]["task_list"][0]
            assert (task["state"], task["attempt"]) == ("done", 3), task
            if kind == "short":
                assert task["failures"] == 2 and "3 (2 failed)" in c.hawk("job", job).stdout, task
        # A dist that restarts knows how often they failed.
        job = c.submit("--class", "short", "--retries", "2", "--retry-delay", "1s", "--array", "9-9", "--", "sh", "-c", FAILS.format(d, 9))
        c.hawk("wait", job, check=1)
        assert count(d, 9) == 3


run_tests(sys.modules[__name__])
