"""A cluster with tokens goes over to TLS and signatures node by node, while jobs run: docs/operating.md, From tokens to TLS."""
# timeout: 300
# seconds: 60
# make test-all
import os
import signal
import subprocess
import sys
import tempfile

from loadtest import Load, lines
from tlstest import Roots

from hawktest import BOUND, HAWK, Cluster, Daemon, run_tests, wait_for

FAST = ("--heartbeat", "100ms", "--suspect", "3s", "--long-lease", "15s", "--short-partition", "0%")


class Migration(Cluster):
    """Clients and nodes have tokens; later there are roots, and a user's credential."""

    patient = ("--agent-grace", "60s")  # joining takes a moment, in which the tasks run alone

    def __init__(self):
        self.home = tempfile.TemporaryDirectory(prefix="hawk-tokens-")
        paths = [self.write(name, text) for name, text in (("clients", "the-clients-token-of-this-test\n"),
                                                           ("nodes", "the-nodes-token-of-this-test\n"))]
        self.tokens = ("--token-file", paths[0], "--node-token-file", paths[1])
        self.client = {"HAWK_TOKEN_FILE": paths[0]}
        self.ca = Roots()
        super().__init__(dists=2, workers=2, slots=4, central=(*FAST, *self.tokens), worker=(*self.tokens, *self.patient),
                         dist=self.tokens)

    def write(self, name, text):
        path = f"{self.home.name}/{name}"
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as f:
            f.write(text)
        return path

    def hawk(self, *args, env=None, **more):
        return super().hawk(*args, env={**self.client, **(env or {})}, **more)

    def invitation(self, role, name):
        self.ca.run("invite", self.ca.dir, "--role", role, "--name", name, "--central", self.central_addr, "--out", self.home.name)
        return ("--join", f"{self.home.name}/{name}.invitation")

    def restart_central(self, *flags):
        listen = self.central_addr
        assert self.central.stop() == 0, self.central.text()
        self.central_flags = [*FAST, *flags]
        self.start_central(listen)

    def restart_dist(self, i, *flags):
        """As an operator upgrades it; its detached jobs wait in its journal."""
        assert self.dists[i].stop() == 0, self.dists[i].text()
        self.dists[i] = Daemon("dist", "--name", f"d{i + 1}", "--listen", self.dist_addrs[i], "--central", self.central_addr,
                               "--state-dir", f"{self.dir}/d{i + 1}", *flags)
        self.dists[i].ready()

    def restart_worker(self, name, *flags):
        """In place: its tasks run on."""
        w = next(w for w in self.workers if name in w.args)
        w.p.send_signal(signal.SIGUSR2)
        assert w.wait() == 0, w.text()
        self.workers.remove(w)
        self.worker_flags = ["--run-as", "any", *self.patient]
        self.start_worker(name, flags=flags)

    def up(self):
        """Every node is up, and every dist knows both workers."""
        wait_for("all nodes", lambda: sorted(n["name"] for n in self.json("nodes", dist=self.central_addr)["nodes"]
                                             if n["state"] == "up") == ["central", "d1", "d2", "w1", "w2"])
        self.wait_nodes(2)


def refusal(c, *args, env=None):
    """What somebody with the clients' token alone, or with nothing, hears."""
    r = subprocess.run([HAWK, *args], capture_output=True, text=True, timeout=2 * BOUND,
                       env={**os.environ, "HAWK_DIST": ",".join(c.dist_addrs), **(env or {})})
    assert r.returncode, r
    return r.stderr


def attempts(c, job):
    return [t["attempt"] for t in c.job(job)["task_list"]]


def all_ran(c, tasks, detached):
    """No task was lost, and no detached job, of the client of that number, was accepted twice. An attended one may have
    been, by a dist that could not say so any more as it stopped. Begins anew for the next load."""
    wait_for("every task to have run", lambda: len(set(lines(f"{c.dir}/ran"))) >= tasks)
    assert len(set(lines(f"{c.dir}/ran"))) == tasks
    with open(f"{c.dir}/jobs", encoding="ascii") as f:
        accepted = {tuple(line.split()) for line in f if line[0] == detached}
    assert len(accepted) == len({submission for submission, _ in accepted}), accepted
    for name in ("ran", "jobs"):
        os.rename(f"{c.dir}/{name}", f"{c.dir}/{name}.{detached}")


def test_a_cluster_with_tokens_goes_over_node_by_node():
    with Migration() as c:
        tokens = dict(c.client)
        load = Load(c, ["--wait"], ["--wait"], [])
        try:
            # Its tasks run through the restarts of their workers, and none has a try to lose.
            long_job = c.submit("--class", "long", "--lost-retries", "0", "--array", "1-4", "--", "sh", "-c",
                                f"while [ ! -e {c.dir}/enough ]; do sleep 0.1; done; echo long.{{}} >> {c.dir}/ran")
            wait_for("its tasks to run", lambda: c.job(long_job)["running"] == 4)
            tries = attempts(c, long_job)  # a worker may have handed one back, its slot being taken
            # 1. Both ways in: central first, which lets the others join.
            both = ("--tls-optional", *c.tokens)
            c.restart_central("--ca", c.ca.dir, *both)
            for i in range(2):
                c.restart_dist(i, *c.invitation("dist", f"d{i + 1}"), *both)
                c.up()
            for name in ("w1", "w2"):
                c.restart_worker(name, *c.invitation("worker", name), *both)
                c.up()
            before = load.jobs
            wait_for("jobs of clients with tokens", lambda: load.jobs > before + 3)
            # 2. Users get credentials; theirs run beside those of the token.
            c.ca.issue("user", "ann", "--scopes", "read,submit,operate,admin")
            ann = c.ca.environment("ann")
            assert c.hawk("submit", "--wait", "--", "true", env={**ann, "HAWK_TOKEN_FILE": ""}).returncode == 0
        finally:
            load.stop()
        assert not load.failed, load.failed
        tasks = 4 * load.jobs
        with open(f"{c.dir}/enough", "w", encoding="ascii"):
            pass
        assert c.hawk("wait", long_job).returncode == 0
        assert attempts(c, long_job) == tries
        all_ran(c, tasks + 4, detached="2")
        # 3. Dists take signed jobs alone: who has none yet hears what to do, wherever he comes in.
        c.restart_dist(0, "--require-signatures", *both)
        c.restart_dist(1, "--require-signatures", *both)
        why = refusal(c, "submit", "--", "true", env=tokens)
        assert "this cluster takes signed jobs alone: it is not signed" in why and "hawk login" in why, why
        # 4. TLS alone, and signatures everywhere, again node by node, while signed jobs run.
        c.client = ann
        load2 = Load(c, ["--wait"], [])
        try:
            for i in range(2):
                c.restart_dist(i, "--require-signatures")
                c.up()
            for name in ("w1", "w2"):
                c.restart_worker(name, "--require-signatures")
                c.up()
            c.restart_central("--ca", c.ca.dir)
            c.up()
            before = load2.jobs
            wait_for("signed jobs", lambda: load2.jobs > before + 3)
        finally:
            load2.stop()
        assert not load2.failed, load2.failed
        all_ran(c, 4 * load2.jobs, detached="1")
        # Who has the old token alone is out, and hears the remedy.
        why = refusal(c, "submit", "--", "true", env=tokens)
        assert "TLS" in why and "hawk login" in why, why


def test_optional_tls_needs_the_tokens():
    with tempfile.TemporaryDirectory() as d:
        r = subprocess.run([HAWK, "central", "--state-dir", d, "--listen", "127.0.0.1:0", "--tls-optional"], capture_output=True,
                           text=True, timeout=BOUND)
        assert r.returncode == 2 and "tls.optional" in r.stderr and "cluster.token_file" in r.stderr, r


run_tests(sys.modules[__name__])
