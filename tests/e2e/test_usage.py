"""What tasks used of CPU time and memory: `hawk job` and `hawk history` tell it."""
import os
import subprocess
import sys

from hawktest import HAWK, Cluster, run_tests, wait_for

os.environ["HAWK_CHECK"] = "1"

CPU_US, MEM = 500_000, 100 << 20
# Uses at least that, by its own account.
BURN = (f"import time; x = b'x' * {MEM}\n"
        f"while time.process_time() < {CPU_US / 1e6}: pass")
CAN_LIMIT = subprocess.run([HAWK, "run", "--mem", "64M", "--", "true"], capture_output=True).returncode == 0
LEAST = 0.99  # a figure is right to 1 in 2,000


def used(c, job):
    return [(t["cpu_us"], t["mem_peak_bytes"]) for t in c.job(job)["task_list"]]


def check(figures):
    cpu_us, mem = figures
    assert cpu_us >= CPU_US * LEAST and mem >= MEM * LEAST, figures


def of_job(c, job):
    """All tasks together, in whatever form."""
    j, tasks = c.job(job), used(c, job)
    assert (j["cpu_us"], j["mem_peak_bytes"]) == (sum(t[0] for t in tasks), max(t[1] for t in tasks)), j
    line = next((line for line in c.hawk("job", job).stdout.splitlines() if line.startswith("  used ")), "")
    assert "CPU" in line and "memory 1" in line and "MiB at most in one task" in line, line
    listed = next(k for k in c.json("jobs", "--all")["jobs"] if k["job"] == job)
    assert listed["cpu_us"] == j["cpu_us"] and listed["mem_peak_bytes"] == j["mem_peak_bytes"], listed


def burn(c, *flags):
    job = c.submit(*flags, "--", "python3", "-c", BURN)
    c.hawk("wait", job)
    return job


def test_a_job_says_what_its_tasks_used():
    with Cluster(workers=1, slots=2) as c:
        short = burn(c, "--class", "short", "--name", "burner", "--array", "1-2")
        for figures in used(c, short):
            check(figures)
        of_job(c, short)
        text = c.hawk("job", short, env={"COLUMNS": "80"}).stdout
        head = next(line for line in text.splitlines() if "TASK" in line)
        assert "CPU" in head and "MEM" in head, text
        assert all(len(line) <= 80 for line in text.splitlines() if line.lstrip()[:1].isdigit() or "TASK" in line), text
        killed = c.submit("--", "sh", "-c", "kill -9 $$")
        c.hawk("wait", killed, check=1)
        text = c.hawk("job", killed, env={"COLUMNS": "90"}).stdout
        assert "killed by signal 9 (Killed)" in text and " MEM " not in text, text  # rather than cut how it ended
        assert " MEM " in c.hawk("job", killed).stdout
        long = burn(c, "--class", "long", "--name", "burner")
        check(used(c, long)[0])
        of_job(c, long)
        timer = c.submit("--timer", "--", "5ms")
        c.hawk("wait", timer)
        assert used(c, timer) == [(None, None)], used(c, timer)
        groups = {(g["name"], g["class"]): g for g in c.json("history", "--usage")["names"]}
        two, one = groups["burner", "short"], groups["burner", "long"]
        assert two["cpu_us"] >= 2 * CPU_US * LEAST and two["mem_peak_bytes"] >= MEM * LEAST, groups
        check((one["cpu_us"], one["mem_peak_bytes"]))
        assert "PEAK-MEM" in c.hawk("history", "--usage").stdout
        assert "cpu_us" not in c.json("history")["names"][0]


def test_so_does_one_with_a_limit():
    if not CAN_LIMIT:
        print("skipped: nobody here may make cgroups with limits")
        return
    with Cluster(workers=1) as c:
        check(used(c, burn(c, "--mem", "500M"))[0])


def test_a_restarted_dist_still_knows():
    with Cluster(workers=1) as c:
        job = burn(c)
        before = used(c, job)
        check(before[0])
        c.dists.pop().stop()
        c.dist_addrs.clear()
        c.start_dist("d1")
        wait_for("the job in its dist's journal", lambda: used(c, job) == before)
        of_job(c, job)


run_tests(sys.modules[__name__])
