"""A cluster that is upgraded node by node: under load, and with two versions of the protocol in it."""
# timeout: 300
# make test-all
import os
import subprocess
import sys
import threading

from loadtest import Load, lines
from hawktest import BOUND, HAWK, Cluster, Daemon, run_tests, wait_for

FAST = ("--heartbeat", "100ms", "--suspect", "3s", "--long-lease", "15s", "--short-partition", "0%")
VERSION = 3        # of the protocol
OLDER = (1, 2)     # that are spoken as well


def speaks(version):
    return {"HAWK_PROTOCOL_VERSION": str(version)}


def node(c, name):
    return next((n for n in c.json("nodes", dist=c.central_addr)["nodes"] if n["name"] == name), None)


def test_every_worker_and_dist_restarts_under_load():
    with Cluster(dists=2, workers=3, slots=2, central=FAST) as c:
        load = Load(c, ["--wait"], ["--wait", "--at-most-once"], [])
        try:
            # In pieces that end while the others are restarted; none has a try to lose.
            long_job = c.json("submit", "--class", "long", "--lost-retries", "0", "--array", "1-24", "--", "sh", "-c",
                                f"sleep 0.5; echo long.{{}} >> {c.dir}/ran", dist=c.dist_addrs[1])["job"]
            detached = [c.submit("--class", "short", "--array", "1-10", "--", "sh", "-c",
                                 f"echo detached{i}.{{}} >> {c.dir}/ran") for i in range(3)]
            for name in ("w1", "w2", "w3"):
                c.hawk("drain", "--wait", "--until-restart", name)
                w = next(w for w in c.workers if name in w.args)
                assert w.stop() == 0, w.text()
                c.workers.remove(w)
                c.start_worker(name)
                wait_for(f"{name} to be up", lambda: node(c, name)["state"] == "up" and node(c, name)["general"])
            c.hawk("wait", long_job)
            assert {t["attempt"] for t in c.job(long_job)["task_list"]} >= {1}
            for i, name in enumerate(("d1", "d2")):
                c.hawk("drain", "--wait", "--until-restart", name)
                d = next(d for d in c.dists if name in d.args)
                assert d.stop() == 0, d.text()
                c.dists.remove(d)
                d = Daemon("dist", "--name", name, "--listen", c.dist_addrs[i], "--central", c.central_addr,
                           "--state-dir", f"{c.dir}/{name}")
                c.dists.append(d)
                d.ready()
                wait_for(f"{name} to be up", lambda: node(c, name)["state"] == "up")
                c.wait_nodes(3)
        finally:
            load.stop()
        assert not load.failed, load.failed
        assert load.jobs > 3
        tasks = 4 * load.jobs + 24 + 10 * len(detached)
        # Nobody has waited for the detached ones.
        wait_for("every task to have run", lambda: len(lines(f"{c.dir}/ran")) >= tasks)
        ran = lines(f"{c.dir}/ran")
        assert len(ran) == len(set(ran)), "a task ran twice"
        assert len(ran) == tasks, (len(ran), load.jobs)


def test_dists_that_stop_under_their_clients():
    """Not drained: what they answer while they stop tells a client to go to another one, or that its job is in the
    journal."""
    with Cluster(dists=2, workers=2, slots=2, central=FAST, worker=("--orphan", "1s")) as c:
        load = Load(c, ["--wait"], ["--wait"], [], [])
        unanswered = []

        def ask():
            while not load.stopped.is_set():
                for command in ("jobs", "nodes", "stats"):
                    r = c.hawk(command, check=None)
                    unanswered.extend([r.stderr] if r.returncode else [])

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for i in [0, 1] * 4:
                before = load.jobs
                assert c.dists[i].stop() == 0, c.dists[i].text()
                c.dists[i] = Daemon("dist", "--name", f"d{i + 1}", "--listen", c.dist_addrs[i], "--central",
                                    c.central_addr, "--state-dir", f"{c.dir}/d{i + 1}")
                c.dists[i].ready()
                c.wait_nodes(2)
                wait_for("a few jobs more", lambda: load.failed or load.jobs >= before + 8)
        finally:
            load.stop()
            asking.join()
        assert not load.failed and not unanswered, (load.failed, unanswered)
        wait_for("every task to have run", lambda: len(set(lines(f"{c.dir}/ran"))) >= 4 * load.jobs)
        wait_for("all to be over", lambda: all(
            j["state"] in ("done", "cancelled") for j in c.json("jobs", "--all")["jobs"]))
        # Attended ones may have been accepted by a dist that could not say so any more, whose tasks are then cancelled.
        detached = {tuple(line.split()) for line in open(f"{c.dir}/jobs") if line[0] in "23"}
        assert len(detached) == len({submission for submission, _ in detached}), "a detached job was accepted twice"


def use(c, workers=2):
    """A bit of everything that nodes say to each other: probes, launches, placements, steals, cancellations."""
    slow = c.submit("--class", "long", "--array", f"1-{workers}", "--", "sh", "-c",
                    f"until test -e {c.dir}/go; do sleep 0.1; done")
    wait_for("the long tasks to be placed", lambda: all(
        t["state"] in ("running", "placed") for t in c.job(slow)["task_list"]))
    short = [c.submit("--class", "short", "--array", "1-6", "--", "true") for _ in range(3)]
    cancelled = c.submit("--class", "short", "--array", "1-6", "--", "sleep", "600")
    c.hawk("cancel", cancelled)
    open(f"{c.dir}/go", "w").close()
    c.hawk("wait", slow, *short)
    c.hawk("wait", cancelled, check=1)
    os.unlink(f"{c.dir}/go")
    bad = c.submit("--class", "long", "--", "/no/such/program")
    c.hawk("wait", bad, check=1)
    assert c.job(bad)["task_list"][0]["code"] == 127


def start(c, role, name, env):
    if role == "dist":
        d = Daemon("dist", "--name", name, "--listen", "127.0.0.1:0", "--central", c.central_addr, "--state-dir",
                   f"{c.dir}/{name}", env=env)
        c.dists.append(d)
        c.dist_addrs.append(d.ready())
    else:
        d = Daemon("worker", "--name", name, "--central", c.central_addr, "--slots", "1", "--output-dir",
                   f"{c.dir}/out-{name}", "--state-dir", f"{c.dir}/{name}", env=env)
        c.workers.append(d)
        d.ready()
    return d


def old_nodes_and_a_new_central(version):
    with Cluster(dists=1, workers=1, central=FAST) as c:
        old_dist = start(c, "dist", "old-d", speaks(version))
        old = start(c, "worker", "old-w", speaks(version))
        c.wait_nodes(2)
        assert {n["name"]: n["protocol"] for n in c.json("nodes", dist=c.central_addr)["nodes"]
                if n["role"] != "central"} == {"d1": VERSION, "w1": VERSION, "old-d": version, "old-w": version}
        first = c.dist_addrs[:1]
        for addr in list(c.dist_addrs):
            c.dist_addrs[:] = [addr]
            use(c)
        c.dist_addrs[:] = first
        # A worker is kept free of work without its help; a dist of version 1 would have to know.
        c.hawk("drain", "--wait", "old-w")
        job = c.submit("--class", "short", "--array", "1-4", "--", "true")
        c.hawk("wait", job)
        assert {t["worker_name"] for t in c.job(job)["task_list"]} == {"w1"}
        if version == 1:
            assert "older" in c.hawk("drain", "old-d", check=3).stderr
            assert "older" in c.hawk("down", "old-w", "--grace", "1s", check=1).stderr
        else:
            c.hawk("drain", "--wait", "old-d")
            c.hawk("undrain", "old-d")
        # Upgraded, it speaks the new version.
        c.hawk("undrain", "old-w")
        assert old.stop() == 0
        c.workers.remove(old)
        start(c, "worker", "old-w", {})
        assert node(c, "old-w")["protocol"] == VERSION
        use(c)
        assert old_dist.p.poll() is None


def test_old_nodes_and_a_new_central():
    for version in OLDER:
        old_nodes_and_a_new_central(version)


def new_nodes_and_an_old_central(version):
    with Cluster(dists=1, workers=2, central=FAST) as c:
        c.central.kill()
        c.central = Daemon("central", "--listen", c.central_addr, "--state-dir", f"{c.dir}/central", *FAST,
                           env=speaks(version))
        c.central.ready()
        wait_for("both workers to be back", lambda: sum(
            n["role"] == "worker" and n["state"] == "up" and n["general"] is True
            for n in c.json("nodes", dist=c.central_addr)["nodes"]) == 2)
        c.wait_nodes(2)
        assert node(c, "w1")["protocol"] == version
        use(c)
        # A worker that stops says nothing an old central does not know, and its tasks go elsewhere all the same.
        job = c.submit("--class", "long", "--array", "1-4", "--", "sh", "-c",
                       f"test $HAWK_ATTEMPT = 1 -a $HAWK_TASK_INDEX = 1 && sleep 0.2; true")
        assert c.workers.pop(0).stop() == 0
        c.hawk("wait", job)
        # Upgraded, central finds everybody again.
        c.central.kill()
        c.start_central(c.central_addr)
        wait_for("w2 to be back", lambda: (node(c, "w2") or {}).get("protocol") == VERSION)
        wait_for("w2 to be general", lambda: node(c, "w2")["general"])
        use(c, workers=1)


def test_new_nodes_and_an_old_central():
    for version in OLDER:
        new_nodes_and_an_old_central(version)


def test_versions_that_do_not_exist():
    r = subprocess.run([HAWK, "central"], env={**os.environ, "HAWK_PROTOCOL_VERSION": "9"}, capture_output=True,
                       text=True, timeout=BOUND)
    assert r.returncode == 2 and "HAWK_PROTOCOL_VERSION" in r.stderr, r.stderr


run_tests(sys.modules[__name__])
