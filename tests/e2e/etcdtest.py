"""Clusters whose centrals share an etcd: for the tests and the benchmark of taking over."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hawktest as t

ETCD = "/usr/bin/etcd"


class Etcd:
    """One member of etcd's own cluster, on ephemeral ports, its data in a directory of its own."""

    def __init__(self, files=None):
        """files: the prefixes of its own certificate and key, and of the root that signs its clients': TLS."""
        self.files = files
        if not os.access(ETCD, os.X_OK):
            raise AssertionError(f"no {ETCD}: apt-get install etcd-server (tools/packages.txt)")
        self.dir, self.addr, self.p = tempfile.mkdtemp(prefix="hawk-etcd-"), "127.0.0.1:0", None
        self.start()

    def start(self):
        log = os.path.join(self.dir, "etcd.log")
        with open(log, "wb") as out:
            self.p = subprocess.Popen([ETCD, "--data-dir", os.path.join(self.dir, "etcd"),
                                       "--listen-client-urls", f"{'https' if self.files else 'http'}://{self.addr}",
                                       "--advertise-client-urls", "http://127.0.0.1:1",
                                       "--listen-peer-urls", "http://127.0.0.1:0", *self.tls()], stdout=out, stderr=out)

        def listening():
            with open(log, errors="replace") as f:
                return re.search(r"serving (?:insecure )?client requests on ([0-9.:]+)", f.read())
        self.addr = t.wait_for("etcd to listen", listening).group(1)

    def tls(self):
        if not self.files:
            return ()
        own, root = self.files
        return ("--cert-file", f"{own}.crt", "--key-file", f"{own}.key", "--client-cert-auth", "--trusted-ca-file", f"{root}.crt")

    def kill(self):
        self.p.kill()
        self.p.wait()

    def end(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


class Cluster(t.Cluster):
    """A cluster with several centrals: self.centrals; self.etcd is theirs."""

    def __init__(self, centrals=2, **more):
        super().__init__(**more)
        self.n["centrals"] = centrals
        self.centrals, self.etcd = [], None

    def __exit__(self, kind, value, trace):
        self.central = None
        self.dists, dists = self.dists + self.centrals, self.dists  # centrals end last
        try:
            super().__exit__(kind, value, trace)
        finally:
            self.dists = dists
            if self.etcd:
                self.etcd.end()

    def start_central(self, listen):
        """All of them."""
        self.etcd = Etcd()
        for _ in range(self.n["centrals"]):
            self.add_central(listen)
        self.central_addr = ",".join(c.addr for c in self.centrals)

    def add_central(self, listen=f"{t.LOOPBACK}:0"):
        c = t.Daemon("central", "--listen", listen, "--store", "etcd", "--etcd", self.etcd.addr,
                     "--state-dir", f"{self.dir}/central", *self.central_flags)
        c.addr = c.ready()
        self.centrals.append(c)
        return c

    def replace_central(self, c):
        """A new process at the address of one that has ended."""
        self.centrals.remove(c)
        return self.add_central(c.addr)

    def active_addr(self):
        """Where the dists' central is, or None while it is not up."""
        for n in self.json("nodes")["nodes"]:
            if n["role"] == "central" and n["state"] == "up":
                return n["address"]
        return None

    def active(self, other_than=None):
        """Waits until the dist has a central, another one than that."""
        def found():
            addr = self.active_addr()
            return next((c for c in self.centrals if c.addr == addr and c is not other_than), None)
        return t.wait_for("an active central", found)
