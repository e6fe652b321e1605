# timeout: 120
"""Limits of tasks by cgroups of version 2, which are delegated to the worker as systemd does it."""
import glob
import os
import subprocess
import sys

from cgrouptest import CONTROLLERS, TOP, delegated
from hawktest import GREEDY, HAWK, run_tests, wait_for
from runastest import ANN, BOB, HAWK_USER, enter_machine
from runnerstest import RunAsCluster

MACHINE = enter_machine()
FORKS = "import os\nfor i in range(20):\n if os.fork() == 0: os.execlp('sleep', 'sleep', '0.5')"


def can_limit(controller):
    if controller not in CONTROLLERS:
        print(f"skipped: no cgroups of version 2 limit {controller} here")
    return controller in CONTROLLERS


def test_a_workers_own_tasks():
    if not can_limit("pids"):
        return
    with delegated(0) as (top, before):
        r = subprocess.run([*before, HAWK, "run", "--pids", "5", "--", "python3", "-c", FORKS], capture_output=True, text=True, check=False)
        assert r.returncode == 1 and "BlockingIOError" in r.stderr, r
        r = subprocess.run([*before, HAWK, "run", "--pids", "50", "--", "sh", "-c", "cat /proc/self/cgroup"], capture_output=True, text=True, check=False)
        assert r.returncode == 0 and f"0::{top[len(TOP):]}/hawk-task-" in r.stdout, r
        assert glob.glob(f"{top}/hawk-task-*") == []
        if can_limit("memory"):
            r = subprocess.run([*before, HAWK, "run", "--mem", "50M", "--", "python3", "-c", GREEDY], capture_output=True, text=True, check=False)
            assert r.returncode == 1 and "used more memory" in r.stderr, r


def test_users_tasks_of_an_unprivileged_worker():
    if not can_limit("pids"):
        return
    with delegated(HAWK_USER) as (top, before), RunAsCluster(workers=1, slots=2, before=before) as c:
        neighbour = c.up(BOB, "--pids", "50", "--", "sh", "-c", "cat /proc/self/cgroup; echo up; exec sleep 1000")
        assert f"0::{top[len(TOP):]}/hawk-task-" in c.cat(BOB, neighbour)
        job = c.submit_as(ANN, "--pids", "5", "--", "python3", "-c", FORKS)
        c.as_user(ANN, "wait", job, check=1)
        assert "BlockingIOError" in c.cat(ANN, job, "stderr")
        [kept] = glob.glob(f"{top}/hawk-task-*")
        assert os.stat(kept).st_uid == HAWK_USER and os.stat(f"{kept}/cgroup.procs").st_uid == HAWK_USER
        if can_limit("memory"):
            job = c.submit_as(ANN, "--mem", "50M", "--", "python3", "-c", GREEDY)
            c.as_user(ANN, "wait", job, check=1)
            assert c.task(ANN, job)["outcome"] == "out-of-memory"
        # No task leaves its cgroup.
        stays = c.up(ANN, "--pids", "9", "--", "sh", "-c", f"echo $$ >{top}/agent/cgroup.procs; cat /proc/self/cgroup; echo up; exec sleep 1000")
        assert "/hawk-task-" in c.cat(ANN, stays), c.cat(ANN, stays)
        for uid, j in ((BOB, neighbour), (ANN, stays)):
            c.as_user(uid, "cancel", j)
        wait_for("the cgroups to be removed", lambda: glob.glob(f"{top}/hawk-task-*") == [])


run_tests(sys.modules[__name__])
