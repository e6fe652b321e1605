"""What tests of the Python package share: the package itself, calls to make, and clusters that it finds."""
import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from hawktest import BOUND, HAWK, Cluster, Daemon, alive, wait_for

PACKAGE = os.path.join(os.path.dirname(HAWK), "python")
sys.path.insert(0, PACKAGE)
os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # daemons that are killed are what these tests want


# ---- Calls ----

def square(x):
    return x * x


def keywords(a, *, b=1):
    return a, b


def who(seconds=0.0):
    """(worker, process) of a call that computes for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return os.environ["HAWK_WORKER"], os.getpid()


def parent():
    return os.getppid()


def fail(text):
    raise LookupError(text)


def fail_at_length(n):
    raise LookupError("x" * n)


class Odd(Exception):
    """Cannot be read back: it needs two arguments."""

    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


def fail_oddly():
    raise Odd("one", "two")


def wait_for_file(path, bound=60):
    return wait_for(f"{path} to be there", lambda: os.path.exists(path), bound)


def mark(path, text=""):
    with open(path, "a", encoding="utf-8") as f:
        f.write(text + "\n")


def mark_and_wait(started, go):
    mark(started, str(os.getpid()))
    wait_for_file(go)
    return os.environ["HAWK_WORKER"]


def double(data):
    return data + data


def length_of_all(data, more):
    return len(data) + more


def arguments_of_program():
    return sys.argv


def lambda_of():
    return lambda: 1


def die():
    os.kill(os.getpid(), signal.SIGKILL)


taken = []


def close_all(then):
    """Afterwards another file may have the connection's number."""
    os.closerange(3, 256)
    for _ in range(60):
        if then == "files":
            os.open("/dev/null", os.O_WRONLY)
        elif then == "sockets":
            taken.append(socket.socketpair())


def die_once(path):
    if not os.path.exists(path):
        mark(path)
        die()
    return os.getpid()


def nested(x):
    """A call that makes a call."""
    import hawk
    with hawk.Executor() as ex:
        return ex.submit(square, x).result()


def with_pool(items):
    """(process, absolutes): a pool of the call's own, whose end sends signals to its processes."""
    with multiprocessing.get_context("fork").Pool(3) as pool:
        return os.getpid(), pool.map(abs, items)


def ignore_signals():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return os.getpid()


def variable(name):
    return os.environ.get(name)


# ---- Clusters ----

where = ""  # the directory of the test's cluster


@contextlib.contextmanager
def environment(**variables):
    """Of this process; None removes one."""
    before = {name: os.environ.get(name) for name in variables}
    try:
        for name, value in variables.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


@contextlib.contextmanager
def up(slots=2, *flags):
    """This process's user has a `hawk up`."""
    with tempfile.TemporaryDirectory(prefix="hawk-py-") as home, \
            environment(XDG_RUNTIME_DIR=home, XDG_STATE_HOME=home, HAWK_DIST=None):
        global where
        where = home
        daemon = Daemon("up", "--slots", slots, "--output-dir", f"{home}/out", *flags)
        try:
            daemon.ready()
            yield daemon
        except BaseException:
            print(daemon.text())
            raise
        finally:
            daemon.stop()
            wait_for("no process to outlive hawk up", lambda: not residents())


@contextlib.contextmanager
def cluster(kind=Cluster, **more):
    global where
    with kind(**more) as c, environment(HAWK_DIST=",".join(c.dist_addrs)):
        where = c.dir
        yield c


def residents():
    """Processes that run calls at the workers of this test."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if b"from hawk._resident import main" not in f.read():
                    continue
            with open(f"/proc/{pid}/environ", "rb") as f:
                ours = f"HAWK_WORKER_SOCKET=unix:{where}/".encode() in f.read()
        except OSError:
            continue
        if ours and alive(int(pid)):
            found.append(int(pid))
    return found


def program(directory, text, name="program.py", module=None):
    """A process that runs this program, with pipes. module: as `python -m`."""
    path = f"{directory}/{name}"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    which = ["-m", module] if module else [path]
    return subprocess.Popen(["/usr/bin/python3", *which], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            cwd=directory, env={**os.environ, "PYTHONPATH": PACKAGE})


def told(program):
    """What a program() writes to stdout and stderr until it ends; one that hangs is killed."""
    try:
        return program.communicate(timeout=BOUND)
    except subprocess.TimeoutExpired:
        program.kill()
        raise
