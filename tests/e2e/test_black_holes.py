"""A worker that cannot start tasks, for a reason of its own, swallows nothing; and what nobody can start ends."""
import contextlib
import os
import subprocess
import sys

import hawktest
from hawktest import Cluster, run_tests


class Blind(Cluster):
    """The first worker sees an empty directory where the others have the jobs': its mounts are its own."""

    def start_worker(self, name, **more):
        if name != "w1":
            return super().start_worker(name, **more)
        os.makedirs(f"{self.dir}/work/job")
        wrapper = f"{self.dir}/blind"
        with open(wrapper, "w") as f:
            f.write("#!/bin/sh\nexec unshare -m sh -c "
                    f"'mount -t tmpfs tmpfs {self.dir}/work && exec {hawktest.HAWK} \"$@\"' sh \"$@\"\n")
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
        work = f"{c.dir}/work/job"
        for flags in (("--class", "short"), ("--class", "short", "--at-most-once"), ("--class", "long"),
                      ("--class", "long", "--at-most-once")):
            tasks = 100 if "short" in flags else 20
            job = c.submit("--retries", "0", *flags, "--cwd", work, "--array", f"1-{tasks}", "--", "sleep", "0.02")
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


def test_what_nobody_can_start_fails():
    with Cluster(workers=4) as c:
        for cls in "short", "long":
            job = c.submit("--class", cls, "--cwd", "/no/such/directory", "--array", "1-20", "--", "true")
            c.hawk("wait", job, check=1)
            j = c.job(job)
            assert j["failed"] == 20, j
            assert all(t["outcome"] == "not-started" and t["code"] == 126 for t in j["task_list"]), j
            assert any("cannot enter the directory /no/such/directory" in t["message"] for t in j["task_list"]), j


run_tests(sys.modules[__name__])
