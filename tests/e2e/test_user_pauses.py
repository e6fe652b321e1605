# timeout: 200
"""Pauses of tasks that run as their users, from outside: by cgroups that the worker has. What left its process group stands
still too, its user cannot let it go on, and nothing stays frozen whoever dies."""
# make test-all
import contextlib
import glob
import os
import signal
import sys

from cgrouptest import TOP, cgroups, delegated, keeper_of
from hawktest import alive, can_limit, run_tests, wait_for
from runastest import ANN, HAWK_USER, enter_machine
from runnerstest import RunAsCluster

MACHINE = enter_machine()
PLACE = f"{MACHINE}/ann"
# Counts in two files: in the task's process group, and in a session of its own, whose parent has ended.
COUNT = f'''cd {PLACE}
(setsid sh -c 'echo $$ >away.pid; while :; do echo x >>away; done' &)
echo $$ >here.pid; echo up; while :; do echo x >>here; done'''
# Another task of the same user, in which he sends SIGCONT a thousand times: do the files keep their sizes?
STILL = f'''import os, signal, sys
os.chdir("{PLACE}")
pids = [int(open(f"{{name}}.pid").read()) for name in ("here", "away")]
sizes = lambda: [os.path.getsize(name) for name in ("here", "away")]
before = sizes()
for i in range(1000):
    for pid in pids:
        for whom in (pid, -pid):
            os.kill(whom, signal.SIGCONT)
    os.sched_yield()
sys.exit(f"{{before}} bytes, then {{sizes()}}" if before != sizes() else 0)'''


def sizes():
    return [os.path.getsize(f"{PLACE}/{name}") for name in ("here", "away")]


def wait_for_growth():
    then = sizes()
    wait_for("both to go on", lambda: all(now > was for was, now in zip(then, sizes())))


def pid_of(name):
    with open(f"{PLACE}/{name}.pid", encoding="ascii") as f:
        return int(f.read())


def is_freezable(version):
    path = TOP if version == 2 else "/sys/fs/cgroup/freezer"
    if not os.path.exists(f"{path}/cgroup.procs"):
        print(f"skipped: no cgroups of version {version} freeze anything here")
        return False
    return True


@contextlib.contextmanager
def cluster(version, starts_as="long"):
    """With a task of ann's that counts, and is long, or becomes that at once."""
    for file in glob.glob(f"{PLACE}/*"):
        os.unlink(file)
    flags = ("--freezer", f"cgroup{version}", "--pause-share", "1000")  # however young it is
    with delegated(HAWK_USER if version == 2 else 0) as (_, before):
        agents = {"before": before, "owner": HAWK_USER} if version == 2 else {"owner": 0}
        with RunAsCluster(workers=1, slots=1, worker=flags, central=("--cutoff", "100ms"), **agents) as c:
            job = c.up(ANN, "--class", starts_as, "--", "sh", "-c", COUNT)
            wait_for("both files", lambda: all(os.path.exists(f"{PLACE}/{name}") for name in ("here", "away")))
            wait_for("it to be long", lambda: sum(n.get("running_long", 0) for n in c.json("nodes")["nodes"]) == 1)
            c.hawk("policy", "set", "--cutoff", "1h")  # what is short stays so
            yield c, job


def pause(c):
    """Pauses it for a short task that stays; returns that."""
    job = c.submit_as(ANN, "--class", "short", "--", "sh", "-c", f"touch {PLACE}/runs; exec sleep 1000")
    wait_for("the short task", lambda: os.path.exists(f"{PLACE}/runs"))
    return job


def expect_still(c):
    r = c.as_user(ANN, "submit", "--wait", "--class", "short", "--", sys.executable, "-c", STILL, check=None)
    assert r.returncode == 0, (r.stderr, c.as_user(ANN, "cat", r.stdout.strip(), "stderr").stdout)


def each_version(test, starts_as="long"):
    for version in (2, 1):
        if is_freezable(version):
            with cluster(version, starts_as) as (c, job):
                test(c, job)


def test_no_other_task_of_the_user_lets_it_go_on():
    def test(c, job):
        wait_for_growth()
        expect_still(c)
        wait_for_growth()
        assert c.task(ANN, job)["state"] == "running"
    each_version(test)


def test_none_lets_go_on_what_became_long_after_its_start():
    def test(c, job):
        keeper = keeper_of(c, ANN)
        assert cgroups(keeper) == []
        for _ in range(2):
            expect_still(c)
            wait_for_growth()
        assert c.task(ANN, job)["state"] == "running" and len(cgroups(keeper)) == 1
        ends_paused(c, lambda: c.as_user(ANN, "cancel", job))
    each_version(test, "short")


def ends_paused(c, end):
    pids, keeper = [pid_of(name) for name in ("here", "away")], keeper_of(c, ANN)
    pause(c)
    assert len(cgroups(keeper)) == 1
    end()
    wait_for("its processes to end", lambda: not any(map(alive, pids)))
    wait_for("its cgroup to be removed", lambda: cgroups(keeper) == [])


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"


def test_its_runner_stops_it_where_its_limits_cgroups_freeze_nothing():
    """What left its process group goes on: nothing else is promised of `--freezer signal`."""
    if not can_limit():
        return
    flags = ("--freezer", "signal", "--pause-share", "1000")
    with RunAsCluster(workers=1, slots=1, worker=flags, owner=0) as c:
        job = c.up(ANN, "--pids", "50", "--class", "long", "--", "sh", "-c", COUNT)
        assert cgroups(keeper_of(c, ANN))
        looks = f"until grep -q '^State:.T' /proc/$(cat {PLACE}/here.pid)/status; do sleep 0.1; done"
        for _ in range(2):
            c.submit_as(ANN, "--wait", "--class", "short", "--", "sh", "-c", looks)
            wait_for("it to go on", lambda: not is_stopped(pid_of("here")))
        assert c.task(ANN, job)["state"] == "running"


def test_its_time_limit_stands_still():
    """For its runner, and for the agent, which gives a runner RUNNER_LATE_US (5 s) beyond the limit and the grace."""
    flags = ("--freezer", "signal", "--pause-share", "1000", "--kill-grace", "0")
    with RunAsCluster(workers=1, slots=1, worker=flags) as c:
        job = c.up(ANN, "--class", "long", "--time-limit", "3s", "--", "sh", "-c", "echo up; exec sleep 1000")
        c.submit_as(ANN, "--wait", "--class", "short", "--", "sleep", "9")
        assert c.task(ANN, job)["state"] == "running", c.task(ANN, job)
        wait_for("the time limit", lambda: c.task(ANN, job)["outcome"] == "time-limit")


def test_what_ends_it_ends_it_paused():
    def test(c, job):
        ends_paused(c, lambda: c.as_user(ANN, "cancel", job))
        assert c.task(ANN, job)["outcome"] == "cancelled"
    each_version(test)


def test_it_ends_with_its_runner():
    each_version(lambda c, _: ends_paused(c, lambda: os.kill(c.runner(ANN), signal.SIGKILL)))


def test_it_goes_on_when_its_agent_dies():
    def test(c, _):
        pause(c)
        c.workers.pop().kill()
        wait_for_growth()
        w = c.start_worker("w1")
        wait_for("both to be taken over", lambda: "2 running tasks of an earlier agent taken over" in w.text())
        wait_for_growth()
    each_version(test)


def test_a_later_agent_ends_what_became_long_after_its_start():
    def test(c, job):
        pause(c)
        c.workers.pop().kill()
        w = c.start_worker("w1")
        wait_for("both to be taken over", lambda: "2 running tasks of an earlier agent taken over" in w.text())
        keeper, pids = keeper_of(c, ANN), [pid_of(name) for name in ("here", "away")]
        assert len(cgroups(keeper)) == 1
        c.as_user(ANN, "cancel", job)
        wait_for("its processes to end", lambda: not any(map(alive, pids)))
        wait_for("its cgroup to be removed", lambda: cgroups(keeper) == [])
    each_version(test, "short")


def test_it_goes_on_when_all_of_the_worker_dies():
    def test(c, _):
        pause(c)
        agent = c.workers.pop()
        with open(f"/proc/{agent.p.pid}/task/{agent.p.pid}/children", encoding="ascii") as f:
            for pid in [agent.p.pid, *map(int, f.read().split())]:
                with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
                    if comm.read().strip() != "hawk-keeper":
                        os.kill(pid, signal.SIGKILL)
        agent.p.wait()
        wait_for_growth()
        c.start_worker("w1")
    each_version(test)


run_tests(sys.modules[__name__])
