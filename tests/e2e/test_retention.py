#!/usr/bin/python3
"""How long outputs and ended jobs stay: hawk prune, worker.output_keep and output_max, dist.finished_keep."""
import json
import os
import subprocess
import sys
import tempfile
import time

from hawktest import BOUND, HAWK, Cluster, Daemon, run_hawk, run_tests, user_environment, wait_for

DAY = 86400


def jobs_in(d):
    """What is in the directory, without notes."""
    return sorted(n for n in os.listdir(d) if not n.startswith("."))


def make_older(d, seconds):
    """As if everything in it had been written so long ago."""
    at = time.time() - seconds
    for name in os.listdir(d):
        os.utime(f"{d}/{name}", (at, at))
    os.utime(d, (at, at))


def fill(d, ages, kib=100):
    """Output of jobs 1.1, 1.2 ... of these ages, in days."""
    for i, age in enumerate(ages, 1):
        os.makedirs(f"{d}/1.{i}")
        with open(f"{d}/1.{i}/0.out", "wb") as f:
            f.write(os.urandom(kib * 1024))
        make_older(f"{d}/1.{i}", age * DAY)


def prune(*args, check=0):
    r = subprocess.run([HAWK, "prune", *args], capture_output=True, text=True, timeout=BOUND)
    assert r.returncode == check, r
    return r.stdout if check == 0 else r.stderr


def test_prune_lists_first_and_removes_with_yes():
    with tempfile.TemporaryDirectory() as d:
        fill(d, [40, 20, 31])
        os.makedirs(f"{d}/notes")
        make_older(f"{d}/notes", 99 * DAY)
        shown = prune("--older", "30d", d)
        assert "1.1" in shown and "1.3" in shown and "1.2" not in shown and "2 jobs" in shown, shown
        assert "would be removed" in shown and "--yes" in shown
        assert jobs_in(d) == ["1.1", "1.2", "1.3", "notes"]
        document = json.loads(prune("--older", "30d", "--output", "json", d))
        assert [j["job"] for j in document["jobs"]] == ["1.1", "1.3"] and not document["removed"], document
        assert document["bytes"] >= 200 * 1024 and document["left_bytes"] >= 100 * 1024
        assert "2 jobs" in prune("--older", "30d", "--yes", d)
        assert jobs_in(d) == ["1.2", "notes"]
        shown = prune("--older", "30d", d)
        assert "0 jobs" in shown and f"looked in {d}\n" in shown, shown
        assert f"looked in {d} and {d}/notes\n" in prune("--older", "30d", d, f"{d}/notes")


def test_prune_by_size_takes_the_oldest():
    with tempfile.TemporaryDirectory() as d:
        fill(d, [1, 3, 2, 4])
        prune("--max-size", "250K", "--yes", d)
        assert jobs_in(d) == ["1.1", "1.3"]
        assert "--older" in prune(d, check=2)
        assert "--max-size takes" in prune("--max-size", "many", d, check=2)
        assert "No such file" in prune("--older", "1d", f"{d}/nowhere", check=1)


def test_a_rule_that_is_given_counts_alone():
    """Not the configuration's beside it: less would stay than the user asked for."""
    with tempfile.TemporaryDirectory() as d:
        fill(f"{d}/out", [1, 3])
        with open(f"{d}/hawk.yaml", "w", encoding="utf-8") as f:
            f.write(f"worker:\n  output_dir: {d}/out\n  output_keep: 1h\n  output_max: 100kB\n")
        for rule in (("--max-size", "10M"), ("--older", "30d")):
            prune("--config", f"{d}/hawk.yaml", *rule, "--yes")
            assert jobs_in(f"{d}/out") == ["1.1", "1.2"], rule
        prune("--config", f"{d}/hawk.yaml", "--yes")
        assert jobs_in(f"{d}/out") == []


def test_outputs_of_joined_clusters_stay_as_long_as_those_of_up():
    """They are beside the worker's directory, and the worker's own rules are not theirs."""
    with tempfile.TemporaryDirectory() as d:
        joined = f"{d}/out-0123456789abcdef"
        for directory in (f"{d}/out", joined):
            fill(directory, [1, 3])
        with open(f"{d}/hawk.yaml", "w", encoding="utf-8") as f:
            f.write(f"worker:\n  output_dir: {d}/out\n  output_keep: 12h\nup:\n  output_dir: {d}/up\n  output_keep: 2d\n")
        prune("--config", f"{d}/hawk.yaml", "--yes")
        assert jobs_in(f"{d}/out") == [] and jobs_in(joined) == ["1.1"], (jobs_in(f"{d}/out"), jobs_in(joined))


def test_what_a_task_writes_to_stays():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", env=env)
        try:
            up.ready()
            run_hawk(env, "submit", "--", "sh", "-c", "echo begun; exec sleep 600")
            wait_for("its output", lambda: os.path.exists(f"{d}/out/1.1/0.out"))
            run_hawk(env, "submit", "--wait", "--", "echo", "ended")
            for job in ("1.1", "1.2"):
                make_older(f"{d}/out/{job}", 40 * DAY)
            prune("--older", "30d", "--yes", f"{d}/out")
            assert jobs_in(f"{d}/out") == ["1.1"], jobs_in(f"{d}/out")
            run_hawk(env, "cancel", "1.1")
            run_hawk(env, "cat", "1.2", check=3)
        finally:
            up.stop()


def test_silent_tasks_leave_no_files():
    """Nor does anything else than their own silence pass for it."""
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", env=env)
        try:
            up.ready()
            job = run_hawk(env, "submit", "--wait", "-a", "0-9", "--", "sh", "-c",
                           "test $HAWK_TASK_INDEX != 7 || echo seven").stdout.strip()
            assert jobs_in(f"{d}/out/{job}") == ["7.out"]
            assert run_hawk(env, "cat", job).stdout == "seven\n"
            assert run_hawk(env, "cat", job, "stderr").stdout == ""
            assert run_hawk(env, "cat", "--follow", job, "3").stdout == ""
            retried = run_hawk(env, "submit", "--wait", "--retries", "1", "--", "sh", "-c",
                               "test $HAWK_ATTEMPT = 2 || { echo first; exit 1; }").stdout.strip()
            named = run_hawk(env, "submit", "--wait", "--stdout", f"{d}/named", "--", "true").stdout.strip()
            assert os.path.exists(f"{d}/named") and jobs_in(f"{d}/out/{named}") == []
            os.unlink(f"{d}/named")
            assert "it was removed since" in run_hawk(env, "cat", named, check=3).stderr
            up.stop()
            up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", env=env)
            up.ready()
            left = json.loads(run_hawk(env, "cat", "--output", "json", job).stdout)["outputs"]
            assert [o["data"] for o in left] == [""] * 7 + ["seven\n"] + [""] * 2, left
            assert run_hawk(env, "cat", retried).stdout == ""  # its last attempt's
            os.unlink(f"{d}/out/{job}/7.out")
            assert len(json.loads(run_hawk(env, "cat", "--output", "json", job).stdout)["outputs"]) == 9
        finally:
            up.stop()


def test_a_worker_removes_by_itself():
    with Cluster(workers=1, worker=("--output-keep", "20s", "--output-max", "1MiB")) as c:
        out = f"{c.dir}/out-w1"
        c.hawk("submit", "--wait", "--", "echo", "old")
        c.hawk("submit", "--wait", "--", "echo", "young")
        old, young = jobs_in(out)
        assert c.hawk("cat", old).stdout == "old\n"
        make_older(f"{out}/{old}", 60)
        wait_for("the old one to go", lambda: jobs_in(out) == [young])
        wait_for("the log", lambda: "of 1 old job was removed" in c.workers[0].text())
        c.hawk("submit", "--wait", "--", "head", "-c", "2000000", "/dev/zero")
        large = next(j for j in jobs_in(out) if j != young)
        make_older(f"{out}/{large}", 15)  # too young for output_keep, too large for output_max
        wait_for("the large one to go", lambda: large not in jobs_in(out))


def test_a_users_output_is_limited_alone():
    with Cluster(workers=1, worker=("--user-output-max", "1MiB")) as c:
        c.hawk("submit", "--wait", "--", "true")
        out = f"{c.dir}/out-w1"
        for i, (user, age, kib) in enumerate((("ann", 5, 600), ("ann", 4, 600), ("ann", 3, 600), ("bob", 9, 900),
                                              (None, 99, 3000)), 1):
            d = f"{out}/9.{i}"
            os.makedirs(d)
            with open(f"{d}/0.out", "wb") as f:
                f.write(os.urandom(kib * 1024))
            if user:
                with open(f"{d}/.user", "w", encoding="ascii") as f:
                    f.write(user)
            make_older(d, age * DAY)
        # It looks when it starts.
        c.workers[0].stop()
        c.start_worker("w1")
        wait_for("ann's older ones to go", lambda: [j for j in jobs_in(out) if j[0] == "9"] == ["9.3", "9.4", "9.5"])
        wait_for("the log", lambda: "of 2 old jobs was removed" in c.workers[-1].text())


def test_a_dist_forgets_ended_jobs():
    with Cluster(workers=1, dist=("--finished-keep", "10s")) as c:
        job = c.submit("--", "true")
        c.hawk("wait", job)
        running = c.submit("--", "sleep", "600")
        assert c.job(job)["state"] == "done"
        wait_for("the ended job to be forgotten", lambda: c.hawk("job", job, check=None).returncode == 3)
        assert c.job(running)["state"] == "running"
        c.hawk("cancel", running)
    r = subprocess.run([HAWK, "dist", "--finished-keep", "1s"], capture_output=True, text=True, timeout=BOUND)
    assert r.returncode == 2 and "10 s or more" in r.stderr, r


run_tests(sys.modules[__name__])
