# timeout: 200
"""Limits of memory and processes (--mem, --pids) of tasks that run as their users."""
# make test-all
import os
import signal
import subprocess
import sys

from cgrouptest import cgroups, keeper_of
from hawktest import GREEDY, alive, can_limit, dropped, run_tests, wait_for
from runastest import ANN, BOB, enter_machine
from runnerstest import RunAsCluster

MACHINE = enter_machine()
# What a user can do who has taken his runner's descriptors, before it got them: move another's process with them.
THIEF = """
import ctypes, os, socket, sys
runner, victim = map(int, sys.argv[1:])
taken = ctypes.CDLL(None, use_errno=True).syscall(438, os.pidfd_open(runner), 3, 0)  # pidfd_getfd
assert taken >= 0, os.strerror(ctypes.get_errno())
fds = []
while len(fds) < 2:
    fds += socket.recv_fds(socket.socket(fileno=os.dup(taken)), 1 << 16, 16)[1]
for fd in fds:
    for how in (lambda: fd, lambda: os.open(f"/proc/self/fd/{fd}", os.O_WRONLY)):
        try:
            os.write(how(), str(victim).encode())
        except OSError:
            pass
print(len(fds))
"""


def roots_cluster(**more):
    """Its worker is root's, as cgroups of version 1 ask for."""
    return RunAsCluster(workers=1, owner=0, **more)


def test_who_uses_too_much_is_out_of_memory():
    if not can_limit():
        return
    with roots_cluster(slots=3) as c:
        neighbour = c.up(BOB, "--mem", "64M", "--", "sh", "-c", "echo up; exec sleep 1000")
        job = c.submit_as(ANN, "--mem", "50M", "--pids", "20", "--array", "1-2", "--", "python3", "-c", GREEDY)
        c.as_user(ANN, "wait", job, check=1)
        assert [c.task(ANN, job)[k] for k in ("outcome", "code")] == ["out-of-memory", 9], c.task(ANN, job)
        assert "used more memory than its limit (--mem)" in c.as_user(ANN, "job", job).stdout
        c.submit_as(ANN, "--wait", "--mem", "500M", "--", "python3", "-c", GREEDY)
        forks = c.submit_as(ANN, "--pids", "5", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 0.5 & done; wait")
        c.as_user(ANN, "wait", forks, check=1)
        assert c.task(ANN, forks)["outcome"] == "exited", c.task(ANN, forks)
        assert cgroups(keeper_of(c, ANN)) == []
        # The cgroups are nobody's but the worker's, and what a task starts stays inside.
        for path in cgroups(keeper_of(c, BOB)):
            assert os.stat(path).st_uid == 0 and os.stat(f"{path}/cgroup.procs").st_uid == 0
        script = "echo $$ >/sys/fs/cgroup/memory/cgroup.procs; setsid sleep 1000 & echo $!; echo up; exec sleep 1000"
        stays = c.up(ANN, "--mem", "50M", "--", "sh", "-c", script)
        pid = int(c.cat(ANN, stays).split()[0])
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
            assert f"hawk-task-{keeper_of(c, ANN)}-" in f.read()
        c.as_user(ANN, "cancel", stays)
        wait_for("what left its group to end as well", lambda: not alive(pid) and cgroups(keeper_of(c, ANN)) == [])
        assert c.task(BOB, neighbour)["state"] == "running"


def test_limits_outlive_the_agent_and_end_with_the_runner():
    if not can_limit():
        return
    with roots_cluster(slots=2) as c:
        go = f"{MACHINE}/ann/go"
        script = f"echo $$; echo up; until test -e {go}; do sleep 0.1; done; exec python3 -c '{GREEDY}'"
        job = c.up(ANN, "--mem", "50M", "--", "sh", "-c", script)
        of_bob = c.up(BOB, "--mem", "50M", "--", "sh", "-c", "echo $$; echo up; exec sleep 1000")
        keepers = [keeper_of(c, user) for user in (ANN, BOB)]
        c.workers.pop().kill()
        w = c.start_worker("w1")
        wait_for("both to be taken over", lambda: "2 running tasks of an earlier agent taken over" in w.text())
        assert all(map(cgroups, keepers))
        with open(go, "w", encoding="ascii"):
            pass
        c.as_user(ANN, "wait", job, check=1)
        os.unlink(go)
        assert c.task(ANN, job)["outcome"] == "out-of-memory", c.task(ANN, job)
        wait_for("its cgroup to be removed", lambda: cgroups(keepers[0]) == [])
        pid = int(c.cat(BOB, of_bob).split()[0])
        os.kill(c.runner(BOB), signal.SIGKILL)
        wait_for("what bob ran to end", lambda: not alive(pid) and cgroups(keepers[1]) == [])


def test_no_user_gets_what_would_move_anothers_process():
    if not can_limit():
        return
    with roots_cluster(slots=3) as c:
        of_bob = c.up(BOB, "--", "sh", "-c", "echo $$; echo up; exec sleep 1000")
        victim = int(c.cat(BOB, of_bob).split()[0])
        c.up(ANN, "--", "sh", "-c", "echo up; exec sleep 1000")
        runner = c.runner(ANN)
        os.kill(runner, signal.SIGSTOP)
        c.submit_as(ANN, "--mem", "50M", "--pids", "20", "--", "true")
        wait_for("its cgroups to be made", lambda: cgroups(keeper_of(c, ANN)))
        thief = subprocess.run([*dropped(ANN), sys.executable, "-c", THIEF, str(runner), str(victim)], stdout=subprocess.PIPE, check=True, text=True)
        assert int(thief.stdout) >= 2, thief
        with open(f"/proc/{victim}/cgroup", encoding="ascii") as f:
            assert f"hawk-task-{keeper_of(c, ANN)}-" not in f.read()
        os.kill(runner, signal.SIGKILL)
        wait_for("what ann ran to end", lambda: not alive(runner))
        assert c.task(BOB, of_bob)["state"] == "running" and alive(victim)


def test_a_worker_that_cannot_limit_them_says_so():
    with RunAsCluster(workers=1) as c:
        for flags in (("--mem", "50M"), ("--pids", "5")):
            job = c.submit_as(ANN, *flags, "--", "true")
            c.as_user(ANN, "wait", job, check=1)
            assert "no cgroup is delegated to it" in c.as_user(ANN, "job", job, "--output", "json").stdout
        assert c.submit_as(ANN, "--wait", "--", "true")


run_tests(sys.modules[__name__])
