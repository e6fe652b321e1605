"""Tokens: what clients and nodes show, and what whoever has only the clients' gets: nothing that is a node's."""
import os
import subprocess
import sys
import tempfile

import grpc

from grpctest import Caller, pb, refused
from hawktest import BOUND, HAWK, Cluster, Daemon, run_tests, wait_for
from linktest import Link, wire
CLIENTS, NODES = "the-clients-token-of-this-test", "the-nodes-token-of-this-test"
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


def write(path, text, mode=0o600):
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return path


class TokenCluster(Cluster):
    """A cluster whose clients and nodes have a token each."""

    def __init__(self, **more):
        self.tokens = tempfile.TemporaryDirectory()
        self.clients = write(f"{self.tokens.name}/clients", CLIENTS + "\n")
        flags = ("--token-file", self.clients, "--node-token-file", write(f"{self.tokens.name}/nodes", NODES + "\n"))
        super().__init__(central=flags, worker=flags, dist=flags, **more)

    def hawk(self, *args, env=None, **more):
        return super().hawk(*args, env={"HAWK_TOKEN_FILE": self.clients, **(env or {})}, **more)


def link_with(addr, token, role, name="forged", node=0, version=2):
    return Link(grpc.insecure_channel(addr), role, name, node, version,
                [("authorization", f"Bearer {token}")] if token else [])


def opening_is_refused(addr, token, role, **more):
    link = link_with(addr, token, role, **more)
    try:
        return refused(UNAUTHENTICATED, lambda: next(iter(link.call)))
    finally:
        link.close()


def test_a_clients_token_opens_no_link():
    with TokenCluster() as c:
        assert c.hawk("submit", "--wait", "--", "true").returncode == 0
        worker = next(n["address"] for n in c.json("nodes")["nodes"] if n["role"] == "worker")
        for addr in (c.central_addr, c.dist_addrs[0], worker):
            for role in ("worker", "dist", "central"):
                assert "cluster.node_token_file" in opening_is_refused(addr, CLIENTS, role)
            opening_is_refused(addr, None, "worker")
            opening_is_refused(addr, NODES[:-1], "worker")
        for addr in (c.central_addr, c.dist_addrs[0]):
            assert Caller(addr, CLIENTS)("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply).nodes
            refused(UNAUTHENTICATED, lambda a=addr: Caller(a)("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply))


def test_the_nodes_token_opens_links_and_makes_calls():
    with TokenCluster(workers=1) as c:
        link = link_with(c.central_addr, NODES, "worker")
        link.join(wire.ROLE_WORKER, slots=1)
        assert link.hear("joined").node > 0
        link.close()
        assert Caller(c.dist_addrs[0], NODES)("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply).nodes


def ends(link, *words):
    """The link is broken, and this is why."""
    try:
        for _ in link.call:
            pass
    except grpc.RpcError as e:
        assert all(w in e.details() for w in words), e
        return
    finally:
        link.close()
    raise AssertionError("the link was closed in good order")


def test_a_node_keeps_to_its_role():
    with TokenCluster(workers=1) as c:
        worker = next(n["address"] for n in c.json("nodes")["nodes"] if n["role"] == "worker")
        ends(link_with(c.central_addr, NODES, "central"), "central answers there, which a central does not dial")
        ends(link_with(worker, NODES, "central", node=9), "which a central does not dial")
        ends(link_with(c.dist_addrs[0], NODES, "dist", node=9), "which a dist does not dial")
        ends(link_with(c.dist_addrs[0], NODES, "worker", node=9), "which a worker does not dial")
        report = wire.JobReport(name="x", mean_us=1, task_us=1, tasks=1)

        for name in ("liar", "liar", "liar", "other"):  # each of them has a line
            link = link_with(c.central_addr, NODES, "worker", name=name)
            link.join(wire.ROLE_WORKER, name=name, slots=1)
            link.hear("joined")
            link.send(job_report=report)
            ends(link, "a worker may not send JOB_REPORT to a central")
        wait_for("the log to name the last one", lambda: "worker other (127.0.0.1:" in c.central.text())
        blamed = [x for x in c.central.log if "sent JOB_REPORT" in x]
        assert len(blamed) == 2 and "worker liar (127.0.0.1:" in blamed[0], blamed

        link = link_with(c.central_addr, NODES, "worker")
        link.send(joined=wire.Joined(cluster=1, heartbeat_us=1, lease_us=1, node=1, central_epoch=99))
        ends(link, "may not send JOINED to a central")
        link = link_with(worker, NODES, "worker", node=77)
        link.send(task_launch=wire.TaskLaunch(id=wire.Try(job=(1 << 40) | 1, epoch=1, attempt=1), request=1))
        ends(link, "a worker may not send TASK_LAUNCH to a worker")


def test_who_may_join():
    with TokenCluster(workers=1) as c:
        def refusal(opened, claimed, **more):
            link = link_with(c.central_addr, NODES, opened)
            link.join(claimed, **more)
            why = link.hear("refused").why
            link.close()
            return why

        assert "central is called so" in refusal("worker", wire.ROLE_WORKER, name="central", slots=1)
        assert "in the role that its link was opened in" in refusal("worker", wire.ROLE_DIST)
        assert "in the role that its link was opened in" in refusal("dist", wire.ROLE_WORKER, slots=1)
        link = link_with(c.central_addr, NODES, "worker")
        link.join(wire.ROLE_CENTRAL, slots=1)
        ends(link, "JOIN at byte 1: a value is missing or out of range")
        w = Daemon("worker", "--name", "central", "--central", c.central_addr)
        assert w.wait() == 2 and "central is called so" in w.text(), w.text()
        assert sum(n["name"] == "central" for n in c.json("nodes")["nodes"]) == 1


def test_a_daemon_with_the_clients_token_alone_does_not_join():
    with TokenCluster(workers=1) as c:
        w = Daemon("worker", "--name", "odd", "--central", c.central_addr, "--state-dir", f"{c.dir}/odd", "--output-dir",
                   f"{c.dir}/odd", "--token-file", c.clients)
        c.workers.append(w)
        wait_for("the reason in its log", lambda: "set cluster.node_token_file" in w.text())
        assert not any(n["name"] == "odd" for n in c.json("nodes")["nodes"])


def test_nobody_moves_anothers_job():
    with TokenCluster(workers=1) as c:
        dist = Caller(c.dist_addrs[0], CLIENTS)

        def submit(command, **more):
            spec = pb.JobSpec(tasks=1, kind=pb.PAYLOAD_TIMER, argv=[command.encode()], tag=pb.TAG_SHORT)
            return dist("Submit", pb.SubmitRequest(job=spec, **more), pb.SubmitReply).job

        for key in (4711, 0):
            job = submit("600s", key=key)
            for epoch in (1 + 2, 1 + 2 * 100):
                for forged in (1, 4712, 2**64 - 1):
                    words = refused(grpc.StatusCode.PERMISSION_DENIED, lambda j=job, e=epoch, k=forged: submit(
                        "0ms", key=k, resubmit=pb.Resubmit(job=j, epoch=e)))
                    assert "another key" in words, words
            reply = dist("GetJob", pb.GetJobRequest(job=job, spec=True), pb.GetJobReply)
            assert reply.job.epoch == 1 and list(reply.spec.argv) == [b"600s"], reply
            if key:
                assert submit("600s", key=key, resubmit=pb.Resubmit(job=job, epoch=3)) == job
                assert dist("GetJob", pb.GetJobRequest(job=job), pb.GetJobReply).job.epoch == 3
            dist("Cancel", pb.CancelRequest(job=job), pb.CancelReply)


def test_what_cannot_be_moved():
    """A job without a key, or a detached one: not to its own dist, and not to another."""
    with TokenCluster(workers=1, dists=2) as c:
        dists = [Caller(a, CLIENTS) for a in c.dist_addrs]

        def submit(dist, detached=False, **more):
            spec = pb.JobSpec(tasks=1, kind=pb.PAYLOAD_TIMER, argv=[b"600s"], tag=pb.TAG_SHORT, detached=detached)
            return dist("Submit", pb.SubmitRequest(job=spec, **more), pb.SubmitReply).job

        for detached in (False, True):
            for key in (0, 4711 + detached):
                job = submit(dists[0], detached, key=key)
                for dist in dists:
                    words = refused(grpc.StatusCode.INVALID_ARGUMENT, lambda d=dist, j=job, t=detached: submit(
                        d, t, resubmit=pb.Resubmit(job=j, epoch=3)))
                    assert "key is missing" in words, words
                if detached:
                    for dist in dists:
                        words = refused(grpc.StatusCode.INVALID_ARGUMENT, lambda d=dist, j=job: submit(
                            d, True, key=4711, resubmit=pb.Resubmit(job=j, epoch=3)))
                        assert "a detached job stays with its dist" in words, words
                    words = refused(grpc.StatusCode.INVALID_ARGUMENT, lambda j=job, k=key: submit(
                        dists[0], key=k or 4711, resubmit=pb.Resubmit(job=j, epoch=3)))
                    assert "a detached job stays with its dist" in words, words
                assert dists[0]("GetJob", pb.GetJobRequest(job=job), pb.GetJobReply).job.epoch == 1
                dists[0]("Cancel", pb.CancelRequest(job=job), pb.CancelReply)


def test_no_report_moves_the_cutoff_beyond_its_bound():
    ages = 10000 * 86400 * 10**6
    with TokenCluster(workers=1) as c:
        central = Caller(c.central_addr, CLIENTS)

        def cutoff():
            return central("GetPolicy", pb.GetPolicyRequest(), pb.Policy).cutoff_us

        dist = link_with(c.central_addr, NODES, "dist")
        dist.join(wire.ROLE_DIST)
        dist.hear("joined")
        for _ in range(200):
            dist.send(job_report=wire.JobReport(name="x", mean_us=ages, task_us=ages, tasks=1))
        wait_for("the reports to be heard", lambda: cutoff() != 10 * 10**6)
        assert cutoff() == 3600 * 10**6
        dist.send(job_report=wire.JobReport(name="x", mean_us=ages, task_us=1, tasks=1))
        ends(dist, "JOB_REPORT at byte 1: a value is missing or out of range")


def test_one_token_for_all_works_and_warns():
    with tempfile.TemporaryDirectory() as d:
        flags = ("--token-file", write(f"{d}/token", CLIENTS))
        with Cluster(workers=1, dists=0, central=flags, worker=flags) as c:
            for daemon in (c.central, *c.workers):
                assert "cluster.node_token_file is not set" in daemon.text(), daemon.text()
            link_with(c.central_addr, CLIENTS, "worker").close()
        with open(f"{d}/hawk.yaml", "w", encoding="ascii") as f:
            f.write(f"cluster:\n  token_file: {d}/token\n")
        said = c.hawk("config", "check", f"{d}/hawk.yaml")
        assert said.stdout.endswith(": ok\n") and "cluster.node_token_file is not set" in said.stderr, said


def test_bad_token_files():
    with tempfile.TemporaryDirectory() as d:
        good = write(f"{d}/good", CLIENTS)
        for name, text, why in (("one", "x\n", "has 1"), ("short", "x" * 15, "has 15"), ("empty", "", "has 0"),
                                ("lines", CLIENTS + "\n" + NODES + "\n", "an end of line"), ("nul", CLIENTS + "\0", "NUL"),
                                ("blank", "the clients token of this test", "visible"), ("long", "x" * 1025, "has 1025")):
            bad = write(f"{d}/{name}", text)
            for flags in (("--token-file", bad), ("--token-file", good, "--node-token-file", bad)):
                c = Daemon("central", "--listen", "127.0.0.1:0", "--state-dir", f"{d}/c", *flags)
                assert c.wait() == 2 and bad in c.text() and why in c.text() and "make one with" in c.text(), c.text()
            client = Daemon("nodes", "--dist", "127.0.0.1:1", "--token-file", bad)
            assert client.wait() == 2 and bad in client.text() and why in client.text(), client.text()
            if "\0" not in text and text:
                client = Daemon("nodes", "--dist", "127.0.0.1:1", env={"HAWK_TOKEN": text, "HAWK_TOKEN_FILE": ""})
                assert client.wait() == 2 and "HAWK_TOKEN" in client.text(), client.text()


def test_the_check_of_a_configuration_reads_the_tokens():
    with tempfile.TemporaryDirectory() as d:
        def check(code):
            r = subprocess.run([HAWK, "config", "check", f"{d}/hawk.yaml"], capture_output=True, text=True, timeout=BOUND)
            assert r.returncode == code, r
            return r.stderr

        with open(f"{d}/hawk.yaml", "w", encoding="ascii") as f:
            f.write(f"cluster:\n  token_file: {d}/token\n  node_token_file: {d}/node-token\n")
        said = check(2)
        for line, name in ((2, "token"), (3, "node-token")):
            assert f"{d}/hawk.yaml:{line}: cluster." in said and f"token file {d}/{name}: No such file" in said, said
        write(f"{d}/token", CLIENTS)
        write(f"{d}/node-token", CLIENTS)
        assert "hawk.yaml:3: cluster.node_token_file" in check(2)
        write(f"{d}/node-token", "short")
        assert "has 5" in check(2)
        write(f"{d}/node-token", NODES)
        assert check(0) == ""


def test_tokens_that_do_not_go_together():
    with tempfile.TemporaryDirectory() as d:
        def refusal(*flags):
            c = Daemon("central", "--listen", "127.0.0.1:0", "--state-dir", f"{d}/c", *flags)
            assert c.wait() == 2, c.text()
            return c.text()

        one, copy = write(f"{d}/one", CLIENTS), write(f"{d}/copy", CLIENTS + "\n")
        readable = write(f"{d}/readable", NODES, 0o640)
        assert "hold the same token" in refusal("--token-file", one, "--node-token-file", copy)
        assert "the same file" in refusal("--token-file", one, "--node-token-file", one)
        assert "without cluster.token_file" in refusal("--node-token-file", one)
        assert "chmod 600" in refusal("--token-file", one, "--node-token-file", readable)
        assert "/nonexistent" in refusal("--token-file", one, "--node-token-file", "/nonexistent")


run_tests(sys.modules[__name__])
