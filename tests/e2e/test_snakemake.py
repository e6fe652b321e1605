"""Debian's snakemake runs its rules as jobs, with the status script that is shipped. seconds: 30"""
import os
import signal
import subprocess
import sys

from hawktest import BOUND, HAWK, Cluster, run_tests, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROFILE = f"{ROOT}/packaging/snakemake"
SNAKEMAKE = "/usr/bin/snakemake"

FILE = """
rule all:
    input: expand("out/{i}", i=range(3))
rule make:
    output: "out/{i}"
    shell: "echo $HAWK_JOB_ID > {output}"
rule fails:
    output: "never"
    shell: "touch {output}; exit 3"
rule hangs:
    output: "endless"
    shell: "sleep 600"
rule stays:
    output: "forever"
    shell: "sleep 600"
"""


def environment(c):
    return {**os.environ, "HAWK_DIST": ",".join(c.dist_addrs), "HAWK": HAWK, "HOME": c.dir,
            "PATH": f"{os.path.dirname(HAWK)}:/usr/bin:/bin"}


def start(c, name, *args):
    d = f"{c.dir}/{name}"
    os.mkdir(d)
    with open(f"{d}/Snakefile", "w", encoding="utf-8") as f:
        f.write(FILE)
    return subprocess.Popen([SNAKEMAKE, "--nocolor", *args], cwd=d, env=environment(c), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def end(p, code):
    text, _ = p.communicate(timeout=2 * BOUND)
    assert p.returncode == code, (p.returncode, text)
    return text


def status(c, job):
    return subprocess.run([f"{PROFILE}/status", job], capture_output=True, text=True, timeout=BOUND,
                          env=environment(c)).stdout.strip()


def job_of(c, rule):
    """Its id, once it runs: the profile calls a job after its rule."""
    return wait_for(rule, lambda: [j["job"] for j in c.json("jobs", "--name", rule)["jobs"] if j["state"] == "running"])[0]


def test_rules_are_jobs():
    if not os.path.exists(SNAKEMAKE):
        print("skipped: no snakemake here (Debian's package snakemake)")
        return
    with Cluster(workers=2, slots=2) as c:
        # All at once, since snakemake looks for what has become of a job every ten seconds.
        flags = start(c, "flags", "--cluster", "hawk submit", "--cluster-status", f"{PROFILE}/status", "-j", "9")
        plain, fails, hangs, stays = (start(c, name, "--profile", PROFILE, target) for name, target in (
            ("plain", "all"), ("fails", "never"), ("hangs", "endless"), ("stays", "forever")))
        job = job_of(c, "hangs")
        assert status(c, job) == "running"
        c.hawk("cancel", job)
        # When snakemake itself is interrupted, it cancels its jobs.
        left = job_of(c, "stays")
        stays.send_signal(signal.SIGINT)
        end(stays, 1)
        wait_for("its job's end", lambda: c.job(left)["state"] == "cancelled")
        assert "Error executing rule hangs on cluster" in end(hangs, 1)
        assert status(c, job) == "failed"
        assert "Error executing rule fails on cluster" in end(fails, 1)
        failed = c.json("jobs", "--name", "fails")["jobs"][0]
        assert (failed["state"], status(c, failed["job"])) == ("failed", "failed")
        assert not os.path.exists(f"{c.dir}/fails/never")
        for p, name in ((flags, "flags"), (plain, "plain")):
            end(p, 0)
            jobs = set()
            for i in range(3):
                with open(f"{c.dir}/{name}/out/{i}", encoding="utf-8") as f:
                    jobs.add(f.read().strip())
            assert len(jobs) == 3 and all(c.job(j)["state"] == "done" and status(c, j) == "success" for j in jobs), jobs


def test_what_is_not_known():
    with Cluster(workers=1, dists=2) as c:
        job = c.submit("--", "true")
        c.hawk("wait", job)
        assert status(c, job) == "success"
        assert status(c, job.split(".")[0] + ".999") == "failed"  # forgotten
        owner = c.dist_addrs.index(next(n["address"] for n in c.json("nodes")["nodes"] if n["node"] == int(job.split(".")[0])))
        c.dists[owner].stop()
        said = c.hawk("job", job, check=3).stderr
        assert "would have it, and `hawk nodes` says whether that is up" in said and status(c, job) == "running", said  # it comes back with the job
        c.dists[1 - owner].kill()
        assert status(c, job) == "running"  # nobody knows


run_tests(sys.modules[__name__])
