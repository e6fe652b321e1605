"""A worker that cannot start tasks, for a reason of its own, swallows nothing; and what nobody can start ends."""
# make test-all
import contextlib
import os
import re
import subprocess
import sys

import hawktest
from hawktest import Cluster, run_tests, wait_for


class Blind(Cluster):
    """The first worker sees an empty directory where the others have the jobs': its mounts are its own."""

    def start_worker(self, name, **more):
        if name != "w1":
            return super().start_worker(name, **more)
        os.makedirs(f"{self.dir}/jobs/dir")
        wrapper = f"{self.dir}/blind"
        with open(wrapper, "w") as f:
            f.write("#!/bin/sh\nexec unshare -m sh -c "
                    f"'mount -t tmpfs tmpfs {self.dir}/jobs && exec {hawktest.HAWK} \"$@\"' sh \"$@\"\n")
        os.chmod(wrapper, 0o755)
        hawk, hawktest.HAWK = hawktest.HAWK, wrapper
        try:
            return super().start_worker(name, **more)
        finally:
            hawktest.HAWK = hawk


def can_hide():
    """Whether a process may have mounts of its own here."""
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode == 0:
        return True
    print("skipped: nothing can be mounted here")
    return False


def test_a_worker_without_the_directory_swallows_nothing():
    if not can_hide():
        return
    with Blind(workers=3, slots=2) as c:
        work = f"{c.dir}/jobs/dir"
        for flags in (("--class", "short"), ("--class", "short", "--at-most-once"), ("--class", "long"),
                      ("--class", "long", "--at-most-once")):
            tasks = 100 if "short" in flags else 20
            job = c.submit("--lost-retries", "0", *flags, "--cwd", work, "--array", f"1-{tasks}", "--", "sleep", "0.02")
            c.hawk("wait", job)
            j = c.job(job)
            assert j["done"] == tasks, j
            assert not any(t["worker_name"] == "w1" for t in j["task_list"]), j


def test_a_full_output_disk_swallows_nothing():
    with hawktest.small_disk("nr_inodes=16") as full:
        if not full:
            return
        with Cluster(workers=2) as c:
            c.start_worker("full", flags=("--output-dir", f"{full}/out"), slots=4)
            c.wait_nodes(3)
            for i in range(16):  # a file's name takes the last of its room
                with contextlib.suppress(OSError):
                    open(f"{full}/{i}", "x").close()
            job = c.submit("--class", "short", "--at-most-once", "--array", "1-60", "--", "sleep", "0.02")
            c.hawk("wait", job)
            assert c.job(job)["done"] == 60, c.job(job)


def test_a_disk_without_room_swallows_nothing():
    """Files can still be made there: only what is written into them fails."""
    with hawktest.small_disk("size=2m") as full:
        if not full:
            return
        with Cluster(workers=2) as c:
            c.start_worker("full", flags=("--output-dir", f"{full}/out"), slots=4)
            c.wait_nodes(3)
            with open(f"{full}/filler", "wb", buffering=0) as f, contextlib.suppress(OSError):
                while True:
                    f.write(bytes(4096))
            job = c.submit("--class", "short", "--array", "1-60", "--", "sh", "-c", "sleep 0.02; echo something")
            c.hawk("wait", job)
            assert c.job(job)["done"] == 60, c.job(job)
            said = wait_for("its worker says so", lambda: re.search(r"starts that failed here: (\d+); .*", c.workers[2].text()))
            assert int(said[1]) > 0 and "less than worker.output_free_min" in said[0], said[0]


def test_what_nobody_can_start_fails():
    with Cluster(workers=4) as c:
        for cls in "short", "long":
            job = c.submit("--class", cls, "--cwd", "/no/such/directory", "--array", "1-20", "--", "true")
            c.hawk("wait", job, check=1)
            j = c.job(job)
            assert j["failed"] == 20, j
            assert all(t["outcome"] == "not-started" and t["code"] == 126 for t in j["task_list"]), j
            assert any("cannot enter the directory /no/such/directory" in t["message"] for t in j["task_list"]), j


def run(c):
    job = c.submit("--class", "short", "--array", "1-12", "--", "sleep", "0.02")
    c.hawk("wait", job)
    return job


def node(c, name):
    return next(n for n in c.json("nodes")["nodes"] if n["name"] == name)


def fill(path):
    with open(path, "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(bytes(4096))


def keep_failing(c, name):
    """Submits jobs until that worker is out of service; returns how many."""
    for n in range(1, 60):
        assert c.job(run(c))["done"] == 12
        if node(c, name)["state"] == "out-of-service":
            return n
    raise AssertionError(f"{name} is still in service")


def expect_back(c, worker, name, why):
    """It is mended: shown, logged by it and by central, and gone again."""
    wait_for("it to be back", lambda: node(c, name)["state"] == "up" and node(c, name)["out_why"] is None)
    wait_for("its log to say so", lambda: "in service again" in worker.text())
    assert "out of service: tasks of 3 jobs could not be started here" in worker.text(), worker.text()
    assert why in worker.text(), worker.text()
    log = c.central.text()
    assert f"worker {name} " in log and f"takes itself out of service: {why}" in log, log
    assert "is in service again" in log, log


def test_a_worker_with_a_full_disk_leaves_service_until_there_is_room():
    with hawktest.small_disk("size=2m") as full:
        if not full:
            return
        with Cluster(workers=3) as c:
            w = c.start_worker("full", flags=("--output-dir", f"{full}/out"), slots=4)
            c.wait_nodes(4)
            fill(f"{full}/filler")
            jobs = keep_failing(c, "full")
            n, why = node(c, "full"), "bytes are free on the disk of"
            assert why in n["out_why"], n
            assert f"full is out of service: {n['out_why']}" in c.hawk("nodes").stdout
            for _ in range(4):
                assert all(t["attempt"] == 1 for t in c.job(run(c))["task_list"]), "tasks went where they cannot start"
            os.unlink(f"{full}/filler")
            expect_back(c, w, "full", n["out_why"])
            print(f"out of service after {jobs} jobs of 12 tasks")
            wait_for("tasks to run there again", lambda: any(
                t["worker_name"] == "full" for t in c.job(run(c))["task_list"]))


def test_one_missing_directory_takes_no_worker_out_and_three_do():
    if not can_hide():
        return
    with Blind(workers=3, slots=2) as c:
        dirs = [f"{c.dir}/jobs/dir{i}" for i in range(4)]
        for d in dirs:
            os.makedirs(d)
        for _ in range(6):
            c.hawk("wait", c.submit("--class", "short", "--cwd", dirs[0], "--array", "1-12", "--", "sleep", "0.02"))
            assert node(c, "w1")["state"] == "up", node(c, "w1")
        w1 = next(w for w in c.workers if "w1" in w.text())
        last = None
        for d in dirs * 15:
            c.hawk("wait", c.submit("--class", "short", "--cwd", d, "--array", "1-12", "--", "sleep", "0.02"))
            last = node(c, "w1")
            if last["state"] == "out-of-service":
                break
        assert last["state"] == "out-of-service", last
        assert "cannot enter the directory" in last["out_why"], last
        inside = ["nsenter", "-t", str(w1.p.pid), "-m", "mkdir", "-p", *dirs]
        subprocess.run(inside, check=True)
        expect_back(c, w1, "w1", last["out_why"])


def test_a_quarter_at_most_leaves_service():
    with hawktest.small_disk("size=2m") as full:
        if not full:
            return
        with Cluster(workers=2) as c:
            workers = [c.start_worker(name, flags=("--output-dir", f"{full}/{name}"), slots=2) for name in ("f1", "f2")]
            c.wait_nodes(4)
            fill(f"{full}/filler")

            def refused():
                run(c)
                states = [node(c, n)["state"] for n in ("f1", "f2")]
                assert states.count("out-of-service") <= 1, states
                return "stays in service, since as many as may are out of it" in c.central.text()

            wait_for("one of them to be refused", refused)
            assert sum("out of service" in w.text() for w in workers) == 1


def test_output_that_a_full_disk_cut_short_is_told():
    """Programs that do not look whether they could write end well: their output says otherwise."""
    fill = "[ $HAWK_TASK_INDEX = 1 ] && exit; head -c 30000000 /dev/zero 2>/dev/null | tr '\\0' x 2>/dev/null; true"
    with hawktest.small_disk("size=2m") as small:
        if not small:
            return
        with Cluster(workers=0) as c:
            c.start_worker("small", flags=("--output-dir", f"{small}/out"))
            c.wait_nodes(1)
            whole = c.hawk("submit", "--wait", "--", "echo", "whole").stdout.strip()
            job = c.hawk("submit", "--wait", "--array", "1-2", "--", "sh", "-c", fill).stdout.strip()
            assert c.hawk("cat", whole).stdout == "whole\n"
            for args in ((job,), (job, "2"), (job, "2", "--follow")):
                r = c.hawk("cat", *args, check=1)
                assert 0 < len(r.stdout) < 30000000, len(r.stdout)
                assert r.stderr == ("hawk: cat: task 2: its output may be cut short: the disk it was written to was full "
                                    "when the task ended\n"), r.stderr
            assert c.hawk("cat", job, "1").stderr == ""
            document = c.json("cat", job, check=1)
            assert [o["truncated"] for o in document["outputs"]] == [False, True]
            assert "may be cut short" in document["errors"][0]["message"], document["errors"]
            # It stays so when there is room again, and a new worker process knows it.
            open(f"{small}/out/{job}/1.out", "r+b").truncate(100000)
            c.workers[0].stop()
            c.start_worker("small", flags=("--output-dir", f"{small}/out"))
            hawktest.wait_for("its worker", lambda: "may be cut short" in c.hawk("cat", job, check=None).stderr)


run_tests(sys.modules[__name__])
