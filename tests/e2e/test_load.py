"""More than anybody should ask for: who asks too much gets the error that names the limit, and the daemons' memory stays
where it was. HAWK_LOAD=full (make test-load) asks for as much as docs/reliability.md tells; otherwise it is a bounded form.
# timeout: 300"""
# make test-all
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

import grpc

from hawktest import BOUND, HAWK, Cluster, run_tests, wait_for

FULL = os.environ.get("HAWK_LOAD") == "full"
SANITIZED = bool(os.environ.get("SANITIZE"))
JOBS = 10_000 if FULL else 500
CLIENTS = 1_000 if FULL else 60
OUTPUT_MIB = 3_072 if FULL else 200
TASKS = 100_000 if FULL else 20_000
MIB = 1 << 20
# What a daemon may grow by, beside what it was asked to hold: gRPC's buffers, the allocator's slack.
SLACK = (96 if not SANITIZED else 1024) * MIB

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
gen = tempfile.TemporaryDirectory()
subprocess.run(["protoc", f"-I{ROOT}/protos", f"--python_out={gen.name}", f"{ROOT}/protos/hawk.proto"], check=True)
sys.path.insert(0, gen.name)
import hawk_pb2 as pb  # noqa: E402


def rss(daemon):
    with open(f"/proc/{daemon.p.pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """The most memory each daemon had while it was open."""

    def __init__(self, **daemons):
        self.daemons = daemons
        self.before = {n: rss(d) for n, d in daemons.items()}
        self.peak = dict(self.before)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def look(self):
        for n, d in self.daemons.items():
            self.peak[n] = max(self.peak[n], rss(d))

    def run(self):
        while not self.over.wait(0.02):
            self.look()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.over.set()
        self.thread.join()
        if not kind:
            self.look()
        for n in self.daemons:
            print(f"#   {n}: {self.before[n] // MIB} MiB before, {self.peak[n] // MIB} MiB at most", flush=True)

    def grew(self, name):
        return self.peak[name] - self.before[name]


def channel(addr):
    # A connection of its own each: clients are other processes.
    return grpc.insecure_channel(addr, options=[("grpc.use_local_subchannel_pool", 1)])


def unary(ch, method, request, reply):
    call = ch.unary_unary(f"/hawk.v1.Hawk/{method}", request_serializer=type(request).SerializeToString,
                          response_deserializer=reply.FromString)
    return call(request, timeout=BOUND)


def stream(ch, method, request, reply):
    call = ch.unary_stream(f"/hawk.v1.Hawk/{method}", request_serializer=type(request).SerializeToString,
                           response_deserializer=reply.FromString)
    return call(request)


def job_of(tasks=1, text="1h", detached=False, **more):
    return pb.JobSpec(tasks=tasks, kind=pb.PAYLOAD_TIMER, argv=[text.encode()], detached=detached, tag=pb.TAG_SHORT, **more)


def test_jobs_queue_up_to_the_limit():
    with Cluster(workers=1, dist=("--jobs-max", JOBS)) as c:
        ch = channel(c.dist_addrs[0])
        with Sampler(dist=c.dists[0], worker=c.workers[0]) as s:
            submit = ch.unary_unary("/hawk.v1.Hawk/Submit", request_serializer=pb.SubmitRequest.SerializeToString,
                                    response_deserializer=pb.SubmitReply.FromString)
            calls = [submit.future(pb.SubmitRequest(job=job_of()), timeout=BOUND * 2) for _ in range(JOBS)]
            for call in calls:
                assert call.result().job
            for _ in range(50):
                try:
                    submit(pb.SubmitRequest(job=job_of()), timeout=BOUND)
                    raise AssertionError("taken beyond the limit")
                except grpc.RpcError as e:
                    assert e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "dist.jobs_max" in e.details(), e
        assert s.grew("dist") < JOBS * 8192 + SLACK, s.peak
        assert s.grew("worker") < JOBS * 4096 + SLACK, s.peak
        r = c.hawk("submit", "--", "true", check=3)
        assert "dist.jobs_max" in r.stderr, r.stderr
        ch.close()
        c.dists[0].kill()
        c.workers[0].kill()


def test_a_client_that_reads_no_events():
    """Watches of a job of many tasks that all change, more than once."""
    with Cluster(workers=2, slots=64) as c:
        ch = channel(c.dist_addrs[0])
        job = unary(ch, "Submit", pb.SubmitRequest(job=job_of(TASKS, "1ms")), pb.SubmitReply).job
        with Sampler(dist=c.dists[0]) as s:
            deaf = [channel(c.dist_addrs[0]) for _ in range(20)]
            calls = [stream(d, "Watch", pb.WatchRequest(job=job, tasks=True), pb.Event) for d in deaf for _ in range(5)]
            *_, last = stream(ch, "Watch", pb.WatchRequest(job=job, tasks=True), pb.Event)  # who reads is served
            assert last.job.done == TASKS, last
        # The watches share the job's log, and each has one event under way.
        assert s.grew("dist") < SLACK, s.peak
        for call in calls:
            call.cancel()
        for d in deaf:
            d.close()
        # What was held for them is free again: a new one gets everything.
        *_, last = stream(ch, "Watch", pb.WatchRequest(job=job, tasks=True), pb.Event)
        assert last.job.state == pb.JOB_DONE
        ch.close()


def test_hundreds_of_watches_hear_of_every_task():
    """Of a small job all, of a large one what changes: it costs what one watch would cost."""
    few, many = 500, 1_000_000
    with Cluster(workers=2, slots=16) as c:
        ch = channel(c.dist_addrs[0])
        small, large = (unary(ch, "Submit", pb.SubmitRequest(job=job_of(n, "1ms", submit_held=True)), pb.SubmitReply).job
                        for n in (few, many))
        with Sampler(dist=c.dists[0]) as s:
            streams = {(job, i): stream(ch, "Watch", pb.WatchRequest(job=job, ended=i % 2 == 0, tasks=i % 2 == 1), pb.Event)
                       for job in (small, large) for i in range(300)}
            for (job, _), events in streams.items():
                assert next(events).job.job == job
            assert s.grew("dist") < SLACK, s.peak
        unary(ch, "Hold", pb.HoldRequest(job=small, release=True), pb.HoldReply)
        ranges = [pb.TaskRange(first=t, last=t + 9) for t in range(0, many, many // 10)]
        unary(ch, "CancelTasks", pb.CancelTasksRequest(job=large, tasks=ranges), pb.CancelReply)
        cancelled = {t for r in ranges for t in range(r.first, r.last + 1)}
        for (job, i), events in streams.items():
            ended, last = [], None
            while len(ended) < (few if job == small else len(cancelled)):
                last = next(events)
                ended += [t.task for t in last.tasks if t.state in (pb.TASK_DONE, pb.TASK_CANCELLED)]
            assert sorted(ended) == sorted(range(few) if job == small else cancelled), (i, len(ended))
            if job == small:
                *_, last = last, *events
                assert last.job.state == pb.JOB_DONE and last.job.done == few, last
            events.cancel()
        ch.close()


def test_a_task_that_prints_and_clients_that_read_it_or_not():
    with Cluster(workers=1, slots=2) as c:
        job = c.submit("--", "sh", "-c", f"head -c {OUTPUT_MIB}M /dev/zero; test -e {c.dir}/go || exec sleep 600")
        wait_for("it to run", lambda: c.job(job)["task_list"][0]["state"] == "running")
        addr = next(n["address"] for n in c.json("nodes")["nodes"] if n["role"] == "worker")
        with Sampler(worker=c.workers[0], dist=c.dists[0]) as s:
            deaf = [channel(addr) for _ in range(20)]
            request = pb.ReadOutputRequest(job=job, task=0, attempt=1, follow=True)
            calls = [stream(d, "ReadOutput", request, pb.OutputChunk) for d in deaf]
            reader = subprocess.Popen([HAWK, "cat", "--follow", job], stdout=subprocess.PIPE,
                                      env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
            got = 0
            while got < OUTPUT_MIB * MIB:
                data = reader.stdout.read1(MIB)
                assert data, "the output ended early"
                got += len(data)
            with open(f"/proc/{reader.pid}/statm", encoding="ascii") as f:
                client = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            print(f"#   hawk cat: {client // MIB} MiB", flush=True)
            assert got == OUTPUT_MIB * MIB and client < 64 * MIB + SLACK, (got, client)
        assert s.grew("worker") < len(deaf) * 5 * MIB + SLACK, s.peak
        assert s.grew("dist") < SLACK, s.peak
        for call in calls:
            call.cancel()
        for d in deaf:
            d.close()
        c.hawk("cancel", job)
        assert reader.wait(BOUND) in (0, 1)


def test_many_clients_at_once():
    """Each with a connection of its own, a job and a stream of its events."""
    with Cluster(workers=2, slots=16) as c:
        chans = [channel(c.dist_addrs[0]) for _ in range(CLIENTS)]
        with Sampler(dist=c.dists[0]) as s:
            submits = [ch.unary_unary("/hawk.v1.Hawk/Submit", request_serializer=pb.SubmitRequest.SerializeToString,
                                      response_deserializer=pb.SubmitReply.FromString)
                       .future(pb.SubmitRequest(job=job_of(3, "10ms")), timeout=BOUND * 4) for ch in chans]
            jobs = [f.result().job for f in submits]
            streams = [stream(ch, "Watch", pb.WatchRequest(job=j, tasks=True), pb.Event) for ch, j in zip(chans, jobs)]
            for events in streams:
                *_, last = events
                assert last.job.state == pb.JOB_DONE and last.job.done == 3, last
        assert len(set(jobs)) == CLIENTS
        assert s.grew("dist") < CLIENTS * MIB // 2 + SLACK, s.peak
        for ch in chans:
            ch.close()


run_tests(sys.modules[__name__])
