"""Executors written in C with libhawk, compiled against what `make install` installs."""
# make test-all
import os
import signal
import subprocess
import sys

from hawktest import BOUND, Cluster, run_tests, wait_for
from installed import ROOT, clean, compiled, example, installed

calls = compiled(f"{ROOT}/tests/e2e/executor_calls.c")


def start(c, worker, *command):
    return subprocess.Popen(command, env={**clean, "HAWK_EXECUTOR": f"unix:{c.dir}/state/{worker}/executors.sock"},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(p, *signals):
    for s in signals:
        p.send_signal(s)
    return p.communicate(timeout=BOUND)


def served(c, app):
    """Until a job for it does not wait for an executor."""
    job = c.hawk("submit", "--app", app, "--payload", "hello").stdout.strip()
    c.hawk("wait", job)
    return job


def test_the_example_says_what_it_waits_for():
    p = subprocess.Popen([example("upper")], env={**clean, "HAWK_EXECUTOR": "unix:/nowhere/executors.sock"},
                         stderr=subprocess.PIPE, text=True)
    said = p.stderr.readline()
    assert said.startswith("upper: waiting: the worker at unix:/nowhere/executors.sock cannot be reached"), said
    p.kill()
    p.communicate(timeout=BOUND)


def test_what_the_examples_need_is_installed():
    doc = f"{installed.name}/share/doc/hawk"
    shown = subprocess.run([f"{doc}/examples/map.py", "--help"], capture_output=True, text=True)
    assert shown.returncode == 0 and "squares" in shown.stdout, shown.stderr


def test_the_example_maps_a_list():
    with Cluster(workers=2, slots=2) as c:
        upper = example("upper")
        ps = [start(c, w, upper, "2") for w in ("w1", "w2")]
        words = [f"word {i}" for i in range(300)]
        r = c.hawk("submit", "--app", "upper", "--each-line", "-", "--wait", "--results", input="\n".join(words) + "\n")
        assert r.stdout == "".join(w.upper() + "\n" for w in words)
        r = c.hawk("submit", "--app", "upper", "--payload", "", "--wait", check=1)
        assert "nothing to convert" in r.stderr, r.stderr
        for p in ps:
            end(p, signal.SIGTERM)


def test_threads_of_the_library_get_no_signals():
    with Cluster(workers=1) as c:
        p = start(c, "w1", example("upper"))
        served(c, "upper")
        blocked = []
        for task in set(os.listdir(f"/proc/{p.pid}/task")) - {str(p.pid)}:
            with open(f"/proc/{p.pid}/task/{task}/status", encoding="ascii") as f:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in f)
            if status["Name"] == "upper":  # gRPC names its own
                blocked.append(int(status["SigBlk"], 16) >> (signal.SIGUSR1 - 1) & 1)
        end(p, signal.SIGTERM)
        assert blocked and all(blocked), blocked


def test_every_call():
    with Cluster(workers=1, slots=8) as c:
        p = start(c, "w1", calls, "threads")
        job = c.hawk("submit", "--app", "calls", "--each-line", "-", "--wait", input="sleep 30\necho\nbig\nfail\nsleep 1\n",
                     check=1).stdout.strip()
        tasks = c.job(job)["task_list"]
        assert [t["code"] for t in tasks] == [0, 0, 1, 1, 0], tasks
        assert "1048577" in tasks[2]["message"], tasks[2]
        r = c.hawk("result", job, check=1)
        assert r.stdout == f"slept\necho of {job}, 1 of 5, try 1\nslept\n", r.stdout
        # Cancelled, and beyond its time: both are heard while the threads are at work.
        job = c.hawk("submit", "--app", "calls", "--array", "1-2", "--payload", "sleep 60000").stdout.strip()
        wait_for("running", lambda: c.job(job)["running"] == 2)
        c.hawk("cancel", job)
        wait_for("ended", lambda: c.job(job)["state"] == "cancelled")
        r = c.hawk("submit", "--app", "calls", "--time-limit", "100ms", "--payload", "sleep 60000", "--wait", check=1)
        assert "time limit" in r.stderr, r.stderr
        job = c.hawk("submit", "--app", "calls", "--each-line", "-", "--wait", "--results", input="leave\n")
        out, err = end(p)
        assert p.returncode == 0 and "no more tasks" in out, (p.returncode, out, err)
        for what in ("wrong", "wake"):
            p = start(c, "w1", calls, what)
            out, err = end(p)
            assert p.returncode == 0, (what, out, err)


def test_a_task_stands_still_and_goes_on():
    with Cluster(workers=1, slots=1) as c:
        p = start(c, "w1", calls, "pauses")
        served(c, "calls")
        long = c.submit("--name", "nap", "--app", "calls", "--class", "long", "--payload", "sleep 3000")
        wait_for("runs", lambda: c.job(long)["running"])
        c.hawk("submit", "--name", "quick", "--app", "calls", "--class", "short", "--payload", "sleep 300", "--wait")
        assert c.job(long)["state"] == "running"
        c.hawk("wait", long)
        assert c.hawk("result", "-r", long).stdout == "stood, slept"
        task = c.job(long)["task_list"][0]
        assert task["pauses"] == 1 and task["paused_us"] > 250000, task
        # It is cancelled while it stands still.
        long = c.submit("--name", "nap", "--app", "calls", "--class", "long", "--payload", "sleep 60000")
        wait_for("runs", lambda: c.job(long)["running"])
        short = c.submit("--name", "quick", "--app", "calls", "--class", "short", "--payload", "sleep 60000")
        wait_for("stands still", lambda: c.job(long)["paused"] == 1)
        c.hawk("cancel", long)
        wait_for("ended", lambda: c.job(long)["state"] == "cancelled")
        c.hawk("cancel", short)
        served(c, "calls")
        end(p, signal.SIGKILL)


def test_one_that_dies_and_one_that_is_stopped():
    with Cluster(workers=2, slots=2) as c:
        first = start(c, "w1", calls, "threads")
        job = c.hawk("submit", "--app", "calls", "--payload", "sleep 3600000").stdout.strip()
        once = c.hawk("submit", "--app", "calls", "--payload", "sleep 3600000", "--at-most-once").stdout.strip()
        wait_for("both run", lambda: c.job(job)["running"] and c.job(once)["running"])
        end(first, signal.SIGKILL)
        wait_for("lost", lambda: c.job(once)["state"] == "failed")
        assert c.job(once)["lost"] == 1
        second = start(c, "w2", calls, "threads")
        wait_for("runs elsewhere", lambda: c.job(job)["running"])
        task = c.job(job)["task_list"][0]
        assert task["attempt"] == 2 and task["worker_name"] == "w2", task
        # One whose whole process stands still is lost when its connection has been silent for some seconds.
        second.send_signal(signal.SIGSTOP)
        third = start(c, "w1", calls, "threads")
        wait_for("runs on", lambda: c.job(job)["task_list"][0]["worker_name"] == "w1")
        second.send_signal(signal.SIGCONT)
        served(c, "calls")
        c.hawk("cancel", job)
        wait_for("cancelled", lambda: c.job(job)["state"] == "cancelled")
        for p in (second, third):
            end(p, signal.SIGKILL)


def test_with_threads_that_hear_nothing_it_comes_back_when_one_is_free():
    with Cluster(workers=1, slots=8, worker=["--kill-grace", "100ms"]) as c:
        p = start(c, "w1", calls, "threads")
        served(c, "calls")
        fifo = f"{c.dir}/hear"
        os.mkfifo(fifo)
        deaf = c.hawk("submit", "--app", "calls", "--array", "1-4", "--payload", f"deaf {fifo}", "--time-limit", "100ms").stdout.strip()
        job = c.hawk("submit", "--app", "calls", "--payload", "hello", "--time-limit", "2s").stdout.strip()
        c.hawk("wait", deaf, check=1)
        wait_for("sent away", lambda: "counts as gone" in c.workers[0].text())
        with open(fifo, "w", encoding="ascii") as f:  # all threads hear again, as long as it is open
            f.write("now")
            f.flush()
            c.hawk("wait", job)  # given to it only once a thread would take it: within its time
        assert c.job(job)["state"] == "done" and c.job(deaf)["failed"] == 4
        end(p, signal.SIGKILL)


def test_it_comes_back_to_its_worker():
    with Cluster(workers=1, slots=2) as c:
        p = start(c, "w1", calls, "threads")
        served(c, "calls")
        job = c.hawk("submit", "--app", "calls", "--payload", "sleep 3600000").stdout.strip()
        wait_for("runs", lambda: c.job(job)["running"])
        c.workers[0].kill()
        c.start_worker("w1")
        wait_for("runs again", lambda: c.job(job)["running"] and c.job(job)["task_list"][0]["attempt"] == 2)
        served(c, "calls")
        c.hawk("cancel", job)
        end(p, signal.SIGKILL)


run_tests(sys.modules[__name__])
