#!/usr/bin/python3
"""Session on a plain stream, that is, on a unix socket without HTTP/2: jobs from a client without gRPC. It gets what a
client with gRPC gets, and hears of what is wrong in the same words."""
# seconds: 25
# make test-all
import os
import socket
import struct
import sys
import tempfile

import grpc

import pythontest  # noqa: F401: finds the package
from executortest import Executor
from grpctest import Caller, pb
from hawktest import BOUND, Cluster, Daemon, run_tests, user_environment, wait_for
from userstest import ANN, UserCluster, others_exist

from hawk import _plain

SESSION = "/hawk.v1.Hawk/Session"
MESSAGE_MAX = 100 << 20
OK = grpc.StatusCode.OK


def timer(ms=0, tasks=1, **more):
    return pb.JobSpec(tasks=tasks, kind=pb.PAYLOAD_TIMER, argv=[f"{ms}ms".encode()], **more)


def submit_of(*specs, first=0, key=0):
    return pb.SessionRequest(submit=[pb.SessionSubmit(tag=first + i, job=s, key=key) for i, s in enumerate(specs)])


class Session(_plain.Stream):
    """What events say gathers per tag."""

    def __init__(self, addr, *requests, token=None):
        super().__init__(addr, SESSION, token)
        self.socket.settimeout(BOUND)
        self.jobs, self.refused, self.tasks, self.ends, self.beats = {}, {}, {}, {}, 0
        self.ask(*requests)

    def ask(self, *requests):
        self.send(*(r.SerializeToString() for r in requests))

    def take(self):
        """One event: in the order that the protocol asks for, and each thing once."""
        event = pb.SessionEvent.FromString(self.receive())
        self.beats += event.beat_us > 0
        self.jobs.update((j.tag, j) for j in event.jobs)
        self.refused.update((r.tag, r) for r in event.refused)
        for t in event.tasks:
            assert t.tag in self.jobs and t.tag not in self.ends and t.task not in self.tasks.setdefault(t.tag, {}), t
            self.tasks[t.tag][t.task] = t
        for e in event.ends:
            assert e.tag in self.jobs and e.tag not in self.ends, e
            self.ends[e.tag] = e

    def until(self, cond):
        while not cond():
            self.take()
        return self

    def ended(self):
        """(code, text) of the end of the call."""
        try:
            while True:
                self.take()
        except _plain.Ended as e:
            self.close()
            return e.code, e.details


class Up(Daemon):
    """A `hawk up` in a directory of its own."""

    def __init__(self, d, *flags):
        super().__init__("up", "--slots", "8", "--socket", f"{d}/up.sock", "--output-dir", f"{d}/out", *flags,
                         env=user_environment(d))
        self.addr = self.ready()


def test_many_jobs():
    with tempfile.TemporaryDirectory() as d:
        up = Up(d)
        n = 2000
        s = Session(up.addr, submit_of(*(timer(tasks=1 + i % 3) for i in range(n))))
        s.until(lambda: len(s.ends) == n)
        assert len({j.job for j in s.jobs.values()}) == n
        assert all(s.ends[i].state == pb.JOB_DONE and sorted(s.tasks[i]) == list(range(1 + i % 3)) for i in range(n))
        s.ask(submit_of(pb.JobSpec(tasks=2, argv=[b"sh", b"-c", b"exit {}"], task_args=[b"0", b"7"], each_arg=True,
                                   env=[b"PATH=" + os.environb[b"PATH"]]),
                        pb.JobSpec(tasks=1, argv=[b"/no/such/program"]), pb.JobSpec(tasks=0), timer(600000), first=n))
        s.until(lambda: len(s.ends) == n + 2 and n + 2 in s.refused and n + 3 in s.jobs)
        assert (s.tasks[n][1].state, s.tasks[n][1].code) == (pb.TASK_FAILED, 7)
        assert "/no/such/program" in s.tasks[n + 1][0].message
        assert s.refused[n + 2].status == grpc.StatusCode.INVALID_ARGUMENT.value[0], s.refused
        s.ask(pb.SessionRequest(cancel=[pb.SessionCancel(tag=n + 3)], beats=True))
        s.until(lambda: n + 3 in s.ends and s.beats >= 3)
        assert s.ends[n + 3].state == pb.JOB_CANCELLED
        s.close()
        assert up.stop() == 0, up.text()


def both_ways(addr, *requests, token=None):
    """The same from gRPC and on a plain stream: the end of the call."""
    call = Caller(addr, token).both("Session", iter(requests), pb.SessionEvent)
    try:
        assert not list(call)
    except grpc.RpcError:
        pass
    got = Session(addr, *requests, token=token).ended()
    assert got == (call.code().value[0], call.details()), (got, call.code(), call.details())
    return call.code(), call.details()


def test_what_is_wrong_is_said_as_to_grpcs_clients():
    S = grpc.StatusCode
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/token", "w", encoding="utf-8") as f:
            f.write("the-clients-token-of-this-test\n")
        os.chmod(f"{d}/token", 0o600)
        up = Up(d, "--token-file", f"{d}/token")
        token = "the-clients-token-of-this-test"
        code, text = both_ways(up.addr, pb.SessionRequest(beats=True))
        assert code == S.UNAUTHENTICATED and "token is missing or wrong" in text, text
        code, text = both_ways(up.addr, submit_of(*([timer()] * 10001)), token=token)
        assert code == S.INVALID_ARGUMENT and "10000" in text, text
        twice = submit_of(timer(600000))
        s = Session(up.addr, twice, twice, token=token)
        code, text = s.ended()
        assert code == S.INVALID_ARGUMENT.value[0] and "tag 0" in text, text
        s = Session(up.addr, token=token)
        s.send(b"\x0a\xff\xff")
        assert s.ended()[0] == S.INVALID_ARGUMENT.value[0]
        s = Session(up.addr, token=token)
        s.socket.sendall(struct.pack(">BI", _plain.MESSAGE, MESSAGE_MAX + 1))
        code, text = s.ended()
        assert code == S.RESOURCE_EXHAUSTED.value[0] and str(MESSAGE_MAX) in text, text
        assert up.stop() == 0, up.text()
    with UserCluster(workers=1) as c:  # behind unix sockets
        code, _ = both_ways(c.central_addr, submit_of(timer()))
        assert code == S.UNIMPLEMENTED, code


def gone(s, how):
    if how == "half":
        s.socket.shutdown(socket.SHUT_WR)
    else:
        s.close()


def test_a_client_that_closes_its_side_has_gone():
    with tempfile.TemporaryDirectory() as d:
        up = Up(d, "--set", "up.client_grace=500ms")
        for how in ("closed", "half"):
            s = Session(up.addr, submit_of(timer(600000), timer(600000, detached=True)))
            s.until(lambda: len(s.jobs) == 2)
            jobs = [s.jobs[i].job for i in range(2)]
            gone(s, how)
            ask = Caller(up.addr)

            def state(i):
                return ask("GetJob", pb.GetJobRequest(job=jobs[i]), pb.GetJobReply).job.state
            wait_for("the job that nobody watches is cancelled", lambda: state(0) == pb.JOB_CANCELLED)
            assert state(1) in (pb.JOB_RUNNING, pb.JOB_WAITING), state(1)
            if how == "half":  # no more is told
                code, _ = s.ended()
                assert code == _plain.UNAVAILABLE
            Caller(up.addr)("Cancel", pb.CancelRequest(job=jobs[1]), pb.CancelReply)
        assert up.stop() == 0, up.text()


def test_a_client_that_does_nothing_is_not_taken_for_dead():
    """There are no pings. What it did not read is there when it does, and others are served."""
    with tempfile.TemporaryDirectory() as d:
        up = Up(d, "--set", "up.client_grace=500ms")
        x = Executor(up.addr, "large", lambda t: bytes(1 << 20), slots=8).wait_attached()
        large = [pb.JobSpec(tasks=50, kind=pb.PAYLOAD_APP, app="large") for _ in range(2)]
        deaf = Session(up.addr, submit_of(*large, timer(12000)))
        wait_for("its tasks are done", lambda: len(x.tasks) == 100)
        other = Session(up.addr, submit_of(*([timer(tasks=5)] * 100), timer(12000), first=1))
        other.until(lambda: len(other.ends) == 101)
        other.close()
        deaf.until(lambda: len(deaf.ends) == 3)
        assert {e.state for e in deaf.ends.values()} == {pb.JOB_DONE}
        assert all(len(t.result) == 1 << 20 and not t.result_lost for i in range(2) for t in deaf.tasks[i].values())
        assert len(deaf.tasks[0]) == len(deaf.tasks[1]) == 50 and len(x.tasks) == 100
        deaf.close()
        x.leave()
        assert up.stop() == 0, up.text()


def test_a_client_that_leaves_too_much_unread():
    with tempfile.TemporaryDirectory() as d:
        up = Up(d)
        n = 5
        s = Session(up.addr, submit_of(*([pb.JobSpec(tasks=1000000, kind=pb.PAYLOAD_APP, app="nobody")] * n)))
        s.ask(pb.SessionRequest(cancel=[pb.SessionCancel(tag=t) for t in range(n)]))
        ask = Caller(up.addr)
        wait_for("those that it keeps are cancelled", lambda: {
            j.state for j in ask("ListJobs", pb.ListJobsRequest(), pb.ListJobsReply).jobs} == {pb.JOB_CANCELLED})
        code, text = s.ended()
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0] and "64 MiB" in text, (code, text)
        assert up.stop() == 0, up.text()


def test_whose_jobs_they_are():
    if not others_exist():
        return
    with UserCluster(workers=1) as c:
        os.seteuid(ANN)
        try:
            s = Session(c.dist_addrs[0], submit_of(timer(user="root"), timer(600000, user="root")))
        finally:
            os.seteuid(0)
        s.until(lambda: 0 in s.ends and 1 in s.jobs)
        assert {c.job(j.job)["user"] for j in s.jobs.values()} == {str(ANN)}
        assert c.dists[0].stop() == 0
        code, text = s.ended()
        assert code == _plain.UNAVAILABLE and "shutting down" in text, (code, text)


run_tests(sys.modules[__name__])
