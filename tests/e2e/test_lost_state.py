"""Central loses its state: nodes keep their ids, and what they have goes on. A long task that its worker reports before
its dist has brought the job is ended, and runs again; one that may not (--at-most-once) is lost. Nothing that had ended
runs again."""
import os
import shutil
import sys

from hawktest import Cluster, Daemon, run_tests, wait_for

FAST = ("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease", "2s", "--ids-wait", "20s")


def ids(c):
    return {n["name"]: n["node"] for n in c.json("nodes")["nodes"] if n["role"] != "central" and n["state"] == "up"}


def test_an_empty_central_keeps_ids():
    with Cluster(dists=2, workers=2, slots=3) as c:  # room for all three tasks on any of the two
        before = ids(c)
        c.central_flags = list(FAST)
        # Not --wait: a client that waits takes its job to the other dist when a busy machine lets this one stand still.
        short = c.submit("--class", "short", "--array", "1-2", "--", "sh", "-c",
                         f"echo x >> {c.dir}/short; while ! test -e {c.dir}/go; do sleep 0.1; done")
        wait_for("the short tasks", lambda: os.path.exists(f"{c.dir}/short") and
                 len(open(f"{c.dir}/short").readlines()) == 2)
        long = c.submit("--class", "long", "--", "sh", "-c", f"while ! test -e {c.dir}/go; do sleep 0.1; done")
        wait_for("the long task", lambda: c.job(long)["running"] == 1)
        c.central.kill()
        shutil.rmtree(f"{c.dir}/central")
        c.start_central(c.central_addr)
        late = c.start_worker("w3", wait=False)
        wait_for("everybody", lambda: len(ids(c)) == 5)
        after = ids(c)
        assert {n: after[n] for n in before} == before, (before, after)
        assert after["w3"] > max(before.values()), after
        wait_for("the long task again", lambda: c.job(long)["running"] == 1)
        open(f"{c.dir}/go", "w").close()
        c.hawk("wait", short)
        assert len(open(f"{c.dir}/short").readlines()) == 2, "a short task started twice"
        c.hawk("wait", long)
        assert c.job(long)["state"] == "done"
        late.stop()


def test_an_empty_journal_runs_nothing_again():
    """What docs/operating.md tells an operator to do who has only an older copy."""
    def notes(name, then="true"):
        return ("sh", "-c", f"echo x >> {c.dir}/{name}; {then}")

    def started(name):
        return len(open(f"{c.dir}/{name}").readlines()) if os.path.exists(f"{c.dir}/{name}") else 0

    def forget(who):
        os.mkdir(f"{c.dir}/aside-{who}")
        for name in os.listdir(f"{c.dir}/{who}"):
            if name.startswith("journal.db"):
                shutil.move(f"{c.dir}/{who}/{name}", f"{c.dir}/aside-{who}/{name}")

    with Cluster(workers=1, slots=2) as c:
        c.central_flags = list(FAST)
        ended = [c.submit("--class", k, "--at-most-once", "--", *notes(k)) for k in ("short", "long")]
        c.hawk("wait", *ended)
        cancelled = c.submit("--class", "long", "--hold", "--", *notes("cancelled"))
        c.hawk("cancel", cancelled)
        runs = c.submit("--class", "long", "--at-most-once", "--array", "1-2", "--",
                        *notes("runs", f"until test -e {c.dir}/go; do sleep 0.1; done"))
        wait_for("it to run", lambda: started("runs") == 2)
        waits = c.submit("--class", "long", "--at-most-once", "--", *notes("waits"))
        c.central.stop()
        forget("central")
        c.start_central(c.central_addr)
        c.hawk("wait", runs, waits, check=1)
        assert [c.job(j)["lost"] for j in (runs, waits)] == [2, 1]
        c.hawk("wait", c.submit("--class", "long", "--", "true"))  # after all that was there before
        assert [started(name) for name in ("short", "long", "cancelled", "runs", "waits")] == [1, 1, 0, 2, 0]
        c.dists.pop().stop()
        c.dist_addrs.clear()
        forget("d1")
        c.start_dist("d1")
        new = c.submit("--class", "short", "--", "true")
        c.hawk("wait", new)
        assert int(new.split(".")[1]) > int(runs.split(".")[1]) and new.split(".")[0] == runs.split(".")[0], new
        assert "no job" in c.hawk("job", ended[0], check=3).stderr
        assert [started(name) for name in ("short", "long", "cancelled", "runs", "waits")] == [1, 1, 0, 2, 0]


def test_a_dist_of_another_cluster_is_refused():
    with Cluster(dists=1, workers=1) as c, Cluster(dists=1, workers=1) as other:
        d = c.dists.pop()
        d.stop()
        d = Daemon(*[other.central_addr if a == c.central_addr else a for a in d.args[1:]])
        assert d.wait() != 0, d.text()
        assert "another cluster" in d.text(), d.text()
        assert "address of its own central" in d.text(), d.text()


def test_two_centrals_without_etcd_are_two_clusters():
    with Cluster(dists=0, workers=0) as c, Cluster(dists=0, workers=0) as other:
        both = ("--central", f"{c.central_addr},{other.central_addr}")
        nodes = [Daemon("dist", "--name", "d1", *both, "--listen", "127.0.0.1:0", "--state-dir", f"{c.dir}/d1"),
                 Daemon("worker", "--name", "w1", *both, "--slots", "1", "--state-dir", f"{c.dir}/state", "--output-dir", f"{c.dir}/out")]
        for d in nodes:
            d.ready()
        c.central.kill()
        for d in nodes:
            assert d.wait() != 0 and "only with central.store: etcd" in d.text(), d.text()


def test_a_new_cluster_waits_for_nodes_with_ids_only_where_they_can_come_from():
    """A port that the kernel chose is one that nobody knows from before."""
    with Cluster(dists=1, workers=1) as c:
        addr = c.central_addr
        for d in c.workers + c.dists:
            d.stop()
        c.workers, c.dists, c.dist_addrs = [], [], []
        c.central.stop()
        shutil.rmtree(f"{c.dir}/central")
        c.central_flags = ["--ids-wait", "24h"]
        c.start_central("127.0.0.1:0")
        c.start_worker("new")
        c.workers.pop().stop()
        c.central.stop()
        shutil.rmtree(f"{c.dir}/central")
        c.central_flags = ["--ids-wait", "10ms"]
        c.start_central(addr)
        c.start_worker("newer")


run_tests(sys.modules[__name__])
