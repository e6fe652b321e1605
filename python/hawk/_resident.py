"""The processes that run an executor's calls on a worker (hawk/_executor.py starts them).

A task starts the leader, which forks a process per slot of the worker. Each attaches as an executor of its own and runs
one call at a time, in its main thread. With the first one the task becomes a resident: it is done, and its processes
stay (protos/executor.proto). The leader replaces a process that died, and ends all when none has had a call for a while
or when a call says so.
"""
import collections
import contextlib
import io
import json
import mmap
import os
import pickle
import queue
import runpy
import signal
import struct
import sys
import threading
import time
import traceback
import types

from hawk import _calls, _plain, executor_pb2 as epb

SLOTS_MAX = 4096
CANCEL_SECONDS = 1.0  # from KeyboardInterrupt to the end of the process
FUNCTIONS_KEPT = 16
LOOK_SECONDS = 1.0    # how often the leader looks whether all are idle
BUSY = 0.0
END_SECONDS = 1.0     # from the leader's signal to the end of a process without a call
CANNOT_ATTACH = 4     # exit code


# ---- One process ----

class Unpickler(pickle.Unpickler):
    """Finds what the caller's main program defines, by importing that program."""

    def find_class(self, module, name):
        if module == "__main__":
            import_main()
        return super().find_class(module, name)


main_path = main_module = None


def import_main():
    """As multiprocessing does it: under another name, so that what is guarded by `__main__` does not run."""
    global main_path
    path, main_path = main_path, None
    if path is None:
        return
    main = types.ModuleType("__mp_main__")
    _calls.importing_main = True
    try:
        main.__dict__.update(runpy.run_module(main_module, run_name="__mp_main__", alter_sys=True) if main_module else
                             runpy.run_path(path, run_name="__mp_main__"))
    finally:
        _calls.importing_main = False
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main


def loads(data):
    return Unpickler(io.BytesIO(data)).load() if b"__main__" in data else pickle.loads(data)


class Process:
    def __init__(self, setup, place, since, hello, tell_slots):
        self.key, self.directory = bytes.fromhex(setup["key"]), setup["directory"]
        self.place, self.since, self.tell_slots = place, since, tell_slots
        self.tasks = queue.SimpleQueue()
        self.out, self.sending = collections.deque(), False  # of the main thread, signal handlers included
        self.functions = {}
        self.current = self.cancelled = None
        self.job = None
        self.attached = False
        self.before_fork = threading.local()
        try:
            self.stream = _plain.Stream(os.environ["HAWK_WORKER_SOCKET"], "/hawk.v1.Executors/Attach", setup["token"])
        except _plain.Ended as e:
            self._leave(e)
        self._send(epb.FromExecutor(hello=hello))

    def run(self):
        for number, handler, _ in self._handlers():
            signal.signal(number, handler)
        os.register_at_fork(before=self._hold_signals, after_in_parent=self._let_signals_come,
                            after_in_child=self._let_go)
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            task = self.tasks.get()
            self.since[self.place] = BUSY
            packet = self._run(task)
            self.since[self.place] = time.monotonic()
            self._send(epb.FromExecutor(results=[epb.AppResult(id=task.id, **packet)]))

    def _send(self, message):
        """In the main thread. A signal handler that runs within it leaves its message to it."""
        self.out.append(message.SerializeToString())
        while self.out and not self.sending:
            self.sending = True
            while self.out:
                try:
                    self.stream.send(self.out.popleft())
                except _plain.Ended:
                    os._exit(1)  # the leader starts another process
            self.sending = False

    def _run(self, task):
        try:
            kind, body = _calls.unpack(self.key, task.payload)
            parts = self._parts(body) if kind == _calls.CALL else None
        except (ValueError, OSError) as e:
            return {"code": 1, "error": str(e)}
        if kind == _calls.LEAVE:
            os.kill(os.getppid(), signal.SIGTERM)
            return {"result": b""}
        if task.job != self.job:  # jobs that the call submits are this one's
            self.job = os.environ["HAWK_JOB_ID"] = task.job
        try:
            answer = {"result": self._call(task.id, *parts)}
        except KeyboardInterrupt:  # of a cancelled call: with a code it does not count as done
            self.current, answer = None, {"code": 1, "error": "interrupted, since it was cancelled"}
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        return answer

    def _parts(self, body):
        """(the function's part, its pickle unless it is kept, the pickled arguments)."""
        function, arguments = _calls.call_parts(body)
        data = None if function in self.functions else _calls.whole(self.key, function, keep=True)[1]
        return function, data, _calls.whole(self.key, arguments, keep=True)[1]

    def _call(self, number, part, data, arguments):
        self.current = number
        if self.cancelled == number:  # before it began, and _cancel has not seen it run
            raise KeyboardInterrupt
        try:
            args, kwargs = loads(arguments)
            value = self._function(part, data)(*args, **kwargs)
            self.current = None
            return self._pack(_calls.VALUE, self._dump(value))
        except BaseException as e:
            self.current = None
            if isinstance(e, KeyboardInterrupt) and self.cancelled == number:
                raise
            return self._pack_error(e)

    def _function(self, part, data):
        function = self.functions.get(part)
        if function is None:
            if len(self.functions) >= FUNCTIONS_KEPT:
                self.functions.clear()
            function = self.functions[part] = loads(data)
        return function

    @staticmethod
    def _dump(value):
        try:
            return _calls.dumps(value)
        except Exception as e:
            raise pickle.PicklingError(f"the call's result ({type(value).__name__}) cannot be sent back: {e}") from None

    @staticmethod
    def _dump_error(error):
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        try:
            data = _calls.dumps(error)
            loads(data)  # some exceptions cannot be read back
        except Exception:
            data = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        return pickle.dumps((data, trace))

    def _pack(self, kind, body):
        return _calls.pack(self.key, kind, body, self._large)

    def _pack_error(self, error):
        try:
            return self._pack(_calls.ERROR, self._dump_error(error))
        except OSError as e:  # it is large, and has no place
            e.__context__ = None
            return self._pack(_calls.ERROR, self._dump_error(e))

    def _large(self):
        if self.directory is None:
            raise OSError("a result above 1 MiB needs a directory, and the caller cannot write to its current one: "
                          "name another with Executor(directory=...)")
        return self.directory

    def _handlers(self):
        return ((signal.SIGINT, self._on_interrupt, signal.default_int_handler),
                (signal.SIGTERM, self._on_terminate, signal.SIG_DFL))

    def _on_interrupt(self, number, frame):
        if self.current is not None and self.current == self.cancelled:
            raise KeyboardInterrupt

    def _on_terminate(self, number, frame):
        self._send(epb.FromExecutor(drain=True))

    # ---- What a call forks: it answers signals as any process does, and has no connection ----

    def _hold_signals(self):
        self.before_fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))

    def _let_signals_come(self):
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before_fork.mask)

    def _let_go(self):
        for number, handler, default in self._handlers():
            if signal.getsignal(number) == handler:  # not the call's own
                signal.signal(number, default)
        self.stream.close()
        self._let_signals_come()

    # ---- The thread that reads from the worker ----

    def _read(self):
        """Beside the main thread also while that waits. On a busy machine the kernel moves the reader to the worker's
        processor, and the main thread stays where it has run."""
        try:
            while True:
                message = epb.ToExecutor.FromString(self.stream.receive())
                if message.HasField("attached"):
                    self.attached = True
                    if self.tell_slots is not None:
                        os.write(self.tell_slots, struct.pack("I", message.attached.slots))
                for task in message.tasks:
                    self.tasks.put(task)
                for number in message.cancel:
                    self._cancel(number)
        except _plain.Ended as e:
            self._leave(e)

    def _leave(self, ended):
        if not self.attached and ended.code not in (_plain.OK, _plain.ALREADY_EXISTS):
            print(f"{os.environ['HAWK_WORKER_SOCKET']}: {ended.details}", file=sys.stderr, flush=True)
            os._exit(CANNOT_ATTACH)
        os._exit(0)  # nobody wants what still runs

    def _cancel(self, number):
        self.cancelled = number
        if self.current == number:
            os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=self._end_cancelled, args=(number,), daemon=True).start()

    def _end_cancelled(self, number):
        time.sleep(CANCEL_SECONDS)
        if self.current == number:
            os._exit(1)  # the leader starts another process


# ---- The leader ----

class Leader:
    def __init__(self, setup):
        self.setup = setup
        self.since = memoryview(mmap.mmap(-1, 8 * SLOTS_MAX)).cast("d")  # when each became idle; BUSY
        self.children = {}  # places by process id
        self.resident = False
        self.leaving = None  # since when
        self.signals = {signal.SIGCHLD, signal.SIGTERM}

    def run(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, self.signals)
        reader, writer = os.pipe()
        self._fork(0, writer)
        os.close(writer)
        told = os.read(reader, 4)
        if told:
            self.resident = True
            slots = struct.unpack("I", told)[0]
            for place in range(1, min(slots, self.setup["most"] or slots, SLOTS_MAX)):
                self._fork(place, None)
        code = 0
        while self.children:
            self._wait()
            code = self._reap() or code
        return 0 if self.resident else code

    def _fork(self, place, tell_slots):
        self.since[place] = time.monotonic()
        pid = os.fork()
        if pid:
            self.children[pid] = place
            return
        code = 1
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self.signals)
            hello = epb.Hello(app=self.setup["app"], slots=1, name=f"python {os.getpid()}",
                              task=int(os.environ["HAWK_TASK_INDEX"]))
            if tell_slots is not None:
                hello.task_of = os.environ["HAWK_JOB_ID"]
            else:
                hello.resident_of = os.environ["HAWK_JOB_ID"]
            Process(self.setup, place, self.since, hello, tell_slots).run()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def _wait(self):
        got = signal.sigtimedwait(self.signals, LOOK_SECONDS)
        if got is not None and got.si_signo == signal.SIGTERM:
            self._leave()
        since = [self.since[place] for place in self.children.values()]
        if BUSY not in since and time.monotonic() - max(since) > self.setup["idle"]:
            self._leave()
        if self.leaving is not None and time.monotonic() - self.leaving > END_SECONDS:
            self._end_idle()

    def _leave(self):
        if self.leaving is None:
            self.leaving = time.monotonic()
        for pid in self.children:
            os.kill(pid, signal.SIGTERM)

    def _end_idle(self):
        """A call may have left its process deaf to SIGTERM."""
        for pid, place in self.children.items():
            if self.since[place] != BUSY:
                os.kill(pid, signal.SIGKILL)

    def _reap(self):
        """The exit code of the last one that ended, 0 for none."""
        code = 0
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            place, code = self.children.pop(pid, None), os.waitstatus_to_exitcode(status)
            if place is not None and self.resident and code != CANNOT_ATTACH and self.leaving is None:
                self._fork(place, None)
        return code


def main():
    global main_path, main_module
    setup = json.loads(os.environ.pop("HAWK_PYTHON_SETUP"))
    if not os.environ.get("HAWK_WORKER_SOCKET"):
        sys.exit(f"worker {os.environ.get('HAWK_WORKER')} has no socket where this user's executors could attach: set "
                 "worker.executor_socket to a path in a directory that its users may enter, with cluster.local_users "
                 "where it runs commands as their users")
    program = setup["program"].encode("latin-1")
    program = json.loads(_calls.whole(bytes.fromhex(setup["key"]), program, keep=True)[1])
    sys.path[:] = program["path"]
    main_path, main_module = program["main"], program["module"]
    sys.argv[:] = program["argv"]
    sys.exit(Leader(setup).run())
