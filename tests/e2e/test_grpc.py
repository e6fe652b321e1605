"""The wire is public: a client made from protos/hawk.proto alone, with Python's grpcio, submits a job, streams
its events and reads the result."""
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from grpctest import Caller, pb, refused
from hawktest import Cluster, Daemon, run_hawk, run_tests, user_environment, wait_for
from healthtest import NOT_SERVING, SERVICE_UNKNOWN, SERVING, health, health_watch

KEY = 4711


def test_submit_watch_read():
    with Cluster(workers=2, slots=2) as c:
        dist = Caller(c.dist_addrs[0])
        spec = pb.JobSpec(name="greet", tasks=3, argv=[b"sh", b"-c", b"echo hello {}; exit {}"], lost_retries=2,
                          task_args=[b"0", b"0", b"7"], each_arg=True, env=[b"PATH=" + os.environb[b"PATH"]])
        job = dist("Submit", pb.SubmitRequest(job=spec), pb.SubmitReply).job
        seen, last = {}, None
        for event in dist.stream("Watch", pb.WatchRequest(job=job, tasks=True), pb.Event):
            last = event.job
            for t in event.tasks:
                seen[t.task] = t
        assert last.state == pb.JOB_FAILED and last.done == 2 and last.failed == 1, last
        assert sorted(seen) == [0, 1, 2] and seen[2].code == 7 and seen[2].outcome == pb.OUTCOME_EXITED, seen
        reply = dist("GetJob", pb.GetJobRequest(job=job, max_tasks=10, spec=True), pb.GetJobReply)
        assert len(reply.tasks) == 3 and reply.spec.name == "greet"
        nodes = {n.node: n for n in dist("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply).nodes}
        for offset, data in ((0, b"hello 0\n"), (6, b"0\n"), (8, b""), (2**63 - 1, b""), (2**63, b""), (2**64 - 1, b"")):
            out = Caller(nodes[reply.tasks[1].worker].address).stream(
                "ReadOutput", pb.ReadOutputRequest(job=job, task=1, offset=offset), pb.OutputChunk)
            assert b"".join(x.data for x in out) == data, offset
        assert [j.job for j in dist("ListJobs", pb.ListJobsRequest(), pb.ListJobsReply).jobs] == [job]
        held = dist("Submit", pb.SubmitRequest(job=pb.JobSpec(tasks=1, argv=[b"true"], submit_held=True)), pb.SubmitReply).job
        reply = dist("ListJobs", pb.ListJobsRequest(unfinished_only=True, limit=1), pb.ListJobsReply)
        assert [j.job for j in reply.jobs] == [held] and not reply.more, reply  # all that are older have ended


def test_cancel_and_errors():
    with Cluster(workers=1) as c:
        dist = Caller(c.dist_addrs[0])
        spec = pb.JobSpec(tasks=1, argv=[b"sleep", b"600"])
        job = dist("Submit", pb.SubmitRequest(job=spec), pb.SubmitReply).job
        assert not dist("Cancel", pb.CancelRequest(job=job), pb.CancelReply).already_ended
        *_, last = dist.stream("Watch", pb.WatchRequest(job=job), pb.Event)
        assert last.job.state == pb.JOB_CANCELLED
        assert dist("Cancel", pb.CancelRequest(job=job), pb.CancelReply).already_ended
        S = grpc.StatusCode
        refused(S.NOT_FOUND, lambda: dist("Cancel", pb.CancelRequest(job="1.999"), pb.CancelReply))
        refused(S.INVALID_ARGUMENT, lambda: dist("Cancel", pb.CancelRequest(job="nonsense"), pb.CancelReply))
        refused(S.INVALID_ARGUMENT, lambda: dist("Submit", pb.SubmitRequest(), pb.SubmitReply))
        refused(S.INVALID_ARGUMENT, lambda: dist("Submit", pb.SubmitRequest(job=pb.JobSpec(tasks=1)), pb.SubmitReply))
        refused(S.INVALID_ARGUMENT, lambda: dist(
            "Submit", pb.SubmitRequest(job=pb.JobSpec(tasks=0, argv=[b"true"])), pb.SubmitReply))
        text = refused(S.RESOURCE_EXHAUSTED, lambda: dist(
            "Submit", pb.SubmitRequest(job=pb.JobSpec(tasks=1000001, argv=[b"true"])), pb.SubmitReply))
        assert "1000000" in text.replace(",", ""), text
        for field, said in (({"pids": 2**32 - 1}, "pids: a task can be limited to 1 to 4194304 processes"),
                            ({"mem_bytes": -1}, "SubmitRequest.job: mem_bytes: no value"),
                            ({"kind": pb.PAYLOAD_TIMER, "argv": [b"soon"]}, "argv: a timer job needs a duration")):
            text = refused(S.INVALID_ARGUMENT, lambda f=field: dist(
                "Submit", pb.SubmitRequest(job=pb.JobSpec(**{"tasks": 1, "argv": [b"true"], **f})), pb.SubmitReply))
            assert said in text, text
        refused(S.UNIMPLEMENTED, lambda: dist("NoSuchCall", pb.CancelRequest(), pb.CancelReply))
        refused(S.UNIMPLEMENTED, lambda: Caller(c.central_addr)(
            "Submit", pb.SubmitRequest(job=spec), pb.SubmitReply))


def test_a_description_that_no_command_sends_ends_no_worker():
    with Cluster(workers=1) as c:
        dist = Caller(c.dist_addrs[0])
        for odd, code in (({"argv": [b"true"], "each_cwd": True}, 0),
                          ({"argv": [b"{}"], "each_arg": True, "task_args": [b""]}, 127)):
            job = dist("Submit", pb.SubmitRequest(job=pb.JobSpec(tasks=1, detached=True, **odd)), pb.SubmitReply).job
            *_, last = dist.stream("Watch", pb.WatchRequest(job=job), pb.Event)
            task = c.job(job)["task_list"][0]
            assert task["code"] == code and task["outcome"] != "lost", (odd, task, last)


def test_a_failed_job_without_environment_runs_again():
    with Cluster(workers=1) as c:
        dist = Caller(c.dist_addrs[0])
        spec = pb.JobSpec(tasks=1, argv=[b"/bin/false"], detached=True)
        job = dist("Submit", pb.SubmitRequest(job=spec), pb.SubmitReply).job
        *_, last = dist.stream("Watch", pb.WatchRequest(job=job), pb.Event)
        assert last.job.state == pb.JOB_FAILED, last
        again = dist("Rerun", pb.RerunRequest(job=job, failed=True), pb.SubmitReply).job
        *_, last = dist.stream("Watch", pb.WatchRequest(job=again), pb.Event)
        assert again != job and last.job.state == pb.JOB_FAILED, last


def test_token_is_checked_on_every_call():
    with tempfile.TemporaryDirectory() as d:
        token = f"{d}/token"
        with open(os.open(token, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
            f.write("s3cret-of-this-test\n")
        central = Daemon("central", "--listen", "127.0.0.1:0", "--state-dir", f"{d}/central", "--token-file", token)
        try:
            addr = central.ready()
            assert Caller(addr, "s3cret-of-this-test")("GetPolicy", pb.GetPolicyRequest(), pb.Policy).flags
            for wrong in (None, "s3cret-of-this-tes", "s3cret-of-this-test2", ""):
                refused(grpc.StatusCode.UNAUTHENTICATED,
                        lambda w=wrong: Caller(addr, w)("GetPolicy", pb.GetPolicyRequest(), pb.Policy))
        finally:
            central.stop()


def test_another_job_under_the_id_of_one_that_is_watched():
    """Who brings a job under an id brings that job, not a larger or smaller one: somebody may be watching it."""
    with Cluster(workers=1) as c:
        dist = Caller(c.dist_addrs[0])

        def spec(n):
            return pb.JobSpec(tasks=n, kind=pb.PAYLOAD_TIMER, argv=[b"600s"], tag=pb.TAG_SHORT)

        def bring(job, n, epoch):
            return dist("Submit", pb.SubmitRequest(job=spec(n), key=KEY, resubmit=pb.Resubmit(job=job, epoch=epoch)),
                        pb.SubmitReply)

        job = dist("Submit", pb.SubmitRequest(job=spec(10), key=KEY), pb.SubmitReply).job
        events = iter(dist.stream("Watch", pb.WatchRequest(job=job, tasks=True), pb.Event))
        assert next(events).job.tasks == 10
        for n in (100000, 1):
            refused(grpc.StatusCode.INVALID_ARGUMENT, lambda n=n: bring(job, n, 3))
        assert bring(job, 10, 5).job == job
        assert not dist("Cancel", pb.CancelRequest(job=job), pb.CancelReply).already_ended
        *_, last = events
        assert last.job.state == pb.JOB_CANCELLED and last.job.cancelled == 10, last


def test_watches_of_each_task_are_limited_together():
    """By the tasks of the jobs, not by the watches of these."""
    with Cluster(workers=1, dist=("--tasks-max", 30_000_000)) as c:
        dist = Caller(c.dist_addrs[0])
        spec = pb.JobSpec(tasks=1000000, kind=pb.PAYLOAD_TIMER, argv=[b"600s"], tag=pb.TAG_SHORT, submit_held=True)
        most = (256 << 20) // 12_000_000
        *jobs, other = [dist("Submit", pb.SubmitRequest(job=spec), pb.SubmitReply).job for _ in range(most + 1)]

        def watch(job, **what):
            events = dist.stream("Watch", pb.WatchRequest(job=job, **what), pb.Event)
            assert next(iter(events)).job.tasks == 1000000
            return events

        watches = [watch(job, tasks=True) for job in jobs]
        assert "too many tasks" in refused(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: watch(other, tasks=True))
        watch(other).cancel()
        again = watch(jobs[0], ended=True)

        def room():
            try:
                return watch(other, tasks=True)
            except grpc.RpcError:
                return None

        again.cancel()
        watches[0].cancel()
        wait_for("a job's room to be given back", room)
        assert not dist("Cancel", pb.CancelRequest(job=other), pb.CancelReply).already_ended


def test_health():
    with Cluster(workers=1) as c:
        worker = next(n["address"] for n in c.json("nodes")["nodes"] if n["role"] == "worker")
        for addr in (c.central_addr, c.dist_addrs[0], worker):
            for service in ("", "hawk.v1.Hawk"):
                assert health(addr, service) == SERVING, (addr, service)
                assert next(health_watch(addr, service)) == SERVING, (addr, service)
            refused(grpc.StatusCode.NOT_FOUND, lambda a=addr: health(a, "other.Service"))
            assert next(health_watch(addr, "other.Service")) == SERVICE_UNKNOWN
        # A daemon that goes says so to those that watch it.
        watching = [health_watch(c.dist_addrs[0], service) for service in ("", "hawk.v1.Hawk", "other.Service")]
        assert [next(w) for w in watching] == [SERVING, SERVING, SERVICE_UNKNOWN]
        c.dists[0].stop()
        assert [next(w) for w in watching[:2]] == [NOT_SERVING] * 2
        for w in watching:
            refused(grpc.StatusCode.UNAVAILABLE, lambda w=w: next(w))


def test_an_output_that_is_followed_from_before_its_task_starts():
    """Who follows it is told that there is none, or gets all of it."""
    with Cluster(workers=1, slots=4) as c:
        dist = Caller(c.dist_addrs[0])
        worker = Caller(next(n.address for n in dist("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply).nodes
                             if n.role == "worker"))
        spec = pb.JobSpec(tasks=1, argv=[b"/bin/echo", b"hello"], detached=True)

        def read(_):
            job = dist("Submit", pb.SubmitRequest(job=spec), pb.SubmitReply).job
            while True:
                try:
                    return b"".join(x.data for x in worker.stream(
                        "ReadOutput", pb.ReadOutputRequest(job=job, follow=True), pb.OutputChunk))
                except grpc.RpcError as e:
                    assert e.code() == grpc.StatusCode.NOT_FOUND, e

        with ThreadPoolExecutor(3) as pool:
            wrong = [x for x in pool.map(read, range(1000)) if x != b"hello\n"]
        assert not wrong, wrong


def told_after(submit_to, read_from, fifo):
    """How long after its task's end somebody who follows an output hears of that; the task runs until FIFO is opened."""
    spec = pb.JobSpec(tasks=1, argv=[b"sh", b"-c", f"echo on; cat {fifo}".encode()], env=[b"PATH=" + os.environb[b"PATH"]])
    dist, seen = Caller(submit_to), b""
    job = dist("Submit", pb.SubmitRequest(job=spec), pb.SubmitReply).job
    wait_for("it to run", lambda: dist("GetJob", pb.GetJobRequest(job=job), pb.GetJobReply).job.running)
    for chunk in Caller(read_from).stream("ReadOutput", pb.ReadOutputRequest(job=job, follow=True), pb.OutputChunk):
        seen += chunk.data
        if chunk.data:
            with open(fifo, "wb"):
                pass
            ended = time.monotonic()
    assert seen == b"on\n", seen
    return time.monotonic() - ended


def test_the_end_of_an_output_that_is_followed():
    """The file is looked at every 100 ms. The end of its task is told when it comes: the quickest of 15 times is less than
    half of that."""
    with tempfile.TemporaryDirectory() as d, Cluster(workers=1) as c:
        os.mkfifo(f"{d}/fifo")
        worker = next(n.address for n in Caller(c.dist_addrs[0])("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply).nodes
                      if n.role == "worker")
        took = [told_after(c.dist_addrs[0], worker, f"{d}/fifo") for _ in range(15)]
        assert min(took) < 0.05, took
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=user_environment(d))
        try:
            addr = up.ready()
            took = [told_after(addr, addr, f"{d}/fifo") for _ in range(15)]
            assert min(took) < 0.05, took
        finally:
            up.stop()


def test_a_newer_dist_may_say_in_events_what_a_job_waits_for():
    def events(request, context):
        for state in (pb.JOB_BLOCKED, pb.JOB_RUNNING, pb.JOB_DONE):
            yield pb.Event(job=pb.Job(job=request.job, name="n", user="u", waits="after", state=state, tasks=1))

    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    watch = grpc.unary_stream_rpc_method_handler(events, pb.WatchRequest.FromString, pb.Event.SerializeToString)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("hawk.v1.Hawk", {"Watch": watch}),))
    server.start()
    try:
        r = run_hawk({**os.environ, "HAWK_DIST": f"127.0.0.1:{port}"}, "wait", "1.1", "--output", "json")
        assert json.loads(r.stdout)["jobs"][0]["waits"] == "after", r
    finally:
        server.stop(None)


run_tests(sys.modules[__name__])
