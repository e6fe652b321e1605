#!/usr/bin/python3
"""The Python package hawk at its ends: of executors, wherever they are asked for, and of the processes of calls."""
# timeout: 300
# make test-all
import concurrent.futures
import contextlib
import gc
import json
import os
import pickle
import queue
import signal
import sys
import tempfile
import threading

import grpc
import pythontest as p
from hawktest import BOUND, alive, run_hawk, run_tests, wait_for

import hawk
from hawk import _calls, _executor, _resident, executor_pb2 as epb, hawk_pb2 as pb


def test_who_waits_for_cancelled_calls_hears_of_it():
    for end in (lambda ex: ex.shutdown(wait=False, cancel_futures=True), hawk.Executor.kill):
        with p.up(slots=1), tempfile.TemporaryDirectory() as d, hawk.Executor(max_workers=1) as ex:
            ex.submit(p.mark_and_wait, f"{d}/started", f"{d}/go")
            p.wait_for_file(f"{d}/started")
            futures = [ex.submit(p.square, x) for x in range(3)]
            over = threading.Thread(target=concurrent.futures.wait, args=(futures,), daemon=True)
            over.start()
            wait_for("it to wait", lambda: all(future._waiters for future in futures))
            end(ex)
            over.join(BOUND)
            assert not over.is_alive(), "it waits for calls that were cancelled"
            assert all(future.cancelled() for future in futures)
            p.mark(f"{d}/go")


def test_a_callback_shuts_the_executor_down():
    with p.up(slots=1), tempfile.TemporaryDirectory() as d:
        ex, returned = hawk.Executor(), threading.Event()
        try:
            future = ex.submit(p.mark_and_wait, f"{d}/started", f"{d}/go")
            future.add_done_callback(lambda future: (ex.shutdown(), returned.set()))
            p.mark(f"{d}/go")
            assert future.result(BOUND) and returned.wait(BOUND), "it waits for itself"
            ex._core._manager.join(BOUND)
            assert not ex._core._manager.is_alive()
        finally:
            ex.kill()


def test_a_callback_kills_the_executor():
    """While its call is the executor's still, though its future has ended."""
    with p.up(slots=1), tempfile.TemporaryDirectory() as d, tempfile.TemporaryDirectory() as values:
        ex = hawk.Executor(directory=values)
        future = ex.submit(p.mark_and_wait, f"{d}/started", f"{d}/go")
        p.wait_for_file(f"{d}/started")
        assert os.listdir(values)
        future.add_done_callback(lambda future: (ex.kill(), wait_for("it to end calls", lambda: ex._core._broken)))
        p.mark(f"{d}/go")
        assert future.result(BOUND)
        ex._core._manager.join(BOUND)
        assert os.listdir(values) == []
        wait_for("no process", lambda: not p.residents())
        threads = [ex._core._manager, *ex._core._session.threads]
        assert not any(thread.is_alive() for thread in threads), threads


class Keeps:
    """An executor that garbage collection alone finds."""

    def __init__(self):
        self.executor, self.itself = hawk.Executor(), self


def test_an_executor_that_is_forgotten_ends():
    """Once its calls have, as those of concurrent.futures do."""
    with p.up(slots=1), tempfile.TemporaryDirectory() as d:
        before = threading.active_count()
        for executor_of in (hawk.Executor, lambda: Keeps().executor):
            ex = executor_of()
            held = ex.submit(p.mark_and_wait, f"{d}/started", f"{d}/go")
            p.wait_for_file(f"{d}/started")
            squares = ex.map(p.square, range(5))
            del ex
            gc.collect()
            p.mark(f"{d}/go")
            assert held.result(BOUND) and list(squares) == [0, 1, 4, 9, 16]
            wait_for("its processes to end", lambda: not p.residents())
            wait_for("its threads to end", lambda: threading.active_count() == before)
            for name in ("started", "go"):
                os.unlink(f"{d}/{name}")


def test_a_process_in_which_a_call_ignores_signals_ends():
    with p.up(slots=1):
        with hawk.Executor() as ex:
            pid = ex.submit(p.ignore_signals).result()
        wait_for("the process to end with its executor", lambda: not alive(pid))
        with hawk.Executor(idle=0.1) as ex:
            pid = ex.submit(p.ignore_signals).result()
            wait_for("the process to end when it is idle", lambda: not alive(pid))
            assert ex.submit(p.square, 3).result() == 9


FORKS = """
import os, hawk

def attempt(use):
    try:
        print("no error:", use(), flush=True)
    except RuntimeError as e:
        print(type(e).__name__, "spawn" in str(e), flush=True)

def child(*uses):
    pid = os.fork()
    if pid == 0:
        for use in uses:
            attempt(use)
        os._exit(0)
    os.waitpid(pid, 0)

def run():
    return hawk.run(["true"]).state

if __name__ == "__main__":
    child(run)
    print(hawk.HawkError.__name__, flush=True)  # all of it is loaded, and nothing is used
    child(run)
    with hawk.Executor() as ex:
        ex.submit(abs, -1).result()
        child(run, hawk.Executor, lambda: ex.submit(abs, -2), lambda: list(ex.map(abs, [-2])))
        print(ex.submit(abs, -3).result(), flush=True)
    job = hawk.submit(["true"])
    child(run, job.wait, lambda: job.state)
"""


def test_a_forked_child_of_a_program_that_used_hawk_says_so():
    """gRPC waits for ever there, or crashes its parent."""
    with p.up(slots=1), tempfile.TemporaryDirectory() as d, p.program(d, FORKS) as program:
        out, err = p.told(program)
    refused = ["HawkError True", "HawkError True", "WorkerError True", "WorkerError True"]
    assert out.splitlines() == ["no error: done", "HawkError", "no error: done", *refused, "3",
                                *["HawkError True"] * 3], (out, err)


def test_what_a_call_forks_is_no_executor():
    with p.up(slots=1):
        ex = hawk.Executor()
        try:
            pids = set()
            for _ in range(10):
                pid, absolutes = ex.submit(p.with_pool, [-1, -2]).result(BOUND)
                assert absolutes == [1, 2]
                pids.add(pid)
            assert len(pids) == 1, "its process was sent away"
        finally:
            ex.kill()


class Over(Exception):
    """What a process has read was all."""


class OneMessage:
    """A stream that brings this message, and no other."""

    def __init__(self, message):
        self.messages = [message.SerializeToString()]

    def receive(self):
        if not self.messages:
            raise Over
        return self.messages.pop()


def test_a_cancellation_that_comes_with_its_call_is_heard():
    key = bytes(32)

    def no_directory():
        raise AssertionError("it is small")
    with tempfile.TemporaryDirectory() as d:
        arguments = pickle.dumps(((f"{d}/ran",), {}))
        body = _calls.call_body(*(_calls.part(key, kind, data, no_directory) for kind, data in (
            (_calls.FUNCTION, pickle.dumps(p.mark)), (_calls.ARGUMENTS, arguments))))
        packet = _calls.pack(key, _calls.CALL, body, no_directory)
        process = object.__new__(_resident.Process)
        process.key, process.directory, process.functions, process.job = key, None, {}, ""
        process.current = process.cancelled = None
        process.tasks = queue.SimpleQueue()
        process.stream = OneMessage(epb.ToExecutor(
            tasks=[epb.AppTask(id=number, payload=packet) for number in (7, 8)], cancel=[7]))
        try:
            process._read()
        except Over:
            pass
        assert process._run(process.tasks.get())["code"] == 1 and not os.path.exists(f"{d}/ran")
        assert process.current is None
        assert process._run(process.tasks.get())["result"] and os.path.exists(f"{d}/ran")


def test_interrupted_calls_do_not_count_as_done():
    with p.up(slots=4), tempfile.TemporaryDirectory() as d:
        with hawk.Executor() as ex:
            for i in range(4):
                ex.submit(p.mark_and_wait, f"{d}/began{i}", f"{d}/go")
            for i in range(4):
                p.wait_for_file(f"{d}/began{i}")
            ex.kill()
        def ended():
            jobs = json.loads(run_hawk(None, "jobs", "--all", "--output", "json").stdout)["jobs"]
            calls = [job for job in jobs if job["name"] == "mark_and_wait"]
            return all(job["state"] == "cancelled" for job in calls) and calls
        calls = wait_for("the calls' jobs to be cancelled", ended)
        assert sum(job["cancelled"] for job in calls) == 4 and not any(job["done"] for job in calls), calls


def test_a_call_whose_result_a_dist_lost_runs_again():
    """A few times: something is wrong where that goes on."""
    again, call = [], _executor.Call(concurrent.futures.Future(), "mark", "mark")
    executor = object.__new__(_executor.Core)
    executor._key, executor._lock, executor._functions_lock = bytes(32), threading.Condition(), threading.Lock()
    executor._running, executor._submit = {call}, again.extend
    for times in range(1, _executor.LOST_RESULTS_MAX + 1):
        executor._ended(call, pb.Task(state=pb.TASK_DONE, result_lost=True, run_us=5))
        assert again == [call] * times and not call.future.done() and call in executor._running
    executor._ended(call, pb.Task(state=pb.TASK_DONE, result_lost=True, run_us=5))
    error = call.future.exception()
    assert isinstance(error, hawk.WorkerError) and "mark: this call ran 4 times, and each time a dist lost" in str(error), error
    assert len(again) == _executor.LOST_RESULTS_MAX and not executor._running


AWAY = f'''import sys
sys.path.append({os.path.dirname(__file__)!r})
import hawk, pythontest as p
if __name__ == "__main__":
    with hawk.Executor(max_workers=1) as ex:
        print(len(list(ex.map(p.mark_and_wait, ["began0", "began1", "began2"], ["go"] * 3))), flush=True)
'''


def test_calls_of_a_program_that_was_away_too_long_run_again():
    """Its dist has cancelled them, for nobody waited for them any more. It was stopped, and does."""
    with p.up(1, "--set", "dist.client_grace=500ms"), tempfile.TemporaryDirectory() as d, p.program(d, AWAY) as program:
        def jobs():
            return json.loads(run_hawk(None, "jobs", "--all", "--output", "json").stdout)["jobs"]
        p.wait_for_file(f"{d}/began0")
        program.send_signal(signal.SIGSTOP)
        try:
            wait_for("its calls to be cancelled", lambda: all(j["state"] in ("done", "cancelled") for j in jobs()))
            p.mark(f"{d}/go")
        finally:
            program.send_signal(signal.SIGCONT)
        out, err = p.told(program)
        assert (out, program.returncode) == ("3\n", 0), (out, err)
        with open(f"{d}/began0", encoding="ascii") as f:
            assert len(f.read().split()) == 2


def test_a_worker_that_refuses_all_processes_is_told():
    with p.up(slots=1), contextlib.ExitStack() as stack:
        for i in range(64):  # applications of one worker
            channel = stack.enter_context(grpc.insecure_channel(f"unix:{p.where}/hawk/up.sock"))
            attach = channel.stream_stream("/hawk.v1.Executors/Attach", epb.FromExecutor.SerializeToString,
                                           epb.ToExecutor.FromString)
            hello = queue.Queue()
            hello.put(epb.FromExecutor(hello=epb.Hello(app=f"app{i}", slots=1)))
            stream = attach(iter(hello.get, None))
            stack.callback(stream.cancel)
            stack.callback(hello.put, None)
            next(stream)
        with hawk.Executor() as ex:
            error = ex.submit(p.square, 3).exception(BOUND)
        assert isinstance(error, hawk.WorkerError) and "64 applications, its limit" in str(error), error


def test_a_process_that_a_call_ends_is_replaced():
    """Whatever its exit code says."""
    with p.up(slots=2), hawk.Executor(lost_retries=0) as ex:
        wait_for("calls in both", lambda: len({pid for _, pid in ex.map(p.who, [0.05] * 8)}) == 2)
        before = p.residents()
        error = ex.submit(os._exit, 0).exception(BOUND)
        assert isinstance(error, hawk.WorkerError) and "1 time in all" in str(error), repr(error)
        wait_for("another process in its place", lambda: len(p.residents()) == 3 and p.residents() != before)
        assert list(ex.map(p.square, range(20))) == [x * x for x in range(20)]


run_tests(sys.modules[__name__])
