#!/usr/bin/python3
# hawk replay on a real cluster: a trace's jobs end, the figures add up, Ctrl-C cancels, bad input is named.
# timeout: 120
# seconds: 30
# make test-all
import json
import os
import signal
import subprocess
import sys

import hawktest
from hawktest import Cluster, HAWK, wait_for
from userstest import KnownCluster

TRACE = """0 1 0.05 0.05
0.1 3 0.05 0.04 0.05 0.06
0.1 2 2 1.9 2.1
0.2 1 0 0
"""


def write(cluster, text, name="a.tr"):
    path = os.path.join(cluster.dir, name)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    return path


def test_a_trace_is_replayed_under_either_policy():
    with Cluster(dists=2, workers=3) as c:
        trace = write(c, TRACE)
        for policy, flags in (("hawk", ["--timer"]), ("sparrow", [])):
            r = c.json("replay", trace, "--time-scale", "0.5", "--cutoff", "1s", "--policy", policy, *flags)
            assert r["jobs"] == {"ended": 4, "refused": 0, "lost": 0, "not_submitted": 0}, r["jobs"]
            assert r["tasks"]["done"] == 7 and r["tasks"]["unaccounted"] == 0, r["tasks"]
            assert r["policy"]["name"] == policy and r["policy"]["cutoff_us"] == 500000, r["policy"]
            assert r["dists"] == 2 and r["counters_settled"], r
            assert r["counters"]["tasks_finished"] == 7, r["counters"]
            short, long = r["classes"]["short"], r["classes"]["long"]
            assert (short["jobs"], short["tasks"], long["jobs"], long["tasks"]) == (3, 5, 1, 2)
            assert long["response"]["p50_us"] >= 1050000, long
            assert short["queueing"]["n"] == 5 and short["response"]["max_us"] > 0, short
            assert short["probes_sent"] >= 2 * 5 and long["taken_for_other_class"] == 0
            # Central places hawk's long tasks, sparrow's are probed for.
            assert (long["probes_sent"] == 0) == (policy == "hawk"), long


def test_the_table_says_what_was_lost():
    with Cluster(workers=2) as c:
        r = c.hawk("replay", write(c, TRACE), "--time-scale", "0.1", "--cutoff", "1s", "--timer", "--load", "2",
                   "--jobs", "3")
        words = r.stdout.split()
        for word in ("response", "queueing", "slowdown", "p99", "short", "long", "stolen"):
            assert word in words, r.stdout
        assert "3 submitted to 1 dist, 3 ended, 0 refused, 0 lost" in r.stdout, r.stdout
        assert "6 done, 0 failed, 0 cancelled, 0 lost, 0 unaccounted for; 0 tried again" in r.stdout, r.stdout
        assert "load offered 2.000" in r.stdout, r.stdout


def test_a_busy_cluster_changes_its_policy():
    with Cluster(workers=3) as c:
        job = c.submit("--", "sleep", "1000")
        r = c.json("replay", write(c, TRACE), "--policy", "sparrow")
        assert r["policy"]["name"] == "sparrow", r["policy"]
        c.hawk("cancel", job)


def test_ctrl_c_cancels():
    with Cluster(workers=3) as c:
        # The last job's time never comes.
        trace = write(c, "0 2 1000 1000 1000\n0 1 1000 1000\n1000 1 1 1\n")
        child = subprocess.Popen([HAWK, "replay", trace, "--output", "json"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
        try:
            wait_for("both jobs run", lambda: 2 <= sum(j["state"] == "running" for j in c.json("jobs")["jobs"]))
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=hawktest.BOUND)
        finally:
            child.kill()
            child.wait()
        assert child.returncode == -signal.SIGINT, (child.returncode, err)
        assert "interrupted: cancelling 2 jobs" in err, err
        r = json.loads(out)
        assert r["interrupted"] and r["jobs"]["not_submitted"] == 1 and r["jobs"]["ended"] == 2, r["jobs"]
        assert r["tasks"]["cancelled"] == 3 and r["tasks"]["unaccounted"] == 0, r["tasks"]
        assert all(j["state"] == "cancelled" for j in c.json("jobs")["jobs"])


def replay_of_many(c, jobs=120):
    """Three tasks each, a job every 20 ms, long ones among them."""
    trace = write(c, "".join(f"{i * 0.02:.2f} 3 {2 if i % 10 == 0 else 0.1} " + ("2 2 2" if i % 10 == 0 else "0.1 0.1 0.1") +
                             "\n" for i in range(jobs)))
    return subprocess.Popen([HAWK, "replay", trace, "--cutoff", "1s", "--output", "json", "--timer"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "HAWK_DIST": ",".join(c.dist_addrs)})


def check_replayed(child, jobs=120):
    out, err = child.communicate(timeout=hawktest.BOUND * 2)
    assert child.returncode == 0, (child.returncode, out[-2000:], err)
    r = json.loads(out)
    assert r["jobs"] == {"ended": jobs, "refused": 0, "lost": 0, "not_submitted": 0}, r["jobs"]
    assert r["tasks"]["done"] == 3 * jobs and r["tasks"]["unaccounted"] == 0, r["tasks"]


def finished(c, at):
    return sum(j["state"] == "done" for j in c.json("jobs", "--all", dist=at)["jobs"])


def test_a_dist_dies_under_a_replay():
    with KnownCluster(dists=3, workers=3, slots=4, worker=("--orphan", "1s")) as c:
        child = replay_of_many(c)
        try:
            wait_for("jobs to end everywhere", lambda: all(finished(c, a) > 2 for a in c.dist_addrs))
            c.dists[0].kill()
            check_replayed(child)
        finally:
            child.kill()
            child.wait()
        wait_for("the moves to be counted", lambda: c.json("stats", dist=c.dist_addrs[1])["total"]["jobs_moved"] > 0)


def test_every_dist_restarts_under_a_replay():
    with Cluster(dists=2, workers=3, slots=4, worker=("--orphan", "1s")) as c:
        child = replay_of_many(c)
        try:
            wait_for("jobs to end everywhere", lambda: all(finished(c, a) > 2 for a in c.dist_addrs))
            for i, end in enumerate((hawktest.Daemon.kill, hawktest.Daemon.stop)):
                end(c.dists[i])
                c.dists[i] = hawktest.Daemon("dist", "--name", f"d{i + 1}", "--listen", c.dist_addrs[i], "--central",
                                             c.central_addr, "--state-dir", f"{c.dir}/d{i + 1}")
                c.dists[i].ready()
            check_replayed(child)
        finally:
            child.kill()
            child.wait()


def fails(*args, code=2, env=None):
    r = subprocess.run([HAWK, "replay", *args], capture_output=True, text=True, timeout=hawktest.BOUND,
                       env={**os.environ, "HAWK_DIST": "127.0.0.1:1", **(env or {})})
    assert r.returncode == code, (args, r.returncode, r.stderr)
    assert r.stdout == "" and r.stderr.count("\n") >= 1, r
    return r.stderr


def test_bad_input_is_named():
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "bad.tr")
    with open(path, "w", encoding="ascii") as f:
        f.write("0 1 1 1\n1 2 1 1\n")
    try:
        assert f"{path}:2:8: expected duration 2 of 2" in fails(path)
        assert "which trace" in fails()
        assert "one trace at a time" in fails(path, path)
        assert "cannot be opened" in fails("/no/such.tr")
        assert "--load" in fails(path, "--load", "-1")
        assert "--max-tasks and --scale-tasks" in fails(path, "--max-tasks", "3", "--scale-tasks", "0.5")
        assert "no policy 'fair': there are hawk, sparrow" in fails(path, "--policy", "fair")
        assert "did you mean --time-scale" in fails(path, "--timescale", "2")
        assert "127.0.0.1:1" in fails(path, "--jobs", "1", code=3)
    finally:
        os.remove(path)


def test_a_burst_of_jobs_that_waits_for_longer_than_the_grace():
    """More jobs at one moment than a dist takes calls or watches of a connection; half of them wait for longer than it keeps
    a job that nobody watches."""
    with Cluster(workers=2, slots=8) as c:
        r = c.json("replay", write(c, "0 1 0.04 0.04\n" * 6000), "--timer", "--output", "json")
        assert r["jobs"] == {"ended": 6000, "refused": 0, "lost": 0, "not_submitted": 0}, r["jobs"]
        assert r["tasks"]["done"] == 6000 and r["tasks"]["cancelled"] == 0, r["tasks"]


def test_a_dry_run_needs_no_cluster():
    r = subprocess.run([HAWK, "replay", "-", "--dry-run", "--slots", "10", "--load", "0.5", "--cutoff", "1s",
                        "--duration-cap", "1s", "--output", "json"], input=TRACE, capture_output=True, text=True,
                       timeout=hawktest.BOUND, env={**os.environ, "HAWK_DIST": "127.0.0.1:1"})
    plan = json.loads(r.stdout)
    assert (plan["jobs"], plan["tasks"], plan["long_jobs"], plan["tasks_capped"]) == (4, 7, 1, 2), plan
    assert plan["task_us"] == 2200000 and plan["uncapped_task_us"] == 4200000, plan
    assert abs(plan["load"] - 0.5) < 0.01, plan


def test_a_dry_run_tells_of_classes_only_with_a_cutoff():
    for output in ("json", "table"):
        r = subprocess.run([HAWK, "replay", "-", "--dry-run", "--slots", "10", "--output", output], input=TRACE,
                           capture_output=True, text=True, timeout=hawktest.BOUND,
                           env={**os.environ, "HAWK_DIST": "127.0.0.1:1"})
        assert r.returncode == 0 and "task" in r.stdout and "long" not in r.stdout, r
    with Cluster(workers=1) as c:
        c.hawk("policy", "set", "--cutoff", "1s")
        plan = c.json("replay", write(c, TRACE), "--dry-run")
        assert plan["long_jobs"] == 1, plan


def test_given_slots_are_for_the_load_alone():
    with Cluster(workers=2, slots=3) as c:
        r = c.json("replay", write(c, "0 1 0.1 0.1\n"), "--slots", "1", "--load", "0.5", "--cutoff", "1s", "--timer")
        assert r["plan"]["slots"] == 1 and 0 < r["utilization"] <= 1 / 6 + 0.01, r


def test_a_plan_tells_of_jobs_whose_class_its_scaling_changes():
    command = [HAWK, "replay", "-", "--dry-run", "--slots", "10", "--cutoff", "100ms", "--max-tasks", "1", "--time-scale", "0.1"]
    for tag, told in ((), True), (("--tag", "estimate"), True), (("--tag", "class"), False), (("--tag", "none"), False):
        r = subprocess.run([*command, *tag], input=TRACE, capture_output=True, text=True, timeout=hawktest.BOUND)
        assert r.returncode == 0 and ("1 of the jobs have the other class by their scaled means" in r.stdout) == told, (tag, r)


if __name__ == "__main__":
    hawktest.run_tests(sys.modules[__name__])
