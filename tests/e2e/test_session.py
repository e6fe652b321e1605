"""Session: many jobs on one stream, from Python's grpcio as from any gRPC client."""
# make test-all
import os
import queue
import sys
import tempfile
import threading

import grpc

from executortest import Executor
from grpctest import Caller, pb, refused
from hawktest import BOUND, Cluster, Daemon, run_tests, user_environment, wait_for


class Session:
    """One stream. What events say gathers per tag, from a thread of its own unless `read` is False."""

    def __init__(self, addr, beats=False, read=True):
        self.requests = queue.Queue()
        if beats:
            self.requests.put(pb.SessionRequest(beats=True))
        self.call = Caller(addr).both("Session", iter(self.requests.get, None), pb.SessionEvent)
        self.changed = threading.Condition()
        self.jobs, self.refused, self.tasks, self.ends = {}, {}, {}, {}
        self.events, self.beats, self.over = 0, 0, None
        self.reader = threading.Thread(target=self._read, daemon=True)
        if read:
            self.reader.start()

    def _read(self):
        try:
            for event in self.call:
                with self.changed:
                    self.take(event)
                    self.changed.notify_all()
        except grpc.RpcError as e:
            self.error = e
        with self.changed:
            self.over = self.call.code()
            self.changed.notify_all()

    def take(self, event):
        """In the order that the protocol asks for, and with what it promises."""
        self.events += 1
        self.beats += event.beat_us > 0
        for j in event.jobs:
            assert j.tag not in self.ends and j.tag not in self.refused
            self.jobs[j.tag] = j
        for r in event.refused:
            assert r.tag not in self.jobs
            self.refused[r.tag] = r
        for t in event.tasks:
            assert t.tag in self.jobs and t.tag not in self.ends
            assert t.task not in self.tasks.setdefault(t.tag, {}), "a task ends once"
            self.tasks[t.tag][t.task] = t
        for e in event.ends:
            assert e.tag in self.jobs and e.tag not in self.ends
            self.ends[e.tag] = e

    def submit(self, specs, first=0, key=0):
        self.requests.put(pb.SessionRequest(submit=[
            pb.SessionSubmit(tag=first + i, job=s, key=key) for i, s in enumerate(specs)]))

    def until(self, what, cond):
        with self.changed:
            if not self.changed.wait_for(lambda: cond() or self.over is not None, timeout=BOUND) or not cond():
                raise AssertionError(f"never: {what} ({self.over}, {len(self.ends)} ended)")

    def close(self):
        self.requests.put(None)
        self.reader.join(timeout=BOUND)
        return self.over


def timer(ms=0, tasks=1, **more):
    return pb.JobSpec(tasks=tasks, kind=pb.PAYLOAD_TIMER, argv=[f"{ms}ms".encode()], **more)


def test_many_jobs_on_one_stream():
    with Cluster(workers=2, slots=4) as c:
        s = Session(c.dist_addrs[0])
        n = 2000
        s.submit([timer(tasks=1 + i % 3) for i in range(n)])
        s.until("all have ended", lambda: len(s.ends) == n)
        assert sorted(s.jobs) == list(range(n)) and len({j.job for j in s.jobs.values()}) == n
        for i in range(n):
            assert s.ends[i].state == pb.JOB_DONE
            assert sorted(s.tasks[i]) == list(range(1 + i % 3)), i
            assert all(t.outcome == pb.OUTCOME_EXITED and t.code == 0 and t.worker and t.wait_us >= 0
                       for t in s.tasks[i].values()), s.tasks[i]
        assert s.events < n, f"{s.events} events: nothing was batched"
        assert c.job(s.jobs[7].job)["state"] == "done"
        # The last word after everything that was submitted before it.
        s.submit([timer(ms=200)], first=n)
        assert s.close() == grpc.StatusCode.OK and s.ends[n].state == pb.JOB_DONE


def test_commands_fail_and_say_why():
    with Cluster(workers=1, slots=2) as c:
        s = Session(c.dist_addrs[0])
        s.submit([pb.JobSpec(tasks=2, argv=[b"sh", b"-c", b"exit {}"], task_args=[b"0", b"7"], each_arg=True,
                             env=[b"PATH=" + os.environb[b"PATH"]]),
                  pb.JobSpec(tasks=1, argv=[b"/no/such/program"])])
        s.until("both have ended", lambda: len(s.ends) == 2)
        assert s.ends[0].state == s.ends[1].state == pb.JOB_FAILED
        assert s.tasks[0][0].state == pb.TASK_DONE
        assert (s.tasks[0][1].state, s.tasks[0][1].code) == (pb.TASK_FAILED, 7)
        t = s.tasks[1][0]
        assert (t.outcome, t.code) == (pb.OUTCOME_NOT_STARTED, 127) and "/no/such/program" in t.message, t
        assert s.close() == grpc.StatusCode.OK


def test_refusals_concern_one_job():
    with Cluster(workers=1, dist=["--jobs-max", "3"]) as c:
        s = Session(c.dist_addrs[0])
        s.submit([pb.JobSpec(tasks=0, argv=[b"true"]), pb.JobSpec(tasks=1), timer(ms=600000), timer(ms=600000)])
        s.submit([timer(ms=600000)], first=4)
        s.until("two refusals and three jobs", lambda: len(s.refused) == 2 and len(s.jobs) == 3)
        S = grpc.StatusCode
        assert {s.refused[t].status for t in (0, 1)} == {S.INVALID_ARGUMENT.value[0]}, s.refused
        s.submit([timer()], first=10)
        s.until("one too many", lambda: 10 in s.refused)
        assert s.refused[10].status == S.RESOURCE_EXHAUSTED.value[0] and "dist.jobs_max" in s.refused[10].error
        s.requests.put(pb.SessionRequest(cancel=[pb.SessionCancel(tag=t) for t in (2, 3, 99)]))
        s.until("the cancelled have ended", lambda: 2 in s.ends)
        assert s.ends[2].state == pb.JOB_CANCELLED and s.tasks[2][0].state == pb.TASK_CANCELLED
        s.submit([timer()], first=4)  # as one that has not ended is called
        s.until("the end of the stream", lambda: s.over)
        assert s.over == S.INVALID_ARGUMENT and "tag 4" in s.call.details()


def test_many_large_jobs_are_cancelled_at_once():
    """More tasks than are cancelled in one turn of the dist's loop."""
    with Cluster(workers=1, slots=1) as c:
        s = Session(c.dist_addrs[0])
        s.submit([pb.JobSpec(tasks=30000, kind=pb.PAYLOAD_APP, app="nobody") for _ in range(5)])
        s.until("all are known", lambda: len(s.jobs) == 5)
        s.requests.put(pb.SessionRequest(cancel=[pb.SessionCancel(tag=t) for t in (4, 0, 1, 2, 3, 4)]))
        s.until("all have ended", lambda: len(s.ends) == 5)
        assert {e.state for e in s.ends.values()} == {pb.JOB_CANCELLED}
        assert all(len(tasks) == 30000 for tasks in s.tasks.values()) and len(s.tasks) == 5
        s.requests.put(None)
        s.until("the stream ends", lambda: s.over is not None)
        assert s.over == grpc.StatusCode.OK


def test_a_stream_that_means_nothing_is_refused():
    with Cluster(workers=1) as c:
        S = grpc.StatusCode

        def all_of(addr, *requests):
            return lambda: list(Caller(addr).both("Session", iter(requests), pb.SessionEvent))

        refused(S.UNIMPLEMENTED, all_of(c.central_addr, pb.SessionRequest(submit=[
            pb.SessionSubmit(tag=1, job=timer())])))
        text = refused(S.INVALID_ARGUMENT, all_of(c.dist_addrs[0], pb.SessionRequest(submit=[
            pb.SessionSubmit(tag=t) for t in range(10001)])))
        assert "10000" in text, text
        raw = grpc.insecure_channel(c.dist_addrs[0], [("grpc.max_send_message_length", -1)]).stream_stream(
            "/hawk.v1.Hawk/Session")
        text = refused(S.RESOURCE_EXHAUSTED, lambda: list(raw(iter([b"\x12\x00" * 20_000_000]), timeout=BOUND)))
        assert "cancel: more than 1000000 elements" in text, text
        refused(S.INVALID_ARGUMENT, lambda: list(raw(iter([b"\x0a\xff\xff"]), timeout=BOUND)))
        assert all_of(c.dist_addrs[0])() == []  # nothing asked, nothing answered


def test_beats_and_a_client_that_goes():
    with Cluster(workers=1, slots=2, dist=["--client-grace", "500ms"]) as c:
        s = Session(c.dist_addrs[0], beats=True)
        s.submit([timer(ms=600000), timer(ms=600000, detached=True)])
        s.until("three beats", lambda: s.beats >= 3 and len(s.jobs) == 2)
        ids = [s.jobs[t].job for t in (0, 1)]
        # Longer than its grace time: it is watched.
        s.until("ten more", lambda: s.beats >= 13)
        assert c.job(ids[0])["state"] == "running"
        s.call.cancel()
        wait_for("the job that nobody watches is cancelled", lambda: c.job(ids[0])["state"] == "cancelled")
        assert c.job(ids[1])["state"] == "running"
        # Another client finds it by Watch, and ends it.
        assert c.hawk("cancel", ids[1])


def test_the_same_key_and_a_job_that_moves():
    with Cluster(workers=2, slots=2, dists=2) as c:
        first, second = (Session(a) for a in c.dist_addrs)
        spec = pb.JobSpec(tasks=3, kind=pb.PAYLOAD_TIMER, task_args=[b"0ms", b"0ms", b"600s"], each_arg=True)
        first.requests.put(pb.SessionRequest(submit=[pb.SessionSubmit(tag=5, job=spec, key=77)]))
        first.until("two tasks", lambda: len(first.tasks.get(5, {})) == 2)
        # Asked again, it says what has ended.
        first.requests.put(pb.SessionRequest(submit=[pb.SessionSubmit(tag=6, job=spec, key=77)]))
        first.until("the same", lambda: len(first.tasks.get(6, {})) == 2)
        assert first.jobs[6].job == first.jobs[5].job
        ended = [pb.Task(task=t.task, state=t.state, outcome=t.outcome, attempt=t.attempt, worker=t.worker,
                         wait_us=t.wait_us, run_us=t.run_us) for t in first.tasks[5].values()]
        first.call.cancel()
        second.requests.put(pb.SessionRequest(submit=[pb.SessionSubmit(
            tag=9, job=spec, key=77, resubmit=pb.Resubmit(job=first.jobs[5].job, epoch=3, ended=ended))]))
        second.until("it is there", lambda: 9 in second.jobs)
        assert second.jobs[9].job == first.jobs[5].job
        second.until("what had ended is told", lambda: len(second.tasks.get(9, {})) == 2)
        second.requests.put(pb.SessionRequest(cancel=[pb.SessionCancel(tag=9)]))
        second.until("its end", lambda: 9 in second.ends)
        assert second.ends[9].state == pb.JOB_CANCELLED
        assert second.close() == grpc.StatusCode.OK


def test_whether_a_job_is_held_is_said():
    with Cluster(workers=1) as c:
        s = Session(c.dist_addrs[0])
        s.submit([timer(10 ** 6, submit_held=True), timer(10 ** 6)])
        s.until("both accepted", lambda: len(s.jobs) == 2)
        assert [s.jobs[tag].held for tag in (0, 1)] == [True, False]
        for held in (False, True):
            c.hawk("hold" if held else "release", s.jobs[0].job)
            s.until("that", lambda held=held: s.jobs[0].held == held)
        events = s.events
        c.hawk("hold", s.jobs[0].job)  # said again: nothing new
        c.hawk("cancel", s.jobs[1].job)
        s.until("an end", lambda: 1 in s.ends)
        assert s.events - events <= 2, s.events - events
        c.hawk("cancel", s.jobs[0].job)
        s.until("an end", lambda: 0 in s.ends)
        assert s.tasks[0][0].wait_us == -1, "it did not run"
        s.close()


def test_what_is_cancelled_before_it_is_accepted_does_not_run():
    """A detached job is accepted once it is on the dist's disk."""
    with Cluster(workers=1) as c:
        s = Session(c.dist_addrs[0])
        s.requests.put(pb.SessionRequest(submit=[pb.SessionSubmit(tag=0, job=timer(10 ** 6, detached=True))],
                                         cancel=[pb.SessionCancel(tag=0)]))
        s.until("its end", lambda: 0 in s.ends)
        assert s.ends[0].state == pb.JOB_CANCELLED
        s.close()


def test_a_job_that_ended_is_watched_no_more():
    """Who heard its end does not keep it alive when it is brought again, and its client goes."""
    with Cluster(workers=1, slots=2, dist=["--client-grace", "500ms"]) as c:
        first, again = (Session(c.dist_addrs[0]) for _ in range(2))
        first.submit([timer()], key=77)
        first.until("its end", lambda: 0 in first.ends)
        job = first.jobs[0].job
        again.requests.put(pb.SessionRequest(submit=[pb.SessionSubmit(
            tag=1, job=timer(ms=600000), key=77, resubmit=pb.Resubmit(job=job, epoch=3))]))
        again.until("it is there", lambda: 1 in again.jobs)
        wait_for("it runs", lambda: c.job(job)["state"] == "running")
        again.call.cancel()
        wait_for("the job that nobody watches is cancelled", lambda: c.job(job)["state"] == "cancelled")
        assert first.close() == grpc.StatusCode.OK


def test_a_client_that_does_not_read():
    """It is held back, others are served, and what it did not read is there when it does."""
    with Cluster(workers=2, slots=8) as c:
        deaf = Session(c.dist_addrs[0], read=False)
        n = 300
        for i in range(n):
            deaf.submit([timer(tasks=1000)], first=i)
        other = Session(c.dist_addrs[0])
        other.submit([timer() for _ in range(100)])
        other.until("the other's jobs have ended", lambda: len(other.ends) == 100)
        assert other.close() == grpc.StatusCode.OK
        deaf.reader.start()
        deaf.until("all of its own", lambda: len(deaf.ends) == n)
        assert all(len(deaf.tasks[i]) == 1000 for i in range(n))
        assert deaf.close() == grpc.StatusCode.OK


def large(c, slots=8):
    x = Executor(f"unix:{c.dir}/state/w1/executors.sock", "large", lambda t: bytes(1 << 20), slots=slots)
    return x.wait_attached()


def app_job(tasks=1):
    return pb.JobSpec(tasks=tasks, kind=pb.PAYLOAD_APP, app="large")


def test_results_that_nobody_reads_wait_at_the_dist():
    """However slowly a client reads: nothing is lost, nothing is run again, and others are served."""
    with Cluster(workers=1, slots=8) as c:
        x = large(c)
        deaf, other = Session(c.dist_addrs[0], read=False), Session(c.dist_addrs[0])
        deaf.submit([app_job(tasks=100)])
        wait_for("its tasks are done", lambda: len(x.tasks) == 100)
        deaf.submit([app_job(tasks=2) for _ in range(10)], first=1)
        other.submit([app_job(tasks=30)])
        assert other.close() == grpc.StatusCode.OK and len(other.tasks[0]) == 30
        deaf.reader.start()
        deaf.until("all of its own", lambda: len(deaf.ends) == 11)
        assert sum(len(t) for t in deaf.tasks.values()) == len(x.tasks) - 30 == 120
        assert all(len(t.result) == 1 << 20 and not t.result_lost
                   for tasks in deaf.tasks.values() for t in tasks.values())
        assert deaf.close() == grpc.StatusCode.OK
        x.leave()


def test_a_job_that_comes_back_after_its_end_was_not_read():
    """Who has not read the end of it hears of the first run alone, up to that end."""
    with Cluster(workers=1, slots=8) as c:
        x = large(c)
        deaf, other = Session(c.dist_addrs[0], read=False), Session(c.dist_addrs[0])
        deaf.submit([app_job(tasks=20)], key=77)
        wait_for("its tasks are done", lambda: [j["state"] for j in c.json("jobs", "--all")["jobs"]] == ["done"])
        job = c.json("jobs", "--all")["jobs"][0]["job"]
        other.requests.put(pb.SessionRequest(submit=[pb.SessionSubmit(
            tag=1, job=app_job(tasks=20), key=77, resubmit=pb.Resubmit(job=job, epoch=3))]))
        other.until("it has run again", lambda: 1 in other.ends)
        assert other.close() == grpc.StatusCode.OK and len(x.tasks) == 40
        deaf.reader.start()
        deaf.until("its end", lambda: 0 in deaf.ends)
        assert deaf.close() == grpc.StatusCode.OK
        assert len(deaf.tasks[0]) == 20
        x.leave()


def test_a_large_job_is_taken_up_again():
    """By its key, after its stream has broken: all it returned is told again, and no task runs twice."""
    with Cluster(workers=1, slots=8) as c:
        x = large(c)
        submit = pb.SessionRequest(submit=[pb.SessionSubmit(tag=0, job=app_job(tasks=80), key=77)])
        first = Session(c.dist_addrs[0], read=False)
        first.requests.put(submit)
        wait_for("its tasks are done", lambda: len(x.tasks) == 80)
        first.call.cancel()
        again = Session(c.dist_addrs[0])
        again.requests.put(submit)
        again.until("its end", lambda: again.ends)
        assert len(x.tasks) == len(again.tasks[0]) == 80
        assert all(len(t.result) == 1 << 20 for t in again.tasks[0].values())
        assert again.close() == grpc.StatusCode.OK
        x.leave()


def test_what_was_forgotten_unread_is_said_to_be_lost():
    with Cluster(workers=1, slots=8, dist=["--set", "dist.finished_memory=12MiB"]) as c:
        x = large(c)
        deaf = Session(c.dist_addrs[0], read=False)
        deaf.submit([app_job(tasks=10) for _ in range(4)])
        wait_for("its tasks are done", lambda: len(x.tasks) == 40)
        wait_for("one is forgotten", lambda: len(c.json("jobs")["jobs"]) < 4)
        deaf.reader.start()
        deaf.until("all have ended", lambda: len(deaf.ends) == 4)
        told = [t for tasks in deaf.tasks.values() for t in tasks.values()]
        assert len(told) == 40 and all(t.state == pb.TASK_DONE and t.worker for t in told)
        assert all(t.result_lost != (len(t.result) == 1 << 20) for t in told)
        assert 0 < sum(t.result_lost for t in told) <= 30
        assert deaf.close() == grpc.StatusCode.OK
        x.leave()


def test_a_client_that_leaves_too_much_unread():
    """Beyond the limit its stream ends, and says why; others are served."""
    with Cluster(workers=1) as c:
        deaf, other = Session(c.dist_addrs[0], read=False), Session(c.dist_addrs[0])
        n = 5
        deaf.submit([app_job(tasks=1000000) for _ in range(n)])  # which nobody serves
        deaf.requests.put(pb.SessionRequest(cancel=[pb.SessionCancel(tag=t) for t in range(n)]))
        ask = Caller(c.dist_addrs[0])
        wait_for("those that it keeps are cancelled", lambda: {
            j.state for j in ask("ListJobs", pb.ListJobsRequest(), pb.ListJobsReply).jobs} == {pb.JOB_CANCELLED})
        deaf.reader.start()
        deaf.until("the end of the stream", lambda: deaf.over)
        assert deaf.over == grpc.StatusCode.RESOURCE_EXHAUSTED and "64 MiB" in deaf.call.details(), deaf.call.details()
        other.submit([timer() for _ in range(100)])
        assert other.close() == grpc.StatusCode.OK and len(other.ends) == 100


def test_hawk_up_serves_it():
    with tempfile.TemporaryDirectory() as home:
        up = Daemon("up", "--socket", f"{home}/up.sock", "--output-dir", f"{home}/out", env=user_environment(home))
        try:
            s = Session(up.ready())
            s.submit([timer(tasks=3) for _ in range(500)])
            assert s.close() == grpc.StatusCode.OK
            assert len(s.ends) == 500 and all(len(s.tasks[i]) == 3 for i in range(500))
        finally:
            up.stop()


run_tests(sys.modules[__name__])
