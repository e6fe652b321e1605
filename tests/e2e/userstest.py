"""What the tests of several users share: a cluster behind unix sockets, whose clients are known by their uids."""
import itertools
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading

from grpctest import Caller
from hawktest import BOUND, HAWK, Cluster, Daemon, dropped, wait_for

# Without an entry in the system's database, so their names are these numbers.
ANN, BOB = 61001, 61002


def others_exist():
    """Only root can be others."""
    if os.geteuid() == 0:
        return True
    print("skipped: needs root")
    return False


class UserCluster(Cluster):
    """Every user of the machine may connect. `hawk` calls the dist; `uid` says as whom."""

    def __enter__(self):
        os.chmod(self.dir, 0o755)
        return super().__enter__()

    def socket(self, name):
        return ("--local-users", "--listen", f"unix:{self.dir}/{name}.sock")

    def start_central(self, listen):
        self.central = Daemon("central", *self.socket("central"), "--ids-wait", "0s", "--state-dir", f"{self.dir}/central",
                              *self.central_flags)
        self.central_addr = self.central.ready()

    def start_dist(self, name, wait=True):
        d = Daemon("dist", "--name", name, *self.socket(name), "--central", self.central_addr, "--state-dir",
                   f"{self.dir}/{name}", *self.dist_flags)
        self.dists.append(d)
        self.dist_addrs.append(d.ready())
        return d

    def start_worker(self, name, wait=True, slots=None, flags=()):
        return super().start_worker(name, wait, slots, (*self.socket(name), "--run-as", "any", *flags))

    def forget_receipts(self):
        """Central has a journal of an earlier version: for a week jobs are moved without receipts of their ids."""
        self.central.stop()
        with sqlite3.connect(f"{self.dir}/central/journal.db") as db:
            assert db.execute("DELETE FROM meta WHERE key LIKE 'receipt%'").rowcount == 3
        db.close()
        joined = [d.text().count("can be reached again") for d in self.dists]
        self.start_central(self.central_addr)
        for d, before in zip(self.dists, joined):
            wait_for("the dist to join again", lambda d=d, n=before: d.text().count("can be reached again") > n)

    # check: the exit code; None: any
    def as_user(self, uid, *args, check=0, dist=None, env=None):
        env = {**os.environ, "HAWK_DIST": dist or self.dist_addrs[0], "HOME": "/nonexistent", **(env or {})}
        r = subprocess.run([*dropped(uid), HAWK, *args], capture_output=True, text=True, timeout=BOUND, env=env, cwd="/")
        assert check is None or r.returncode == check, (uid, args, r.returncode, r.stdout, r.stderr)
        return r


# Where callers are known, if that can be.
KnownCluster = UserCluster if os.geteuid() == 0 else Cluster

# The kernel names who called connect(). A process with gRPC's threads cannot change its own uid safely: glibc changes that
# of each thread, and aborts when one of them did not follow.
CONNECT = """import socket, sys
made = [socket.socket(socket.AF_UNIX) for _ in range(int(sys.argv[3]))]
for s in made:
    s.connect(sys.argv[1])
socket.send_fds(socket.socket(fileno=int(sys.argv[2])), [b"x"], [s.fileno() for s in made])"""


def connected_as(uid, path, n):
    """n connections to a unix socket that a process of that uid made."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run([*dropped(uid), sys.executable, "-c", CONNECT, path, str(theirs.fileno()), str(n)], check=True,
                       timeout=BOUND, cwd="/", pass_fds=[theirs.fileno()])
        return [socket.socket(fileno=fd) for fd in socket.recv_fds(ours, 1, n)[1]]


def pump(source, to):
    try:
        while data := source.recv(1 << 16):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def relay(listener, uid, path):
    while True:
        near, _ = listener.accept()
        far, = connected_as(uid, path, 1)
        for a, b in ((near, far), (far, near)):
            threading.Thread(target=pump, args=(a, b), daemon=True).start()


relays, numbers = tempfile.TemporaryDirectory(prefix="hawk-relay-"), itertools.count()


def address_as(uid, addr):
    """Whoever connects there is connected to the unix socket addr as that uid."""
    listener = socket.socket(socket.AF_UNIX)
    near = f"{relays.name}/{next(numbers)}"
    listener.bind(near)
    listener.listen()
    threading.Thread(target=relay, args=(listener, uid, addr.removeprefix("unix:")), daemon=True).start()
    return f"unix:{near}"


def caller_as(uid, addr):
    """A gRPC client whose connection is that uid's."""
    return Caller(address_as(uid, addr))
