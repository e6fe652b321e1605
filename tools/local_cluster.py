"""A real Hawk cluster on this machine's loopback, for tools: separate processes, ephemeral ports, one directory.

    with LocalCluster(hawk, dists=2, workers=8) as cluster:
        subprocess.run([hawk, "nodes"], env=cluster.environment())

Leaving the block ends every process it started, and only those, and removes the directory.
"""
import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time

START_S = 60  # for all daemons together to be ready
STOP_S = 15   # for them to stop in good order
PR_SET_PDEATHSIG = 1


class ClusterError(Exception):
    pass


def _die_with_parent():
    """Even a tool that is killed leaves no daemon behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class _Daemon:
    def __init__(self, argv, log_path):
        self.argv, self.log_path = argv, log_path
        self.address = None
        self._seen = b""
        with open(log_path, "wb") as log:
            # In a session of its own: Ctrl-C reaches the tool alone, which then stops the daemons in order.
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            start_new_session=True, preexec_fn=_die_with_parent)

    def read_ready(self):
        """Takes what is there of the line "ready NAME ADDRESS"; true once it is complete."""
        chunk = os.read(self.process.stdout.fileno(), 4096)
        self._seen += chunk
        line, end, _ = self._seen.partition(b"\n")
        words = line.decode(errors="replace").split()
        if (end and words[:1] != ["ready"]) or (not end and not chunk):
            raise ClusterError(f"{' '.join(self.argv[:2])} did not start; its log says:\n{self.log()}")
        if end:
            self.address = words[2]
        return bool(end)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-20:])


class LocalCluster:
    def __init__(self, hawk, dists, workers, slots=1, central_flags=()):
        self.hawk, self.dists_n, self.workers_n, self.slots = hawk, dists, workers, slots
        self.central_flags = list(central_flags)
        self.directory = None
        self.central, self.dists, self.workers = None, [], []

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="hawk-cluster.")
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # A second Ctrl-C must not leave half of them running.
        before = {n: signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._stop(self.workers + self.dists)
            self._stop([self.central] if self.central else [])
            shutil.rmtree(self.directory, ignore_errors=True)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def environment(self):
        """What a client of this cluster needs, and nothing that would lead it to another one."""
        kept = {k: v for k, v in os.environ.items() if k not in ("HAWK_TOKEN", "HAWK_TOKEN_FILE")}
        return dict(kept, HAWK_DIST=",".join(d.address for d in self.dists))

    def logs(self):
        """The last words of every daemon that said anything."""
        everyone = ([self.central] if self.central else []) + self.dists + self.workers
        return "\n".join(f"--- {' '.join(d.argv[:4])}\n{d.log()}" for d in everyone if d.log())

    def restart_central(self, after_s):
        """Kills it (SIGKILL), and starts it again after so long, at the same address and from its journal."""
        self.central.process.kill()
        self.central.process.wait()
        self.central.process.stdout.close()
        time.sleep(after_s)
        self.central = self._start_central(self.central.address)
        self._await_ready([self.central], time.monotonic() + START_S)

    # --- inside -------------------------------------------------------------------------------------

    def _daemon(self, role, name, *flags):
        argv = [self.hawk, role, *flags]
        return _Daemon(argv, os.path.join(self.directory, f"{name}.log"))

    def _start_central(self, address):
        return self._daemon("central", "central", "--listen", address, "--state-dir", f"{self.directory}/central",
                            *self.central_flags)

    def _start(self):
        deadline = time.monotonic() + START_S
        self.central = self._start_central("127.0.0.1:0")
        self._await_ready([self.central], deadline)
        joining = ("--central", self.central.address)
        for i in range(1, self.workers_n + 1):
            self.workers.append(self._daemon("worker", f"w{i}", "--name", f"w{i}", "--listen", "127.0.0.1:0",
                                             *joining, "--slots", str(self.slots),
                                             "--state-dir", f"{self.directory}/workers",
                                             "--output-dir", f"{self.directory}/out-w{i}"))
        for i in range(1, self.dists_n + 1):
            self.dists.append(self._daemon("dist", f"d{i}", "--name", f"d{i}", "--listen", "127.0.0.1:0",
                                           *joining, "--state-dir", f"{self.directory}/d{i}"))
        self._await_ready(self.workers + self.dists, deadline)
        for d in self.dists:
            self._await_members(d, deadline)

    @staticmethod
    def _await_ready(daemons, deadline):
        with selectors.DefaultSelector() as selector:
            for d in daemons:
                selector.register(d.process.stdout, selectors.EVENT_READ, d)
            while selector.get_map():
                ready = selector.select(max(0, deadline - time.monotonic()))
                if not ready:
                    late = next(iter(selector.get_map().values())).data
                    raise ClusterError(f"{' '.join(late.argv[:2])} is not ready after {START_S} s; its log says:\n"
                                       f"{late.log()}")
                for key, _ in ready:
                    if key.data.read_ready():
                        selector.unregister(key.fileobj)

    def _await_members(self, dist, deadline):
        """Until this dist sees all workers: only then can it probe every one of them."""
        while True:
            got = subprocess.run([self.hawk, "nodes", "--output", "json"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, check=False,
                                 env=dict(self.environment(), HAWK_DIST=dist.address))
            nodes = json.loads(got.stdout)["nodes"] if got.returncode == 0 else []
            if sum(n["role"] == "worker" and n["state"] == "up" for n in nodes) == self.workers_n:
                return
            if time.monotonic() > deadline:
                raise ClusterError(f"the cluster is not complete after {START_S} s:\n{self.logs()}")
            time.sleep(0.05)

    @staticmethod
    def _stop(daemons):
        """SIGTERM, and SIGKILL for those who take too long; only what was started here."""
        for d in daemons:
            d.process.terminate()
        deadline = time.monotonic() + STOP_S
        for d in daemons:
            try:
                d.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                d.process.kill()
                d.process.wait()
            d.process.stdout.close()
