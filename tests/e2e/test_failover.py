"""A dist dies or hangs under its clients: they go to another one, and every task's result counts once."""
import json
import os
import signal
import subprocess
import sys

from hawktest import BOUND, HAWK, Cluster, run_tests, wait_for

FAST = ("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease", "1s")
TASKS = 12


class Waiting:
    """`hawk submit --wait` in the background; the first contact is the dist that is to die."""

    def __init__(self, c, *args, dist=0):
        addrs = c.dist_addrs[dist:] + c.dist_addrs[:dist]
        self.p = subprocess.Popen([HAWK, "submit", "--wait", "--output", "json", *map(str, args)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "HAWK_DIST": addrs[0]})

    def end(self):
        out, err = self.p.communicate(timeout=BOUND * 2)
        return self.p.returncode, json.loads(out)["jobs"][0], err


def lines(path):
    try:
        with open(path) as f:
            return f.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


def halfway(c, *flags):
    """A job of which half the tasks have ended, and one per slot waits for the file `go`."""
    script = f"test {{}} -lt {TASKS // 2} || while ! test -e {c.dir}/go; do sleep 0.1; done; echo {{}} >> {c.dir}/done"
    args = [str(i) for i in range(TASKS)]
    with open(f"{c.dir}/args", "w") as f:
        f.write("\n".join(args) + "\n")
    w = Waiting(c, *flags, "--each-line", f"{c.dir}/args", "--", "sh", "-c", script)
    wait_for("half of the tasks", lambda: len(lines(f"{c.dir}/done")) >= TASKS // 2)
    job = wait_for("the job", lambda: c.json("jobs", dist=c.dist_addrs[0])["jobs"])[0]["job"]
    wait_for("half of them to be told", lambda: c.job(job, dist=c.dist_addrs[0])["done"] >= TASKS // 2)
    return w, job


def check_moved(c, w, job, ran_once):
    code, j, err = w.end()
    assert code == 0 and j["job"] == job and j["state"] == "done", (code, j, err)
    assert j["done"] == TASKS and j["failed"] == j["lost"] == j["cancelled"] == 0, j
    ran = lines(f"{c.dir}/done")
    assert {int(x) for x in ran} == set(range(TASKS)), ran
    for i in ran_once:
        assert ran.count(str(i)) == 1, f"task {i} ran again although its end was known: {ran}"
    seen = c.job(job, dist=c.dist_addrs[1])
    assert seen["done"] == TASKS and all(t["state"] == "done" for t in seen["task_list"]), seen


def test_what_is_held_stays_held():
    with Cluster(dists=2, workers=1, slots=1, central=FAST) as c:
        script = f"echo ran >> {c.dir}/done"
        w = [Waiting(c, "--hold", "--class", cls, "--", "sh", "-c", script) for cls in ("short", "long")]
        wait_for("two jobs", lambda: len(c.json("jobs", dist=c.dist_addrs[0])["jobs"]) == 2)
        c.dists[0].kill()
        jobs = wait_for("the jobs elsewhere", lambda: [
            j for j in [c.json("jobs", dist=c.dist_addrs[1])["jobs"]] if len(j) == 2])[0]
        assert [j["state"] for j in jobs] == ["held", "held"] and all(j["held"] for j in jobs), jobs
        assert not lines(f"{c.dir}/done")
        for j in jobs:
            c.hawk("release", j["job"], dist=c.dist_addrs[1])
        for x in w:
            code, j, err = x.end()
            assert code == 0 and j["state"] == "done", (code, j, err)
        assert len(lines(f"{c.dir}/done")) == 2, lines(f"{c.dir}/done")


def test_kill_9():
    with Cluster(dists=3, workers=2, slots=2, central=FAST, worker=("--orphan", "1s")) as c:
        w, job = halfway(c, "--class", "short")
        c.dists[0].kill()
        moved = wait_for("the job elsewhere", lambda: [
            a for a in c.dist_addrs[1:] if any(j["job"] == job for j in c.json("jobs", dist=a)["jobs"])])
        # Whoever asks any dist finds it, although the dist that its id names is gone.
        for a in c.dist_addrs[1:]:
            assert c.job(job, dist=a)["state"] in ("waiting", "running"), moved
        assert "schedules" in c.hawk("explain", job, dist=c.dist_addrs[1]).stdout
        open(f"{c.dir}/go", "w").close()
        check_moved(c, w, job, range(TASKS // 2))
        # Dists tell central their counters with heartbeats.
        assert wait_for("the move to be counted", lambda: c.json("stats")["total"]["jobs_moved"]) == 1


def test_why_tasks_failed_where_the_job_went():
    """The client was told of the dist that died alone."""
    with Cluster(dists=2, workers=2, central=FAST) as c:
        script = f"while ! test -e {c.dir}/go; do sleep 0.05; done; exit 7"
        p = subprocess.Popen([HAWK, "submit", "--wait", "--array", "1-2", "--", "sh", "-c", script], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
        wait_for("the job", lambda: c.json("jobs", dist=c.dist_addrs[0])["jobs"])
        c.dists[0].kill()
        wait_for("it elsewhere", lambda: c.json("jobs", dist=c.dist_addrs[1])["jobs"])
        open(f"{c.dir}/go", "w").close()
        assert "tasks 1, 2: exited 7" in p.communicate(timeout=BOUND * 2)[1] and p.returncode == 1


def test_the_dist_that_is_left_is_full():
    """The job waits for room there, longer than the client's timeout."""
    with Cluster(dists=2, workers=2, slots=4, dist=["--set", "dist.tasks_max=20"]) as c:
        w, job = halfway(c, "--class", "short", "--timeout", "2s")
        full = c.hawk("submit", "--array", "1-20", "--", "sh", "-c", "test $HAWK_TASK_INDEX != 1 || sleep 5",
                      dist=c.dist_addrs[1]).stdout.strip()
        c.dists[0].kill()
        c.hawk("wait", full, dist=c.dist_addrs[1])
        wait_for("it to be there", lambda: job in [j["job"] for j in c.json("jobs", dist=c.dist_addrs[1])["jobs"]])
        open(f"{c.dir}/go", "w").close()
        check_moved(c, w, job, range(TASKS // 2))


def test_sigstop():
    with Cluster(dists=2, workers=2, slots=2, central=FAST, worker=("--orphan", "1s"),
                 dist=("--client-grace", "500ms")) as c:
        w, job = halfway(c, "--class", "short")
        c.dists[0].p.send_signal(signal.SIGSTOP)
        wait_for("the job elsewhere", lambda: any(
            j["job"] == job for j in c.json("jobs", dist=c.dist_addrs[1])["jobs"]))
        # It was only slow: it finds its client gone, and cancels what it has of the job.
        c.dists[0].p.send_signal(signal.SIGCONT)
        wait_for("the slow dist to give it up", lambda: abandoned(c, job))
        open(f"{c.dir}/go", "w").close()
        check_moved(c, w, job, range(TASKS // 2))


def test_the_only_dist_stands_still():
    with Cluster(workers=1) as c:
        waits = f"touch {c.dir}/up; until test -e {c.dir}/go; do sleep 0.1; done"
        client = subprocess.Popen([HAWK, "submit", "--wait", "--", "sh", "-c", waits],
                                  env={**os.environ, "HAWK_DIST": c.dist_addrs[0]}, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        wait_for("it to run", lambda: os.path.exists(f"{c.dir}/up"))
        c.dists[0].p.send_signal(signal.SIGSTOP)
        said = client.stderr.readline()
        c.dists[0].p.send_signal(signal.SIGCONT)
        open(f"{c.dir}/go", "w").close()
        assert f"{c.dist_addrs[0]}: it says nothing any more" in said and "trying for up to 30s" in said, said
        client.communicate(timeout=BOUND)
        assert client.returncode == 0


def abandoned(c, job):
    """As the first dist alone sees it."""
    r = subprocess.run([HAWK, "job", "--output", "json", job], capture_output=True, text=True, timeout=BOUND,
                       env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
    return r.returncode == 0 and json.loads(r.stdout)["jobs"][0]["state"] == "cancelled"


def test_a_long_job_runs_once():
    with Cluster(dists=2, workers=2, slots=2, central=FAST) as c:
        w, job = halfway(c, "--class", "long")
        c.dists[0].kill()
        wait_for("the job elsewhere", lambda: any(
            j["job"] == job for j in c.json("jobs", dist=c.dist_addrs[1])["jobs"]))
        open(f"{c.dir}/go", "w").close()
        check_moved(c, w, job, range(TASKS))


def test_the_only_dist_restarts():
    with Cluster(dists=1, workers=2, slots=2, central=FAST, worker=("--orphan", "1s"), dist=()) as c:
        # On the same port again, as an operator's restart would.
        addr = c.dist_addrs[0]
        w, job = halfway(c, "--class", "short")
        c.dists[0].kill()
        c.dist_addrs.clear()
        c.dist_flags = ["--listen", addr]
        c.start_dist("d1")
        open(f"{c.dir}/go", "w").close()
        code, j, err = w.end()
        assert code == 0 and j["job"] == job and j["done"] == TASKS, (code, j, err)


def test_a_client_that_goes_away():
    with Cluster(dists=1, workers=1, slots=2, central=FAST, dist=("--client-grace", "300ms")) as c:
        for kill in (signal.SIGKILL, signal.SIGINT):
            w = Waiting(c, "--", "sleep", "600")
            job = wait_for("its job", lambda: [
                j["job"] for j in c.json("jobs")["jobs"] if j["state"] == "running"])[0]
            w.p.send_signal(kill)
            w.p.communicate(timeout=BOUND)
            wait_for("it to be cancelled", lambda j=job: c.job(j)["state"] == "cancelled")
        # Nobody has to wait for a detached one.
        job = c.submit("--", "sleep", "1")
        c.hawk("wait", job)
        assert c.job(job)["state"] == "done"


run_tests(sys.modules[__name__])
