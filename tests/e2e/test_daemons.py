"""The daemons themselves: what they refuse to start with, and that losing central, an address or the room on
a disk costs nobody a task."""
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

from hawktest import BOUND, HAWK, Cluster, Daemon, bind_free_address, run_tests, wait_for

# A node is suspect soon and gone late, unless a test wants it otherwise.
FAST = ("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease", "10s")


def tasks(c, job):
    return c.job(job)["task_list"]


def workers_up(c, dist=None):
    return sum(n["role"] == "worker" and n["state"] == "up" for n in c.json("nodes", dist=dist)["nodes"])


class Relay:
    """Stands between a node and central; takes no new connection while it is not `open`, nor the next `cuts` ones."""

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target, self.open, self.cuts = (host, int(port)), True, 0
        self.s = socket.create_server(("127.0.0.1", 0))
        self.addr = f"127.0.0.1:{self.s.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            a, _ = self.s.accept()
            try:
                if not self.open or self.cuts > 0:
                    self.cuts -= 1
                    raise OSError("closed")
                b = socket.create_connection(self.target)
            except OSError:
                a.close()
                continue
            for x, y in ((a, b), (b, a)):
                threading.Thread(target=self._pump, args=(x, y), daemon=True).start()

    @staticmethod
    def _pump(x, y):
        try:
            while data := x.recv(65536):
                y.sendall(data)
        except OSError:
            pass
        for s in (x, y):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_what_a_daemon_cannot_start_with():
    with tempfile.TemporaryDirectory() as d:
        open(f"{d}/file", "w").close()
        worker = ["worker", "--central", "127.0.0.1:1", "--output-dir", f"{d}/out", "--state-dir", f"{d}/w"]
        dist = ["dist", "--listen", "127.0.0.1:0", "--central", "127.0.0.1:1", "--state-dir", f"{d}/d"]
        central = ["central", "--listen", "127.0.0.1:0", "--state-dir", f"{d}/c"]
        for args, words in (
                (worker + ["--name", ""], ("worker.name", "visible ASCII")),
                (worker + ["--name", "a/b"], ("worker.name", "a/b")),
                (worker + ["--name", ".."], ("worker.name", "..")),
                (worker + ["--state-dir", f"{d}/file"], ("worker.state_dir", f"{d}/file")),
                (worker + ["--state-dir", "w"], ("worker.state_dir", "w", "absolute")),
                (worker + ["--name", "x" * 256], ("worker.name", "255")),
                (worker + ["--central", "here"], ("worker.central", "here", "HOST:PORT")),
                (worker + ["--advertise", "here"], ("worker.advertise", "here")),
                (worker + ["--listen", "0.0.0.0:0", "--insecure"], ("0.0.0.0", "worker.advertise")),
                (worker + ["--output-dir", f"{d}/file"], ("worker.output_dir", f"{d}/file")),
                (worker + ["--output-dir", "out"], ("worker.output_dir", "out", "absolute")),
                (worker + ["--queue-limit", "4000000000"], ("queue_limit",)),
                (dist + ["--name", "a b"], ("dist.name", "a b")),
                (dist + ["--central", "::1"], ("dist.central", "::1")),
                (dist + ["--listen", "[::]:0", "--insecure"], ("[::]", "dist.advertise")),
                (dist + ["--state-dir", f"{d}/file/x"], (f"{d}/file",)),
                (central + ["--short-partition-min", "90%"], ("short_partition_min",)),
                (central + ["--state-dir", f"{d}/file"], (f"{d}/file",))):
            p = Daemon(*args)
            assert p.wait() in (1, 2), (args, p.text())
            assert all(w in p.text() for w in words), (args, p.text())


def test_pointed_at_a_dist_it_says_so_once():
    with Cluster(dists=1, workers=0) as c:
        w = Daemon("worker", "--name", "lost", "--central", c.dist_addrs[0], "--output-dir", f"{c.dir}/lost",
                   "--state-dir", f"{c.dir}/state")
        wait_for("the worker to notice", lambda: "give central's address" in w.text())
        c.start_worker("w1")
        c.hawk("submit", "--wait", "--", "true")  # time for it to try again
        assert w.text().count("central's address") == 1, w.text()
        w.stop()


def test_stopped_before_it_is_ready():
    with tempfile.TemporaryDirectory() as d:
        for args in (["worker", "--output-dir", f"{d}/out", "--state-dir", f"{d}/w"],
                     ["dist", "--listen", "127.0.0.1:0", "--state-dir", d]):
            p = Daemon(*args, "--name", "n1", "--central", "127.0.0.1:1")
            wait_for("a word about central", lambda: "central at 127.0.0.1:1 cannot be reached: Connection refused; trying again" in p.text())
            assert p.stop() == 0, p.text()


def test_a_dist_lists_itself_and_reuses_no_job_number():
    with Cluster(workers=1, central=FAST) as c:
        before = c.submit("--", "true")
        mine = [n for n in c.json("nodes")["nodes"] if n["role"] == "dist"]
        assert [n["name"] for n in mine] == ["d1"] and mine[0]["address"] == c.dist_addrs[0], mine
        c.dists[0].kill()
        c.dists, c.dist_addrs = [], []
        c.start_dist("d1")
        after = c.submit("--", "true")
        # Not the next one: how many the killed process gave out is not known to this one.
        (node, number), (node_after, number_after) = before.split("."), after.split(".")
        assert node_after == node and int(number_after) >= int(number) + 100000, (before, after)


def test_short_tasks_run_on_while_central_does_not_know_their_worker():
    with Cluster(workers=0, central=FAST) as c:
        real, relay = c.central_addr, Relay(c.central_addr)
        c.central_addr = relay.addr
        c.start_worker("w1")
        c.central_addr = real
        c.wait_nodes(1)
        script = f"echo >> {c.dir}/ran; until test -e {c.dir}/go; do sleep 0.1; done"
        job = c.submit("--class", "short", "--", "sh", "-c", script)
        wait_for("the task running", lambda: tasks(c, job)[0]["state"] == "running")
        relay.open = False
        c.central.kill()
        c.start_central(real)
        wait_for("the dist told of no worker", lambda: workers_up(c) == 0)
        c.start_worker("w2")
        wait_for("the dist told of w2", lambda: workers_up(c) == 1)
        assert tasks(c, job)[0]["state"] == "running" and tasks(c, job)[0]["attempt"] == 1, tasks(c, job)
        relay.open = True
        wait_for("w1 back", lambda: workers_up(c) == 2)
        open(f"{c.dir}/go", "w").close()
        c.hawk("wait", job)
        assert open(f"{c.dir}/ran").read() == "\n", "the task ran twice"


def test_an_address_that_another_worker_has_by_now():
    with Cluster(workers=0, central=FAST) as c:
        held, addr = bind_free_address()
        held.close()
        c.start_worker("old", flags=("--listen", addr)).kill()
        c.workers.clear()
        new = c.start_worker("new", flags=("--listen", addr, "--log-level", "debug"))
        wait_for("the old one suspect", lambda: any(n["name"] == "old" and n["state"] == "suspect"
                                                    for n in c.json("nodes")["nodes"]))
        job = c.submit("--class", "short", "--", "sh", "-c", f"until test -e {c.dir}/go; do sleep 0.1; done")
        wait_for("the task running", lambda: tasks(c, job)[0]["state"] == "running")
        # The dist still calls the old one, at what is the new one's address, and is told so.
        wait_for("the old one called", lambda: "wants another node" in new.text())
        assert tasks(c, job)[0]["state"] == "running" and tasks(c, job)[0]["attempt"] == 1, tasks(c, job)
        assert workers_up(c) == 1
        open(f"{c.dir}/go", "w").close()
        c.hawk("wait", job)


def test_nodes_while_central_is_away():
    """What a dist does not know it does not say: no numbers, and that the list is an old one."""
    with Cluster(dists=1, workers=2, slots=1, central=FAST) as c:
        c.submit("--class", "short", "--array", "1-4", "--", "sh", "-c", f"while ! test -e {c.dir}/go; do sleep 0.1; done")
        wait_for("running", lambda: sum(n["running_short"] for n in c.json("nodes")["nodes"]) == 2)
        assert "central does not answer" not in c.hawk("nodes").stderr
        c.central.kill()
        wait_for("central is missed", lambda: any(n["state"] == "suspect" for n in c.json("nodes")["nodes"] if n["role"] == "central"))
        for n in c.json("nodes")["nodes"]:
            if n["role"] != "central":
                assert [n[k] for k in ("queued", "running_short", "running_long", "paused", "jobs_unfinished")] == [None] * 5, n
        r = c.hawk("nodes")
        assert "central does not answer: these are the nodes that it listed last" in r.stderr, r
        assert len(re.findall(r"^ *\d+ +w\d +worker +up +general +1 +- +- +- +- +- ", r.stdout, re.M)) == 2, r
        open(f"{c.dir}/go", "w").close()


def test_a_central_that_has_lost_its_state():
    with Cluster(dists=2, workers=3, central=FAST) as c:
        for _ in range(2):
            c.central.kill()
            shutil.rmtree(f"{c.dir}/central")
            c.start_central(c.central_addr)
            for addr in c.dist_addrs:
                wait_for("all workers back", lambda a=addr: workers_up(c, a) == 3)
                c.hawk("submit", "--wait", "--class", "short", "--array", "1-20", "--", "true", dist=addr)
                c.hawk("submit", "--wait", "--class", "long", "--array", "1-3", "--", "true", dist=addr)


def test_a_journal_that_cannot_be_written():
    with Cluster(workers=1, central=FAST, piped=True) as c:
        dist = c.dists[0]
        c.hawk("submit", "--", "true")
        resource.prlimit(dist.p.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))  # as a full disk
        for _ in range(3):
            r = c.hawk("submit", "--", "true", check=3)
            assert "journal" in r.stderr and "disk" in r.stderr, r.stderr
        c.hawk("submit", "--wait", "--", "true")
        assert dist.text().count("the journal cannot be written") == 1, dist.text()
        resource.prlimit(dist.p.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_for("the journal back", lambda: c.hawk("submit", "--", "true", check=None).returncode == 0)


def test_another_dist_takes_what_a_journal_cannot():
    with Cluster(dists=2, workers=1, central=FAST, piped=True) as c:
        resource.prlimit(c.dists[0].p.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        job = c.hawk("submit", "--array", "1-3", "--", "true").stdout.strip()
        assert c.hawk("wait", job, dist=c.dist_addrs[1]).returncode == 0
        assert "the journal cannot be written" in c.dists[0].text(), c.dists[0].text()
        resource.prlimit(c.dists[0].p.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_for("the journal back", lambda: int(c.hawk("submit", "--", "true").stdout.split(".")[0]) < int(job.split(".")[0]))


def test_central_stops_although_its_journal_cannot_be_written():
    with Cluster(workers=1, central=FAST, piped=True) as c:
        resource.prlimit(c.central.p.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        client = subprocess.Popen([HAWK, "submit", "--wait", "--class", "long", "--", "true"],
                                  env={**os.environ, "HAWK_DIST": c.dist_addrs[0]}, stdout=subprocess.DEVNULL)
        wait_for("central's word", lambda: "the journal cannot be written" in c.central.text())
        assert c.central.stop() == 1 and "look at the disk" in c.central.text(), c.central.text()
        c.start_central(c.central_addr)
        assert client.wait(BOUND) == 0  # the dist had not been told that central has it, and sends it again


def test_a_dist_nobody_could_reach_is_refused():
    with tempfile.TemporaryDirectory() as d:
        r = subprocess.run([HAWK, "dist", "--central", "192.0.2.1:7070", "--name", "far", "--listen", "127.0.0.1:0", "--insecure",
                            "--state-dir", f"{d}/s"], capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 1 and "dist.listen" in r.stderr and "192.0.2.1" in r.stderr, r


def test_who_asks_asks_again_when_the_connection_is_cut():
    """As a daemon in a crowd cuts it."""
    with Cluster() as c:
        relay = Relay(c.dist_addrs[0])
        for cuts in (1, 2):
            relay.cuts = cuts
            assert c.hawk("submit", "--wait", "--", "true", dist=relay.addr).returncode == 0
            assert relay.cuts == 0
        relay.cuts = 1000
        assert "cannot reach" in c.hawk("jobs", dist=relay.addr, check=3).stderr


run_tests(sys.modules[__name__])
