"""What the tests of several users share: a cluster behind unix sockets, whose clients are known by their uids."""
import contextlib
import os
import subprocess

import grpc

from grpctest import Caller
from hawktest import BOUND, HAWK, Cluster, Daemon

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
        self.central = Daemon("central", *self.socket("central"), "--state-dir", f"{self.dir}/central",
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

    # check: the exit code; None: any
    def as_user(self, uid, *args, check=0, dist=None, env=None):
        env = {**os.environ, "HAWK_DIST": dist or self.dist_addrs[0], "HOME": "/nonexistent", **(env or {})}
        r = subprocess.run([HAWK, *args], capture_output=True, text=True, timeout=BOUND, env=env, user=uid, group=uid,
                           extra_groups=[], cwd="/")
        assert check is None or r.returncode == check, (uid, args, r.returncode, r.stdout, r.stderr)
        return r


@contextlib.contextmanager
def being(uid):
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def caller_as(uid, addr):
    """A gRPC client whose connection is that uid's."""
    caller = Caller(addr)
    caller.channel.close()
    # Channels to one address share a connection, unless they are told not to.
    caller.channel = grpc.insecure_channel(addr, [("grpc.use_local_subchannel_pool", 1)])
    with being(uid):
        grpc.channel_ready_future(caller.channel).result(timeout=BOUND)
    return caller
