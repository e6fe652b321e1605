"""What the end-to-end tests share: real daemons on loopback with ephemeral ports, and bounded waits.

Every process a test starts is a child of it and is ended by its pid. Nothing here sleeps for a fixed time to
let something happen: wait_for polls for the thing itself, with a bound.
"""
import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HAWK = os.path.abspath(os.environ.get("HAWK", "build/hawk"))
SLOW = 5 if os.environ.get("SANITIZE") else 1
# Of a command that ends at once: to look for leaks takes as long as the rest of it. Daemons are looked at.
LEAKS_MAY_STAY = {"ASAN_OPTIONS": "detect_leaks=0"}
BOUND = 30 * SLOW
# An address of this machine where nothing but this test's daemons listens: they come back to a port that they had, which
# a connection of another test may have taken if it were one of 127.0.0.1.
LOOPBACK = f"127.{1 + os.getpid() % 250}.{1 + os.getpid() // 250 % 250}.1"


GREEDY = "x=bytearray(200 << 20); print(len(x))"  # a Python program that uses so much memory


def bind_free_address():
    """A socket bound to a free port, and that address, which stays free once the socket is closed."""
    s = socket.socket()
    s.bind((LOOPBACK, 0))
    return s, f"{LOOPBACK}:{s.getsockname()[1]}"


def can_limit():
    """Whether this process may make cgroups that limit tasks (--mem, --pids); says so if not."""
    can = subprocess.run([HAWK, "run", "--mem", "64M", "--pids", "20", "--", "true"], capture_output=True, check=False).returncode == 0
    if not can:
        print("skipped: nobody here may make cgroups with limits")
    return can


def dropped(uid):
    """The start of a command that is to run as that uid; none: as ours. Not subprocess's user=: its fork() hangs now and
    then where gRPC has threads, and nothing ends it."""
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []


def heed_signals():
    """For preexec_fn. A shell starts what it puts in the background with some of them ignored, and commands keep to that."""
    for s in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(s, signal.SIG_DFL)


def code_of_signal(signo):
    """How a command of ours ends that the signal ended: by SIGINT it dies."""
    return -signo if signo == signal.SIGINT else 128 + signo


def wait_for(what, probe, bound=BOUND):
    """Calls probe until it returns something true, and returns that."""
    end = time.monotonic() + bound
    pause = threading.Event()
    while True:
        got = probe()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"not within {bound} s: {what}")
        pause.wait(0.02)


def alive(pid):
    """Whether the process runs. It may end between opening /proc/PID/stat and reading it, which ESRCH then tells."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextlib.contextmanager
def small_disk(options):
    """A directory that is a file system of its own; None where none can be mounted."""
    with tempfile.TemporaryDirectory() as d:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", d], capture_output=True).returncode:
            print("skipped: no file system can be mounted here")
            yield None
            return
        try:
            yield d
        finally:
            subprocess.run(["umount", d], check=True)


def user_environment(home):
    """Of somebody whose `hawk up` is found in `home`, and who knows of no other cluster."""
    env = {**os.environ, "XDG_RUNTIME_DIR": home, "XDG_STATE_HOME": home, "HOME": home}
    env.pop("HAWK_DIST", None)
    return env


def run_hawk(env, *args, check=0, argv=None):
    """argv: another start of the command line than hawk itself."""
    r = subprocess.run([*(argv or [HAWK]), *args], capture_output=True, text=True, timeout=BOUND, env={**(env or os.environ), **LEAKS_MAY_STAY})
    assert r.returncode == check, (args, r.returncode, r.stdout, r.stderr)
    return r


class Daemon:
    """One hawk process. Its stderr is a file: what it wrote before it answered anybody is there."""

    def __init__(self, *args, env=None, argv=None, piped=False):
        """argv: another command line, of a program that becomes it. piped: stderr is a pipe, which RLIMIT_FSIZE spares."""
        self.args = argv or [HAWK, *map(str, args)]
        self.stderr = tempfile.TemporaryFile()
        self.pipe, stderr = os.pipe() if piped else (None, self.stderr.fileno())
        self.lines = queue.Queue()
        self.p = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=stderr, env={**os.environ, **(env or {})})
        if piped:
            os.close(stderr)
            os.set_blocking(self.pipe, False)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.p.stdout:
            self.lines.put(line.decode(errors="replace").rstrip())
        self.lines.put(None)

    def ready(self):
        """Waits for "ready NAME ADDRESS" and returns the address."""
        try:
            line = self.lines.get(timeout=BOUND)
        except queue.Empty:
            line = None
        if not line or not line.startswith("ready "):
            raise AssertionError(f"{' '.join(self.args)} is not ready: {line}\n" + self.text())
        return line.split()[2]

    def text(self):
        with contextlib.suppress(BlockingIOError):
            while self.pipe and (part := os.read(self.pipe, 1 << 16)):
                self.stderr.write(part)
        self.stderr.flush()
        # Not read(): the process writes where this descriptor stands.
        return os.pread(self.stderr.fileno(), os.fstat(self.stderr.fileno()).st_size, 0).decode(errors="replace")

    @property
    def log(self):
        return self.text().splitlines()

    def wait(self, bound=BOUND):
        return self.p.wait(timeout=bound)

    def kill(self):
        self.p.kill()
        self.p.wait()

    def stop(self):
        """SIGTERM, and SIGKILL when that does not end it; returns the exit code."""
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
            try:
                self.p.wait(timeout=BOUND)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"{' '.join(self.args)} did not stop on SIGTERM\n" + self.text())
        return self.p.returncode


class Cluster:
    """One central, some dists and workers; use it as a context manager."""

    def __init__(self, dists=1, workers=2, slots=1, central=(), worker=(), dist=(), piped=False):
        self.dir = tempfile.mkdtemp(prefix="hawk-e2e-")
        self.central_flags, self.worker_flags, self.dist_flags = list(central), list(worker), list(dist)
        self.slots, self.piped = slots, piped
        self.dists, self.workers, self.dist_addrs = [], [], []
        self.n = {"dists": dists, "workers": workers}
        self.central = self.central_addr = None

    def __enter__(self):
        try:
            self.start_central(f"{LOOPBACK}:0")
            for i in range(self.n["workers"]):
                self.start_worker(f"w{i + 1}")
            for i in range(self.n["dists"]):
                self.start_dist(f"d{i + 1}")
            self.wait_nodes(self.n["workers"])
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, trace):
        everyone = self.workers + self.dists + ([self.central] if self.central else [])
        if kind:
            for d in everyone:
                print(f"--- {' '.join(d.args[1:4])}\n{d.text()[-4000:]}", file=sys.stderr)
        bad = []
        for d in everyone:
            try:
                d.stop()
            except AssertionError as e:
                bad.append(str(e))
            if d.p.returncode not in (0, -9, -15):
                bad.append(f"{' '.join(d.args[1:4])} ended with {d.p.returncode}\n{d.text()}")
        wait_for("spawners of killed workers to end their tasks", lambda: not self.processes())
        shutil.rmtree(self.dir, ignore_errors=True)
        if bad and not kind:
            raise AssertionError("\n".join(bad))

    def processes(self):
        """Those whose command line names our directory: daemons, and spawners that outlive a killed worker."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    if self.dir.encode() in f.read() and int(pid) != os.getpid():
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def start_central(self, listen):
        self.central = Daemon("central", "--listen", listen, "--state-dir", f"{self.dir}/central",
                              *self.central_flags, piped=self.piped)
        self.central_addr = self.central.ready()

    def start_dist(self, name, wait=True, listen=f"{LOOPBACK}:0"):
        d = Daemon("dist", "--name", name, "--listen", listen, "--central", self.central_addr,
                   "--state-dir", f"{self.dir}/{name}", *self.dist_flags, piped=self.piped)
        self.dists.append(d)
        if wait:
            self.dist_addrs.append(d.ready())
        return d

    def start_worker(self, name, wait=True, slots=None, flags=()):
        w = Daemon("worker", "--name", name, "--central", self.central_addr, "--slots", slots or self.slots,
                   "--output-dir", f"{self.dir}/out-{name}", "--state-dir", f"{self.dir}/state",
                   "--agent-grace", "2s", *self.worker_flags, *flags)
        self.workers.append(w)
        if wait:
            w.ready()
        return w

    def wait_nodes(self, workers):
        """Until every dist knows so many live workers."""
        for addr in self.dist_addrs:
            wait_for(f"{workers} workers known at {addr}", lambda a=addr: workers == sum(
                1 for n in self.json("nodes", dist=a)["nodes"]
                if n["role"] == "worker" and n["state"] == "up"))

    def hawk(self, *args, dist=None, input=None, check=0, env=None, cwd=None):
        """Runs a user command against the cluster; check: the exit code expected, None for any."""
        r = subprocess.run([HAWK, *map(str, args)], input=input, capture_output=True, text=True,
                           timeout=BOUND * 2, cwd=cwd,
                           env={**os.environ, **LEAKS_MAY_STAY, "HAWK_DIST": dist or ",".join(self.dist_addrs),
                                **(env or {})})
        if check is not None and r.returncode != check:
            raise AssertionError(f"hawk {' '.join(map(str, args))}: exit {r.returncode}, not {check}\n"
                                 f"{r.stdout}{r.stderr}")
        return r

    def json(self, command, *args, dist=None, check=0):
        r = self.hawk(command, "--output", "json", *args, dist=dist, check=check)
        return json.loads(r.stdout)

    def job(self, job, **more):
        return self.json("job", "--tasks", "100000", job, **more)["jobs"][0]

    def submit(self, *args, check=0):
        """Submits and returns the job id."""
        return self.json("submit", *args, check=check)["job"]


def run_tests(module):
    """Runs every function test_*; prints how many there were, for the runner."""
    names = [n for n in vars(module) if n.startswith("test_")]
    wanted = sys.argv[1:]
    failed = 0
    for name in names:
        if wanted and name not in wanted:
            continue
        try:
            getattr(module, name)()
            print(f"ok {name}", flush=True)
        except Exception:
            import traceback
            traceback.print_exc()
            print(f"FAILED {name}", flush=True)
            failed += 1
    print(f"# tests {len(wanted) or len(names)}")
    sys.exit(1 if failed else 0)
