"""What the tests of TLS share: roots, certificates, a cluster that has them, and clients in Python with any of them."""
import os
import re
import socket
import ssl
import subprocess
import tempfile

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # refusals are what these tests want

import grpc

from grpctest import Caller
from hawktest import BOUND, HAWK, Cluster


EXPECTED = {"central": "central.hawk", "dist": "dist.hawk", "worker": "worker.hawk"}  # what a dialer of a role asks for


class Roots:
    """A directory with the two roots, and the certificates that they have signed."""

    def __init__(self):
        self.made = tempfile.TemporaryDirectory(prefix="hawk-tls-")
        self.dir = self.made.name
        self.roots = f"{self.dir}/roots.crt"
        self.run("init", self.dir)

    def run(self, *args):
        return subprocess.run([HAWK, "ca", *args], check=True, capture_output=True, text=True, timeout=BOUND).stdout

    def user(self, name, uid):
        """Files as issue() makes them, of a credential that names a uid."""
        subprocess.run([HAWK, "user", "add", name, "--ca", self.dir, "--uid", str(uid), "--out", f"{self.dir}/{name}.credential"],
                       check=True, capture_output=True, timeout=BOUND)
        text = self.read(f"{name}.credential").decode()
        for file, what in (("key", "PRIVATE KEY"), ("crt", "CERTIFICATE")):
            with open(f"{self.dir}/{name}.{file}", "w", encoding="ascii") as f:
                f.write(re.search(rf"-----BEGIN {what}-----.*?-----END {what}-----\n", text, re.S).group())
            os.chmod(f"{self.dir}/{name}.{file}", 0o600)

    def issue(self, role, name, *more):
        self.run("issue", self.dir, "--role", role, "--name", name, "--out", self.dir, *more)
        return name

    def files(self, name, roots=None):
        """The flags of a daemon that is called so."""
        return ("--tls-certificate", f"{self.dir}/{name}.crt", "--tls-key", f"{self.dir}/{name}.key", "--tls-roots",
                roots or self.roots)

    def environment(self, name, roots=None):
        return {"HAWK_TLS_CERTIFICATE": f"{self.dir}/{name}.crt", "HAWK_TLS_KEY": f"{self.dir}/{name}.key",
                "HAWK_TLS_ROOTS": roots or self.roots}

    def read(self, name):
        with open(f"{self.dir}/{name}", "rb") as f:
            return f.read()


class TlsCluster(Cluster):
    """A cluster whose connections all have TLS; ann is its user."""
    daemon_flags = ()  # of dists and workers

    def __init__(self, ca=Roots, **more):
        self.ca = ca()
        self.ca.issue("central", "c1")
        self.ca.issue("user", "ann", "--scopes", "read,submit,operate,admin")
        super().__init__(central=self.ca.files("c1"), **more)

    def start_dist(self, name, wait=True):
        self.dist_flags = [*self.ca.files(self.ca.issue("dist", name)), *self.daemon_flags]
        return super().start_dist(name, wait)

    def start_worker(self, name, wait=True, slots=None, flags=()):
        return super().start_worker(name, wait, slots, (*self.ca.files(self.ca.issue("worker", name)), "--run-as", "any",
                                                          *self.daemon_flags, *flags))

    def hawk(self, *args, env=None, **more):
        return super().hawk(*args, env={**self.ca.environment("ann"), **(env or {})}, **more)

    def worker_addr(self, name="w1"):
        return next(n["address"] for n in self.json("nodes")["nodes"] if n["name"] == name)


def secure_channel(addr, ca, name, expected="scheduler.hawk", roots=None):
    """roots: others than those of `ca`."""
    pair = (ca.read(f"{name}.key"), ca.read(f"{name}.crt")) if name else (None, None)
    credentials = grpc.ssl_channel_credentials((roots or ca).read("roots.crt"), *pair)
    return grpc.secure_channel(addr, credentials, [("grpc.ssl_target_name_override", expected)])


class SecureCaller(Caller):
    def __init__(self, addr, ca, name, **more):
        super().__init__(addr)
        self.channel.close()
        self.channel = secure_channel(addr, ca, name, **more)


def context_of(ca, name):
    """For raw sockets of that client."""
    context = ssl.create_default_context(cafile=ca.roots)
    context.load_cert_chain(f"{ca.dir}/{name}.crt", f"{ca.dir}/{name}.key")
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    return context


def certificate_at(addr, ca, name):
    """What the daemon at an address shows to this client, as text of `openssl x509`."""
    host, port = addr.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=BOUND) as s, context_of(ca, name).wrap_socket(s) as t:
        return ssl.DER_cert_to_PEM_cert(t.getpeercert(binary_form=True))
