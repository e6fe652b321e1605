"""What the tests of signed submissions share: a cluster that requires signatures, and dists that were broken into."""
import contextlib
import hashlib
import os
import queue
import threading
from concurrent import futures

from tlstest import EXPECTED, TlsCluster, secure_channel

import grpc

from grpctest import generated
from hawktest import BOUND
from linktest import Link

api, wire = generated("hawk"), generated("cluster")
DENIED = grpc.StatusCode.PERMISSION_DENIED


class SignedCluster(TlsCluster):
    """Dists and workers require signatures; centrals look at none."""

    daemon_flags = ("--require-signatures",)

    def path(self, name):
        return f"{self.dir}/{name}"

    def has(self, name):
        return os.path.exists(self.path(name))


class Catcher:
    """A dist that was broken into, to its clients: it keeps what they submit."""

    def __init__(self, cluster):
        ca = cluster.ca
        ca.issue("dist", "broken")
        self.caught = []
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        credentials = grpc.ssl_server_credentials([(ca.read("broken.key"), ca.read("broken.crt"))], ca.read("roots.crt"), True)
        self.port = self.server.add_secure_port("127.0.0.1:0", credentials)
        handlers = {"Session": grpc.stream_stream_rpc_method_handler(self.session, api.SessionRequest.FromString, api.SessionEvent.SerializeToString),
                    "Submit": grpc.unary_unary_rpc_method_handler(self.submit, api.SubmitRequest.FromString, api.SubmitReply.SerializeToString),
                    "ListNodes": grpc.unary_unary_rpc_method_handler(self.nodes, api.ListNodesRequest.FromString, api.ListNodesReply.SerializeToString)}
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("hawk.v1.Hawk", handlers),))
        self.server.start()

    def nodes(self, request, context):
        return api.ListNodesReply(self=9, nodes=[api.Node(node=9, name="broken", role="dist", state="up", address=f"127.0.0.1:{self.port}")])

    def submit(self, request, context):
        self.caught.append(request.job)
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "caught")

    def session(self, requests, context):
        for r in requests:
            self.caught += [s.job for s in r.submit]
            yield api.SessionEvent(refused=[api.SessionRefused(tag=s.tag, status=grpc.StatusCode.INVALID_ARGUMENT.value[0], error="caught")
                                            for s in r.submit])

    def catch(self, cluster, *args, **more):
        """The JobSpec that `hawk submit ARGS` sends."""
        done = cluster.hawk("submit", *args, check=None, env={"HAWK_DIST": f"127.0.0.1:{self.port}"}, **more)
        assert "caught" in done.stderr, done
        return self.caught.pop()


class BrokenDist:
    """A dist that was broken into, to a worker: it has the dist's key, and gives out what it likes."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.central = Link(secure_channel(cluster.central_addr, cluster.ca, "broken", EXPECTED["central"]), "dist", "broken")
        self.central.join(wire.ROLE_DIST, name="broken")
        self.node = self.central.hear("joined").node
        self.link = Link(secure_channel(cluster.worker_addr(), cluster.ca, "broken", EXPECTED["worker"]), "dist", "broken", node=self.node)
        self.number = 0

    def next_job(self):
        self.number += 1
        return self.node << 40 | self.number

    def give(self, spec, task=0, job=None, proof=None, arg=None, attempt=1):
        """Has the worker run one task of the job. Returns its TaskFinished."""
        job = job or self.next_job()
        sent = api.JobSpec.FromString(spec.SerializeToString())
        args = list(sent.task_args)
        sent.ClearField("task_args")
        arg = arg if arg is not None else args[task] if args else None
        proof = proof if proof is not None else proof_of(args, task) if args else None
        self.link.send(probe=wire.Probe(job=job, count=1, app=number_of(spec.app), user=user_number("ann")))
        for batch in self.link.call:
            for e in batch.envelopes:
                kind = e.WhichOneof("body")
                if kind == "beat" and e.beat.ask:
                    self.link.send(beat=wire.Beat(ask=False))
                elif kind == "task_request" and e.task_request.job == job:
                    self.link.send(task_launch=wire.TaskLaunch(
                        id=getattr(wire, "Try")(job=job, task=task, epoch=1, attempt=attempt), desc=None if e.task_request.has_spec else sent, arg=arg,
                        request=e.task_request.request, proof=proof))
                elif kind == "task_finished" and e.task_finished.id.job == job:
                    self.link.send(finish_ack=wire.FinishAck(id=e.task_finished.id))
                    return e.task_finished
        raise AssertionError("the link ended")

    def close(self):
        self.link.close()
        self.central.close()


def serve_links(ca, name, dialled):
    """A server with that node's key, which calls dialled() for whoever opens a link to it; and its address."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    credentials = grpc.ssl_server_credentials([(ca.read(f"{name}.key"), ca.read(f"{name}.crt"))], ca.read("roots.crt"), True)
    addr = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"
    link = grpc.stream_stream_rpc_method_handler(dialled, wire.Batch.FromString, wire.Batch.SerializeToString)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("hawk.v1.Peer", {"Link": link}),))
    return server, addr


class BrokenWorker:
    """A worker of which the key was stolen: central has let it in, and the dist has dialled it. It tells both what it likes."""

    def __init__(self, cluster):
        ca = cluster.ca
        ca.issue("worker", "broken")
        self.heard, self.to_dist = queue.Queue(), queue.Queue()
        self.server, addr = serve_links(ca, "broken", self.dialled)
        self.central = Link(secure_channel(cluster.central_addr, ca, "broken", EXPECTED["central"]), "worker", "broken")
        self.central.join(wire.ROLE_WORKER, name="broken", addr=addr, slots=1)
        self.node = self.central.hear("joined").node
        self.server.start()
        assert self.heard.get(timeout=BOUND) == "the dist"

    def dialled(self, requests, context):
        context.send_initial_metadata([("hawk-version", "3"), ("hawk-role", "worker"), ("hawk-node", str(self.node)), ("hawk-name", "broken")])
        self.heard.put("the dist")
        threading.Thread(target=self.listen, args=(requests,), daemon=True).start()
        while (batch := self.to_dist.get()):
            yield batch

    def listen(self, requests):
        with contextlib.suppress(grpc.RpcError, ValueError):
            for batch in requests:
                for e in batch.envelopes:
                    if e.WhichOneof("body") == "finish_ack":
                        self.heard.put(e.finish_ack.id)
                    elif e.WhichOneof("body") == "beat" and e.beat.ask:
                        self.to_dist.put(wire.Batch(envelopes=[wire.Envelope(beat=wire.Beat(ask=False))]))

    def ends(self, job, attempt, outcome):
        """Tells the dist and central that a try of the job's first task has ended. They have heard it when this returns."""
        try_id = getattr(wire, "Try")(job=job, task=0, epoch=1, attempt=attempt)
        end = wire.TaskFinished(id=try_id, outcome=outcome)
        self.to_dist.put(wire.Batch(envelopes=[wire.Envelope(task_finished=end)]))
        assert self.heard.get(timeout=BOUND) == try_id
        self.central.send(task_finished=end)
        assert self.central.hear("finish_ack").id == try_id

    def close(self):
        self.to_dist.put(None)
        self.central.close()
        self.server.stop(None).wait()


class BrokenCentral:
    """A central that was broken into, to a worker that joins it: it has central's key, and gives out what it likes."""

    def __init__(self, cluster):
        ca = cluster.ca
        ca.issue("central", "broken-central")
        self.heard, self.to_worker, self.jobs = queue.Queue(), queue.Queue(), 0
        self.server, self.addr = serve_links(ca, "broken-central", self.dialled)
        self.server.start()

    def dialled(self, requests, context):
        context.send_initial_metadata([("hawk-version", "3"), ("hawk-role", "central"), ("hawk-node", str(0xffffff)), ("hawk-name", "broken-central")])
        threading.Thread(target=self.listen, args=(requests,), daemon=True).start()
        while (envelope := self.to_worker.get()):
            yield wire.Batch(envelopes=[envelope])

    def listen(self, requests):
        with contextlib.suppress(grpc.RpcError, ValueError):
            for batch in requests:
                for e in batch.envelopes:
                    kind = e.WhichOneof("body")
                    if kind == "join":
                        self.send(joined=wire.Joined(cluster=1, heartbeat_us=200000, lease_us=600 * 10**6, node=2, central_epoch=1))
                        self.send(partition=wire.Partition(epoch=1, general=True))
                    elif kind == "heartbeat" and not e.heartbeat.quiet:
                        self.send(heartbeat_ack=wire.HeartbeatAck(seq=e.heartbeat.seq))
                    elif kind == "task_finished":
                        self.send(finish_ack=wire.FinishAck(id=e.task_finished.id))
                        self.heard.put(e.task_finished)

    def send(self, **body):
        self.to_worker.put(wire.Envelope(**body))

    def give(self, spec, task=0, arg=None):
        """Has the worker run one task of a long job. Returns its TaskFinished."""
        self.jobs += 1
        sent = api.JobSpec.FromString(spec.SerializeToString())
        args = list(sent.task_args)
        sent.ClearField("task_args")
        self.send(task_enqueue=wire.TaskEnqueue(
            id=getattr(wire, "Try")(job=9 << 40 | self.jobs, task=task, epoch=1, attempt=1), desc=sent, estimate_us=10**6,
            arg=arg if arg is not None else args[task] if args else None, proof=proof_of(args, task) if args else None))
        return self.heard.get(timeout=BOUND)

    def close(self):
        self.to_worker.put(None)
        self.server.stop(None).wait()


def id_of(job):
    node, number = map(int, job.split("."))
    return node << 40 | number


def number_of(name):
    """FNV-1a, as workers number applications and users; 0: no name."""
    number = 0xcbf29ce484222325
    for byte in name.encode():
        number = (number ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return number if name else 0


def user_number(name):
    return (number_of(name) ^ number_of(name) >> 32) & 0xffffffff


def leaf(data):
    return hashlib.sha256(b"\0" + data).digest()


def proof_of(args, task):
    level, proof = [leaf(a) for a in args], b""
    while len(level) > 1:
        if task ^ 1 < len(level):
            proof += level[task ^ 1]
        level = [hashlib.sha256(b"\1" + level[i] + level[i + 1]).digest() if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
        task //= 2
    return proof


def not_run(finished, why):
    assert finished.outcome == api.OUTCOME_NOT_STARTED and why in finished.result.decode(), finished
    return True


def ran(finished):
    return finished.outcome == api.OUTCOME_EXITED and finished.code == 0
