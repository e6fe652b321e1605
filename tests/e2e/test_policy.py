"""The policy is changed under load, and outlives central."""
import sys

from hawktest import Cluster, run_tests, wait_for

PRESETS = ("sparrow", "central", "split", "hawk-no-central", "hawk-no-partition", "hawk-no-steal", "hawk")


def test_every_policy_under_load():
    """Jobs of all policies run side by side; each task runs once, whoever owns it."""
    with Cluster(dists=2, workers=4, slots=2, central=("--short-partition", "30%", "--cutoff", "5s")) as c:
        trail = f"{c.dir}/trail"
        task = ["--", "sh", "-c", f'sleep 0.2; echo "$HAWK_JOB_ID/$HAWK_TASK_INDEX" >> {trail}']
        expected = set()
        for preset in PRESETS:
            for kind, tasks in (("short", 8), ("long", 3), ("auto", 3)):
                job = c.submit("--class", kind, "--array", f"1-{tasks}", *task)
                expected |= {f"{job}/{i}" for i in range(1, tasks + 1)}
            assert c.json("jobs")["jobs"], "no load"
            said = c.hawk("policy", "set", preset).stdout
            assert said.startswith(f"policy {preset} (version ") and said.count("\n") == 1, said
            assert c.json("policy")["name"] == preset
        c.hawk("wait", "all")
        with open(trail, encoding="ascii") as f:
            ran = f.read().split()
        assert sorted(ran) == sorted(expected), f"{len(ran)} runs of {len(expected)} tasks"
        # What central began to own it has brought to its end.
        assert c.json("stats")["long_jobs_unfinished"] == 0


def test_it_outlives_central():
    with Cluster(workers=1) as c:
        assert "as configured" in c.hawk("policy").stdout
        c.hawk("policy", "set", "sparrow", "--cutoff", "77s", "--on", "promotion")
        c.central.kill()
        c.start_central(c.central_addr)
        p = c.json("policy")
        assert (p["base"], p["cutoff_us"], "promotion" in p["flags"]) == ("sparrow", 77000000, True), p
        origins = p["origins"]
        assert (origins["cutoff_us"], origins["promotion"], origins["stealing"], origins["short_share_ppm"]) == (
            "set", "set", "policy", "configuration"), origins
        assert p["set_ago_us"] > 0 and not p["configured_anew"], p
        wait_for("the log says so", lambda: "policy sparrow" in c.central.text() and
                 "set by an operator" in c.central.text())
        # Another configuration does not take it back.
        assert c.central.stop() == 0
        c.central_flags = ["--policy", "split", "--cutoff", "9s"]
        c.start_central(c.central_addr)
        assert c.json("policy")["base"] == "sparrow"
        wait_for("the log says so", lambda: "hawk policy reset" in c.central.text())
        assert "has changed since" in c.hawk("policy").stdout
        wait_for("the worker is back", lambda: c.hawk("submit", "--wait", "--class", "long", "--", "true"))
        # This does; for good.
        said = c.hawk("policy", "reset").stdout
        assert said.startswith("policy split (version ") and "cutoff 9s (configuration)" in said, said
        c.central.kill()
        c.start_central(c.central_addr)
        p = c.json("policy")
        assert (p["name"], p["cutoff_us"], p["set_ago_us"]) == ("split", 9000000, None), p


def test_explain_says_who_has_a_job_that_became_long():
    """One of which no task waits stays with its dist."""
    with Cluster(workers=1) as c:
        c.hawk("policy", "set", "--cutoff", "100ms")
        job = c.submit("--", "sh", "-c", f"while ! test -e {c.dir}/go; do sleep 0.1; done")
        wait_for("it is long", lambda: c.job(job)["class"] == "long")
        assert "no task of it was left for central" in c.hawk("explain", job).stdout
        open(f"{c.dir}/go", "w", encoding="ascii").close()
        c.hawk("wait", job)
        assert "central had nothing of it" in c.hawk("explain", job).stdout


def test_what_is_refused_changes_nothing():
    with Cluster(workers=1) as c:
        before = c.json("policy")
        for words in (("set",), ("set", "fair"), ("set", "--on", "stealth"), ("set", "--cutoff", "0s"), ("reset", "hawk"),
                      ("reset", "--cutoff", "1s"), ("--cutoff", "1s"), ("set", "hawk", "split")):
            c.hawk("policy", *words, check=2)
        after = c.json("policy")
        assert before == after, (before, after)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
