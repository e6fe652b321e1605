"""The soak's cluster: real daemons, each in a network namespace of its own, that are killed, stopped and started again."""
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from net import Network, die_with_parent

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", name) for name in ("lib", "e2e")]
from processes import until_one_ends
from runastest import ACCOUNTS, install_helper, machine_program, write_accounts

START_S, STOP_S = 60, 30
CENTRAL_PORT, DIST_PORT, WORKER_PORT, RELAY_PORT = 7070, 7071, 7072, 9000
# Short enough that a cut of some seconds outlasts them, and in the order that the defaults have.
LEASE_S, GRACE_S, ORPHAN_S, KILL_GRACE_S = 8, 4, 4, 1
CENTRAL_FLAGS = ("--heartbeat", "250ms", "--suspect", "1500ms", "--long-lease", f"{LEASE_S}s", "--cutoff", "2s",
                 "--short-partition", "20%", "--history-jobs", "300")
WORKER_FLAGS = ("--slots", "2", "--orphan", f"{ORPHAN_S}s", "--agent-grace", f"{GRACE_S}s", "--kill-grace", f"{KILL_GRACE_S}s")
# Few, so that memory has found its level long before the run is over.
DIST_FLAGS = ("--finished-kept", "200")


# The third sees and cancels everybody's jobs, and takes nodes out of service.
USERS = {"ann": "read,submit", "bob": "read,submit", "cat": "read,submit,operate"}
OPERATOR = "cat"
CLONE_NEWNS = 0x20000


class ClusterError(Exception):
    pass


class Node:
    """A daemon that may be started several times; its log is one file."""

    def __init__(self, cluster, name, role, flags):
        self.cluster, self.name, self.role, self.flags = cluster, name, role, flags
        self.log_path = os.path.join(cluster.directory, f"{name}.log")
        self.out_path = os.path.join(cluster.directory, f"{name}.out")
        self.process, self.started_at, self.leaving = None, 0.0, None  # leaving: the signal that asked it to

    def start(self):
        argv = [*self.cluster.net.spaces[self.name].enter, self.cluster.hawk, self.role, *self.flags]
        self.note("started")
        with open(self.log_path, "ab") as log, open(self.out_path, "wb") as out:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True,
                                            preexec_fn=die_with_parent, env=self.cluster.daemon_environment())
        self.started_at, self.leaving = time.monotonic(), None

    def note(self, text):
        with open(self.log_path, "a", encoding="utf-8") as f:
            f.write(f"--- soak {self.cluster.clock():.3f}: {text}\n")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def ready(self):
        with open(self.out_path, encoding="utf-8", errors="replace") as f:
            return f.readline().startswith("ready ")

    def kill(self):
        self.note("killed")
        self.process.kill()
        self.process.wait()
        self.process = None

    def leave(self, number):
        """Asks it to go; whoever starts it again sees whether it has."""
        self.leaving = number
        self.signal(number)
        self.signal(signal.SIGCONT)

    def has_left(self):
        """As it was asked to. Before it is ready the signal may find a process that has no handler for it yet."""
        code = self.process.poll()
        return self.leaving is not None and (code == 0 or (code == -self.leaving and not self.ready()))

    def signal(self, number):
        if self.alive():
            self.note(signal.Signals(number).name)
            self.process.send_signal(number)

    def log(self, lines=20):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    def rss_kib(self):
        try:
            with open(f"/proc/{self.process.pid}/status", encoding="ascii", errors="replace") as f:
                return next((int(line.split()[1]) for line in f if line.startswith("VmRSS:")), None)
        except (OSError, AttributeError):
            return None


class Relay:
    """The relay of relay.py, in a namespace of its own."""

    def __init__(self, cluster, routes):
        space = cluster.net.spaces["relay"]
        words = [f"{name}:{port}:{cluster.net.addresses[name]}:{target}" for name, port, target in routes]
        self.names = [name for name, _, _ in routes]
        self.process = subprocess.Popen([*space.enter, "/usr/bin/python3", os.path.join(HERE, "relay.py"),
                                         cluster.net.addresses["relay"], *words], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, start_new_session=True, preexec_fn=die_with_parent)
        if self.process.stdout.readline() != "ready\n":
            raise ClusterError("the relay did not start")

    def tell(self, *words):
        """Returns how many connections it concerned."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if answer[:1] != ["ok"]:
            raise ClusterError(f"the relay has ended: {' '.join(map(str, words))}")
        return int(answer[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Cluster:
    """Of every two dists and workers, and of every two that dial central, one is reached or dials through the relay."""

    def __init__(self, hawk, dists, workers, log_level):
        self.hawk, self.log_level = hawk, log_level
        self.directory = tempfile.mkdtemp(prefix="hawk-soak.")
        self.roots = os.path.join(self.directory, "ca")
        self.began = time.monotonic()
        self.dists = [f"d{i}" for i in range(1, dists + 1)]
        self.workers = [f"w{i}" for i in range(1, workers + 1)]
        self.as_users = self.workers[:workers // 2]  # these run each task as its user
        self.nodes, self.net, self.relay = {}, None, None

    def clock(self):
        return time.monotonic() - self.began

    def start(self):
        self.net = Network()
        for name in ("client", "relay", "central", *self.dists, *self.workers):
            self.net.add(name)
        self._make_certificates()
        self._make_machine()
        relayed = ["central", *self.dists[1::2], *self.workers[1::2]]
        ports = {"central": CENTRAL_PORT, **{d: DIST_PORT for d in self.dists}, **{w: WORKER_PORT for w in self.workers}}
        routes = [(name, RELAY_PORT + i, ports[name]) for i, name in enumerate(relayed)]
        self.relay = Relay(self, routes)
        through = {name: f"{self.net.addresses['relay']}:{port}" for name, port, _ in routes}
        direct = {name: f"{self.net.addresses[name]}:{port}" for name, port in ports.items()}
        self.reached_at = {**direct, **{d: through[d] for d in relayed if d in self.dists}}
        for i, name in enumerate(["central", *self.dists, *self.workers]):
            self._add(name, direct[name], through.get(name), through["central"] if i % 3 == 0 else direct["central"])
        for node in self.nodes.values():
            node.start()
        self._await_complete()

    def _make_certificates(self):
        """The roots, a certificate for every node, and a credential for every user, which is where he logged in."""
        self._ca("ca", "init", self.roots)
        for role, names in (("central", ["central"]), ("dist", self.dists), ("worker", self.workers)):
            for name in names:
                self._ca("ca", "issue", self.roots, "--role", role, "--name", name, "--out", self.roots, "--for", "30d")
        for name, scopes in USERS.items():
            file = os.path.join(self.directory, f"{name}.credential")
            self._ca("user", "add", name, "--ca", self.roots, "--uid", ACCOUNTS[name], "--scopes", scopes, "--out", file)
            self._ca("login", file, HAWK_LOGIN=os.path.join(self.directory, f"login-{name}"))

    def _make_machine(self):
        """From here on this process and all that it starts have the users' accounts; hawk-run-as verifies what they signed."""
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
            raise ClusterError(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
        os.chmod(self.directory, 0o755)  # users' tasks run here
        homes = os.path.join(self.directory, "homes")
        os.mkdir(homes, 0o755)
        subprocess.run(["sh", "-ec", f"mount --make-rprivate /; {write_accounts(homes)}"], check=True)
        self.helper = install_helper(self.directory, machine_program(self.directory), f"user_root {self.roots}/users/root.crt")

    def _ca(self, *words, **environment):
        subprocess.run([self.hawk, *map(str, words)], stdout=subprocess.DEVNULL, check=True, env={**self._clean(), **environment})

    def _tls(self, name):
        return ["--tls-certificate", f"{self.roots}/{name}.crt", "--tls-key", f"{self.roots}/{name}.key", "--tls-roots",
                f"{self.roots}/roots.crt"]

    def _add(self, name, listen, advertise, central):
        flags = ["--listen", listen, *self._tls(name), "--log-level", self.log_level]
        if name == "central":
            self.nodes[name] = Node(self, name, "central", [*flags, "--state-dir", f"{self.directory}/central", *CENTRAL_FLAGS])
            return
        flags += ["--name", name, "--central", central, "--require-signatures", *(["--advertise", advertise] if advertise else [])]
        if name in self.dists:
            self.nodes[name] = Node(self, name, "dist", [*flags, "--state-dir", f"{self.directory}/{name}", *DIST_FLAGS])
        else:
            self.nodes[name] = Node(self, name, "worker", [*flags, "--state-dir", f"{self.directory}/{name}",
                                                                "--output-dir", f"{self.directory}/out-{name}", *WORKER_FLAGS, *self._run_as(name)])

    def uid_of(self, user, worker):
        """As whom a task of his runs there."""
        return ACCOUNTS[user] if worker in self.as_users else os.geteuid()

    def _run_as(self, name):
        return ("--run-as", "user", "--run-as-helper", self.helper) if name in self.as_users else ("--run-as", "any")

    def _await_complete(self):
        deadline = time.monotonic() + START_S
        waiting = list(self.dists)
        while waiting:
            self.check_alive()
            if time.monotonic() > deadline:
                raise ClusterError(f"not every worker is known at {waiting[0]} after {START_S} s; logs in {self.directory}")
            if self.workers_up(waiting[0]) == len(self.workers):
                waiting.pop(0)

    def workers_up(self, dist):
        got = self.client("nodes", "--output", "json", "--timeout", "5s", dist=self.reached_at[dist])
        nodes = json.loads(got.stdout)["nodes"] if got.returncode == 0 else []
        return sum(n["role"] == "worker" and n["state"] == "up" for n in nodes)

    def check_alive(self):
        """Nobody ends but by our hand."""
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is not None and not node.has_left():
                raise ClusterError(f"{node.name} ended by itself ({node.process.returncode}); its log says:\n{node.log()}")

    # --- clients ------------------------------------------------------------------------------------

    @staticmethod
    def _clean():
        return {k: v for k, v in os.environ.items() if not k.startswith("HAWK_") and k in ("PATH", "HOME", "LANG", "TERM")}

    def daemon_environment(self):
        return {**self._clean(), "HAWK_CHECK": "1"}

    def client_environment(self, dist=None, user=OPERATOR, **more):
        return {**self._clean(), "HAWK_LOGIN": os.path.join(self.directory, f"login-{user}"), "HAWK_DIST": dist or ",".join(self.reached_at[d] for d in self.dists),
                **more}

    def client_argv(self, *words):
        return [*self.net.spaces["client"].enter, self.hawk, *map(str, words)]

    def client(self, *words, dist=None):
        return subprocess.run(self.client_argv(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False, env=self.client_environment(dist))

    # --- the end ------------------------------------------------------------------------------------

    def task_processes(self):
        """(node, pid, what) of everything in the workers' namespaces that a job's environment marks."""
        found = []
        for name in self.workers:
            for pid in self.net.spaces[name].processes():
                try:
                    with open(f"/proc/{pid}/environ", "rb") as f:
                        if b"SOAK_KEY=" in f.read():
                            with open(f"/proc/{pid}/cmdline", "rb") as c:
                                found.append((name, pid, c.read().replace(b"\0", b" ").decode(errors="replace").strip()))
                except OSError:
                    continue
        return found

    def stop(self):
        """In good order; returns what did not go well."""
        wrong = []
        for names in (self.workers, self.dists, ["central"]):
            for name in names:
                self.nodes[name].signal(signal.SIGTERM)
            deadline = time.monotonic() + STOP_S
            for name in names:
                try:
                    code = self.nodes[name].process.wait(max(0.1, deadline - time.monotonic()))
                    if code != 0:
                        wrong.append(f"{name} ended with {code} on SIGTERM; its log says:\n{self.nodes[name].log()}")
                except subprocess.TimeoutExpired:
                    wrong.append(f"{name} does not stop within {STOP_S} s of SIGTERM; its log says:\n{self.nodes[name].log()}")
        return wrong

    def left_over(self, bound_s):
        """What still lives in the daemons' namespaces after a moment."""
        deadline = time.monotonic() + bound_s
        while True:
            left = [(name, pid) for name in self.nodes for pid in self.net.spaces[name].processes()]
            if not left or time.monotonic() > deadline:
                return left
            until_one_ends([pid for _, pid in left], deadline - time.monotonic())

    def close(self):
        """Whatever state it is in: no process and no namespace stays."""
        for node in self.nodes.values():
            if node.alive():
                node.process.kill()
                node.process.wait()
        if self.net:
            self.net.close()
        if self.relay:
            self.relay.close()
