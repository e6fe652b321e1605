"""A real cluster on loopback, driven with the user commands."""
import json
import os
import sys

from hawktest import Cluster, run_tests, wait_for


def test_everyday():
    with Cluster(dists=2, workers=3, slots=2) as c:
        everyday_jobs(c)
        arguments_and_environment(c)
        output_files(c)
        failures(c)
        lists_and_selectors(c)
        long_job_and_explain(c)
        cancel(c)
        stats(c)
        usage_errors(c)


def everyday_jobs(c):
    r = c.hawk("submit", "--wait", "--", "true")
    job = c.submit("--", "sh", "-c", "echo out; echo err >&2")
    c.hawk("wait", job)
    assert c.hawk("cat", job, "stdout").stdout == "out\n"
    assert c.hawk("cat", job, "stderr").stdout == "err\n"
    (said,) = json.loads(c.hawk("cat", job, "stderr", "--output", "json").stdout)["outputs"]
    assert (said["job"], said["index"], said["stream"], said["data"]) == (job, 0, "stderr", "err\n"), said
    r = c.hawk("job", "99.9", "--output", "json", check=3)
    assert json.loads(r.stdout)["errors"] and "99.9" in r.stderr, r.stdout
    assert json.loads(c.hawk("wait", "99.9", "--output", "json", check=3).stdout)["errors"]
    j = c.job(job)
    assert j["state"] == "done" and j["class"] == "short" and j["done"] == 1, j
    # The other dist does not know the job, and is not needed to: the client finds whose it is.
    for addr in c.dist_addrs:
        assert c.job(job, dist=addr)["state"] == "done"


def arguments_and_environment(c):
    lines = "".join(f"arg {i}\n" for i in range(50))
    job = json.loads(c.hawk("submit", "--output", "json", "--each-line", "-", "--stdout", f"{c.dir}/lines-%t", "--",
                            "echo", "[{}]", input=lines).stdout)["job"]
    c.hawk("wait", job)
    got = [open(f"{c.dir}/lines-{i}").read() for i in range(50)]
    assert got == [f"[arg {i}]\n" for i in range(50)], got[:3]
    show = "echo $HAWK_JOB_ID $HAWK_TASK_INDEX $HAWK_TASK_COUNT $HAWK_ATTEMPT $HAWK_JOB_NAME $MINE $(pwd)"
    job = c.submit("--array", "3-4", "--name", "envy", "--env", "MINE=yes", "--cwd", c.dir, "--", "sh", "-c", show)
    c.hawk("wait", job)
    want = "".join(f"{job} {i} 2 1 envy yes {c.dir}\n" for i in (3, 4))
    assert c.hawk("cat", job, "stdout").stdout == want


def output_files(c):
    job = c.submit("--array", "1-2", "--name", "nm", "--stdout", f"{c.dir}/%J/%n.%t.%a.%%", "--", "echo", "{}")
    c.hawk("wait", job)
    assert open(f"{c.dir}/{job}/nm.2.1.%").read() == "2\n"
    assert c.hawk("cat", job, "stdout").stdout == "1\n2\n"
    if os.geteuid() != 0:
        os.makedirs(f"{c.dir}/locked", mode=0o500)
    job = c.submit("--stdout", "/proc/no/such/place/%t", "--", "true")
    c.hawk("wait", job, check=1)
    t = c.job(job)["task_list"][0]
    assert t["outcome"] == "not-started" and t["code"] == 126, t


def failures(c):
    job = c.submit("--array", "0-3", "--", "sh", "-c", "exit {}")
    assert "exited 3" in c.hawk("wait", job, check=1).stderr
    j = c.job(job)
    assert j["state"] == "failed" and j["done"] == 1 and j["failed"] == 3, j
    job = c.submit("--cwd", "/no/such/directory", "--", "true")
    why = "not started (126): cannot enter the directory /no/such/directory"
    r = c.hawk("wait", job, check=1)
    assert why in r.stderr, r.stderr
    assert why in c.hawk("job", job).stdout
    assert "/no/such/directory" in c.job(job)["task_list"][0]["message"]
    job = c.submit("--class", "long", "--cwd", "/no/such/directory", "--", "true")
    r = c.hawk("wait", job, check=1) # central placed it: the worker's words come all the same
    assert why in r.stderr, r.stderr
    job = c.submit("--", "/no/such/program")
    c.hawk("wait", job, check=1)
    t = c.job(job)["task_list"][0]
    assert t["outcome"] == "not-started" and t["code"] == 127, t
    assert "no such program" in c.hawk("cat", job, "stderr").stdout.lower()
    job = c.submit("--", "sh", "-c", "kill -9 $$")
    assert "signal 9" in c.hawk("wait", job, check=1).stderr
    job = c.submit("--time-limit", "200ms", "--", "sleep", "600")
    c.hawk("wait", job, check=1)
    assert c.job(job)["task_list"][0]["outcome"] == "time-limit"
    job = c.submit("--array", "1-1000", "--max-fails", "3", "--", "false")
    c.hawk("wait", job, check=1)
    j = c.job(job)
    assert j["failed"] >= 3 and j["cancelled"] > 900 and j["failed"] + j["cancelled"] == 1000, j


def lists_and_selectors(c):
    jobs = c.json("jobs", "--all")["jobs"]
    assert len(jobs) > 5 and len({j["job"] for j in jobs}) == len(jobs)
    last = c.submit("--", "true")
    c.hawk("wait", "last")
    assert c.job("last")["job"] == last
    c.hawk("wait", "all", check=None)
    assert c.hawk("wait", "9.12345", check=3).stderr
    for command in ("wait", "job"):  # the dist that the id names says so, not the one that was asked last
        assert "it never was" in c.hawk(command, last.split(".")[0] + ".999", check=3).stderr
    nodes = c.json("nodes")["nodes"]
    assert {n["role"] for n in nodes} >= {"dist", "worker"} and sum(n["slots"] for n in nodes) == 6, nodes
    assert c.hawk("jobs").stdout and c.hawk("nodes").stdout and c.hawk("job", "last").stdout


def long_job_and_explain(c):
    job = c.submit("--class", "long", "--array", "1-4", "--", "sh", "-c", "echo long{}")
    c.hawk("wait", job)
    j = c.job(job)
    assert j["class"] == "long" and j["at_central"] and j["done"] == 4 and j["probes_sent"] == 0, j
    assert c.hawk("cat", job, "stdout").stdout == "long1\nlong2\nlong3\nlong4\n"
    text = c.hawk("explain", job).stdout
    assert "long" in text and "tagged long by the user" in text, text
    short = c.submit("--estimate", "1ms", "--", "true")
    c.hawk("wait", short)
    e = c.json("explain", short)["jobs"][0]
    assert "estimate" in e["class_reason"] and e["details"]["probes_sent"] >= 2, e


def cancel(c):
    mark = f"{c.dir}/started"
    job = c.submit("--array", "1-100", "--", "sh", "-c", f"echo $$ >> {mark}; sleep 600")
    wait_for("six tasks running", lambda: os.path.exists(mark) and len(open(mark).read().split()) == 6)
    c.hawk("cancel", job)
    c.hawk("wait", job, check=1)
    j = c.job(job)
    assert j["state"] == "cancelled" and j["cancelled"] == 100, j
    for pid in open(mark).read().split():
        assert not os.path.exists(f"/proc/{pid}"), "a cancelled task lives on"
    job = c.submit("--class", "long", "--array", "1-20", "--", "sleep", "600")
    wait_for("long tasks running", lambda: c.job(job)["state"] == "running")
    c.hawk("cancel", job)
    c.hawk("wait", job, check=1)
    assert c.job(job)["cancelled"] == 20
    c.hawk("cancel", job)


def stats(c):
    def balanced():
        t = c.json("stats")["total"]
        return t["tasks_started"] > 0 and t["jobs_accepted"] == t["jobs_finished"] and t
    t = wait_for("counters of every job", balanced)
    assert t["probes_sent"] >= t["probes_unused"] + t["probes_cancelled"], t
    assert c.hawk("stats").stdout


def usage_errors(c):
    assert "--frob" in c.hawk("submit", "--frob", "--", "true", check=2).stderr
    assert "command" in c.hawk("submit", input="", check=2).stderr
    assert c.hawk("submit", "--array", "5-4", "--", "true", check=2).stderr
    assert c.hawk("submit", "--array", "1-2000000", "--", "true", check=2).stderr
    assert c.hawk("submit", "--estimate", "30", "--", "true", check=2).stderr
    assert c.hawk("submit", "--each-line", "/no/such", "--", "true", check=2).stderr
    assert c.hawk("job", "nonsense", check=2).stderr
    assert "'stdrr'" in c.hawk("cat", "1.1", "0", "stdrr", check=2).stderr
    assert "'stdrr'" in c.hawk("cat", "1.1", "1.2", "stdrr", check=2).stderr
    assert "'1.2' is neither" in c.hawk("cat", "1.1", "0", "1.2", check=2).stderr
    ids = [c.submit("--array", "1-2", "--", "sh", "-c", f"echo {i}; echo $HAWK_TASK_INDEX >&2") for i in range(2)]
    c.hawk("wait", *ids)
    assert c.hawk("cat", *ids).stdout == "0\n0\n1\n1\n"
    assert c.hawk("cat", *ids, "last", "2", "stderr").stdout == "2\n2\n"
    assert "submit" in c.hawk("help").stdout and "--array" in c.hawk("help", "submit").stdout
    assert c.hawk("help", "help").stdout == c.hawk("help", "--help").stdout == c.hawk("help").stdout
    assert c.hawk("nosuchcommand", check=2).stderr


def test_a_line_per_task_starts_at_once():
    """A file of 10,000 lines is one job; its first task does not wait for the last. How many messages it waits for
    is counted in tests/test_cluster.c (test_the_first_task_waits_for_no_other)."""
    with Cluster(workers=2, slots=4) as c:
        lines = "".join(f"{i}us\n" for i in range(10000))
        r = c.hawk("submit", "--output", "json", "--each-line", "-", "--timer", "--", "{}", input=lines)
        job = json.loads(r.stdout)["job"]
        c.hawk("wait", job)
        j = c.job(job)
        assert j["done"] == 10000 and j["response_us"] > 0, j
        assert 0 < j["first_start_us"] < j["response_us"], j
        print(f"first task after {j['first_start_us']} us, all 10,000 after {j['response_us']} us")


def test_short_jobs_pass_long_ones():
    """The heart of the paper: with every general slot taken by long tasks, short tasks still run, through the reserved
    worker and by stealing. (What pauses add: test_pause.py. With `probe_everywhere` the reserved worker need not steal.)"""
    with Cluster(workers=4, central=("--short-partition", "25%", "--policy-off", "pause,probe_everywhere")) as c:
        long_job = c.submit("--class", "long", "--array", "1-3", "--", "sleep", "600")
        wait_for("the long job on all general slots", lambda: c.job(long_job)["running"] == 3 and
                 all(t["state"] == "running" for t in c.job(long_job)["task_list"]))
        jobs = [c.submit("--class", "short", "--array", "1-4", "--", "true") for _ in range(10)]
        c.hawk("wait", *jobs)
        workers = {t["worker"] for j in jobs for t in c.job(j)["task_list"]}
        busy = {t["worker"] for t in c.job(long_job)["task_list"]}
        assert not workers & busy and len(workers) == 1, (workers, busy)
        assert c.job(long_job)["running"] == 3
        stolen = wait_for("stolen tasks counted", lambda: c.json("stats")["total"]["tasks_stolen"])
        print(f"{stolen} of 40 tasks were stolen")
        c.hawk("cancel", long_job)


run_tests(sys.modules[__name__])
