"""Many jobs on one stream to a dist (Hawk.Session). When the dist goes away, its jobs move to another one."""
import collections
import functools
import itertools
import queue
import threading
import time

import grpc

from hawk import hawk_pb2 as pb
from hawk._cluster import TIMEOUT, monotonic_us, new_key

BEATS_MISSED = 3
BEAT_DEFAULT = 1.0  # seconds, until the dist has said how often it beats
PATIENCE_MAX = 8.0  # seconds, below dist.client_grace
TURN = 0.05         # seconds between two looks at whether the dist is silent
MESSAGE_JOBS = 1000        # and cancellations, in one message,
MESSAGE_BYTES = 256 << 10  # the size at which it leaves; a single large job may be larger
ROUND_PAUSE = 0.2   # between two rounds through all dists
AGAIN = 0.5         # after a job was refused that waits
AGAIN_JOBS = 1000   # most jobs that are asked for again at a time
# What no other dist would answer otherwise.
REFUSED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED)
# Of one job, in numbers: the same where a dist had accepted it; otherwise all but AWAY are.
REFUSED_JOB = (grpc.StatusCode.INVALID_ARGUMENT.value[0], grpc.StatusCode.PERMISSION_DENIED.value[0])
AWAY, FULL = grpc.StatusCode.UNAVAILABLE.value[0], grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]


class SessionJob:
    """A job that was submitted on the session, until it has ended."""

    def __init__(self, tag, spec, on_task, on_end):
        self.tag, self.spec, self.on_task, self.on_end = tag, spec, on_task, on_end
        self.key = new_key()
        self.job = ""      # its id, once a dist has it
        self.receipt = 0   # of that id
        self.klass = self.why = self.long_epoch = 0
        self.held = spec.submit_held
        self.moves = 0
        self.begun_us = monotonic_us()
        self.ended = {}    # tasks by number
        self.cancelled = False
        self.refused = False  # by the dist that was asked last

    def request(self, elsewhere):
        """elsewhere: to another dist than the one that has had it. The job is not signed anew yet."""
        submit = pb.SessionSubmit(tag=self.tag, job=self.spec, key=self.key)
        if elsewhere and not self.job:
            # No dist has told of it: it begins anew, and the other copy is nobody's.
            self.key = submit.key = new_key()
        elif elsewhere or self.moves or self.ended or self.held or self.klass == pb.CLASS_LONG:
            # Where a dist still has the job, it begins what runs anew: so not without need. One that restarted has to
            # hear what has ended, whether the job is held, and which job of central's it is.
            self.moves += 1
            submit.resubmit.CopyFrom(pb.Resubmit(
                job=self.job, epoch=1 + 2 * self.moves, long_epoch=self.long_epoch, why=self.why,
                age_us=monotonic_us() - self.begun_us, ended=list(self.ended.values()), receipt=self.receipt,
                held=self.held, **{"class": self.klass}))
        return submit


class Session:
    """Callbacks run one by one, in a thread of their own since they may take long: on_task(job, task) for each end of a
    task, once; on_end(job, error, abandoned) at the end, with error a text when no dist took the job. abandoned: it was
    cancelled since this client was away for too long."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.condition = threading.Condition()
        self.tags = itertools.count(1)
        self.jobs = {}
        self.out = collections.deque()  # SessionCancel, or SessionJob and SessionSubmit
        self.here = set()               # tags of the jobs that this stream's dist has
        # Jobs that were refused, and are asked for again: when those asked for have an answer, twice as many each time.
        self.refused, self.asked = collections.deque(), set()
        self.again, self.again_at = 1, 0.0
        self.away = ""                  # what a dist said that takes no jobs, since one was taken
        self.stream = None
        self.generation = 0             # of streams; an earlier one's generator ends
        self.address = None
        self.closing = False
        self.unreachable = False        # no dist has answered for TIMEOUT
        self.beat = BEAT_DEFAULT
        self.patience = BEAT_DEFAULT  # seconds of silence at least, until the stream is ended
        self.reads = self.heard = False  # whether the reader waits for the dist; and has heard it since the last look
        self.told = queue.SimpleQueue()  # callbacks that are due; after the last one None
        self.threads = [threading.Thread(target=run, name=f"hawk-{run.__name__}", daemon=True)
                        for run in (self._receive, self._watch, self._tell)]
        self.teller = self.threads[-1]
        for thread in self.threads:
            thread.start()

    def submit(self, spec, on_task, on_end):
        with self.condition:
            job = SessionJob(next(self.tags), spec, on_task, on_end)
            self.jobs[job.tag] = job
            if self.stream is not None:
                self.out.append((job, job.request(False)))
            self.condition.notify_all()
        return job

    def cancel(self, job):
        with self.condition:
            if job.tag in self.jobs and not job.cancelled:
                job.cancelled = True
                self.out.append(pb.SessionCancel(tag=job.tag))
                self.condition.notify_all()

    def close(self):
        """Ends the stream: what has not ended is cancelled by the cluster."""
        with self.condition:
            self.closing = True
            stream = self.stream
            self.condition.notify_all()
        if stream is not None:
            stream.cancel()
        for thread in self.threads:
            if thread is self.teller:
                self.told.put(None)  # nobody adds more
            thread.join(TIMEOUT)

    # ---- Sending: the generator runs in gRPC's thread ----

    def _requests(self, generation):
        yield pb.SessionRequest(beats=True)
        while True:
            request, submits, size = pb.SessionRequest(), [], 0
            with self.condition:
                while not self.out and generation == self.generation and not self.closing:
                    self.condition.wait()
                if generation != self.generation or self.closing:
                    return
                while self.out and size < MESSAGE_BYTES and max(len(submits), len(request.cancel)) < MESSAGE_JOBS:
                    item = self.out.popleft()
                    if isinstance(item, pb.SessionCancel):
                        request.cancel.append(item)
                    else:
                        submits.append(item)
                        size += item[1].ByteSize()
                # Anew, where no dist has the job yet: a signature is for one job.
                self.cluster.sign([job.spec for job, _ in submits if not job.job])
                for job, submit in submits:
                    submit.job.signature = job.spec.signature
                    request.submit.append(submit)
            yield request

    # ---- Receiving ----

    def _open(self, address, elsewhere):
        call = self.cluster.channel(address).stream_stream(
            "/hawk.v1.Hawk/Session", request_serializer=pb.SessionRequest.SerializeToString,
            response_deserializer=pb.SessionEvent.FromString)
        with self.condition:
            self.generation += 1
            self.out.clear()
            self.here.clear()
            self.asked.clear()
            jobs = [job for job in self.jobs.values() if not job.refused]
            self.out.extend((job, job.request(elsewhere)) for job in jobs)
            self.out.extend(pb.SessionCancel(tag=job.tag) for job in jobs if job.cancelled)
            self.reads = self.heard = True
            if elsewhere:
                self.again_at = time.monotonic()
            self._ask_again()
            self.stream = call(self._requests(self.generation), metadata=self.cluster.metadata)
            return self.stream

    def _receive(self):
        last_good, tried, error = time.monotonic(), 0, ""
        while not self.closing:
            address = self.cluster.contacts[0]
            elsewhere = self.address is not None and address != self.address
            stream, good = self._open(address, elsewhere), False
            try:
                for event in stream:
                    self.reads, self.heard = False, True
                    self.address = address
                    self._take(event)
                    if self.here or not self.away:
                        good, tried, self.unreachable = True, 0, False
                    self.reads = True
                error = f"{address} ended the session"
            except grpc.RpcError as e:
                error = self.cluster.failure(address, e)
                if e.code() in REFUSED and not self.closing:
                    self._fail_all(error)
            if self.closing:
                return
            self._end_stream()
            self.cluster.prefer_another(address)
            last_good = time.monotonic() if good else last_good
            tried += 1
            if time.monotonic() - last_good > TIMEOUT or self.cluster.up_has_stopped():
                self.unreachable = not self.away
                self._fail_all(self.away or f"no dist answers: {error}")
                last_good = time.monotonic()
            if tried % len(self.cluster.contacts) == 0:
                with self.condition:
                    self.condition.wait_for(lambda: self.closing, ROUND_PAUSE)

    def _end_stream(self):
        with self.condition:
            self.generation += 1
            self.stream = None
            self.condition.notify_all()

    def _fail_all(self, text):
        with self.condition:
            jobs, self.jobs, self.away = list(self.jobs.values()), {}, ""
            self.out.clear()
            self.refused.clear()
        for job in jobs:
            self.told.put(functools.partial(job.on_end, job, text, False))

    def _take(self, event):
        if event.beat_us:
            self.beat = event.beat_us / 1e6
        for j in event.jobs:
            job = self.jobs.get(j.tag)
            if job:
                self.here.add(j.tag)
                self.asked.discard(j.tag)
                self.away = ""
                job.job, job.klass, job.why, job.held = j.job, getattr(j, "class"), j.why, j.held
                job.receipt = j.receipt or job.receipt
                job.long_epoch = j.epoch if j.at_central else 0
        for r in event.refused:
            self._refused(r)
        for t in event.tasks:
            job = self.jobs.get(t.tag)
            if job and t.task not in job.ended:
                job.ended[t.task] = pb.Task(
                    task=t.task, state=t.state, outcome=t.outcome, code=t.code, attempt=t.attempt, worker=t.worker,
                    wait_us=t.wait_us, run_us=t.run_us)
                self.told.put(functools.partial(job.on_task, job, t))
        for e in event.ends:
            self._end(e.tag, "", e.abandoned)
        with self.condition:
            self._ask_again()

    def _end(self, tag, error, abandoned=False):
        with self.condition:
            job = self.jobs.pop(tag, None)
            self.here.discard(tag)
        if job:
            self.told.put(functools.partial(job.on_end, job, error, abandoned))

    def _tell(self):
        while callback := self.told.get():
            callback()

    # ---- Jobs that were refused ----

    def _refused(self, r):
        """As libhawk does (docs/protocol.md 9): what was accepted, or another dist takes, waits."""
        with self.condition:
            job = self.jobs.get(r.tag)
            self.asked.discard(r.tag)
            waits = job and (r.status not in REFUSED_JOB if job.job else r.status == AWAY)
            if waits:
                job.refused = True
                self.refused.append(job)
                self.again, self.again_at = 1, time.monotonic() + AGAIN
                if r.status != FULL:
                    self.away = r.error
                elif job.moves:
                    job.moves -= 1  # nobody has the job under that epoch
        if not waits:
            self._end(r.tag, r.error)

    def _ask_again(self):
        if self.asked or time.monotonic() < self.again_at:
            return
        while self.refused and len(self.asked) < self.again:
            job = self.refused.popleft()
            job.refused = False
            self.asked.add(job.tag)
            self.out.append((job, job.request(True)))
            if job.cancelled:
                self.out.append(pb.SessionCancel(tag=job.tag))
        self.again = min(2 * self.again, AGAIN_JOBS)
        self.condition.notify_all()

    def _has_refused_all(self):
        return self.jobs and len(self.refused) == len(self.jobs)

    def _watch(self):
        """Ends a stream on which nothing came for three beats: that dist is gone. Also one whose dist takes nothing."""
        silent = 0.0
        while True:
            with self.condition:
                if self.condition.wait_for(lambda: self.closing, TURN):
                    return
                stream, useless = self.stream, self._has_refused_all()
                if not useless and self.stream is not None:
                    self._ask_again()
                # By turns, not by the clock: time in which this program did not run does not count.
                silent = silent + TURN if self.reads and not self.heard else 0.0
                self.heard = False
            if stream is not None and (useless or silent > max(BEATS_MISSED * self.beat, self.patience)):
                if not useless:  # a dist that is only busy would be sent the same jobs again and again
                    self.patience = min(2 * self.patience, PATIENCE_MAX)
                stream.cancel()


def text_of(task):
    """How a task ended, for people."""
    if task.message:
        return task.message
    if task.outcome == pb.OUTCOME_TIME_LIMIT:
        return "killed, time limit over"
    if task.outcome == pb.OUTCOME_SIGNALED:
        return f"killed by signal {task.code}"
    outcome = pb.Outcome.Name(task.outcome)[len("OUTCOME_"):].replace("_", " ").lower()
    return f"{outcome} {task.code}" if task.outcome == pb.OUTCOME_EXITED else outcome
