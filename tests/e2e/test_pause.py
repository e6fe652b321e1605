"""Short tasks pause long ones, on daemons and real processes (flag pause): what runs on every slot stands still and goes
on, its time limit stands still as well, and nothing stays frozen whoever dies."""
# seconds: 32
import os
import signal
import subprocess
import sys

from hawktest import HAWK, Cluster, run_tests, wait_for

# Busy, and told by the size of a file; without the writes' own time a pause could hide between two of them.
COUNT = 'echo $$ >"$0.pid"; while :; do echo x >>"$0"; done'
# Do all these files keep their sizes for a while, in which both tasks of this job run? The first argument is a directory.
STILL = '''d=$1; shift
await() { touch "$d/$1$HAWK_TASK_INDEX"; until test -e "$d/${1}1" && test -e "$d/${1}2"; do sleep 0.1; done; }
await began; a=$(stat -c %s "$@"); sleep 0.4; b=$(stat -c %s "$@"); await saw
test "$a" = "$b"'''


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def wait_for_growth(path):
    then = size(path)
    wait_for(f"{path} to grow", lambda: size(path) > then)


def count(c, i, *flags):
    """A long task that counts in a file; returns both."""
    path = f"{c.dir}/count{i}"
    job = c.submit("--class", "long", *flags, "--", "sh", "-c", COUNT, path)
    wait_for(path, lambda: size(path) > 0)
    return job, path


def paused(c):
    return c.json("stats")["total"]["tasks_paused"]


def test_long_tasks_stand_still_and_go_on():
    with Cluster(workers=1, slots=2) as c:
        longs = [count(c, i) for i in range(2)]
        files = [path for _, path in longs]
        # Two short tasks run, so both long ones stand still; each sees that for itself.
        c.hawk("submit", "--wait", "--class", "short", "--array", "1-2", "--", "sh", "-c", STILL, "sh", c.dir, *files)
        for path in files:
            wait_for_growth(path)
        wait_for("central to hear of the pauses", lambda: paused(c) >= 2)
        wait_for("a heartbeat after them", lambda: [
            n["paused"] for n in c.json("nodes")["nodes"] if n["role"] == "worker"] == [0])
        # How long they stood still is in no run time: they began together, and end together.
        for job, _ in longs:
            c.hawk("cancel", job)
            wait_for("the end", lambda j=job: c.job(j)["state"] == "cancelled")
        took = [c.job(job)["response_us"] for job, _ in longs]
        ran = [c.job(job)["task_list"][0]["run_us"] for job, _ in longs]
        assert all(t - r > 390000 for t, r in zip(took, ran)), (took, ran)


def test_a_time_limit_stands_still():
    with Cluster(workers=1, slots=1) as c:
        job, _ = count(c, 1, "--time-limit", "2s")
        c.hawk("submit", "--wait", "--class", "short", "--", "sleep", "3")
        assert c.job(job)["state"] == "running"
        wait_for("the time limit", lambda: c.job(job)["state"] == "failed")
        task = c.job(job)["task_list"][0]
        assert 1900000 < task["run_us"] < 4000000 and c.job(job)["response_us"] > 4900000, task


def test_owners_know_who_was_paused_for_whom():
    with Cluster(workers=1, slots=1) as c:
        job, _ = count(c, 1)
        short = c.submit("--class", "short", "--array", "1-2", "--", "sh", "-c",
                         f"test $HAWK_TASK_INDEX = 2 || until test -e {c.dir}/go; do sleep 0.1; done")
        wait_for("its owner to hear of the pause", lambda: c.job(job)["paused"] == 1)
        task = c.job(job)["task_list"][0]
        assert task["state"] == "running" and task["paused"] and task["stood_us"] >= 0, task
        assert task["paused_for"] == short and task["paused_for_task"] in (0, 1), task
        assert "paused" in c.hawk("job", job).stdout.split("PAUSED")[1]
        told = c.hawk("explain", job).stdout
        assert "1 task now; 1 pause for short tasks" in told and f"of job {short}, for which it has stood still" in told
        open(f"{c.dir}/go", "w").close()
        c.hawk("wait", short)
        wait_for("the end of the pause", lambda: c.job(job)["paused"] == 0)
        task = c.job(job)["task_list"][0]
        assert not task["paused"] and task["stood_us"] is None and task["pauses"] >= 1 and task["paused_us"] > 0, task
        assert c.json("explain", job)["jobs"][0]["pauses"][0]["paused_for"] == short
        c.hawk("cancel", job)


def test_a_job_may_refuse():
    with Cluster(workers=1, slots=1) as c:
        job, _ = count(c, 1, "--no-pause")
        short = c.submit("--class", "short", "--", "true")
        c.hawk("wait", "--for", "1s", short, check=4)
        assert paused(c) == 0
        c.hawk("cancel", job)
        c.hawk("wait", short)


def test_no_task_is_paused_for_a_job_that_it_submitted():
    # Both slots run a long task, and only the older one may stand still: the younger one waits for a job whose task waits
    # for another job.
    def script(name, then):
        with open(f"{c.dir}/{name}", "w", encoding="utf-8") as f:
            f.write(f'echo "$HAWK_JOB_ID $HAWK_JOB_ANCESTORS" >{c.dir}/{name}.ids\n{then}\n')
        return f"sh {c.dir}/{name}"

    def ids(name):
        with open(f"{c.dir}/{name}.ids", encoding="utf-8") as f:
            return f.read().split()

    with Cluster(workers=1, slots=2) as c:
        other, _ = count(c, 1)
        quick = f"exec {HAWK} submit --wait --class short -- "
        third = script("third", "true")
        second = script("second", f"{quick.replace('--wait', '')}{third}")
        top = script("top", f"{quick}{second}")
        job = c.submit("--class", "long", "--", *top.split())
        c.hawk("wait", "--for", "30s", job)
        wait_for("the third", lambda: os.path.exists(f"{c.dir}/third.ids") and len(ids("third")) == 3)
        assert ids("top") == [job] and ids("second")[1:] == [job] and ids("third")[1:] == ids("second")
        inner = ids("third")[0]
        assert c.job(inner)["ancestors"] == ids("third")[1:] and c.job(job)["ancestors"] == []
        assert c.json("explain", inner)["jobs"][0]["details"]["ancestors"] == ids("third")[1:]
        for command in ("job", "explain"):
            assert f"task of job {ids('second')[0]}, which a task of job {job} submitted\n" in c.hawk(command, inner).stdout
            assert "nested" not in c.hawk(command, job).stdout
        wait_for("its owner to hear of the pauses", lambda: c.job(other)["pauses"] >= 1)
        assert c.job(job)["pauses"] == 0, c.job(job)
        c.hawk("cancel", other)


def test_a_frozen_client_keeps_its_jobs():
    # Two clients stop reading for longer than the cluster waits for a client: one of them in a task, as HAWK_JOB_ID says.
    with Cluster(workers=1, slots=2, dist=("--client-grace", "500ms")) as c:
        env = {**os.environ, "HAWK_DIST": ",".join(c.dist_addrs)}
        run = [HAWK, "submit", "--wait", "--name"]
        until = ["--", "sh", "-c", f"until test -e {c.dir}/go; do sleep 0.1; done"]
        clients = [subprocess.Popen([*run, name, *until], env={**env, **more}, stdout=subprocess.DEVNULL)
                   for name, more in (("nested", {"HAWK_JOB_ID": "1.1"}), ("plain", {}))]
        try:
            def states():
                return {j["name"]: j["state"] for j in c.json("jobs")["jobs"]}
            wait_for("both to run", lambda: states() == {"nested": "running", "plain": "running"})
            for client in clients:
                client.send_signal(signal.SIGSTOP)
            wait_for("the other one's job to be given up", lambda: states()["plain"] == "cancelled")
            assert states()["nested"] == "running"
            open(f"{c.dir}/go", "w").close()
            wait_for("its end", lambda: states()["nested"] == "done")
            for client in clients:
                client.send_signal(signal.SIGCONT)
            assert clients[0].wait(30) == 0
        finally:
            for client in clients:
                client.kill()
                client.wait()


def test_a_task_that_submits_to_its_own_slot_goes_on():
    with Cluster(workers=1, slots=1) as c:
        job = c.submit("--class", "long", "--", "sh", "-c", f"{HAWK} submit --class short -- true; sleep 2")
        c.hawk("wait", "--for", "30s", job)
        assert c.job(job)["pauses"] == 0, c.job(job)
        wait_for("what it submitted", lambda: [j["state"] for j in c.json("jobs")["jobs"]] == ["done"] * 2)
        assert paused(c) == 0


def test_nothing_stays_frozen_when_its_worker_dies():
    with Cluster(workers=1, slots=1) as c:
        _, path = count(c, 1)
        c.submit("--class", "short", "--", "sh", "-c", f"touch {c.dir}/runs; sleep 600")
        wait_for("the short task", lambda: os.path.exists(f"{c.dir}/runs"))
        c.workers[0].p.send_signal(signal.SIGKILL)
        c.workers[0].p.wait()
        # Its spawner thaws it, and keeps it for the next worker.
        wait_for_growth(path)
        c.start_worker("w1")
        wait_for("both to be known again", lambda: [
            n["running_long"] + n["running_short"] for n in c.json("nodes")["nodes"] if n["role"] == "worker"] == [2])
        assert [n["slots"] for n in c.json("nodes")["nodes"] if n["role"] == "worker"] == [1]
        wait_for_growth(path)
        c.hawk("cancel", "all")


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
            return f.read().strip()
    except OSError:  # it has ended
        return None


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f:
            return [int(child) for child in f.read().split()]
    except OSError:
        return []


def test_nothing_stays_frozen_whoever_is_killed():
    """With all three it may, until the worker starts again."""
    for freezer, victims in [(f, v) for f in ("auto", "signal")
                             for v in ("agent", "spawner", "agent spawner", "watcher agent spawner")]:
        with Cluster(workers=1, slots=1, worker=("--freezer", freezer)) as c:
            _, path = count(c, 1)
            with open(f"{path}.pid", encoding="utf-8") as f:
                busy = int(f.read())
            c.submit("--class", "short", "--", "sh", "-c", f"echo $$ >{c.dir}/quick; sleep 600")
            wait_for("the short task", lambda: size(f"{c.dir}/quick") > 0)
            with open(f"{c.dir}/quick", encoding="utf-8") as f:
                quick = int(f.read())
            worker = c.workers.pop()
            agent = worker.p.pid
            spawner = [pid for pid in children(agent) if comm(pid) == "hawk-spawner"][0]
            watcher = [pid for pid in children(spawner) if comm(pid) == "hawk-watcher"][0]
            then = size(path)
            if "watcher" in victims:
                os.kill(spawner, signal.SIGSTOP)  # it sees none of the others end
            for pid in [{"agent": agent, "spawner": spawner, "watcher": watcher}[v] for v in victims.split()]:
                os.kill(pid, signal.SIGKILL)
            # It goes on, or it was killed; the watcher does that when the spawner is gone.
            if "watcher" not in victims:
                wait_for(f"the task to be thawed or ended ({freezer}, {victims})",
                         lambda: size(path) > then or comm(busy) is None)
            worker.p.wait()
            c.hawk("cancel", "all")
            # A worker that comes back takes them over; the spawner's death was theirs; after both it ends what is left.
            c.start_worker("w1")
            wait_for("the tasks to end", lambda: comm(busy) is None and comm(quick) is None)


def test_the_freezer_in_force_is_named():
    with Cluster(workers=1, slots=1) as c:
        c.start_worker("w2", flags=("--freezer", "signal"))
        wait_for("heartbeats", lambda: all(n["freezer"] for n in c.json("nodes")["nodes"] if n["role"] == "worker"))
        freezers = {n["name"]: n["freezer"] for n in c.json("nodes")["nodes"]}
        assert freezers["w1"] in ("cgroup2", "cgroup1", "signal") and freezers["w2"] == "signal", freezers
        shown = c.hawk("nodes").stdout
        assert "FREEZER" in shown and shown.count("freezer signal: ") == 1 and "setsid" in shown, shown
        flags = ("--set", f"worker.state_dir={c.dir}/state", "--set", "worker.name=w2")
        assert "in force" in c.hawk("config", "show", "worker", *flags).stdout
        assert c.json("config", "show", "worker", *flags)["freezer_in_force"] == "signal"


# A short task is not given to a worker that could freeze nothing for it.
def test_without_a_freezer_nothing_is_paused():
    with Cluster(workers=1, slots=1, worker=("--freezer", "off")) as c:
        job, _ = count(c, 1)
        short = c.submit("--class", "short", "--", "true")
        c.hawk("wait", "--for", "1s", short, check=4)
        assert paused(c) == 0 and c.json("stats")["total"]["tasks_launched"] == 0, c.json("stats")["total"]
        c.hawk("cancel", job)
        c.hawk("wait", short)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
