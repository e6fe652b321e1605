"""A dist is killed and comes back: detached jobs end, and every task's completion counts once."""
import shutil
import signal
import sqlite3
import sys
import time

from grpctest import Caller, pb
from hawktest import Cluster, run_tests, wait_for

# In the journal (msg/records.h): table 5 is TABLE_JOB, parts 1 to 1,000,000 are tasks, 0x01000001 is PART_CANCEL.
JOBS_SQL = "SELECT count(*) FROM job_record"
TASKS_SQL = "SELECT count(*) FROM record WHERE tab = 5 AND part BETWEEN 1 AND 1000000"
CANCELLED_SQL = "SELECT count(*) FROM record WHERE tab = 5 AND part = 0x01000001"


def varint(v):
    return bytes([v & 0x7f | 0x80]) + varint(v >> 7) if v > 0x7f else bytes([v])


def lines(path):
    try:
        with open(path) as f:
            return f.read().split()
    except FileNotFoundError:
        return []


def script(c, name, go):
    """Notes that it began, waits for the file `go`, notes that it ended."""
    return ("sh", "-c", f"echo $HAWK_TASK_INDEX >> {c.dir}/{name}.began; "
                        f"while ! test -e {c.dir}/{go}; do sleep 0.1; done; "
                        f"echo $HAWK_TASK_INDEX >> {c.dir}/{name}.ended")


def restart(c):
    """The only dist, under its name and from its directory."""
    c.dists.pop()
    c.dist_addrs.clear()
    return c.start_dist("d1")


def touch(c, name):
    open(f"{c.dir}/{name}", "w").close()


def test_killed_with_jobs_running_and_queued():
    with Cluster(workers=2, slots=2) as c:
        running = c.submit("--class", "short", "--array", "1-4", "--", *script(c, "running", "go1"))
        wait_for("four tasks running", lambda: len(lines(f"{c.dir}/running.began")) == 4)
        queued = c.submit("--class", "short", "--array", "1-5", "--", *script(c, "queued", "go2"))
        long_job = c.submit("--class", "long", "--array", "1-2", "--", *script(c, "long", "go2"))
        cancelled = c.submit("--class", "short", "--array", "1-3", "--", *script(c, "cancelled", "go2"))
        c.hawk("cancel", cancelled)
        c.dists[0].kill()
        touch(c, "go1")  # they end while nobody is there to hear it
        wait_for("the tasks to end", lambda: len(lines(f"{c.dir}/running.ended")) == 4)
        d = restart(c)
        assert "read back from the journal" in d.text(), d.text()
        assert c.job(running)["state"] in ("waiting", "running", "done")
        explained = c.hawk("explain", queued).stdout
        assert queued in explained, explained
        c.hawk("wait", running)
        j = c.job(running)
        assert j["done"] == 4 and j["failed"] == 0, j
        assert sorted(lines(f"{c.dir}/running.began")) == ["1", "2", "3", "4"], "what had ended ran again"
        touch(c, "go2")
        c.hawk("wait", queued, long_job)
        for job, name, n in ((queued, "queued", 5), (long_job, "long", 2)):
            j = c.job(job)
            assert j["done"] == n and j["failed"] + j["lost"] + j["cancelled"] == 0, j
            assert len(j["task_list"]) == n and all(t["state"] == "done" for t in j["task_list"]), j
            assert sorted(set(lines(f"{c.dir}/{name}.ended"))) == [str(i + 1) for i in range(n)]
        assert not lines(f"{c.dir}/cancelled.began"), "a cancelled job came back to life"
        r = c.hawk("job", cancelled, check=None)
        assert r.returncode != 0 or "cancelled" in r.stdout, r.stdout


def test_killed_again_and_again():
    with Cluster(workers=2, slots=2) as c:
        jobs = []
        for i in range(4):
            jobs += [c.submit("--class", "short", "--array", "1-20", "--", *script(c, f"job{i}", "go"))]
            c.dists[0].kill()
            restart(c)
        touch(c, "go")
        c.hawk("wait", *jobs)
        for i, job in enumerate(jobs):
            assert c.job(job)["done"] == 20, c.job(job)
            assert len(set(lines(f"{c.dir}/job{i}.ended"))) == 20, f"not every task of {job} has run"


def test_a_job_keeps_its_age():
    with Cluster(dists=2, workers=1) as c:
        def submit(name, dist):
            return c.json("submit", "--class", "short", "--", *script(c, name, "go"), dist=dist)["job"]

        job = submit("old", c.dist_addrs[0])
        wait_for("it to run", lambda: lines(f"{c.dir}/old.began"))
        newer = submit("newer", c.dist_addrs[1])
        c.dists.pop(0).kill()
        c.dist_addrs.pop(0)
        with sqlite3.connect(f"{c.dir}/d1/journal.db") as db:
            # When its record was written, in field 10 of its value. Of a field that is there twice the last one counts.
            at_us = varint(int((time.time() - 3600) * 10**6))
            db.execute("UPDATE job_record SET value = CAST(value || ? AS BLOB)", (b"\x50" + at_us,))
        c.start_dist("d1")
        hour = 3600 * 10**6
        assert hour < c.job(job)["age_us"] < hour + 600 * 10**6, c.job(job)
        assert c.job("last")["job"] == newer, "what was read back is not the newest one"
        touch(c, "go")
        c.hawk("wait", job, newer)
        assert c.job(job)["response_us"] > hour, c.job(job)


def test_what_had_ended_is_still_known():
    with Cluster(workers=2, slots=2) as c:
        array = c.submit("--class", "short", "--array", "1-3", "--name", "array", "--", "sh", "-c",
                         f"echo x >> {c.dir}/ran; exit $((HAWK_TASK_INDEX == 2))")
        long_job = c.submit("--class", "long", "--", "true")
        cancelled = c.submit("--class", "short", "--array", "1-9", "--", *script(c, "cancelled", "never"))
        assert c.hawk("wait", array, check=None).returncode == 1
        c.hawk("wait", long_job)
        wait_for("four tasks running", lambda: len(lines(f"{c.dir}/cancelled.began")) == 4)
        c.hawk("cancel", cancelled)
        c.hawk("wait", cancelled, check=None)

        def shown():
            jobs = [c.job(j) for j in (array, long_job, cancelled)]
            for t in (t for j in jobs for t in j["task_list"]):
                t.pop("wait_us"), t.pop("started_at"), t.pop("ended_at")
                if t["state"] == "cancelled":
                    t.pop("attempt"), t.pop("worker"), t.pop("worker_name")
            return [{k: j[k] for k in ("state", "class", "why", "tasks", "done", "failed", "cancelled", "lost", "response_us",
                                       "cutoff_us", "at_central", "name", "task_list")} for j in jobs]

        before = shown()
        assert [j["state"] for j in before] == ["failed", "done", "cancelled"], before
        c.submit("--", "true")  # records are written in order: once it is accepted, all ends before it are on disk
        for end in (lambda: c.dists[0].kill(), lambda: c.dists[0].stop()):
            end()
            restart(c)
            assert shown() == before
            assert c.hawk("wait", array, check=None).returncode == 1
            assert c.hawk("wait", cancelled, check=None).returncode == 1
            c.hawk("wait", long_job)
            assert array in c.hawk("jobs", "--all").stdout
            assert array in c.hawk("explain", array).stdout
        c.hawk("wait", c.submit("--class", "short", "--", "true"))  # the cluster works
        assert len(lines(f"{c.dir}/ran")) == 3, "what had ended ran again"


def test_ended_jobs_are_forgotten_as_by_a_dist_that_lives():
    with Cluster(workers=1, dist=("--set", "dist.finished_kept=3")) as c:
        jobs = []
        for _ in range(5):
            jobs += [c.submit("--class", "short", "--", "true")]
            c.hawk("wait", jobs[-1])
        c.dists[0].kill()
        restart(c)
        known = [j for j in jobs if c.hawk("job", j, check=None).returncode == 0]
        assert known == jobs[2:], known
        said = c.hawk("job", jobs[0], check=3).stderr
        assert "made room for others (dist.finished_kept, finished_tasks, finished_memory, finished_keep), or" in said, said
        with sqlite3.connect(f"{c.dir}/d1/journal.db") as db:
            assert db.execute(JOBS_SQL).fetchall() == [(3,)]
            assert db.execute(TASKS_SQL).fetchall() == [(3,)]


def test_what_was_never_launched_is_not_in_doubt():
    with Cluster(workers=1, slots=2) as c:
        job = c.submit("--class", "short", "--at-most-once", "--array", "1-6", "--", *script(c, "once", "go"))
        wait_for("two tasks running", lambda: len(lines(f"{c.dir}/once.began")) == 2)
        c.dists[0].kill()
        with sqlite3.connect(f"{c.dir}/d1/journal.db") as db:
            assert db.execute(TASKS_SQL).fetchall() == [(2,)], "launches that were sent are on record"
        restart(c)
        touch(c, "go")
        c.hawk("wait", job)
        assert c.job(job)["done"] == 6, c.job(job)
        assert sorted(lines(f"{c.dir}/once.began")) == [str(i) for i in range(1, 7)], "each of them once"


def test_what_was_launched_and_is_not_heard_of_is_lost():
    with Cluster(workers=1, slots=2) as c:
        job = c.submit("--class", "short", "--at-most-once", "--array", "1-4", "--", *script(c, "once", "go"))
        wait_for("two tasks running", lambda: len(lines(f"{c.dir}/once.began")) == 2)
        c.dists[0].kill()
        c.workers.pop().kill()
        restart(c)
        touch(c, "go")
        c.start_worker("w2")
        assert c.hawk("wait", job, check=None).returncode == 1
        j = c.job(job)
        assert (j["done"], j["lost"]) == (2, 2), j
        assert sorted(lines(f"{c.dir}/once.began")) == ["1", "2", "3", "4"], "each of them once"


def test_a_cancellation_outlives_the_dist():
    with Cluster(workers=1) as c:
        job = c.submit("--class", "short", "--", *script(c, "one", "never"))
        wait_for("it to run", lambda: lines(f"{c.dir}/one.began"))
        c.workers[0].p.send_signal(signal.SIGSTOP)  # nothing but the cancellation is there to be written
        try:
            c.hawk("cancel", job)
            c.dists[0].kill()
            with sqlite3.connect(f"{c.dir}/d1/journal.db") as db:
                assert db.execute(CANCELLED_SQL).fetchall() == [(1,)]
        finally:
            c.workers[0].p.send_signal(signal.SIGCONT)
        restart(c)
        c.hawk("wait", job, check=None)
        wait_for("the job to end", lambda: c.hawk("job", job, check=None).stdout.find("cancelled") > 0)
        assert lines(f"{c.dir}/one.began") == ["0"] and not lines(f"{c.dir}/one.ended")


def test_jobs_that_are_brought_use_up_no_numbers():
    with Cluster(workers=1, slots=2) as c:
        call = Caller(c.dist_addrs[0])
        for n in range(3):  # as from a dist that has given out nearly all of its own
            call("Submit", pb.SubmitRequest(
                job=pb.JobSpec(tasks=1, kind=pb.PAYLOAD_TIMER, argv=[b"0ms"]), key=n + 1,
                resubmit=pb.Resubmit(job=f"77.{(1 << 40) - 1 - n}", epoch=3)), pb.SubmitReply)
        c.dists[0].stop()
        restart(c)
        assert c.submit("--", "true").split(".")[1] == "1", "none was given out, whatever was brought"


def test_a_submission_is_known_by_its_key_after_a_restart():
    """The answer was lost with the dist: the client asks again."""
    with Cluster(workers=1) as c:
        spec = pb.JobSpec(tasks=1, kind=pb.PAYLOAD_TIMER, argv=[b"0ms"], detached=True)

        def submit(key):
            return Caller(c.dist_addrs[0])("Submit", pb.SubmitRequest(job=spec, key=key), pb.SubmitReply).job

        job = submit(1 << 63)
        c.hawk("wait", job)
        c.dists[0].kill()
        restart(c)
        assert submit(1 << 63) == job
        shown = Caller(c.dist_addrs[0])("GetJob", pb.GetJobRequest(job=job, spec=True), pb.GetJobReply)
        assert shown.spec.tasks == 1 and shown.spec.again_key == 0, "it is the client's secret"
        assert submit(5) != job


def test_a_stopped_dist_goes_on_later():
    with Cluster(workers=1) as c:
        first = c.submit("--class", "short", "--", *script(c, "first", "go"))
        second = c.submit("--class", "short", "--", *script(c, "second", "go"))
        wait_for("one to run", lambda: lines(f"{c.dir}/first.began") + lines(f"{c.dir}/second.began"))
        assert c.dists[0].stop() == 0
        restart(c)
        touch(c, "go")
        c.hawk("wait", first, second)
        for name in ("first", "second"):
            assert len(set(lines(f"{c.dir}/{name}.ended"))) == 1, name


def refused(c, name, *words):
    d = c.start_dist(name, wait=False)
    assert d.wait() == 1, d.text()
    c.dists.remove(d)
    wait_for(f"{words} in its log", lambda: all(w in d.text() for w in words))


def test_journals_that_are_refused():
    with Cluster(workers=1) as c:
        job = c.submit("--class", "short", "--", *script(c, "one", "go"))
        assert c.dists.pop().stop() == 0  # its log is in the file then
        path = f"{c.dir}/d1/journal.db"
        with open(path, "rb") as f:
            whole = f.read()
        for size in (len(whole) // 2 // 4096 * 4096, 60):
            with open(path, "wb") as f:
                f.write(whole[:size])
            refused(c, "d1", path, "move it")
            with open(path, "rb") as f:
                assert f.read() == whole[:size], "what is refused is left as it is"
        with open(path, "wb") as f:
            f.write(whole)
        shutil.copytree(f"{c.dir}/central", f"{c.dir}/d9", ignore=shutil.ignore_patterns("*.lock"))
        refused(c, "d9", f"{c.dir}/d9/journal.db", "it belongs to central, and this is dist d9")
        c.dist_addrs.clear()
        c.start_dist("d1")
        touch(c, "go")
        c.hawk("wait", job)


def test_what_ended_while_dist_and_central_were_away():
    # Once central forgot it then, and the dist that asked for it had all of it run again.
    with Cluster(workers=1, slots=2, central=("--short-partition", "0%")) as c:
        jobs = [c.submit("--class", "long", "--array", "1-2", *flags, "--", *script(c, name, "go"))
                for name, flags in (("plain", ()), ("once", ("--at-most-once",)))]
        wait_for("two tasks to run", lambda: len(lines(f"{c.dir}/plain.began")) == 2)
        c.dists[0].kill()
        touch(c, "go")
        for name in ("plain", "once"):
            wait_for("the tasks to end", lambda n=name: len(lines(f"{c.dir}/{n}.ended")) == 2)
        wait_for("central to have them on record", lambda: all(
            c.json("job", j, dist=c.central_addr)["jobs"][0]["state"] == "done" for j in jobs))
        c.central.kill()
        c.start_central(c.central_addr)
        restart(c)
        c.wait_nodes(1)
        for job in jobs:
            c.hawk("wait", job)
            assert c.job(job)["done"] == 2, c.job(job)
        assert sorted(lines(f"{c.dir}/plain.began")) == sorted(lines(f"{c.dir}/once.began")) == ["1", "2"]


run_tests(sys.modules[__name__])
