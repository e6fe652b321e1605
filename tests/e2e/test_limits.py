"""Limits of memory and processes (--mem, --pids) from the command line."""
import subprocess
import sys
import tempfile

from hawktest import BOUND, GREEDY, HAWK, Cluster, can_limit, run_tests


def test_who_uses_too_much_is_out_of_memory():
    if not can_limit():
        return
    with Cluster(workers=1, slots=2) as c:
        neighbour = c.submit("--mem", "64M", "--", "sleep", "1000")
        job = c.submit("--mem", "50M", "--array", "1-2", "--", "python3", "-c", GREEDY)
        c.hawk("wait", job, check=1)
        tasks = c.job(job)["task_list"]
        assert [t["outcome"] for t in tasks] == ["out-of-memory"] * 2 and tasks[0]["code"] == 9, tasks
        assert "used more memory than its limit (--mem)" in c.hawk("job", job).stdout
        c.hawk("submit", "--wait", "--mem", "500M", "--", "python3", "-c", GREEDY)
        assert c.job(neighbour)["running"] == 1
        r = c.hawk("exec", "--mem", "50M", "--", "python3", "-c", GREEDY, check=137)
        assert "used more memory" in r.stderr, r
        again = c.hawk("submit", "--mem", "50M", "--retries", "1", "--", "python3", "-c", GREEDY).stdout.strip()
        c.hawk("wait", again, check=1)
        assert c.job(again)["task_list"][0]["attempt"] == 2, c.job(again)


def test_a_script_asks_for_limits():
    if not can_limit():
        return
    with Cluster(workers=1) as c:
        path = f"{c.dir}/script.sh"
        with open(path, "w") as f:
            f.write("#!/bin/sh\n#HAWK --pids 5\nfor i in 1 2 3 4 5 6 7 8; do sleep 0.5 & done; wait\n")
        job = c.submit(path)
        c.hawk("wait", job, check=1)
        assert c.job(job)["task_list"][0]["outcome"] == "exited", c.job(job)


def test_a_worker_that_cannot_limit_says_so():
    r = subprocess.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && "$@"', "sh", HAWK, "run", "--mem",
                        "50M", "--", "true"], capture_output=True, text=True)
    if "unshare" in r.stderr or "mount" in r.stderr:
        print("skipped: no mount namespaces here")
        return
    assert r.returncode == 1 and "no cgroup is delegated to it" in r.stderr, r


def test_what_cannot_be_limited_is_refused():
    for size in ("500M", "500m", "2g", "1.5T", "1t", "2TiB", "1M", "1048576"):
        subprocess.run([HAWK, "run", "--dry-run", "--mem", size, "--", "true"], check=True, timeout=BOUND, stdout=subprocess.DEVNULL)
    for flags, said in ((("--mem", "0"), "a size above 0"), (("--mem", "2q"), "like 500M, 2G or 1T"), (("--mem", "lots"), "a size above 0"),
                        (("--mem", "4000"), "--mem 4000 is 4000 bytes, and no program starts in less than 1M: write 4000M\n"),
                        (("--mem", "512K"), "--mem 512K is 524288 bytes, and no program starts in less than 1M: write at least 1M\n"),
                        (("--pids", "0"), "a whole number"), (("--mem", "1G", "--timer"), "--mem is for commands")):
        r = subprocess.run([HAWK, "run", *flags, "--", "5ms"], capture_output=True, text=True)
        assert r.returncode == 2 and said in r.stderr, (flags, r)
    for command, code in (("submit", 2), ("exec", 125)):
        r = subprocess.run([HAWK, command, "--mem", "1048575", "--", "true"], capture_output=True, text=True)
        assert r.returncode == code and "no program starts in less than 1M" in r.stderr, r
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/job.sh", "w") as f:
            f.write("#!/bin/sh\n#HAWK --mem 2000\n")
        r = subprocess.run([HAWK, "submit", f"{d}/job.sh"], capture_output=True, text=True)
        assert r.returncode == 2 and "job.sh, line 2: --mem 2000 is 2000 bytes" in r.stderr, r


run_tests(sys.modules[__name__])
