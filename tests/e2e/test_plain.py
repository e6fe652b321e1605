#!/usr/bin/python3
"""Plain streams: executors without gRPC on a worker's unix socket. What they may do is what gRPC's clients may, and what
is malformed harms nobody else."""
# seconds: 20
import contextlib
import os
import socket
import struct
import sys
import tempfile

import pythontest  # noqa: F401: finds the package
from executortest import Executor, echo, epb, socket_of, submit, watch
from grpctest import pb
from hawktest import BOUND, Cluster, Daemon, run_tests, wait_for
from userstest import ANN, others_exist

from hawk import _plain

ATTACH = "/hawk.v1.Executors/Attach"
# Of gRPC's status codes.
INVALID_ARGUMENT, PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, UNAUTHENTICATED = 3, 7, 8, 12, 16
MESSAGE_MAX = 100 << 20
TOKEN = "the-clients-token-of-this-test"


def head(path=ATTACH, token=None):
    return f":path: {path}\r\n".encode() + (f"authorization: Bearer {token}\r\n".encode() if token else b"")


def connect(addr, *pieces):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(BOUND)
    s.connect(addr[len("unix:"):])
    for piece in pieces:
        s.sendall(piece)
    return s


def cut_off(s):
    """The daemon has shut the connection down, without an answer."""
    with contextlib.suppress(ConnectionResetError):
        assert s.recv(1) == b""
    s.close()
    return True


def hello(app, slots=1):
    return epb.FromExecutor(hello=epb.Hello(app=app, slots=slots, name="plain")).SerializeToString()


class Plain(_plain.Stream):
    """An executor; attached, unless app is None."""

    def __init__(self, addr, app=None, path=ATTACH, token=None):
        super().__init__(addr, path, token)
        self.socket.settimeout(BOUND)
        self.tasks = []
        if app is not None:
            self.send(hello(app))
            self.attached = self.message().attached
            assert self.attached.worker, self.attached

    def message(self):
        return epb.ToExecutor.FromString(self.receive())

    def task(self):
        while not self.tasks:
            self.tasks.extend(self.message().tasks)
        return self.tasks.pop(0)

    def answer(self, task, result):
        self.send(epb.FromExecutor(results=[epb.AppResult(id=task.id, result=result)]).SerializeToString())

    def ended(self):
        """(status, text)"""
        while True:
            try:
                self.receive()
            except _plain.Ended as e:
                self.close()
                return e.code, e.details


def test_who_reads_nothing_is_given_no_more():
    """It guesses the ids of tasks that it was not sent: the worker would keep one payload after the other for it."""
    with Cluster(workers=1, slots=4) as c:
        x = Plain(socket_of(c, "w1"))
        x.send(hello("deaf", 4))
        job = submit(c, "deaf", [bytes(1 << 20)] * 8, lost_retries=1)
        wait_for("it to have four", lambda: sum(t["state"] == "running" for t in c.job(job)["task_list"]) == 4)
        x.send(epb.FromExecutor(results=[epb.AppResult(id=1 << 24 | 3)]).SerializeToString())
        wait_for("the end of its stream", lambda: f"a result of task {1 << 24 | 3}, which this executor does not have" in
                 c.workers[0].text())
        x.close()
        y = Executor(socket_of(c, "w1"), "deaf", lambda t: b"", slots=4).wait_attached()
        assert watch(c, job)[0].state == pb.JOB_DONE
        y.leave()


def test_who_attaches_again_and_again_fills_no_disk():
    with Cluster(workers=1) as c:
        w = c.workers[0]
        for i in range(60):
            Plain(socket_of(c, "w1"), f"app{i}").close()
        w.stop()
        for line in ("attached for application app", "attach executor of application app"):
            assert 5 <= w.text().count(line) <= 20, w.text()


def test_runs_tasks():
    with Cluster(workers=1, slots=2) as c:
        x = Plain(socket_of(c, "w1"), "plain")
        assert (x.attached.worker, x.attached.slots) == ("w1", 2), x.attached
        payloads = [b"", b"a", bytes(1 << 20), *(str(i).encode() for i in range(200))]
        job = submit(c, "plain", payloads)
        for _ in payloads:
            task = x.task()
            x.answer(task, task.payload)
        last, tasks = watch(c, job)
        assert last.state == pb.JOB_DONE, last
        assert [tasks[i].result for i in range(len(payloads))] == payloads
        x.send(epb.FromExecutor(drain=True).SerializeToString())
        assert x.ended() == (0, "")
        audit = wait_for("a line of the audit log", lambda: "attach executor of application plain" in c.workers[0].text())
        assert audit


def test_bytes_come_in_any_pieces():
    with Cluster(workers=1) as c:
        first = _plain.frame(_plain.HEAD, head()) + _plain.frame(_plain.MESSAGE, hello("pieces"))
        s = connect(socket_of(c, "w1"), *(first[i:i + 1] for i in range(len(first))))
        assert s.recv(1) == b"\0"
        s.close()
        wait_for("it to be gone", lambda: not any(n["apps"] for n in c.json("nodes")["nodes"]))
        s = connect(socket_of(c, "w1"), first)  # and in one
        assert s.recv(1) == b"\0"
        s.close()


def test_who_breaks_the_form_is_cut_off():
    with Cluster(workers=1) as c:
        addr, log = socket_of(c, "w1"), c.workers[0]
        bystander = Executor(addr, "bystander", echo).wait_attached()
        begun = _plain.frame(_plain.HEAD, head())
        for pieces, words in (
                ([b"\0\0\0\0\0"], "does not speak HTTP/2"),
                ([b"GET / HTTP/1.1\r\n"], "does not speak HTTP/2"),
                ([_plain.frame(_plain.HEAD, b"")], "no frame of a plain stream"),
                ([_plain.frame(_plain.HEAD, b":path /x\r\n")], "no frame of a plain stream"),
                ([_plain.frame(_plain.HEAD, b":path: /x")], "no frame of a plain stream"),
                ([_plain.frame(_plain.HEAD, b"authorization: Bearer x\r\n")], "no frame of a plain stream"),
                ([_plain.frame(_plain.HEAD, head() + head())], "no frame of a plain stream"),
                ([begun, _plain.frame(_plain.HEAD, head())], "its first byte: 128"),
                ([begun, _plain.frame(1, b"compressed")], "its first byte: 1"),
                ([struct.pack(">BI", _plain.HEAD, (8 << 10) + 1)], "longer header block"),
                ([begun, _plain.frame(_plain.MESSAGE, hello("flood")), bytes(5 * 20000)], "carry nothing too fast")):
            got, s = b"", connect(addr)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for piece in pieces:
                    s.sendall(piece)
                while more := s.recv(1 << 16):
                    got += more
            s.close()
            assert not got or "HTTP/2" in words or "too fast" in words, (words, got)  # no answer
            wait_for(f"'{words}' in the log", lambda: words in log.text())
        half = [connect(addr, begun[:i]) for i in (0, 1, 4, 5, 20)]
        for s in half:
            s.close()
        last, _ = watch(c, submit(c, "bystander", [b"still there"]))
        assert last.state == pb.JOB_DONE
        assert bystander.status is None


def test_who_is_wrong_hears_it():
    with Cluster(workers=1) as c:
        addr = socket_of(c, "w1")
        for path, code, words in (("/hawk.v1.Hawk/Nothing", UNIMPLEMENTED, "does not serve /hawk.v1.Hawk/Nothing"),
                                  ("/hawk.v1.Hawk/GetStats", UNIMPLEMENTED, "on a plain stream"),
                                  ("/hawk.v1.Peer/Link", UNIMPLEMENTED, "on a plain stream")):
            got, text = Plain(addr, path=path).ended()
            assert got == code and words in text, (path, got, text)
        for data, words in ((b"\xff", "broken encoding"), (epb.FromExecutor().SerializeToString(), "no hello"),
                            (epb.FromExecutor(hello=epb.Hello(app="a", slots=0)).SerializeToString(), "slots"),
                            (epb.FromExecutor(results=[epb.AppResult(id=1)]).SerializeToString(), "before hello")):
            x = Plain(addr)
            x.send(data)
            code, text = x.ended()
            assert code == INVALID_ARGUMENT and words in text, (words, code, text)
        x = Plain(addr, "long")
        x.socket.sendall(struct.pack(">BI", _plain.MESSAGE, MESSAGE_MAX + 1))
        code, text = x.ended()
        assert code == RESOURCE_EXHAUSTED and str(MESSAGE_MAX) in text, text
        Plain(addr, "still-there").close()


def test_an_executor_that_goes_has_lost_its_task():
    with Cluster(workers=1, slots=2) as c:
        x = Plain(socket_of(c, "w1"), "app")
        job = submit(c, "app", [b"once more"], lost_retries=2)
        assert x.task().attempt == 1
        x.socket.sendall(b"\0\0")  # half a frame
        x.close()
        y = Plain(socket_of(c, "w1"), "app")
        task = y.task()
        assert task.attempt == 2, task
        y.answer(task, b"done")
        assert watch(c, job)[1][0].result == b"done"
        y.close()


def test_a_worker_that_stops_ends_the_stream():
    with Cluster(workers=1) as c:
        waiting, begun = connect(socket_of(c, "w1")), connect(socket_of(c, "w1"), b"\x80\0\0")
        x = Plain(socket_of(c, "w1"), "app")
        assert c.workers[0].stop() == 0
        code, text = x.ended()
        assert code == _plain.UNAVAILABLE and "shutting down" in text, (code, text)
        assert cut_off(waiting) and cut_off(begun)


def test_needs_the_token():
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/token", "w", encoding="utf-8") as f:
            f.write(TOKEN + "\n")
        os.chmod(f"{d}/token", 0o600)
        up = Daemon("up", "--slots", "1", "--socket", f"{d}/s", "--output-dir", f"{d}/out", "--token-file", f"{d}/token")
        try:
            addr = up.ready()
            for token in (None, "x" * len(TOKEN), TOKEN[:-1]):
                code, text = Plain(addr, token=token).ended()
                assert code == UNAUTHENTICATED and "token is missing or wrong" in text, (code, text)
            Plain(addr, "app", token=TOKEN).close()
        finally:
            up.stop()


def test_another_user_attaches_for_himself_alone():
    if not others_exist():
        return
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        up = Daemon("up", "--slots", "1", "--socket", f"{d}/s", "--output-dir", f"{d}/out", "--local-users", "--shared-apps", "shared")
        try:
            addr = up.ready()
            os.seteuid(ANN)
            try:
                own, x = Plain(addr, "app"), Plain(addr)
            finally:
                os.seteuid(0)
            x.send(hello("shared"))
            code, text = x.ended()
            assert code == PERMISSION_DENIED and "shared is everybody's on this worker" in text, (code, text)
            Plain(addr, "app").close()
            Plain(addr, "shared").close()
            for words in (f"for application app of user {ANN}, 1", "for application app of user root, 1", "for application shared, 1"):
                wait_for(words, lambda w=words: w in up.text())
            own.close()
        finally:
            up.stop()


run_tests(sys.modules[__name__])
