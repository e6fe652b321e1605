"""TLS: what daemons say to each other and to clients is encrypted, and certificates say who may do what."""
import collections
import contextlib
import os
import shutil
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time

from tlstest import EXPECTED, Roots, SecureCaller, TlsCluster, certificate_at, secure_channel

import grpc

from grpctest import Caller, pb, refused
from floodclient import memory
from hawktest import BOUND, HAWK, SLOW, Daemon, run_tests, wait_for
from linktest import Link, wire
DENIED, UNAVAILABLE = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE


def list_nodes(caller):
    return caller("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply)


def get_stats(caller):
    """Which every role serves."""
    return caller("GetStats", pb.GetStatsRequest(), pb.GetStatsReply)


def test_jobs_run_and_nobody_else_gets_in():
    with TlsCluster(workers=2, slots=2) as c:
        # Short tasks and long ones, output, and what one daemon fetches of another.
        r = c.hawk("submit", "--array", "1-40", "--wait", "--", "sh", "-c", "echo hello $HAWK_TASK_INDEX")
        assert r.returncode == 0
        job = c.json("jobs")["jobs"][0]["job"]
        assert "hello 7" in c.hawk("cat", job).stdout
        assert c.hawk("submit", "--wait", "--class", "long", "--", "true").returncode == 0
        big = "x" * 100000
        c.hawk("submit", "--wait", "--name", "big", "--", "sh", "-c", f"printf %s {big} | wc -c")
        assert "100000" in c.hawk("cat", "last").stdout
        assert c.json("stats") and c.json("policy")
        c.hawk("drain", "--wait", "w2")
        c.hawk("undrain", "w2")

        worker = c.worker_addr()
        strangers = Roots()
        for name in ("eve", "old"):
            strangers.issue("user", name)
        c.ca.issue("user", "old", "--for", "1s")
        for daemon, addr, role in ((c.central, c.central_addr, "central"), (c.dists[0], c.dist_addrs[0], "dist"),
                                   (c.workers[0], worker, "worker")):
            def logged(text, at=daemon):
                wait_for(f"'{text}' in the log", lambda: f"is refused: {text}" in at.text())

            assert get_stats(SecureCaller(addr, c.ca, "ann", expected=EXPECTED[role])).nodes
            refused(UNAVAILABLE, lambda a=addr: get_stats(Caller(a)))
            logged("it does not speak TLS")
            refused(UNAVAILABLE, lambda a=addr, e=EXPECTED[role]: get_stats(SecureCaller(a, c.ca, None, expected=e)))
            logged("it shows no certificate")
            refused(UNAVAILABLE, lambda a=addr, e=EXPECTED[role]: get_stats(
                SecureCaller(a, strangers, "eve", expected=e, roots=c.ca)))
            logged("its certificate is not good: ")
            # The client's side: who answers is not whom it wants, or whom it trusts.
            refused(UNAVAILABLE, lambda a=addr: get_stats(SecureCaller(a, c.ca, "ann", expected="eagle.hawk")))
            refused(UNAVAILABLE, lambda a=addr, e=EXPECTED[role]: get_stats(
                SecureCaller(a, c.ca, "ann", expected=e, roots=strangers)))

            def expired(a=addr, e=EXPECTED[role]):
                try:
                    get_stats(SecureCaller(a, c.ca, "old", expected=e))
                except grpc.RpcError as error:
                    return error.code() == UNAVAILABLE
                return False

            wait_for("the certificate of a second to expire", expired)
            logged("its certificate is not good: certificate has expired")
        assert c.hawk("submit", "--wait", "--", "true").returncode == 0


def test_the_commands_say_what_is_wrong():
    with TlsCluster(workers=1) as c:
        r = c.hawk("nodes", env={"HAWK_TLS_CERTIFICATE": "", "HAWK_TLS_KEY": "", "HAWK_TLS_ROOTS": ""}, check=3)
        assert "HAWK_TLS_CERTIFICATE" in r.stderr, r.stderr
        r = c.hawk("nodes", env={"HAWK_TLS_KEY": ""}, check=2)
        assert "HAWK_TLS_KEY" in r.stderr and "not all are set" in r.stderr, r.stderr
        r = c.hawk("nodes", env={"HAWK_TLS_KEY": "/nonexistent"}, check=2)
        assert "/nonexistent: No such file" in r.stderr, r.stderr
        r = c.hawk("nodes", env=c.ca.environment("w1"), check=3)
        assert "the certificate of w1.worker.hawk does not allow /hawk.v1.Hawk/ListNodes at a dist" in r.stderr, r.stderr
        r = c.hawk("nodes", dist=c.worker_addr(), check=3)
        assert "scheduler.hawk" in r.stderr, r.stderr
        # Where nothing listens no certificate was shown.
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            r = c.hawk("nodes", dist="127.0.0.1:%d" % silent.getsockname()[1], check=3)
            assert r.stderr.endswith("Connection refused; is it running?\n"), r.stderr
        # Who lacks a scope hears where it comes from.
        c.ca.issue("user", "bob")
        r = c.hawk("drain", "w1", env=c.ca.environment("bob"), check=3)
        assert "needs scope operate: `hawk user add NAME --scopes` gives it" in r.stderr, r.stderr


def link_with(c, addr, to, certificate, role, name, node=0):
    return Link(secure_channel(addr, c.ca, certificate, EXPECTED[to]), role, name, node)


def ends(link, code):
    """The link does not open, or is broken; returns why."""
    try:
        return refused(code, lambda: [None for _ in link.call])
    finally:
        link.close()


def test_a_node_is_what_its_certificate_says():
    with TlsCluster(workers=2) as c:
        worker = c.worker_addr()
        c.ca.issue("worker", "w9")
        why = "its certificate is for another role or name"
        for addr, to in ((c.central_addr, "central"), (worker, "worker")):
            assert why in ends(link_with(c, addr, to, "w9", "dist", "w9", 9), DENIED)
            assert why in ends(link_with(c, addr, to, "w9", "central", "w9", 9), DENIED)
            assert why in ends(link_with(c, addr, to, "w9", "worker", "w1", 9), DENIED)
            assert why in ends(link_with(c, addr, to, "w9", "worker", "W9", 9), DENIED)
            assert "does not allow /hawk.v1.Peer/Link" in ends(link_with(c, addr, to, "ann", "worker", "w9", 9), DENIED)
            assert "does not allow /hawk.v1.Peer/Link" in ends(link_with(c, addr, to, "c1", "central", "central", 9), DENIED)
        assert "does not allow /hawk.v1.Peer/Link" in ends(link_with(c, c.dist_addrs[0], "dist", "w9", "worker", "w9", 9), DENIED)

        assert "for w9.worker.hawk, and not for worker w1" in ends(link_with(c, worker, "worker", "w9", "worker", "w1", 9), DENIED)
        link = link_with(c, c.central_addr, "central", "w9", "worker", "w9")
        link.join(wire.ROLE_WORKER, "w1", slots=1)
        assert "under the name in its certificate" in ends(link, DENIED)
        link = link_with(c, c.central_addr, "central", "w9", "worker", "w9")
        link.join(wire.ROLE_DIST, "w9", slots=1)
        assert next(iter(link.call)).envelopes[0].refused.why
        link.close()
        log = c.central.text()
        assert "wants to join under another name than its certificate's" in log, log
        assert "the certificate of ann.user.hawk does not allow" in log, log
        assert "the certificate of c1.central.hawk does not allow" in log, log
        link = link_with(c, c.central_addr, "central", "w9", "worker", "w9")
        link.join(wire.ROLE_WORKER, "w9", slots=1)
        assert next(iter(link.call)).envelopes[0].joined.node
        link.close()
        # Nor under another node's id, whom the worker knows by central's list.
        ids = {n["name"]: n["node"] for n in c.json("nodes")["nodes"]}
        for other in ("d1", "w2"):
            wait_for(f"{other} to be known there", lambda o=other: f"its certificate is for w9, and node {ids[o]} is {o}" in
                     ends(link_with(c, worker, "worker", "w9", "worker", "w9", ids[o]), DENIED))
        assert c.hawk("submit", "--wait", "--array", "1-20", "--", "true").returncode == 0
        names = [n["name"] for n in c.json("nodes")["nodes"]]
        assert sorted(names) == ["central", "d1", "w1", "w2", "w9"], names


def test_a_link_is_cut_that_shows_anothers_certificate():
    with TlsCluster(workers=1) as c:
        strange = Roots()
        for roots in (c.ca, strange):
            roots.issue("worker", "w9")
        for pem, why in ((c.ca.read("w1.crt"), "somebody else, w1.worker.hawk"), (b"hello", "no node's certificate"),
                         (strange.read("w9.crt"), "is not good")):
            link = link_with(c, c.central_addr, "central", "w9", "worker", "w9")
            link.send(certificate=wire.Certificate(pem=pem))
            assert why in ends(link, DENIED)
            wait_for("central to say so", lambda y=why: y in c.central.text())
        # Its own, which is no newer, changes nothing.
        link = link_with(c, c.central_addr, "central", "w9", "worker", "w9")
        link.send(certificate=wire.Certificate(pem=c.ca.read("w9.crt")))
        link.join(wire.ROLE_WORKER, "w9", slots=1)
        link.hear("joined")
        link.close()


def test_nodes_make_no_calls_of_users():
    with TlsCluster(workers=1) as c:
        for certificate in ("w1", "d1", "c1"):
            for addr, role in ((c.central_addr, "central"), (c.dist_addrs[0], "dist"), (c.worker_addr(), "worker")):
                caller = SecureCaller(addr, c.ca, certificate, expected=EXPECTED[role])
                for method, request, reply in (("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply),
                                               ("Stop", pb.StopRequest(), pb.StopReply),
                                               ("Submit", pb.SubmitRequest(), pb.SubmitReply)):
                    words = refused(DENIED, lambda m=method, q=request, p=reply, k=caller: k(m, q, p))
                    assert f"/hawk.v1.Hawk/{method}" in words, words
        # A method that nobody serves is that, and no question of certificates.
        refused(grpc.StatusCode.UNIMPLEMENTED, lambda: SecureCaller(c.dist_addrs[0], c.ca, "ann", expected="dist.hawk")(
            "Fly", pb.ListNodesRequest(), pb.ListNodesReply))


def test_who_is_dialled_is_checked():
    with TlsCluster(workers=1) as c:
        plain = Daemon("dist", "--name", "d3", "--listen", "127.0.0.1:0", "--central", c.central_addr, "--state-dir",
                       f"{c.dir}/d3")
        c.dists.append(plain)
        wait_for("the reason in its log", lambda: "does it want TLS?" in plain.text())
        c.ca.issue("dist", "d2")
        worker = c.worker_addr()
        d = Daemon("dist", "--name", "d2", "--listen", "127.0.0.1:0", "--central", worker, "--state-dir", f"{c.dir}/d2",
                   *c.ca.files("d2"))
        c.dists.append(d)
        wait_for("the reason in its log", lambda: "central.hawk" in d.text())
        assert "cannot be reached" in d.text(), d.text()


def test_clients_hear_that_a_nodes_certificate_has_expired():
    with TlsCluster(workers=1) as c:
        c.ca.issue("dist", "d2", "--for", f"{4 * SLOW}s")
        d = Daemon("dist", "--name", "d2", "--listen", "127.0.0.1:0", "--central", c.central_addr, "--state-dir", f"{c.dir}/d2",
                   *c.ca.files("d2"))
        c.dists.append(d)
        addr = d.ready()
        wait_for("it to expire", lambda: c.hawk("nodes", dist=addr, check=None).returncode == 3)
        said = c.hawk("nodes", dist=addr, check=3).stderr
        assert "the node's certificate has expired" in said and "hawk ca invite" in said, said
        assert "your certificate" not in said, said


def test_certificates_and_roots_change_while_daemons_run():
    with TlsCluster(workers=1) as c:
        before = {a: certificate_at(a, c.ca, "ann") for a in (c.central_addr, c.dist_addrs[0], c.worker_addr())}
        for role, name in (("central", "c1"), ("dist", "d1"), ("worker", "w1")):
            c.ca.issue(role, name)
        for addr, certificate in before.items():
            wait_for("the new certificate", lambda a=addr, b=certificate: certificate_at(a, c.ca, "ann") != b)
        assert c.hawk("submit", "--wait", "--", "true").returncode == 0

        # A worker whose certificate has expired cannot join, and joins by itself once it has a new one.
        c.ca.issue("worker", "w2", "--for", "1s")
        w = Daemon("worker", "--name", "w2", "--central", c.central_addr, "--slots", "1", "--output-dir", f"{c.dir}/out-w2",
                   "--state-dir", f"{c.dir}/state2", "--agent-grace", "2s", *c.ca.files("w2"))
        c.workers.append(w)
        wait_for("it to have expired", lambda: "certificate has expired" in c.central.text() or
                 any(n["name"] == "w2" for n in c.json("nodes")["nodes"]))
        c.ca.issue("worker", "w2")
        wait_for("it to join", lambda: any(n["name"] == "w2" and n["state"] == "up" for n in c.json("nodes")["nodes"]))

        # What is broken changes nothing.
        certificate = certificate_at(c.central_addr, c.ca, "ann")
        key = c.ca.read("c1.key")
        with open(f"{c.ca.dir}/c1.key", "wb") as f:
            f.write(b"junk")

        def told():
            assert certificate_at(c.central_addr, c.ca, "ann") == certificate
            return "what was read before stays in use" in c.central.text()

        wait_for("the log to say so", told)
        with open(f"{c.ca.dir}/c1.key", "wb") as f:
            f.write(key)

        # Other roots beside those: their users come in. Without the first ones nobody of theirs does.
        others = Roots()
        others.issue("user", "bob")

        def comes_in(ca, name):
            try:
                return bool(list_nodes(SecureCaller(c.central_addr, ca, name, roots=c.ca, expected="central.hawk")).nodes)
            except grpc.RpcError:
                return False

        def take_roots(*texts):
            with open(f"{c.ca.dir}/new", "wb") as f:
                f.write(b"".join(texts))
            os.rename(f"{c.ca.dir}/new", f"{c.ca.dir}/roots.crt")

        assert not comes_in(others, "bob")
        first = c.ca.read("roots.crt")
        take_roots(first, others.read("roots.crt"))
        wait_for("bob to come in", lambda: comes_in(others, "bob"))
        assert comes_in(c.ca, "ann")
        others.issue("central", "c1")
        for file in ("c1.key", "c1.crt"):
            shutil.copy(f"{others.dir}/{file}", c.ca.dir)
        take_roots(others.read("roots.crt"))
        wait_for("ann to be out", lambda: not comes_in(c.ca, "ann") and comes_in(others, "bob"))


class Authority(Roots):
    """An operator's own, of which `hawk ca` knows nothing: openssl makes what the guide says that certificates need."""

    def __init__(self):
        self.made = tempfile.TemporaryDirectory(prefix="hawk-own-")
        self.dir = self.made.name
        self.roots = f"{self.dir}/roots.crt"
        self.key("root")
        self.openssl("req", "-x509", "-new", "-key", "root.key", "-subj", "/CN=our own", "-days", "2", "-out", "roots.crt")

    def openssl(self, *args):
        subprocess.run(["openssl", *args], cwd=self.dir, check=True, capture_output=True, timeout=BOUND)

    def key(self, name):
        self.openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")
        os.chmod(f"{self.dir}/{name}.key", 0o600)

    def issue(self, role, name, *more):
        names = [f"DNS:{name}.{role}.hawk"] + [f"DNS:{role}.hawk"] * (role != "user") + ["DNS:scheduler.hawk"] * (role in ("central", "dist"))
        names += [f"URI:hawk:scope:{scope}" for scope in more[1].split(",")] if more else []
        return self.sign(name, ",".join(names))

    def sign(self, name, names):
        self.key(name)
        with open(f"{self.dir}/names", "w", encoding="ascii") as f:
            f.write(f"subjectAltName={names}\n")
        self.openssl("req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "roots.crt", "-CAkey", "root.key", "-CAcreateserial", "-days", "1",
                     "-extfile", "names", "-out", f"{name}.crt")
        return name


def test_certificates_of_ones_own_authority_work():
    with TlsCluster(workers=1, ca=Authority) as c:
        assert c.hawk("submit", "--wait", "--", "true").returncode == 0
        c.hawk("drain", "w1")
        c.hawk("undrain", "w1")
        # Scopes are those that it says; without any there are two.
        c.ca.issue("user", "bob")
        assert "Drain needs scope operate" in c.hawk("drain", "w1", env=c.ca.environment("bob"), check=3).stderr
        c.hawk("submit", "--wait", "--", "true", env=c.ca.environment("bob"))
        # What the authority has signed for other ends is neither a node's nor a user's.
        c.ca.sign("web", "DNS:web.example.org")
        assert "one of the form NAME.ROLE.hawk" in c.hawk("nodes", env=c.ca.environment("web"), check=2).stderr
        refused(UNAVAILABLE, lambda: list_nodes(SecureCaller(c.dist_addrs[0], c.ca, "web", expected="dist.hawk")))
        wait_for("why, in the log", lambda: "is refused: its certificate is for nobody" in c.dists[0].text())
        # A worker's certificate is no dist's.
        d = Daemon("dist", "--name", "w1", "--listen", "127.0.0.1:0", "--central", c.central_addr, "--state-dir", f"{c.dir}/no",
                   *c.ca.files("w1"))
        assert d.wait() == 2 and "it is for w1.worker.hawk, and not for dist w1" in d.text(), d.text()


def config_says(text, code):
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/hawk.yaml", "w", encoding="ascii") as f:
            f.write(text)
        r = subprocess.run([HAWK, "config", "check", f"{d}/hawk.yaml"], capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == code, r
        return r.stderr.replace(d, "DIR")


def test_a_daemon_with_wrong_files_does_not_start():
    ca = Roots()
    for role, name in (("central", "c1"), ("worker", "w1"), ("dist", "d1"), ("user", "ann")):
        ca.issue(role, name)
    with tempfile.TemporaryDirectory() as d:
        def refusal(role, *flags):
            daemon = Daemon(role, "--listen", "127.0.0.1:0", "--state-dir", f"{d}/s", *flags)
            assert daemon.wait() == 2, daemon.text()
            return daemon.text()

        assert "it is for w1.worker.hawk, and not for central\n" in refusal("central", *ca.files("w1"))
        assert "it is for ann.user.hawk, and not for central" in refusal("central", *ca.files("ann"))
        assert "it is for w1.worker.hawk, and not for worker w2" in refusal("worker", "--name", "w2", *ca.files("w1"))
        assert "it is for w1.worker.hawk, and not for dist w1" in refusal("dist", "--name", "w1", *ca.files("w1"))
        assert "these are not set: tls.roots" in refusal("central", *ca.files("c1")[:4])
        assert "these are not set: tls.key tls.roots" in refusal("central", *ca.files("c1")[:2])
        os.chmod(f"{ca.dir}/c1.key", 0o640)
        assert "others can read the key: chmod 600 it" in refusal("central", *ca.files("c1"))
    assert "DIR/hawk.yaml:2: tls.key: \"/x\": TLS needs all three files" in config_says("tls:\n  key: /x\n", 2)
    said = config_says("tls:\n  certificate: /none/x\n  key: /none/y\n  roots: /none/z\n", 2)
    for line, missing in enumerate(("certificate: /none/x", "key: /none/y", "roots: /none/z"), 2):
        assert f"DIR/hawk.yaml:{line}: tls.{missing}: No such file" in said, said
    said = config_says(f"tls:\n  roots: {ca.dir}/c1.key\n  certificate: {ca.dir}/c1.crt\n  key: {ca.dir}/c1.key\n", 2)
    assert "DIR/hawk.yaml:4: tls.key: " in said and "others can read the key" in said, said
    os.chmod(f"{ca.dir}/c1.key", 0o600)
    text = f"tls:\n  certificate: {ca.dir}/c1.crt\n  key: {ca.dir}/c1.key\n  roots: {ca.roots}\n"
    assert config_says(text + "central:\n  listen: 0.0.0.0:7070\n", 0) == ""


def test_an_executor_attaches_with_tls():
    with TlsCluster(workers=1) as c:
        call = secure_channel(c.worker_addr(), c.ca, "ann", "worker.hawk").stream_stream("/hawk.v1.Executors/Attach")
        refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: list(call(iter([b""]), timeout=BOUND)))
        call = secure_channel(c.worker_addr(), c.ca, "d1", "worker.hawk").stream_stream("/hawk.v1.Executors/Attach")
        refused(DENIED, lambda: list(call(iter([b""]), timeout=BOUND)))


HALF_OPEN = 10000
HALF_OPEN_MIB = 1 << 20 if os.environ.get("SANITIZE") else 32  # what was freed is kept there


class HalfOpen(threading.Thread):
    """Connects to a daemon again and again, and begins every second handshake; none is finished."""

    def __init__(self, addr):
        super().__init__(daemon=True)
        host, port = addr.rsplit(":", 1)
        self.addr, self.opened, self.socks = (host, int(port)), 0, collections.deque()
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.kept = min(HALF_OPEN, most - 500)

    def run(self):
        while self.opened < HALF_OPEN:
            s = socket.create_connection(self.addr, timeout=BOUND)
            self.socks.append(s)
            self.opened += 1
            if self.opened % 2:
                with contextlib.suppress(ConnectionError):
                    s.sendall(b"\x16\x03\x01\x02\x00\x01")
            if len(self.socks) > self.kept:
                self.socks.popleft().close()


def test_half_open_handshakes_are_bounded_and_end_in_time():
    with TlsCluster(workers=1) as c:
        dist = c.dists[0]
        ann = SecureCaller(c.dist_addrs[0], c.ca, "ann", expected="dist.hawk")  # who has made a call stays, and is answered
        assert list_nodes(ann).nodes and c.hawk("submit", "--wait", "--", "true").returncode == 0
        before, _ = memory(dist.p.pid)
        crowd, jobs, again, longest = HalfOpen(c.dist_addrs[0]), 0, 0, 0.0
        crowd.start()
        while crowd.is_alive() or not jobs:
            began = time.monotonic()
            assert list_nodes(ann).nodes
            longest = max(longest, time.monotonic() - began)
            r = c.hawk("submit", "--wait", "--", "true", check=None)  # a newcomer, who may have made room for the crowd
            assert r.returncode == 0 or (r.returncode == 3 and not r.stdout), r
            jobs, again = jobs + (r.returncode == 0), again + (r.returncode != 0)
        crowd.join()
        _, most = memory(dist.p.pid)
        print(f"{crowd.opened} half-open handshakes: at most {most - before:.1f} MiB above the start; meanwhile the slowest answer took "
              f"{longest:.3f} s, and {jobs} jobs were done, {again} others came in vain", flush=True)
        assert crowd.opened == HALF_OPEN and most - before <= HALF_OPEN_MIB, (crowd.opened, before, most)
        for s in crowd.socks:  # the last of them by the time that a connection has
            s.settimeout(BOUND)
            with contextlib.suppress(ConnectionError):
                while s.recv(4096):
                    pass
            s.close()


run_tests(sys.modules[__name__])
