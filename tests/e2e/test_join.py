"""Joining by invitation: a node gets its certificate from central once, keeps it, and renews it."""
# timeout: 240
# seconds: 90
# make test-all
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

from tlstest import Roots, SecureCaller, certificate_at

import grpc

from executortest import Executor
from grpctest import pb, refused
from hawktest import BOUND, HAWK, Cluster, Daemon, run_tests, wait_for

DENIED = grpc.StatusCode.PERMISSION_DENIED


class JoinCluster(Cluster):
    """Central has the node root; nobody else has been given a certificate but ann."""

    def __init__(self, central=(), **more):
        self.ca = Roots()
        self.ca.issue("user", "ann")
        super().__init__(central=("--ca", self.ca.dir, "--ids-wait", "0s", *central), dists=0, workers=0, **more)

    def hawk(self, *args, env=None, **more):
        return super().hawk(*args, env={**self.ca.environment("ann"), **(env or {})}, **more)

    def invite(self, role, name, *more, central=True):
        self.ca.run("invite", self.ca.dir, "--role", role, "--name", name, "--out", self.dir, *more,
                    *(("--central", self.central_addr) if central else ()))
        return f"{self.dir}/{name.replace('*', '_')}.invitation"

    def node(self, role, *flags, ready=True):
        """A dist or worker that knows what its invitation says."""
        more = ("--output-dir", f"{self.dir}/out", "--slots", "2", "--agent-grace", "2s", "--run-as", "any") if role == "worker" else ("--listen", "127.0.0.1:0")
        d = Daemon(role, "--state-dir", f"{self.dir}/{role}", *more, *flags)
        (self.workers if role == "worker" else self.dists).append(d)
        if ready:
            addr = d.ready()
            if role == "dist":
                self.dist_addrs.append(addr)
        return d

    def refusal(self, role, *flags):
        d = self.node(role, *flags, ready=False)
        d.wait()
        assert d.p.returncode, d.text()
        (self.workers if role == "worker" else self.dists).remove(d)
        return d.text()

    def names(self):
        return sorted(n["name"] for n in self.json("nodes")["nodes"])


def guest(c):
    """Calls of central by somebody without a certificate: any, and Join."""
    call = SecureCaller(c.central_addr, c.ca, None, expected="central.hawk")
    return call, call.channel.unary_unary("/hawk.v1.Nodes/Join", request_serializer=lambda m: m.SerializeToString(),
                                          response_deserializer=pb.JoinReply.FromString)


def new_key(path):
    subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path], check=True,
                   capture_output=True)
    return path


def request_of(key):
    return subprocess.run(["openssl", "req", "-new", "-key", key, "-subj", "/CN=x", "-outform", "DER"], check=True,
                          capture_output=True).stdout


def test_nodes_join_by_invitation_and_come_back_without():
    with JoinCluster() as c:
        w = c.node("worker", "--join", c.invite("worker", "node7", "--for", "1h"))
        d = c.node("dist", "--join", c.invite("dist", "d1"))
        c.wait_nodes(1)
        assert c.names() == ["central", "d1", "node7"], c.names()
        assert f"since it may read {c.ca.dir}/users/root.key" in c.central.text()
        assert c.hawk("submit", "--wait", "--", "true").returncode == 0
        kept = f"{c.dir}/worker/node7/tls"
        for name in ("node.key", "node.crt", "roots.crt"):
            assert os.stat(f"{kept}/{name}").st_mode & 0o777 == 0o600, name
        # The file of the invitation is not needed any more, nor is any flag.
        os.remove(f"{c.dir}/node7.invitation")
        key = open(f"{kept}/node.key", encoding="ascii").read()
        w.stop()
        w = c.node("worker")
        assert "node7" in c.names()
        w.stop()
        w = c.node("worker", "--join", f"{c.dir}/node7.invitation")
        assert key == open(f"{kept}/node.key", encoding="ascii").read()
        # With the file, too: a used invitation is not used again.
        d.stop()
        d = c.node("dist", "--join", f"{c.dir}/d1.invitation")
        assert "has a certificate" in c.central.text() and c.central.text().count("has a certificate") == 2


def test_an_invitation_is_used_once_also_after_a_restart():
    with JoinCluster() as c:
        path = c.invite("worker", "node7")
        c.node("worker", "--join", path).stop()
        other = ("--state-dir", f"{c.dir}/other", "--join", path)
        assert "used as often as it may be" in c.refusal("worker", *other)
        listen = c.central_addr
        c.central.stop()
        c.start_central(listen)
        assert "used as often as it may be" in c.refusal("worker", *other)
        wait_for("central to say so", lambda: "its invitation cannot be used again" in c.central.text())
        # The same node may ask again with its key, since an answer may be lost.
        os.remove(f"{c.dir}/worker/node7/tls/node.crt")
        c.node("worker", "--join", path)


def test_what_an_invitation_does_not_allow():
    with JoinCluster() as c:
        many = c.invite("worker", "hpc-*", "--uses", "2", "--slots", "2")
        assert "is for hpc-*" in c.refusal("worker", "--name", "other-1", "--join", many)
        c.node("worker", "--name", "hpc-1", "--join", many)
        # Nobody takes the name of a node by an invitation for several.
        assert "has this name already" in c.refusal("worker", "--name", "hpc-1", "--state-dir", f"{c.dir}/x", "--join", many)
        w = c.node("worker", "--name", "hpc-2", "--join", many, "--slots", "3", ready=False)
        why = "invited with at most 2 slots, and has 3"
        wait_for("central to refuse its slots", lambda: why in c.central.text())
        assert w.text().count(why) == 1 and "can be reached again" not in w.text(), w.text()
        w.stop()
        assert "used as often" in c.refusal("worker", "--name", "hpc-3", "--join", many)
        assert "the invitation is for a worker" in c.refusal("dist", "--join", many)

        with open(c.invite("worker", "w1"), encoding="ascii") as f:
            good = f.read()

        def altered(what, by):
            assert what in good
            with open(f"{c.dir}/altered", "w", encoding="ascii") as out:
                out.write(good.replace(what, by))
            return c.refusal("worker", "--name", "w1", "--join", f"{c.dir}/altered")

        assert "its signature does not fit" in altered("slots: 0", "slots: 9")
        none = f"{c.dir}/altered: the invitation is none, or not whole"
        assert none in altered("hawk invitation 1", "hawk invitation 2")
        assert none in altered("signature: ", "")
        # Of another cluster: its own root is not whom central is certified by.
        strangers = Roots()
        strangers.run("invite", strangers.dir, "--role", "worker", "--name", "w1", "--out", strangers.dir, "--central", c.central_addr)
        w = c.node("worker", "--name", "w1", "--join", f"{strangers.dir}/w1.invitation", ready=False)
        wait_for("it to know central by its root", lambda: "cannot join yet: central at" in w.text())
        w.kill()
        # Asked of central itself, without its node root's signature.
        call, join = guest(c)
        with open(f"{strangers.dir}/w1.invitation", encoding="ascii") as f:
            foreign = f.read()
        for text in (foreign, "", good.replace("slots: 0", "slots: 9")):
            refused(DENIED, lambda t=text: join(pb.JoinRequest(invitation=t, name="w1", request=b"x"), timeout=BOUND))
        refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: join(pb.JoinRequest(invitation=good, name="w1", request=b"x"), timeout=BOUND))
        # Its answer may be here before the line has been read from its stderr.
        wait_for("central to say why", lambda: "is not signed by this cluster's node root" in c.central.text())
        # A guest makes no other call.
        why = refused(DENIED, lambda: call("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply))
        assert "somebody without a certificate" in why, why
        # Nor does central keep what it sends, a message that never ends.
        refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: join(pb.JoinRequest(invitation="x" * 30_000, name="w1"), timeout=BOUND))
        refused(grpc.StatusCode.UNAVAILABLE, lambda: join(pb.JoinRequest(invitation="x" * 1_000_000, name="w1"), timeout=BOUND))
        wait_for("central to say so", lambda: "sent more than is needed to join; limit in bytes: 65536" in c.central.text())


def test_a_name_that_no_node_can_have_is_refused():
    """Central takes a name whole or not at all, and its journal can be read again."""
    with JoinCluster() as c:
        path = c.invite("worker", "hpc-*", "--uses", "5")
        with open(path, encoding="ascii") as f:
            invitation = f.read()
        request = request_of(new_key(f"{c.dir}/own.key"))
        for name in ("hpc-".ljust(256, "a"), "hpc-".ljust(301, "a"), "hpc-7\n"):
            _, join = guest(c)
            why = refused(DENIED, lambda n=name, j=join: j(pb.JoinRequest(invitation=invitation, name=n, request=request), timeout=BOUND))
            assert "at most 255 of them" in why, why
        _, join = guest(c)
        longest = pb.JoinRequest(invitation=invitation, name="hpc-".ljust(255, "a"), request=request)
        assert "BEGIN CERTIFICATE" in join(longest, timeout=BOUND).certificate
        listen = c.central_addr
        c.central.kill()
        c.start_central(listen)
        c.node("worker", "--name", "hpc-1", "--join", path)


def test_an_invitation_expires():
    with JoinCluster() as c:
        path = c.invite("worker", "w1", "--for", "1s")

        def expired():
            d = c.node("worker", "--name", "w1", "--state-dir", f"{c.dir}/fresh{len(c.workers)}", "--join", path, ready=False)
            gone = wait_for("an answer", lambda: d.p.poll() is not None and "end" or any(x for x in d.log if x and "is ready" in x))
            d.stop()
            if gone == "end":
                c.workers.remove(d)
            return "has expired" in d.text()

        wait_for("it to expire", expired)


def test_a_central_without_the_root_lets_nobody_join():
    with JoinCluster() as c:
        path = c.invite("worker", "w1")
        c.ca.issue("central", "c1")
        listen = c.central_addr
        c.central.stop()
        c.central_flags = [*c.ca.files("c1"), "--ids-wait", "0s"]
        c.start_central(listen)
        w = c.node("worker", "--join", path, ready=False)
        wait_for("it to say so", lambda: "only a central with --ca" in w.text())
        # It goes on by itself once central has the root.
        c.central.stop()
        c.central_flags = ["--ca", c.ca.dir, "--ids-wait", "0s"]
        c.start_central(listen)
        w.ready()


def test_the_invitation_comes_by_standard_input():
    with JoinCluster() as c:
        path = c.invite("worker", "w1")
        with open(path, "rb") as f:
            w = subprocess.Popen([HAWK, "worker", "--join", "-", "--state-dir", f"{c.dir}/s", "--output-dir", f"{c.dir}/out",
                                  "--slots", "1", "--agent-grace", "2s"], stdin=f, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert w.stdout.readline().startswith("ready w1 ")
        w.terminate()
        w.communicate(timeout=BOUND)


def test_certificates_are_renewed_while_daemons_run():
    with JoinCluster(central=("--certificate-life", "9s")) as c:
        c.node("worker", "--join", c.invite("worker", "w1"))
        c.node("dist", "--join", c.invite("dist", "d1"))
        c.wait_nodes(1)
        addrs = {"central": c.central_addr, "dist": c.dist_addrs[0], "worker": next(
            n["address"] for n in c.json("nodes")["nodes"] if n["name"] == "w1")}
        before = {role: certificate_at(addr, c.ca, "ann") for role, addr in addrs.items()}
        for role, addr in addrs.items():
            wait_for(f"the new certificate of the {role}", lambda a=addr, r=role: certificate_at(a, c.ca, "ann") != before[r])
        assert "w1.worker.hawk has renewed its certificate" in c.central.text()
        assert c.hawk("submit", "--wait", "--", "true").returncode == 0
        # The cap on slots and the name stay.
        text = subprocess.run(["openssl", "x509", "-noout", "-text", "-in", f"{c.dir}/worker/w1/tls/node.crt"], check=True,
                              capture_output=True, text=True).stdout
        assert "DNS:w1.worker.hawk" in text, text


def test_links_outlive_renewed_certificates():
    """Each node shows its renewed certificate on its links: none ends with the one that it was opened with."""
    with JoinCluster(central=("--certificate-life", "9s")) as c:
        w = c.node("worker", "--join", c.invite("worker", "w1"))
        d = c.node("dist", "--join", c.invite("dist", "d1"))
        c.wait_nodes(1)
        # Renewed when a third of their life is over: with the fifth, the first two have expired a while ago.
        job = c.hawk("submit", "--class", "short", "--", "sh", "-c", f"until test -e {c.dir}/go; do sleep 0.1; done").stdout.strip()
        for name in ("w1.worker", "d1.dist"):
            wait_for(f"{name} to renew its fifth", lambda n=name: c.central.text().count(f"{n}.hawk has renewed its certificate") >= 5)
        open(f"{c.dir}/go", "w").close()
        c.hawk("wait", job)
        assert c.job(job)["task_list"][0]["attempt"] == 1
        for log in (w.text(), d.text(), c.central.text()):
            assert "expired" not in log and "is lost" not in log, log


def test_a_node_whose_certificate_expired_without_central_says_so():
    with JoinCluster(central=("--certificate-life", "6s")) as c:
        nodes = [c.node("worker", "--join", c.invite("worker", "w1")), c.node("dist", "--join", c.invite("dist", "d1"))]
        c.wait_nodes(1)
        listen = c.central_addr
        c.central.stop()
        for d in nodes:
            wait_for("its certificate to expire", lambda d=d: "the certificate has expired: nobody lets this node in" in d.text())
            assert "`hawk ca invite`" in d.text(), d.text()
            d.stop()
        c.start_central(listen)
        c.dist_addrs.clear()
        c.node("worker", "--join", c.invite("worker", "w1"))
        c.node("dist", "--join", c.invite("dist", "d1"))
        c.wait_nodes(1)


def test_a_certificate_is_renewed_for_its_own_key_alone():
    """Whoever has got hold of a node's connection makes no certificate for a key of his own."""
    with JoinCluster() as c:
        c.node("worker", "--join", c.invite("worker", "w1"))
        kept = f"{c.dir}/worker/w1/tls"
        pair = [open(f"{kept}/{name}", "rb").read() for name in ("node.key", "node.crt")]
        call = grpc.secure_channel(c.central_addr, grpc.ssl_channel_credentials(c.ca.read("roots.crt"), *pair), [
            ("grpc.ssl_target_name_override", "central.hawk")]).unary_unary(
                "/hawk.v1.Nodes/Renew", request_serializer=lambda m: m.SerializeToString(), response_deserializer=pb.JoinReply.FromString)
        own = new_key(f"{c.dir}/own.key")
        assert "BEGIN CERTIFICATE" in call(pb.RenewRequest(request=request_of(f"{kept}/node.key")), timeout=BOUND).certificate
        why = refused(DENIED, lambda: call(pb.RenewRequest(request=request_of(own)), timeout=BOUND))
        assert "for the key that it has" in why, why
        wait_for("central to say so", lambda: "renewed for another key" in c.central.text())


def refused_calls(daemon, token):
    at = re.search(r"metrics are served at (\S+)", daemon.text()).group(1)
    page = urllib.request.Request(f"http://{at}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(page, timeout=BOUND) as r:
        return int(float(re.search(r'hawk_calls_refused_total{code="permission_denied"} (\S+)', r.read().decode()).group(1)))


def test_who_is_revoked_is_out_and_stays_out():
    with tempfile.NamedTemporaryFile("w") as token:
        token.write("m" * 20)
        token.flush()
        with JoinCluster(central=("--metrics-listen", "127.0.0.1:0", "--metrics-token-file", token.name)) as c:
            who_is_revoked_stays_out(c)


def who_is_revoked_stays_out(c):
    w = c.node("worker", "--join", c.invite("worker", "node7"))
    c.node("worker", "--join", c.invite("worker", "w2"), "--state-dir", f"{c.dir}/w2")
    d = c.node("dist", "--join", c.invite("dist", "d1"))
    c.wait_nodes(2)
    c.ca.issue("user", "bob")
    assert c.hawk("nodes", env=c.ca.environment("bob")).returncode == 0
    c.ca.run("revoke", c.ca.dir, "--role", "worker", "--name", "node7")
    # Central ends its connection, and so do the others that hear of it.
    wait_for("central to close it", lambda: "its certificate was revoked" in c.central.text(), bound=10)
    wait_for("the dist to close it", lambda: re.search("worker [0-9]+ at .*: its certificate was revoked", d.text()), bound=10)
    # Both sides learn who it is, and what he needs.
    for log in (c.central, w):
        wait_for("why, in each log", lambda d=log: "node7.worker.hawk: its certificate was revoked: a new invitation" in d.text(), bound=10)
    assert c.hawk("submit", "--wait", "--", "true").returncode == 0  # on w2
    # The node dials on, and central says so once in a while.
    again = "a call from .* was refused: node7.worker.hawk: its certificate was revoked"
    wait_for("it to dial often", lambda: refused_calls(c.central, "m" * 20) >= 7)
    assert len(re.findall(again, c.central.text())) == 1, c.central.text()
    r = c.ca.run("revoke", c.ca.dir, "--role", "user", "--name", "bob")
    assert "version 2" in r, r
    wait_for("bob to be out", lambda: c.hawk("nodes", env=c.ca.environment("bob"), check=None).returncode == 3, bound=10)
    assert "bob.user.hawk: its certificate was revoked: `hawk user add`" in c.hawk("nodes", env=c.ca.environment("bob"), check=3).stderr
    assert c.hawk("nodes").returncode == 0
    # Without central the last list holds, also after a restart.
    for where in (f"{c.dir}/dist/denied", f"{c.dir}/central/denied", f"{c.dir}/w2/w2/denied"):
        wait_for(f"version 2 in {where}", lambda p=where: os.path.exists(p) and "version: 2" in open(p, encoding="ascii").read())
    listen = c.central_addr
    c.central.stop()
    assert "TLS failed" not in c.central.text(), c.central.text()  # what was cut off failed for that reason alone
    d.stop()
    c.dist_addrs.clear()
    d = c.node("dist", ready=False)
    wait_for("its list", lambda: "version 2 of the list is in force" in d.text())
    # A list that somebody has changed counts for nothing.
    with open(f"{c.dir}/dist/denied", encoding="ascii") as f:
        text = f.read()
    with open(f"{c.dir}/dist/new", "w", encoding="ascii") as f:
        f.write(text.replace("version: 2", "version: 9"))
    os.rename(f"{c.dir}/dist/new", f"{c.dir}/dist/denied")
    wait_for("the dist to say so", lambda: "no list that one of the roots has signed" in d.text())
    os.remove(f"{c.ca.dir}/denied")  # central has its own copy
    c.start_central(listen)
    c.dist_addrs.append(d.ready())
    wait_for("node7 to be refused still", lambda: "its certificate was revoked" in c.central.text())
    # An invitation made later lets the name in again.
    w.kill()
    w = c.node("worker", "--join", c.invite("worker", "node7"))
    assert c.hawk("submit", "--wait", "--", "true").returncode == 0


def test_users_that_are_revoked_elsewhere_bring_no_node_back():
    """The user root is kept apart: its list has versions of its own."""
    with JoinCluster() as c, tempfile.TemporaryDirectory(prefix="hawk-users-") as apart:
        d = c.node("dist", "--join", c.invite("dist", "d1"))
        for name in ("users", "roots.crt"):
            subprocess.run(["cp", "-r", f"{c.ca.dir}/{name}", apart], check=True)
        c.ca.run("revoke", c.ca.dir, "--yes", "--role", "worker", "--name", "w1")
        wait_for("w1 to be out", lambda: "version 1 of the list is in force" in d.text(), bound=10)
        hawk_user = [HAWK, "user", "--ca", apart]
        subprocess.run([*hawk_user, "add", "eve", "--uid", "7001", "--out", f"{apart}/eve"], check=True, stdout=subprocess.DEVNULL)
        lists = []
        for _ in range(3):
            subprocess.run([*hawk_user, "revoke", "eve"], check=True, stdout=subprocess.DEVNULL)
            with open(f"{apart}/denied", encoding="ascii") as f:
                lists.append(f.read())

        def put(text):
            with open(f"{c.dir}/central/new", "w", encoding="ascii") as f:
                f.write(text)
            os.rename(f"{c.dir}/central/new", f"{c.dir}/central/denied")
        put(lists[2])
        wait_for("the dist to hear of eve", lambda: "version 3 of the list is in force, from central" in d.text(), bound=10)
        c.ca.run("revoke", c.ca.dir, "--yes", "--role", "worker", "--name", "w2")
        wait_for("w2 to be out", lambda: "version 2 of the list is in force, from central" in d.text(), bound=10)
        put(lists[0])
        wait_for("the early list to be named", lambda: "/central/denied: version 1 of a list of revoked names counts for nothing"
                 in c.central.text(), bound=10)
        # All of them are kept, and hold after a restart.
        for where in ("central", "dist"):
            wait_for("the lists", lambda p=f"{c.dir}/{where}/denied": all(name in open(p, encoding="ascii").read() for name in (
                "w1.worker.hawk", "w2.worker.hawk", "eve.user.hawk")))
        listen = c.central_addr
        c.central.stop()
        c.start_central(listen)
        for version in (2, 3):
            assert f"version {version} of the list is in force, from {c.dir}/central/denied" in c.central.text(), c.central.text()


def test_open_calls_end_with_their_certificate():
    with JoinCluster() as c:
        c.node("worker", "--join", c.invite("worker", "w1"))
        d = c.node("dist", "--join", c.invite("dist", "d1"))
        c.wait_nodes(1)
        c.ca.issue("user", "old", "--for", "8s")
        call = SecureCaller(c.dist_addrs[0], c.ca, "old", expected="dist.hawk").channel.stream_stream(
            "/hawk.v1.Hawk/Session", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=pb.SessionEvent.FromString)

        def requests():
            yield pb.SessionRequest()
            wait_for("the end", lambda: "its certificate has expired" in d.text())

        refused(grpc.StatusCode.UNAVAILABLE, lambda: list(call(requests(), timeout=BOUND)))
        assert "is cut off: old.user.hawk: its certificate has expired" in d.text(), d.text()


def test_open_calls_of_who_is_revoked_end():
    """What he had begun ends, though he asks for nothing anew; others' calls go on."""
    with JoinCluster() as c:
        d = c.node("dist", "--join", c.invite("dist", "d1"))
        c.ca.issue("user", "bob")
        waits = pb.JobSpec(tasks=1, kind=pb.PAYLOAD_TIMER, argv=[b"600s"], detached=True)  # for a worker

        def watch(name):
            caller = SecureCaller(c.dist_addrs[0], c.ca, name, expected="dist.hawk")
            job = caller("Submit", pb.SubmitRequest(job=waits), pb.SubmitReply).job
            call = caller.stream("Watch", pb.WatchRequest(job=job), pb.Event)
            next(call)
            return call

        of_ann, of_bob = watch("ann"), watch("bob")
        c.ca.run("revoke", c.ca.dir, "--role", "user", "--name", "bob")
        wait_for("the end of his", lambda: not of_bob.is_active(), bound=10)
        assert of_bob.code() == grpc.StatusCode.UNAVAILABLE, of_bob
        assert d.text().count("is cut off: bob.user.hawk: its certificate was revoked") == 1, d.text()
        assert of_ann.is_active(), of_ann
        of_ann.cancel()


def test_an_executor_of_who_is_revoked_gets_nothing_more():
    with JoinCluster() as c:
        c.node("dist", "--join", c.invite("dist", "d1"))
        worker = c.node("worker", "--join", c.invite("worker", "w1"), ready=False).ready()
        c.ca.issue("user", "bob")

        def attach(name):
            return Executor(worker, "sum", lambda task: b"done", channel=SecureCaller(worker, c.ca, name, expected="worker.hawk").channel)

        def submit(name):
            return c.hawk("submit", "--wait", "--app", "sum", "--payload", "x", env=c.ca.environment(name), check=None).returncode

        of_ann, of_bob = attach("ann").wait_attached(), attach("bob").wait_attached()
        assert submit("bob") == 0 and len(of_bob.tasks) == 1
        c.ca.run("revoke", c.ca.dir, "--role", "user", "--name", "bob")
        assert of_bob.over.wait(10) and of_bob.status[0] == grpc.StatusCode.UNAVAILABLE, of_bob.status
        again = attach("bob")
        assert again.over.wait(10) and not again.attached.is_set(), again.status
        assert submit("ann") == 0 and len(of_ann.tasks) == 1 and len(of_bob.tasks) == 1
        assert submit("bob") != 0
        of_ann.leave()


def test_the_commands_say_what_is_wrong():
    ca = Roots()

    def usage(*args):
        r = subprocess.run([HAWK, "ca", "invite", ca.dir, *args], capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 2, r
        return r.stderr

    assert "needs --role and --name" in usage("--role", "worker")
    assert "workers and dists can be invited" in usage("--role", "central", "--name", "c")
    assert "at most one *" in usage("--role", "worker", "--name", "a*b*")
    assert "a worker's" in usage("--role", "dist", "--name", "d", "--slots", "3")
    assert "1s to 30d" in usage("--role", "worker", "--name", "w", "--for", "31d")
    assert "--central" in usage("--role", "worker", "--name", "w", "--central", "nowhere")


run_tests(sys.modules[__name__])
