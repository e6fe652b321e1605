"""A long job whose client and dist die together: it is seen, explained and cancelled all the same, and ends by itself."""
import os
import subprocess
import sys

from hawktest import HAWK, Cluster, run_tests, wait_for


def orphan(c):
    """Client and dist are killed while all slots run a job that would last for an hour. Returns the job's id."""
    client = subprocess.Popen([HAWK, "submit", "--wait", "--class", "long", "--array", "1-4", "--", "sleep", "3600"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
    job = wait_for("the job", lambda: [j for j in c.json("jobs")["jobs"] if j["running"] == 4])[0]["job"]
    c.dists[0].kill()
    client.kill()
    client.wait()
    return job


def restart_dist(c):
    dist = c.dists[0]
    c.dists[0] = type(dist)(*dist.args[1:])
    c.dist_addrs[0] = c.dists[0].ready()


def running_long(c):
    return sum(n["running_long"] for n in c.json("nodes")["nodes"])


def test_it_ends_by_itself():
    with Cluster(dists=1, workers=2, slots=2, central=("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease",
                                                       "3s")) as c:
        job = orphan(c)
        restart_dist(c)
        # The dist does not know it; central does.
        seen = [j for j in c.json("jobs", "--all")["jobs"] if j["job"] == job]
        assert len(seen) == 1 and seen[0]["class"] == "long", seen
        assert c.job(job)["tasks"] == 4
        wait_for("the slots", lambda: running_long(c) == 0)
        wait_for("the end", lambda: c.job(job)["state"] == "cancelled")
        assert "nobody waits for it any more" in c.hawk("explain", job).stdout
        assert any("nobody waits for it any more" in line for line in c.central.log if line), c.central.text()
        c.hawk("submit", "--wait", "--class", "long", "--", "true")


def test_an_operator_cancels_it():
    with Cluster(dists=1, workers=2, slots=2, central=("--heartbeat", "100ms", "--suspect", "500ms")) as c:
        job = orphan(c)
        # While the dist is away as well: whoever asks central is answered.
        at = c.central_addr
        assert [j["job"] for j in c.json("jobs", "--all", dist=at)["jobs"]] == [job]
        restart_dist(c)
        explained = c.hawk("explain", job).stdout
        assert "central cancels it in" in explained and "first start after -" not in explained, explained
        assert f"job {job} cannot be waited for: no dist has it any more, only central" in c.hawk("wait", job, check=3).stderr
        assert "ask one of those" in c.hawk("submit", "--", "true", dist=at, check=3).stderr
        assert c.job(job)["state"] == "running"
        assert [t["state"] for t in c.job(job)["task_list"]] == ["running"] * 4
        c.hawk("cancel", job)
        wait_for("the slots", lambda: running_long(c) == 0)
        assert c.job(job)["state"] == "cancelled"
        assert c.json("cancel", job)["jobs"][0]["already_ended"]


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
