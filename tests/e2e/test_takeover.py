"""A worker's agent dies, or is replaced, and comes back to its running tasks; or it does not, and nothing is left of them."""
import os
import signal
import subprocess
import sys

import grpc

from grpctest import pb, refused
from hawktest import BOUND, HAWK, Cluster, alive, run_tests, wait_for
from userstest import ANN, BOB, UserCluster, caller_as, others_exist

os.environ["HAWK_CHECK"] = "1"

# Central forgets nobody while a test restarts an agent by hand, however slow the machine.
CENTRAL = ("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease", "60s")


def script(c, name):
    """Notes its start and its process, waits for the file go, and notes its end."""
    return (f"echo $$ >> {c.dir}/{name}; while ! test -e {c.dir}/go; do sleep 0.1; done; "
            f"echo $HAWK_TASK_INDEX >> {c.dir}/{name}.ended")


def submit(c, name, *flags):
    return c.submit(*flags, "--", "sh", "-c", script(c, name))


def lines(c, name):
    try:
        return open(f"{c.dir}/{name}").read().split()
    except FileNotFoundError:
        return []


def tasks(c, job):
    return c.job(job)["task_list"]


def running(c, job):
    return wait_for("its tasks running", lambda: all(t["state"] == "running" for t in tasks(c, job)))


def go(c):
    open(f"{c.dir}/go", "w").close()


def restart(c, slots=None):
    """The agent again, as a service manager would start it."""
    old = c.workers.pop()
    assert old.p.poll() is not None
    new = c.start_worker("w1", slots=slots)
    c.wait_nodes(1)
    return new


def test_a_killed_agent_takes_its_tasks_over():
    with Cluster(workers=1, slots=4, central=CENTRAL, worker=("--agent-grace", "30s")) as c:
        long_job = submit(c, "long", "--class", "long")
        short = submit(c, "short", "--class", "short", "--array", "1-2")
        done = c.submit("--class", "long", "--", "true")
        c.hawk("wait", done)
        running(c, long_job)
        running(c, short)
        before = lines(c, "long") + lines(c, "short")
        c.workers[0].kill()
        new = restart(c)
        assert "3 running tasks of an earlier agent taken over" in new.text(), new.text()
        running(c, long_job)
        running(c, short)
        c.hawk("submit", "--wait", "--class", "short", "--", "true")
        go(c)
        c.hawk("wait", long_job)
        c.hawk("wait", short)
        # None was started a second time, and each ended once.
        assert lines(c, "long") + lines(c, "short") == before, (before, lines(c, "long"), lines(c, "short"))
        assert len(lines(c, "long.ended")) == 1 and sorted(lines(c, "short.ended")) == ["1", "2"]
        for t in tasks(c, long_job) + tasks(c, short):
            assert t["attempt"] == 1 and t["state"] == "done", t


def test_short_tasks_without_another_try_wait_for_their_agent():
    with Cluster(workers=1, slots=4, central=CENTRAL, worker=("--agent-grace", "30s")) as c:
        jobs = [submit(c, name, "--class", "short", "--array", "1-2", *flags)
                for name, flags in (("once", ["--at-most-once"]), ("no_retry", ["--lost-retries", "0"]))]
        for job in jobs:
            running(c, job)
        for leave in (signal.SIGUSR2, signal.SIGKILL):
            c.workers[0].p.send_signal(leave)
            c.workers[0].wait()
            assert "4 running tasks of an earlier agent taken over" in restart(c).text()
        go(c)
        c.hawk("wait", *jobs)
        assert sorted(lines(c, "once.ended") + lines(c, "no_retry.ended")) == ["1", "1", "2", "2"]
        assert {(t["attempt"], t["state"]) for job in jobs for t in tasks(c, job)} == {(1, "done")}


def test_what_ends_while_the_agent_is_away_is_reported():
    with Cluster(workers=1, slots=2, central=CENTRAL, worker=("--agent-grace", "30s")) as c:
        job = c.submit("--class", "long", "--", "sh", "-c", script(c, "long") + "; echo last; exit 5")
        running(c, job)
        c.workers[0].kill()
        go(c)
        wait_for("its end", lambda: lines(c, "long.ended") and not alive(lines(c, "long")[0]))
        restart(c)
        c.hawk("wait", job, check=1)
        t = tasks(c, job)[0]
        assert (t["state"], t["code"], t["attempt"]) == ("failed", 5, 1), t
        assert len(lines(c, "long")) == 1
        assert c.hawk("cat", "--follow", job).stdout == "last\n"  # and ends


def test_who_follows_output_hears_the_rest_from_the_next_agent():
    with Cluster(workers=1, slots=3, central=CENTRAL, worker=("--agent-grace", "30s")) as c:
        command = ("sh", "-c", f"echo first; while ! test -e {c.dir}/go; do sleep 0.1; done; echo last; exit 6")
        env = {**os.environ, "HAWK_DIST": c.dist_addrs[0]}
        readers = [subprocess.Popen([HAWK, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, env=env)
                   for words in (("exec", "--", *command), ("cat", "--follow", c.submit("--", *command)))]
        assert [p.stdout.readline() for p in readers] == ["first\n"] * 2
        for leave in (signal.SIGUSR2, signal.SIGKILL):
            c.workers[0].p.send_signal(leave)
            c.workers[0].wait()
            restart(c)
            # Between the two, another job takes longer than a follower waits for a worker.
            c.hawk("submit", "--wait", "--", "sleep", "11" if leave == signal.SIGUSR2 else "0")
        go(c)
        ends = [p.communicate(timeout=BOUND) for p in readers]
        assert ends == [("last\n", "")] * 2, ends
        assert [p.returncode for p in readers] == [6, 0]


def test_output_that_its_user_has_named_stays_his():
    if not others_exist():
        return
    with UserCluster(workers=1, worker=("--agent-grace", "30s")) as c:
        job = c.as_user(ANN, "submit", "--class", "long", "--stdout", f"{c.dir}/1", "--stderr", f"{c.dir}/2", "--", "sh", "-c", "echo up; sleep 1000").stdout.strip()
        wait_for("its output", lambda: c.as_user(ANN, "cat", job, check=None).stdout == "up\n")
        for leave in (signal.SIGUSR2, signal.SIGKILL):
            c.workers[0].p.send_signal(leave)
            c.workers[0].wait()
            restart(c)
            running(c, job)
            assert c.as_user(ANN, "cat", job).stdout == "up\n"
            assert f"job {job} is of user {ANN}" in refused(grpc.StatusCode.PERMISSION_DENIED, lambda: list(caller_as(
                BOB, f"unix:{c.dir}/w1.sock").stream("ReadOutput", pb.ReadOutputRequest(job=job), pb.OutputChunk)))
        c.as_user(ANN, "cancel", job)


def test_an_upgrade_in_place_loses_nothing():
    with Cluster(workers=1, slots=4, central=CENTRAL, worker=("--agent-grace", "30s")) as c:
        job = submit(c, "long", "--class", "long", "--lost-retries", "0")
        running(c, job)
        # One that waits behind them is placed again.
        second = c.submit("--class", "long", "--array", "1-4", "--lost-retries", "0", "--", "sh", "-c",
                          f"echo $$ >> {c.dir}/second; while ! test -e {c.dir}/go; do sleep 0.1; done")
        wait_for("three of the second job", lambda: len(lines(c, "second")) == 3)
        for _ in range(3):
            c.workers[0].p.send_signal(signal.SIGUSR2)
            assert c.workers[0].wait() == 0, c.workers[0].text()
            # With fewer slots than tasks that run, too, and a place for one that is paused: they keep theirs.
            new = restart(c, slots=1)
            assert "going on with 4 slots" in new.text(), new.text()
            running(c, job)
        go(c)
        c.hawk("wait", job)
        c.hawk("wait", second)
        assert len(lines(c, "long")) == 1 and len(lines(c, "second")) == 4
        # And the next agent, which finds nothing running, has what it was told.
        c.workers[0].p.send_signal(signal.SIGUSR2)
        assert c.workers[0].wait() == 0
        assert "slots, not" not in restart(c, slots=1).text()


def heeds(pid, tid, signo):
    """Whether a thread takes the signal."""
    with open(f"/proc/{pid}/task/{tid}/status", encoding="ascii") as f:
        blocked = next(int(line.split()[1], 16) for line in f if line.startswith("SigBlk:"))
    return not blocked >> (signo - 1) & 1


def test_a_stop_after_the_upgrades_signal_ends_nothing():
    """`systemctl restart` follows SIGUSR2 and does not wait: the agent may find both signals at once."""
    with Cluster(workers=1, slots=4, central=CENTRAL, worker=("--agent-grace", "30s")) as c:
        job = submit(c, "once", "--class", "long", "--at-most-once")
        running(c, job)
        # Another thread that took the first of them could be slower than the loop with the second.
        heeding = [tid for tid in os.listdir(f"/proc/{c.workers[0].p.pid}/task") if heeds(c.workers[0].p.pid, tid, signal.SIGUSR2)]
        assert heeding == [str(c.workers[0].p.pid)], heeding
        for s in (signal.SIGSTOP, signal.SIGUSR2, signal.SIGTERM, signal.SIGCONT):
            c.workers[0].p.send_signal(s)
        assert c.workers[0].wait() == 0, c.workers[0].text()
        restart(c)
        running(c, job)
        go(c)
        c.hawk("wait", job)
        assert len(lines(c, "once")) == 1


def test_without_an_agent_nothing_is_left():
    with Cluster(workers=1, slots=4, central=CENTRAL, worker=("--agent-grace", "500ms", "--kill-grace", "500ms")) as c:
        long_job = submit(c, "long", "--class", "long")
        frozen = submit(c, "frozen", "--class", "short")
        running(c, long_job)
        running(c, frozen)
        pids = lines(c, "long") + lines(c, "frozen")
        os.kill(int(lines(c, "frozen")[0]), signal.SIGSTOP)
        c.workers.pop().kill()
        wait_for("the tasks to be gone", lambda: not any(alive(p) for p in pids))
        wait_for("the spawner to be gone", lambda: not [
            p for p in c.processes() if p not in [d.p.pid for d in [c.central] + c.dists]])
        go(c)
        assert lines(c, "long.ended") == [] and lines(c, "frozen.ended") == []
        # The short task is run by another worker; the long one as well, when the lease is over.
        c.start_worker("w2")
        c.hawk("wait", frozen)
        assert len(lines(c, "frozen")) == 2


def test_a_stopped_agent_keeps_no_long_task_beyond_its_lease():
    """Rule 9 for a process that can do nothing about it: SIGSTOP."""
    with Cluster(workers=1, slots=2, central=("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease", "3s")) as c:
        job = submit(c, "long", "--class", "long")
        running(c, job)
        first = lines(c, "long")[0]
        c.workers[0].p.send_signal(signal.SIGSTOP)
        try:
            wait_for("the task's end", lambda: not alive(first))
            c.start_worker("w2")
            go(c)
            c.hawk("wait", job)
            assert len(lines(c, "long")) == 2
        finally:
            c.workers[0].p.send_signal(signal.SIGCONT)


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def test_a_stopped_spawner_keeps_no_task():
    with Cluster(workers=1, slots=2, central=CENTRAL, worker=("--kill-grace", "100ms")) as c:
        job = submit(c, "long", "--class", "long")
        running(c, job)
        pid = lines(c, "long")[0]
        os.kill(parent(pid), signal.SIGSTOP)
        c.hawk("cancel", job)
        wait_for("its process to be gone", lambda: not alive(pid))
        worker = c.workers.pop()
        assert worker.wait() == 1 and "stands still" in worker.text(), worker.text()
        c.start_worker("w1")
        c.hawk("submit", "--wait", "--", "true")


def test_one_agent_at_a_time():
    with Cluster(workers=1, central=CENTRAL) as c:
        w = c.start_worker("w1", wait=False)
        assert w.wait() == 1 and "w1 runs here already" in w.text(), w.text()
        c.workers.remove(w)
        c.hawk("submit", "--wait", "--", "true")


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
