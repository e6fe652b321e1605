"""Several centrals that share an etcd: one is active, another takes over, and the old one is not obeyed.

Tasks write a line each when they start: a task that was started twice would show.
"""
# timeout: 300
# make test-all
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hawktest as t
from etcdtest import Cluster, Etcd
from hawktest import BOUND, HAWK, Daemon, run_tests, wait_for
from healthtest import NOT_SERVING, SERVING, health, health_watch

# The lease of long tasks is what a new central waits before it places what nobody reported: queued tasks wait for it.
# It must be longer than it takes a worker to find that a central sleeps (5 s).
FAST = ("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease", "8s")
WORKER = ("--agent-grace", "1s")


def cluster(central=(), **more):
    return Cluster(workers=2, slots=2, central=(*FAST, *central), worker=WORKER, **more)


def long_job(c, tasks, until):
    """Each task notes that it starts, and ends when the file `until` is there."""
    return c.submit("--class", "long", "--array", f"1-{tasks}", "--", "sh", "-c",
                    f"echo $HAWK_TASK_INDEX >> {c.dir}/started; while ! test -e {c.dir}/{until}; do sleep 0.1; done")


def started(c):
    try:
        with open(f"{c.dir}/started") as f:
            return Counter(f.read().split())
    except FileNotFoundError:
        return Counter()


def let_go(c, until):
    open(f"{c.dir}/{until}", "w").close()


def states(c, job):
    return Counter(t["state"] for t in c.job(job)["task_list"])


def all_once(c, tasks):
    assert started(c) == {str(i): 1 for i in range(1, tasks + 1)}, started(c)


def test_a_standby_takes_over():
    with cluster() as c:
        first = c.active()
        job = long_job(c, 8, "go")
        wait_for("four running", lambda: states(c, job)["running"] == 4)
        was = time.monotonic()
        first.kill()
        second = c.active(other_than=first)
        print(f"took over {time.monotonic() - was:.2f} s after kill -9")
        assert time.monotonic() - was < BOUND / 2
        wait_for("the four are known to run", lambda: states(c, job)["running"] == 4)
        let_go(c, "go")
        c.hawk("wait", job)
        all_once(c, 8)
        # The next one is pushed out in good order, which takes no lease.
        third = c.replace_central(first)
        assert second.stop() == 0, second.text()
        assert c.active(other_than=second) is third
        c.hawk("wait", c.submit("--class", "long", "--", "true"))


def test_who_stands_by_says_who_is_active():
    with cluster() as c:
        active = c.active()
        standby = next(x for x in c.centrals if x is not active)
        wait_for("it knows", lambda: "stands by: central at" in standby.text())
        for command in (("nodes",), ("stats",)):
            r = c.hawk(*command, dist=standby.addr, check=None)
            assert r.returncode != 0 and f"the active one is at {active.addr}" in r.stderr, r
        assert (health(active.addr), health(standby.addr)) == (SERVING, NOT_SERVING)
        watch = health_watch(standby.addr)
        assert next(watch) == NOT_SERVING
        # A policy is set where the active one is, whom ever one asks; the next one has it, too.
        c.hawk("policy", "set", "sparrow", "--cutoff", "77s")
        assert c.json("policy")["cutoff_us"] == 77000000
        active.kill()
        c.active(other_than=active)
        assert next(watch) == SERVING  # it serves now
        p = c.json("policy")
        assert (p["name"], p["cutoff_us"], p["origins"]["cutoff_us"]) == ("sparrow", 77000000, "set"), p


def test_standbys_are_listed():
    def centrals(c):
        return sorted((n["address"], n["state"]) for n in c.json("nodes")["nodes"] if n["role"] == "central")

    with cluster(centrals=3) as c:
        active = c.active()

        def listed():
            return sorted((x.addr, "up" if x is active else "standby") for x in c.centrals)
        wait_for("all three are listed", lambda: centrals(c) == listed())
        assert "standby" in c.hawk("nodes").stdout
        dead = next(x for x in c.centrals if x is not active)
        dead.kill()
        c.centrals.remove(dead)
        wait_for("the dead one goes with its lease", lambda: centrals(c) == listed())
        was = active
        was.kill()
        c.centrals.remove(was)
        active = c.active(other_than=was)
        wait_for("the new one is alone", lambda: centrals(c) == [(active.addr, "up")])
        c.add_central()
        wait_for("a new one stands by", lambda: centrals(c) == listed())
        standby = next(x for x in c.centrals if x is not active)
        assert standby.stop() == 0, standby.text()
        c.centrals.remove(standby)
        wait_for("it has signed off", lambda: centrals(c) == listed())


def test_what_is_said_while_workers_report():
    with cluster(central=("--suspect", "5s", "--long-lease", "20s")) as c:
        first = c.active()

        def partitions():
            return [n["general"] for n in c.json("nodes")["nodes"] if n["role"] == "worker"]

        def explained():
            return c.json("explain", job)["jobs"][0]["blocked"]
        wait_for("all are general", lambda: partitions() == [True, True])
        late = c.workers[0]
        late.p.send_signal(signal.SIGSTOP)
        first.kill()
        c.active(other_than=first)
        # The other one joins it. For 5 s central waits for the one that is stopped, and tells nobody where it belongs.
        job = c.submit("--class", "long", "--", "true")
        wait_for("it is said", lambda: "workers are still reporting" in explained())
        assert True not in partitions(), partitions()
        late.p.send_signal(signal.SIGCONT)
        said = set()

        def settled():
            said.add(explained())
            return partitions() == [True, True]
        wait_for("all are general again", settled)
        assert not any("no worker" in text for text in said), said
        c.hawk("wait", job)


def test_a_leader_that_slept_is_not_obeyed():
    with cluster() as c:
        first = c.active()
        job = long_job(c, 8, "go")
        wait_for("four running", lambda: states(c, job)["running"] == 4)
        first.p.send_signal(signal.SIGSTOP)
        second = c.active(other_than=first)
        first.p.send_signal(signal.SIGCONT)
        wait_for("it gives way", lambda: "is not active any more, after epoch 1" in first.text())
        wait_for("it stands by", lambda: f"central at {second.addr} is active, in epoch 2" in first.text())
        let_go(c, "go")
        c.hawk("wait", job)
        all_once(c, 8)
        # And it may be the next one.
        second.kill()
        assert c.active(other_than=second) is first
        assert "is active from now on, in epoch 3" in first.text()
        c.hawk("wait", c.submit("--class", "long", "--", "true"))


def test_etcd_goes_away_and_comes_back():
    with cluster(central=("--long-lease", "20s")) as c:
        active = c.active()
        job = long_job(c, 3, "go")
        wait_for("three running", lambda: states(c, job)["running"] == 3)
        c.etcd.kill()
        wait_for("nobody is active", lambda: c.active_addr() is None)
        wait_for("it says so", lambda: "is not active any more" in active.text())
        assert states(c, job)["running"] == 3
        c.hawk("submit", "--wait", "--class", "short", "--", "true")
        pending = c.submit("--class", "long", "--", "true")
        assert c.job(pending)["state"] == "pending"
        c.etcd.start()
        c.active()
        wait_for("the job is central's", lambda: c.job(pending)["state"] != "pending")
        wait_for("what ran goes on", lambda: states(c, job)["running"] == 3)
        let_go(c, "go")
        c.hawk("wait", job)
        c.hawk("wait", pending)
        all_once(c, 3)


def test_the_journal_is_the_same_for_all():
    with cluster(centrals=3) as c:
        named = c.submit("--name", "known", "--class", "short", "--", "true")
        c.hawk("wait", named)
        wait_for("history", lambda: c.json("stats")["history_jobs"] >= 1)
        nodes = {n["name"]: n["node"] for n in c.json("nodes")["nodes"]}
        for _ in range(2):
            active = c.active()
            job = c.submit("--class", "long", "--", "true")
            active.kill()
            c.centrals.remove(active)
            c.active()
            c.hawk("wait", job)
            assert c.json("stats")["history_jobs"] >= 1
            wait_for("everybody is back", lambda: nodes == {
                n["name"]: n["node"] for n in c.json("nodes")["nodes"] if n["state"] == "up"})


def test_an_older_epoch_is_refused():
    """A central from yesterday's copy of the journal: of the same cluster, but outlived by the one the nodes knew."""
    with t.Cluster(workers=1, central=FAST) as c:
        c.central.stop()
        shutil.copytree(f"{c.dir}/central", f"{c.dir}/copy")
        for _ in range(2):
            c.start_central(c.central_addr)
            c.hawk("wait", c.submit("--class", "long", "--", "true"))
            c.central.stop()
        shutil.rmtree(f"{c.dir}/central")
        os.rename(f"{c.dir}/copy", f"{c.dir}/central")
        c.start_central(c.central_addr)
        worker, dist = c.workers[0], c.dists[0]
        for node in worker, dist:
            wait_for("it is refused", lambda n=node: "it is of epoch 2, and there was one of epoch 3" in n.text())
        worker.stop()
        c.workers.remove(worker)
        c.start_worker("w1")  # which remembers none
        dist.stop()
        c.dists.clear(), c.dist_addrs.clear()
        c.start_dist("d1")
        c.hawk("wait", c.submit("--class", "long", "--", "true"))


def test_all_go_down_and_come_back():
    with cluster(centrals=3) as c:
        job = long_job(c, 2, "go")
        wait_for("both running", lambda: states(c, job)["running"] == 2)
        active = c.active()
        out = c.hawk("down", "--yes", "--grace", "0").stdout
        assert "standbys" in out, out
        for d in c.workers + c.dists + c.centrals:
            assert d.wait() == 0, d.text()
        for standby in c.centrals:
            assert standby is active or "the cluster was stopped" in standby.text(), standby.text()
            assert standby is active or "is active from now on" not in standby.text(), standby.text()
        # Started again before anything has run out, they are not told to stop by what the last one left.
        c.workers.clear(), c.dists.clear(), c.dist_addrs.clear()
        for old in list(c.centrals):
            c.replace_central(old)
        for name in ("w1", "w2"):
            c.start_worker(name)
        c.start_dist("d1")
        assert "in epoch 2" in c.active().text()
        let_go(c, "go")
        wait_for("what was accepted to end", lambda: c.json("stats")["long_jobs_unfinished"] == 0)
        assert all(x.p.poll() is None for x in c.centrals)


def test_bad_settings():
    for flags, says in (((), "leader_lease"), (("--etcd-prefix", "a b"), "etcd_prefix"), (("--etcd", "x"), "central.etcd")):
        r = subprocess.run([HAWK, "central", "--store", "etcd", "--leader-lease", "1500ms", *flags],
                           capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 2 and says in r.stderr, r


def certificates(dir):
    """A root of etcd's own, and what it has signed: etcd's certificate, and its clients'."""
    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=dir)

    def key(name):
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")
        os.chmod(f"{dir}/{name}.key", 0o600)

    for root in ("root", "other"):
        key(root)
        openssl("req", "-x509", "-new", "-key", f"{root}.key", "-subj", f"/CN={root}", "-days", "2", "-out", f"{root}.crt")
    with open(f"{dir}/names", "w", encoding="ascii") as f:
        f.write("subjectAltName=IP:127.0.0.1")
    for name, root in (("etcd", "root"), ("central", "root"), ("stranger", "other")):
        key(name)
        openssl("req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{root}.crt", "-CAkey", f"{root}.key", "-CAcreateserial", "-days", "2",
                "-extfile", "names", "-out", f"{name}.crt")


def test_etcd_with_tls():
    with tempfile.TemporaryDirectory() as d:
        certificates(d)

        def flags(name, roots="root"):
            return ("--etcd-certificate", f"{d}/{name}.crt", "--etcd-key", f"{d}/{name}.key", "--etcd-roots", f"{d}/{roots}.crt")

        class TlsCluster(Cluster):
            def start_central(self, listen):
                self.etcd = Etcd((f"{d}/etcd", f"{d}/root"))
                self.add_central(listen)
                self.central_addr = self.centrals[0].addr

        with TlsCluster(workers=1, central=flags("central")) as c:
            c.hawk("submit", "--wait", "--class", "long", "--", "true")
            # Neither without a certificate, nor with one of another root, nor at an etcd of another root.
            for more, why in (((), "etcd at"), (flags("stranger"), "etcd at"), (flags("central", "other"), "etcd at"),
                              (flags("nosuch"), "nosuch.crt: No such file")):
                other = Daemon("central", "--listen", "127.0.0.1:0", "--store", "etcd", "--etcd", c.etcd.addr, "--state-dir", f"{d}/s", *more)
                try:
                    wait_for("it to say so", lambda o=other, w=why: w in o.text())
                    assert "is active" not in other.text() and other.p.poll() is None, other.text()
                finally:
                    other.stop()
            # Another one takes over, with certificates as well.
            c.centrals[0].stop()
            c.replace_central(c.centrals[0])
            c.hawk("submit", "--wait", "--class", "long", "--", "true")
        for args, why in ((("--etcd", "192.0.2.1:2379"), "the connection would not be encrypted"),
                          (("--etcd-key", "/x"), "TLS to etcd needs")):
            p = Daemon("central", "--listen", "127.0.0.1:0", "--store", "etcd", "--state-dir", f"{d}/s", *args)
            assert p.wait() == 2 and why in p.text(), p.text()


run_tests(sys.modules[__name__])
