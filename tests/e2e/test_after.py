"""Jobs with predecessors (--after), jobs that are held, and jobs that are submitted again."""
import signal
import subprocess
import sys
import threading

from grpctest import pb
from hawktest import BOUND, HAWK, Cluster, heed_signals, run_tests, wait_for
from relaytest import Relay


def lines(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().split()
    except FileNotFoundError:
        return []


def restart(c):
    """The only dist, under its name and from its directory."""
    c.dists.pop()
    c.dist_addrs.clear()
    return c.start_dist("d1")


def touch(c, name):
    open(f"{c.dir}/{name}", "w", encoding="utf-8").close()


def gate(c, name, go, code=0):
    """Notes that it began, waits for the file `go`, and exits."""
    return ("sh", "-c", f"echo $HAWK_TASK_INDEX >> {c.dir}/{name}; while ! test -e {c.dir}/{go}; do sleep 0.1; done; "
                        f"exit {code}")


def notes(c, name):
    return ("sh", "-c", f"echo $HAWK_TASK_INDEX >> {c.dir}/{name}")


def state(c, job, **more):
    return c.job(job, **more)["state"]


def test_scripts_go_on_after_an_empty_list():
    with Cluster(workers=1) as c:
        none = c.submit("-l", "/dev/null", "--", "false")
        assert none == "none"
        for command in ("wait", "job", "explain", "cancel"):
            c.hawk(command, none)
        job = c.submit("--after", none, "--after", f"{none}:ok", "--", "true")
        c.hawk("wait", f"{none},{job}")
        assert state(c, job) == "done"
        assert "--after takes ids of jobs" in c.hawk("submit", "--after", "none:failed", "--", "true", check=2).stderr


def test_after_the_newest_job():
    with Cluster(workers=1, slots=2) as c:
        assert "no job of user" in c.hawk("submit", "--after", "last", "--", "true", check=3).stderr
        first = c.submit("--", *gate(c, "first", "go"))
        second = c.submit("--after", "last:any", "--", *gate(c, "second", "go"))
        third = c.submit("--after", "last", "--after", first, "--", "true")
        assert f"after     {first}:any" in c.hawk("job", second).stdout
        assert f"after     {second} {first}" in c.hawk("job", third).stdout
        fan_in = c.submit("--after", f"{first}-{second.split('.')[1]},last:any", "--", "true")
        assert f"after     {first}:any {second}:any {third}:any" in c.hawk("job", fan_in).stdout
        assert "a job runs after 32 jobs at most" in c.hawk("submit", "--after", "3.1-33", "--", "true", check=2).stderr
        for wrong in ("last:", "last:bad", "lasting", "last:any" + "y" * 100, "all", f"{first}:ok,{second}:any"):
            said = c.hawk("submit", "--after", wrong, "--", "true", check=2).stderr
            assert "--after takes ids of jobs" in said and said.endswith(f"not '{wrong}'; for different ends give --after again\n"), said
        said = c.hawk("submit", "--after", "3.1,3.2-1:any", "--", "true", check=2).stderr
        assert said == "hawk: submit: --after: '3.2-1' is no range: both ends have one node, and the first is not above the last\n", said
        touch(c, "go")
        c.hawk("wait", third, fan_in)


def test_one_after_another_and_the_dist_is_killed_meanwhile():
    with Cluster(workers=2, slots=2) as c:
        first = c.submit("--class", "short", "--", *gate(c, "first", "go"))
        short = c.submit("--class", "short", "--after", first, "--", *notes(c, "short"))
        long_job = c.submit("--class", "long", "--after", first, "--", *notes(c, "long"))
        last = c.submit("--after", short, "--after", f"{long_job}:any", "--", *notes(c, "last"))
        wait_for("it to run", lambda: lines(f"{c.dir}/first"))
        j = c.job(short)
        assert j["state"] == "blocked" and j["waits"] == "jobs", j
        assert f"waits for the end of {first}" in c.hawk("explain", short).stdout
        assert f"after     {short} {long_job}:any" in c.hawk("job", last).stdout
        assert c.json("jobs", "--state", "blocked")["jobs"][0]["job"] == last
        for _ in range(2):
            c.dists[0].kill()
            restart(c)
        assert [state(c, j) for j in (short, long_job, last)] == ["blocked"] * 3
        touch(c, "go")
        c.hawk("wait", first, short, long_job, last)
        assert len(lines(f"{c.dir}/short")) == len(lines(f"{c.dir}/long")) == len(lines(f"{c.dir}/last")) == 1
        j = c.job(last)
        assert j["submitted_at"] <= j["started_at"] <= j["ended_at"], j


def test_a_condition_that_cannot_hold_cancels_what_follows():
    with Cluster(workers=1) as c:
        bad = c.submit("--", *gate(c, "bad", "go", 3))
        after = c.submit("--after", bad, "--", *notes(c, "after"))
        then = c.submit("--after", f"{after}:ok", "--", *notes(c, "then"))
        repair = c.submit("--after", f"{bad}:failed", "--", *notes(c, "repair"))
        anyway = c.submit("--after", f"{after}:any", "--", *notes(c, "anyway"))
        c.dists[0].kill()
        restart(c)
        touch(c, "go")
        c.hawk("wait", repair, anyway)
        r = c.hawk("wait", then, check=1)
        assert f"job {then} was cancelled: 0 of 1 task was done; job {after} did not end as --after asks" in r.stderr, r.stderr
        assert (state(c, after), c.job(after)["cause"], c.job(then)["cause"]) == ("cancelled", bad, after)
        assert not lines(f"{c.dir}/after") and not lines(f"{c.dir}/then") and lines(f"{c.dir}/repair")
        # It is known after a restart, and so is who follows a job that has ended.
        c.dists[0].kill()
        restart(c)
        assert f"cause     job {bad} did not end" in c.hawk("job", after).stdout
        late = c.hawk("submit", "--wait", "--after", bad, "--", "true", check=1)
        assert f"job {bad} did not end as --after asks" in late.stderr, late.stderr


def test_task_by_task():
    with Cluster(workers=2, slots=2) as c:
        script = f"test $HAWK_TASK_INDEX = 1 && exit 0; test $HAWK_TASK_INDEX = 2 && exit 1; until test -e {c.dir}/go; do sleep 0.1; done"
        first = c.submit("--array", "1-3", "--", "sh", "-c", script)
        each = c.submit("--array", "1-3", "--after", first, "--", *notes(c, "each"))
        whole = c.submit("--array", "1-3", "--after", first, "--after-whole", "--", *notes(c, "whole"))
        wait_for("the first task's follower", lambda: lines(f"{c.dir}/each") == ["1"])
        wait_for("the second's to be cancelled", lambda: c.job(each)["cancelled"] == 1)
        assert state(c, whole) == "blocked"
        touch(c, "go")
        c.hawk("wait", each, check=1)
        assert lines(f"{c.dir}/each") == ["1", "3"] and not lines(f"{c.dir}/whole")
        assert state(c, whole) == "cancelled"


def test_what_is_refused_by_name():
    with Cluster(workers=1, dists=2) as c:
        one, two = (c.hawk("submit", "--", "true", dist=d).stdout.strip() for d in c.dist_addrs)
        c.hawk("wait", one, two)
        r = c.hawk("submit", "--after", one, "--after", two, "--", "true", check=2)
        assert f"jobs {one} and {two} are at two dists" in r.stderr, r.stderr
        unknown = one.split(".")[0] + ".999999"
        r = c.hawk("submit", "--after", f"{unknown}:any", "--", "true", check=None)
        assert r.returncode and f"job {unknown}:any, which this one is to run after" in r.stderr, r.stderr
        r = c.hawk("submit", "--after", f"{one}:soon", "--", "true", check=2)
        assert "3.17:failed" in r.stderr, r.stderr
        # Whichever dist is asked, the job goes to that of its predecessor.
        for d in c.dist_addrs:
            for pred in (one, two):
                assert c.hawk("submit", "--after", pred, "--", "true", dist=d).stdout.split(".")[0] == pred.split(".")[0]


def test_held_from_the_start():
    with Cluster(workers=1) as c:
        with open(f"{c.dir}/job.sh", "w") as f:
            f.write("#!/bin/sh\n#HAWK --hold\nexit 3\n")
        jobs = [c.submit("--hold", "--class", "short", "--", "true"), c.submit("-H", "--class", "long", "--", "true"),
                c.submit(f"{c.dir}/job.sh")]
        assert [state(c, j) for j in jobs] == ["held"] * 3
        c.dists[0].kill()
        restart(c)
        wait_for("the dist", lambda: [state(c, j) for j in jobs] == ["held"] * 3)
        c.hawk("release", *jobs)
        c.hawk("wait", *jobs, check=1)
        assert [state(c, j) for j in jobs] == ["done", "done", "failed"]
        again = c.hawk("resubmit", jobs[2]).stdout.strip()  # it is not held
        assert c.hawk("wait", again, check=1) and state(c, again) == "failed"


def test_held_and_released():
    with Cluster(workers=1) as c:
        running = c.submit("--class", "short", "--array", "1-2", "--", *gate(c, "running", "go"))
        wait_for("it to run", lambda: lines(f"{c.dir}/running"))
        jobs = [c.submit("--class", name, "--", *notes(c, name)) for name in ("short", "long")]
        everything = [running, *jobs]
        assert c.hawk("hold", *everything).stdout == "".join(f"{j} held\n" for j in everything)
        wait_for("its word", lambda: [state(c, j) for j in everything] == ["running", "held", "held"])
        assert c.job(jobs[0])["waits"] == "held" and c.job(running)["held"]
        shown = {l.split()[0]: l for l in c.hawk("jobs", "--state", "held", env={"COLUMNS": "70"}).stdout.split("\n")[1:-1]}
        assert set(shown) == set(everything) and "held" in shown[running], shown
        said = c.hawk("explain", running).stdout  # the other task runs
        assert "1 waiting, 1 running" in said and "lets it go on (1 task)" in said, said
        c.dists[0].kill()
        restart(c)
        wait_for("the dist", lambda: [state(c, j) for j in everything] == ["running", "held", "held"])
        touch(c, "go")
        wait_for("what ran to go on", lambda: c.job(running)["done"] == 1)
        free = c.submit("--", "true")
        c.hawk("wait", free)  # the slot is free, and none of them takes it
        assert len(lines(f"{c.dir}/running")) == 1 and not lines(f"{c.dir}/short") + lines(f"{c.dir}/long")
        assert f"hawk release {jobs[0]}" in c.hawk("explain", jobs[0]).stdout
        c.hawk("release", *everything)
        c.hawk("wait", *everything)
        assert len(lines(f"{c.dir}/running")) == 2 and lines(f"{c.dir}/short") and lines(f"{c.dir}/long")
        assert c.hawk("hold", running).stdout == f"{running} had already ended\n"


def test_failed_tasks_run_again():
    with Cluster(workers=1, slots=2) as c:
        script = f"echo $1; echo $HAWK_TASK_INDEX-$1-$MINE >> {c.dir}/ran; test $1 != b || test -e {c.dir}/mended"
        job = c.hawk("submit", "--input", "a", "b", "c", "--env", "MINE=x", "--", "sh", "-c", script, "sh",
                     check=None).stdout.strip()
        c.hawk("wait", job, check=1)
        touch(c, "mended")
        c.dists[0].kill()
        restart(c)
        again = c.hawk("resubmit", "--failed", job).stdout.strip()
        c.hawk("wait", again)
        j = c.job(again)
        assert (j["tasks"], j["done"]) == (3, 3) and again != job, j
        assert [t["input"] for t in j["task_list"]] == ["a", "b", "c"]
        assert sorted(lines(f"{c.dir}/ran")) == ["0-a-x", "1-b-x", "1-b-x", "2-c-x"]
        # What was done before is not this job's: neither where it ran, nor what it wrote.
        r = c.hawk("cat", again)
        assert r.stdout == "b\n", r
        assert f"2 tasks of job {again} had been done in job {job}, which it runs again: `hawk cat {job}`" in r.stderr, r
        assert c.hawk("cat", job).stdout == "a\nb\nc\n"
        assert j["again_of"] == job and f"again     it runs job {job} again" in c.hawk("job", again).stdout
        assert [t["worker"] is None for t in j["task_list"]] == [True, False, True], j["task_list"]
        whole = c.hawk("resubmit", job).stdout.strip()
        c.hawk("wait", whole)
        assert len(lines(f"{c.dir}/ran")) == 7
        first = c.submit("--", "false")
        c.hawk("wait", first, check=1)
        second = c.hawk("resubmit", first).stdout.strip()
        c.hawk("wait", second, check=1)
        assert c.job(c.hawk("resubmit", second).stdout.strip())["again_of"] == second
        r = c.hawk("resubmit", again, check=None)
        assert r.returncode and "all its tasks are done" in r.stderr, r.stderr
        # What is true of many jobs is said once; in JSON of each.
        node = again.split(".")[0]
        r = c.hawk("resubmit", again, f"{node}.90-99", again, check=3)
        said = r.stderr.splitlines()
        assert len(said) == 3 and f"no job {node}.90 " in said[1], r
        assert said[2] == f"hawk: resubmit: and so of 9 other jobs, up to {node}.99", r
        assert len(c.json("resubmit", f"{node}.90-99", check=3)["errors"]) == 10


def dies(c, pass_on, before):
    """The dist, before it gets a call, or before it answers it."""
    if not before:
        pass_on()
    c.dists[0].kill()
    restart(c)


def test_a_detached_job_whose_dist_dies_before_it_answers_is_submitted_once():
    with Cluster(workers=1) as c:
        for i, (before, *after) in enumerate(((False,), (True,), (False, "--after", "last"))):
            with Relay(c, pb, [lambda pass_on, b=before: dies(c, pass_on, b)]) as relay:
                job = c.hawk("submit", *after, "--", "sh", "-c", f"echo 1 >> {c.dir}/ran{i}", dist=relay.addr).stdout.strip()
                assert len(relay.keys) == 2 and relay.keys[0] == relay.keys[1] != 0, relay.keys
            c.hawk("wait", job)
            assert len(lines(f"{c.dir}/ran{i}")) == 1 and len(c.json("jobs")["jobs"]) == i + 1


def test_a_dist_that_dies_before_it_answers_makes_one_job():
    """Whether it had the job already or not, and although it forgets the job that its client waited for."""
    for waited, before in (((), False), (("--wait",), False), ((), True)):
        with Cluster(workers=1, slots=2) as c:
            c.hawk("submit", *waited, "--at-most-once", "--", "sh", "-c", f"echo 1 >> {c.dir}/ran; exit 1",
                   check=int(bool(waited)))
            first = c.json("jobs")["jobs"][0]["job"]
            c.hawk("wait", first, check=1)
            with Relay(c, pb, [lambda pass_on: dies(c, pass_on, before)]) as relay:
                again = c.hawk("resubmit", first, dist=relay.addr).stdout.strip()
                assert len(relay.keys) == 2 and relay.keys[0] == relay.keys[1] != 0, relay.keys
            c.hawk("wait", again, check=1)
            assert [j["job"] for j in c.json("jobs")["jobs"] if j["job"] != first] == [again]
            # A task that was on its way to the worker when its dist died is lost: it runs at most once.
            ran = 2 - c.job(again)["lost"]
            assert len(lines(f"{c.dir}/ran")) == ran
            c.hawk("resubmit", again)  # another key
            c.hawk("wait", "last", check=1)
            assert len(lines(f"{c.dir}/ran")) == ran + 1


def test_output_of_a_job_that_ran_again_twice():
    with Cluster(workers=1, slots=2) as c:
        script = f"echo $HAWK_INPUT; test $HAWK_INPUT = 1 || test -e {c.dir}/$HAWK_INPUT"
        jobs = [c.submit("--array", "1-3", "--", "sh", "-c", script)]
        c.hawk("wait", jobs[0], check=1)
        for mended in "23":
            touch(c, mended)
            jobs.append(c.hawk("resubmit", "--failed", jobs[-1]).stdout.strip())
            c.hawk("wait", jobs[-1], check=None)
        had = [f"hawk: cat: 1 task of job {jobs[2]} had been done in job {j}, which it runs again: `hawk cat {j}`\n" for j in jobs[:2]]
        r = c.hawk("cat", jobs[2])
        assert r.stdout == "3\n" and r.stderr == had[1] + had[0], r
        assert [c.hawk("cat", jobs[2], task).stderr for task in "123"] == [*had, ""]


def test_what_runs_again_waits_for_no_job():
    """Those that it waited for have ended, and may be forgotten."""
    with Cluster(workers=1, slots=2) as c:
        first = c.submit("--", "true")
        job = c.submit("--after", first, "--", "false")
        c.hawk("wait", job, check=1)
        assert c.job(job)["after"] == [first], c.job(job)
        r = c.hawk("resubmit", job)
        again = r.stdout.strip()
        assert r.stderr == (f"hawk: resubmit: job {job} ran after {first}; job {again} waits for no job: --after ID lets it wait\n"), r
        c.hawk("wait", again, check=1)
        assert c.job(again)["after"] == [], c.job(again)
        assert not c.hawk("resubmit", again).stderr


def test_what_runs_again_waits_as_it_is_told():
    with Cluster(workers=1, slots=2) as c:
        first = c.submit("--array", "1-2", "--", "sh", "-c", f"test $HAWK_INPUT = 1 || test -e {c.dir}/mended")
        second = c.submit("--after", first, "--array", "1-2", "--", *notes(c, "second"))
        third = c.submit("--", "sh", "-c", f"test -e {c.dir}/mended")
        c.hawk("wait", first, second, third, check=1)
        assert lines(f"{c.dir}/second") == ["1"]
        touch(c, "mended")
        again = c.hawk("resubmit", first).stdout.strip()
        # `last` is that one, also for the second of two.
        r = c.hawk("resubmit", "--failed", "--after", "last", second, third)
        jobs = r.stdout.split()
        c.hawk("wait", *jobs)
        assert not r.stderr and [c.job(j)["after"] for j in jobs] == [[again]] * 2, r
        assert sorted(lines(f"{c.dir}/second")) == ["1", "2"]
        # What can never start is cancelled.
        never = c.hawk("resubmit", "--after", f"{again}:failed", "--failed", second).stdout.strip()
        c.hawk("wait", never, check=1)
        assert (c.job(never)["state"], c.job(never)["done"]) == ("cancelled", 1), c.job(never)
        held = c.submit("--hold", "--", "true")
        waits = c.hawk("resubmit", "--after", f"{held}:any", first).stdout.strip()
        assert state(c, waits) == "blocked"
        restarted = c.dists[0].kill()
        c.dists[0].kill()
        restart(c)
        assert state(c, waits) == "blocked" and c.job(waits)["after"] == [f"{held}:any"]
        c.hawk("release", held)
        c.hawk("wait", waits)
        for wrong, code, said in (("all", 2, "--after takes ids"), ("1.99999", 3, "job 1.99999, which this one is to run after")):
            r = c.hawk("resubmit", "--after", wrong, first, check=code)
            assert said in r.stderr, r


def test_what_was_cancelled_does_not_run_again():
    """Its environment, which may hold secrets, went with it."""
    with Cluster(workers=1, slots=2) as c:
        job = c.hawk("submit", "--env", "MINE=x", "--", "sleep", "600").stdout.strip()
        c.hawk("cancel", job)
        c.hawk("wait", job, check=1)
        r = c.hawk("resubmit", "--failed", job, check=None)
        assert r.returncode == 3 and "it was cancelled, and its environment went with that: submit it anew" in r.stderr, r


class Waiting:
    """A `hawk wait` that goes on meanwhile."""

    def __init__(self, c, *args):
        self.p = subprocess.Popen([HAWK, "wait", "--dist", ",".join(c.dist_addrs), *args], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_signals)
        self.err, self.reader = [], threading.Thread(target=lambda: self.err.extend(self.p.stderr), daemon=True)

    def __enter__(self):
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()
        self.reader.join()
        self.p.stdout.close()
        self.p.stderr.close()

    def hears(self, text):
        wait_for(text, lambda: any(text in line for line in list(self.err)))

    def ends(self, code):
        assert self.p.wait(BOUND) == code, (self.p.returncode, self.err)
        self.reader.join(BOUND)
        return "".join(self.err)


def test_wait_says_what_it_waits_for():
    with Cluster(workers=1) as c:
        first = c.submit("--class", "short", "--", *gate(c, "first", "go"))
        wait_for("it to run", lambda: lines(f"{c.dir}/first"))
        held, after = c.submit("--", "true"), c.submit("--after", first, "--", "true")
        c.hawk("hold", held)
        with Waiting(c, held, after) as w:
            w.hears(f"job {held} is held: it goes on after `hawk release {held}`")
            w.hears(f"job {after} waits for the end of {first}")
            c.hawk("release", held)
            touch(c, "go")
            assert w.ends(0).count("job ") == 2, w.err
        # What is held may be another job.
        held = c.submit("--hold", "--", "true")
        after = c.submit("--after", held, "--", "true")
        both = c.submit("--after", held, "--after", f"{after}:any", "--", "true")
        with Waiting(c, after) as w:
            w.hears(f"job {after} waits for the end of {held}, which is held: `hawk release {held}`")
            said = c.hawk("explain", both).stdout
            assert f"blocked   waits for the end of {held} {after}:any; some are held: `hawk release {held}`\n" in said, said
            c.hawk("release", held)
            w.ends(0)
        # A job of which some tasks run is held; and a job that is held meanwhile.
        some = c.submit("--class", "short", "--array", "1-2", "--", *gate(c, "some", "on"))
        wait_for("it to run", lambda: lines(f"{c.dir}/some"))
        with Waiting(c, some) as w:
            c.hawk("hold", some)
            w.hears(f"job {some} is held")
            c.hawk("release", some)
            touch(c, "on")
            w.ends(0)
        # Ctrl-C and --for say how to go on.
        busy = c.submit("--class", "short", "--", *gate(c, "busy", "end"))
        wait_for("it to run", lambda: lines(f"{c.dir}/busy"))
        held = c.submit("--", "true")
        c.hawk("hold", held)
        r = c.hawk("wait", held, "--for", "200ms", check=4)
        assert f"the job stays held: `hawk release {held}` lets it go on" in r.stderr, r.stderr
        with Waiting(c, held) as w:
            w.hears("is held")
            w.p.send_signal(signal.SIGINT)
            assert f"no longer waiting; the job stays held: `hawk release {held}`" in w.ends(-signal.SIGINT), w.err
        with Waiting(c, held) as w:
            w.hears("is held")
            c.hawk("cancel", held)
            assert f"job {held} was cancelled" in w.ends(1), w.err
        touch(c, "end")
        c.hawk("wait", busy)


def test_wait_names_a_few():
    with Cluster(workers=1) as c:
        go = c.submit("--class", "short", "--", *gate(c, "first", "go"))
        wait_for("it to run", lambda: lines(f"{c.dir}/first"))
        jobs = [c.submit("--after", go, "--", "true") for _ in range(8)]
        with Waiting(c, *jobs) as w:
            w.hears("more jobs wait: `hawk jobs --state held,blocked,pending` lists them")
            touch(c, "go")
            assert w.ends(0).count("waits for the end of") == 5, w.err


run_tests(sys.modules[__name__])
