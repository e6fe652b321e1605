"""An executor made from protos/executor.proto alone, with Python's grpcio, for the end-to-end tests: each runs in a
thread of this process, tasks in its own turn, and does what its function says."""
import queue
import threading

import grpc

from grpctest import Caller, generated, pb
from hawktest import BOUND

epb = generated("executor")


class Executor:
    """do(task) returns bytes, or (code, error), or None: no answer for now (`answer` gives one later). With pauses it
    offers to pause tasks; `pause` is what it is asked next, `paused` answers. channel: instead of a plain one to addr."""

    def __init__(self, addr, app, do, slots=1, name="", token=None, pauses=False, channel=None):
        self.channel = channel or grpc.insecure_channel(addr, options=[("grpc.use_local_subchannel_pool", 1)])
        attach = self.channel.stream_stream("/hawk.v1.Executors/Attach",
                                            request_serializer=epb.FromExecutor.SerializeToString,
                                            response_deserializer=epb.ToExecutor.FromString)
        self.out = queue.Queue()
        self.do, self.tasks, self.cancelled, self.messages = do, [], queue.Queue(), 0
        self.pauses = queue.Queue()
        self.seen, self.attached, self.over = queue.Queue(), threading.Event(), threading.Event()
        self.status = None
        if app is not None:
            self.send(hello=epb.Hello(app=app, slots=slots, name=name, pauses=pauses))
        metadata = [("authorization", f"Bearer {token}")] if token else []
        self.stream = attach(iter(self.out.get, None), metadata=metadata)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        try:
            for m in self.stream:
                self.messages += 1
                if m.HasField("attached"):
                    self.worker, self.worker_slots = m.attached.worker, m.attached.slots
                    self.attached.set()
                for t in m.tasks:
                    self.tasks.append(t)
                    self.seen.put(t)
                    self.answer(t, self.do(t))
                for p in m.pauses:
                    self.pauses.put((p.id, p.on))
                for i in m.cancel:
                    self.cancelled.put(i)
            self.status = (grpc.StatusCode.OK, "")
        except grpc.RpcError as e:
            self.status = (e.code(), e.details())
        self.over.set()

    def send(self, **parts):
        self.out.put(epb.FromExecutor(**parts))

    def answer(self, task, result):
        if isinstance(result, tuple):
            self.send(results=[epb.AppResult(id=task.id, code=result[0], error=result[1])])
        elif result is not None:
            self.send(results=[epb.AppResult(id=task.id, result=result)])

    def task(self):
        """The next one it was given."""
        return self.seen.get(timeout=BOUND)

    def pause(self):
        """(id, on) of the next one."""
        return self.pauses.get(timeout=BOUND)

    def paused(self, task, refused=False):
        self.send(paused=[epb.Paused(id=task.id, refused=refused)])

    def wait_attached(self):
        assert self.attached.wait(BOUND), f"not attached: {self.status}"
        return self

    def leave(self):
        """No more tasks, and the end of our side."""
        self.out.put(None)

    def ended(self):
        """(status, text) of the stream."""
        assert self.over.wait(BOUND), "the stream goes on"
        return self.status

    def die(self):
        """As a process that is killed: its connection breaks."""
        self.stream.cancel()
        self.channel.close()
        self.over.wait(BOUND)


def socket_of(c, worker):
    return f"unix:{c.dir}/state/{worker}/executors.sock"


def submit(c, app, payloads, dist=0, **more):
    """The job's id."""
    spec = pb.JobSpec(tasks=len(payloads), kind=pb.PAYLOAD_APP, app=app, task_args=payloads, each_arg=True, **more)
    return Caller(c.dist_addrs[dist])("Submit", pb.SubmitRequest(job=spec), pb.SubmitReply).job


def watch(c, job, dist=0):
    """Until it has ended: (its last state, tasks by index)."""
    tasks, last = {}, None
    for event in Caller(c.dist_addrs[dist]).stream("Watch", pb.WatchRequest(job=job, ended=True, results=True), pb.Event):
        last = event.job
        tasks.update((t.task, t) for t in event.tasks)
    return last, tasks


def echo(task):
    return b"<" + task.payload + b">"
