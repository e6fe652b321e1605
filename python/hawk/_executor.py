"""hawk.Executor: a concurrent.futures.Executor whose calls are tasks of a Hawk cluster.

Each worker has one resident (hawk/_resident.py): a task that becomes as many Python processes as the worker has slots.
They serve an application of this executor alone, and each call is a task of it. Calls wait here until the cluster is to
have them, and count as running from then on.
"""
import _thread
import atexit
import collections
import concurrent.futures
import contextlib
import functools
import itertools
import json
import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
import types
import weakref

from hawk import _calls, _cluster, hawk_pb2 as pb
from hawk._cluster import TAGS, Cluster, HawkError, ancestors, bytes_of, check_numbers, check_whole, umask
from hawk._session import Session, text_of

BATCH_MAX = 100           # calls in a job
BATCH_BYTES = 16 << 20    # of their packets; a dist takes jobs of up to 64 MiB
AHEAD_SECONDS = 0.05      # of work per slot that the cluster has beyond what runs
AHEAD_MAX = 64            # calls per slot
KINDS_MAX = 100           # kinds of calls whose duration is remembered
LOOK_MIN, LOOK_MAX = 0.05, 1.0  # seconds between two looks at who serves
LEAVE_SECONDS = 10.0
LEFT_SECONDS = 0.05
STDERR_SHOWN = 1500
EXIT_VERSION = 3          # of BOOT: another version of Python
LEAVE_RETRIES = 10        # of what ends a resident: it may meet one that is leaving, and is lost with it
LOST_RESULTS_MAX = 3      # times that a call runs again because a dist has lost its result, or gave this program up

# How a resident begins: before anything is imported that another version may not understand.
BOOT = """import sys
wanted, here = "%d.%d", "%%d.%%d" %% sys.version_info[:2]
if here != wanted:
    import os
    sys.stderr.write("the caller runs Python %%s, and %%s on worker %%s is Python %%s: both need one minor version; "
                     "name an interpreter with Executor(python=...)\\n"
                     %% (wanted, sys.executable, os.environ.get("HAWK_WORKER"), here))
    sys.exit(%d)
from hawk._resident import main
main()
""" % (*sys.version_info[:2], EXIT_VERSION)


class WorkerError(concurrent.futures.BrokenExecutor):
    """A call's process died, each time it ran; or no Python process could be started. The text says why."""


class RemoteTraceback(Exception):
    """The cause of an exception that a call raised: where it was raised there."""

    def __init__(self, text):
        super().__init__(text)
        self.text = text

    def __str__(self):
        return f'\n"""\n{self.text}"""'


class Function:
    """A pickled function, one for all calls of it."""
    __slots__ = ("data", "part", "calls")

    def __init__(self, data, part):
        self.data, self.part, self.calls = data, part, 0


class Call:
    __slots__ = ("future", "name", "kind", "function", "arguments", "lost", "over")

    def __init__(self, future, name, kind):
        self.future, self.name, self.kind = future, name, kind  # kind: see kind_of()
        self.function = self.arguments = None  # the arguments' part
        self.lost, self.over = 0, False

    def size(self):
        return len(self.function.part) + len(self.arguments)


# What residents call the main program (as multiprocessing does), so that values of its classes can come back.
sys.modules.setdefault("__mp_main__", sys.modules["__main__"])


def main_file():
    """The program's file; None: it is interactive, or has none."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(path) if path and os.path.exists(path) else None


def main_module():
    """The name of the program's module: it was started by `python -m`, and may import its neighbours; else None."""
    name = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)
    return name if name != "__main__" else None  # of a directory or an archive


def name_of(function):
    return (getattr(function, "__qualname__", "") or type(function).__name__)[:200]


def kind_of(function):
    """Calls of one kind are taken to last alike: those of one function, also where it is made anew for each call."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return hash(code) if isinstance(code, types.CodeType) else name_of(function)


class Core:
    """What works for an Executor. Its threads know it alone, so that an Executor that is forgotten is collected."""

    def __init__(self, max_workers, dist, token_file, python, directory, env, estimate, klass, lost_retries, idle):
        check_whole(max_workers=max_workers)
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if _calls.importing_main:
            raise RuntimeError("the program makes an Executor while a worker imports it: put what it runs below "
                               "`if __name__ == \"__main__\":`")
        if klass not in TAGS:
            raise ValueError('klass is "short", "long" or None')
        check_numbers(0, estimate=estimate, lost_retries=lost_retries, idle=idle)
        self._cluster = Cluster(dist, token_file)
        self._max_workers, self._lost_retries = max_workers and int(max_workers), lost_retries
        self._python, self._env, self._idle = python or sys.executable, env or {}, idle
        self._tag = TAGS[klass]
        self._estimate_us = int((estimate or 0) * 1e6)
        self._key = os.urandom(32)
        self._app = f"python-{os.urandom(6).hex()}"
        self._given_directory, self._directory, self._directory_lock = directory, None, threading.Lock()
        self._functions, self._functions_lock = {}, threading.Lock()  # of calls that have not ended, by their pickles
        self._lock = threading.Condition()
        self._waiting = collections.deque()
        self._running = set()          # calls that the cluster has
        self._jobs = set()             # their jobs
        self._starting = set()         # jobs that start residents
        self._slots = self._served = 0
        self._look, self._look_at = LOOK_MIN, 0.0  # when to look next who serves
        self._seconds = {}             # of a call of each kind, as they took lately; what ended last stands last
        self._shut = self._kill = False
        self._broken = None
        executors.add(self)
        self._session = Session(self._cluster)
        self._manager = threading.Thread(target=self._manage, name="hawk-executor", daemon=True)
        self._manager.start()

    # ---- Its end, as it is asked for ----

    def shutdown(self, wait=True, cancel_futures=False):
        with self._lock:
            self._shut = True
            cancelled = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
            self._lock.notify_all()
        for call in cancelled:
            self._forget(call)
            call.future.cancel()
            call.future.set_running_or_notify_cancel()  # it tells concurrent.futures.wait
        # In a future's callback it would wait for itself.
        if wait and threading.current_thread() not in (self._manager, *self._session.threads):
            self._manager.join()

    def kill(self):
        with self._lock:
            self._kill = True
        self.shutdown(wait=True, cancel_futures=True)

    # ---- Calls ----

    def _prepare(self, function, future):
        """The pickled function; None: it cannot be sent, and the future says so."""
        hint = "define it at the top of a module"
        if not _calls.cloudpickle:
            hint += ", or install cloudpickle (python3-cloudpickle)"
        try:
            if not _calls.cloudpickle and getattr(function, "__module__", None) == "__main__" and not main_file():
                raise pickle.PicklingError("it is defined in an interactive session")
            return _calls.dumps(function)
        except Exception as e:
            future.set_running_or_notify_cancel()
            future.set_exception(pickle.PicklingError(
                f"{name_of(function)} cannot be sent to another process ({e}): {hint}"))
            return None

    def _call(self, future, function, prepared, args, kwargs, name=None, kind=None):
        """A call that may be added; its future has ended when it cannot be sent."""
        call = Call(future, name or name_of(function), kind or kind_of(function))
        if future.done():
            return call
        prepared = prepared or self._prepare(function, future)
        if prepared is None:
            return call
        try:
            arguments = _calls.dumps((args, kwargs))
            call.function = self._function(prepared)
            call.arguments = _calls.part(self._key, _calls.ARGUMENTS, arguments, self._large,
                                         _calls.arguments_max(call.function.part))
        except Exception as e:
            future.set_running_or_notify_cancel()
            future.set_exception(pickle.PicklingError(
                f"an argument of {call.name} cannot be sent to another process: {e}"))
            self._forget(call)
        return call

    def _function(self, data):
        """The call that asks holds it until it is forgotten."""
        with self._functions_lock:
            function = self._functions.get(data)
            if function is None:
                function = self._functions[data] = Function(
                    data, _calls.part(self._key, _calls.FUNCTION, data, self._large, _calls.FUNCTION_MAX))
            function.calls += 1
            return function

    def _packet(self, call):
        """Made when the cluster is to have the call: what many calls share is there once, however many wait."""
        return _calls.pack(self._key, _calls.CALL, _calls.call_body(call.function.part, call.arguments), self._large)

    def _check_open(self):
        with self._lock:
            if self._shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._broken:
                raise WorkerError(self._broken)

    def _add(self, calls):
        with self._lock:
            self._check_open()
            self._waiting.extend(call for call in calls if call.arguments is not None)
            self._lock.notify_all()

    def _calls_of(self, fn, function, items):
        """Calls of function, one for each item, which run fn."""
        prepared, kind = None, kind_of(fn)
        if function is not fn:
            kind = ("chunk", kind)  # it lasts longer than one call
        for item in items:
            future = concurrent.futures.Future()
            if prepared is None:
                prepared = self._prepare(function, future)
            yield self._call(future, function, prepared, item, {}, name_of(fn), kind)

    def _add_to(self, futures, calls, most):
        """Adds the next of these calls, at most so many (None: all), and their futures."""
        added = list(itertools.islice(calls, most))
        if added:
            self._add(added)
            futures.extend(call.future for call in added)

    def _large(self):
        """The directory of large values: made before the processes start that may return some, removed at the end."""
        with self._directory_lock:
            if self._directory is None:
                parent = self._given_directory or (tempfile.gettempdir() if self._cluster.local else os.getcwd())
                self._directory = tempfile.mkdtemp(prefix=".hawk-values-", dir=parent)
            if not self._directory:
                raise RuntimeError("the executor has ended")
            return self._directory

    def _large_results(self):
        """The same for those processes; None: the current directory takes no files, which matters to large ones."""
        try:
            return self._large()
        except OSError:
            if self._given_directory:
                raise
            return None

    def _decode(self, call, packet):
        """The value that a call returned; raises what it raised."""
        kind, body = _calls.unpack(self._key, packet)
        if kind == _calls.VALUE:
            return pickle.loads(body)
        data, trace = pickle.loads(body)
        try:
            error = pickle.loads(data)
        except Exception as e:
            error = RuntimeError(f"an exception that cannot be read here ({e}); its traceback is above")
        error.__cause__ = RemoteTraceback(trace)
        raise error

    def _settle(self, call, packet):
        try:
            value = self._decode(call, packet)
        except BaseException as e:
            return self._fail(call, e)
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # the executor was ended meanwhile
            call.future.set_result(value)

    # ---- The manager's thread ----

    def _manage(self):
        try:
            while self._turn():
                pass
        except Exception as e:
            self._break(f"{type(e).__name__}: {e}")
        self._finish()

    def _turn(self):
        """False: nothing is left to do."""
        with self._lock:
            if self._kill or (self._shut and not self._waiting and not self._running):
                return False
            idle = not self._waiting and not self._running
            if idle:
                self._look = LOOK_MIN
                self._lock.wait()
                return True
            look = time.monotonic() >= self._look_at
        if look:
            self._find_workers()
        self._send()
        with self._lock:
            if not (self._kill or self._room() > 0 and self._waiting):
                self._lock.wait(max(0.0, self._look_at - time.monotonic()))
        return True

    def _room(self):
        """How many more calls the cluster is to have: what runs, and some like the next; it is filled up by halves."""
        slots = min(self._slots, self._max_workers or self._slots)
        seconds = self._seconds.get(self._waiting[0].kind) if self._waiting else None
        ahead = 1 if not seconds else min(AHEAD_MAX, int(AHEAD_SECONDS / seconds))  # at least as many as run
        most = slots if self._max_workers else slots * (1 + max(1, ahead))
        room = most - len(self._running)
        return room if room >= max(1, (most - slots) // 2) else 0

    def _send(self):
        while True:
            calls, gone, size = [], [], 0
            with self._lock:
                room = min(self._room(), BATCH_MAX)
                while self._waiting and len(calls) < room:
                    call = self._waiting[0]
                    size += call.size()
                    if calls and ((call.name, call.kind) != (calls[0].name, calls[0].kind) or size > BATCH_BYTES):
                        break
                    self._waiting.popleft()
                    (calls if call.future.set_running_or_notify_cancel() else gone).append(call)
                self._running.update(calls)
            for call in gone:
                self._forget(call)
            if not calls:
                return
            self._submit(calls)

    def _submit(self, calls):
        spec = pb.JobSpec(name=calls[0].name, tasks=len(calls), kind=pb.PAYLOAD_APP, app=self._app, each_arg=True,
                          task_args=[self._packet(call) for call in calls], tag=self._tag,
                          lost_retries=self._lost_retries, estimate_us=self._estimate_us, ancestors=ancestors(),
                          user=self._cluster.user)
        left = dict(enumerate(calls))

        def on_task(job, task):
            if task.state != pb.TASK_CANCELLED:  # why it was cancelled, the job's end says
                self._ended(left.pop(task.task), task)

        def on_end(job, error, abandoned):
            with self._lock:
                self._jobs.discard(job)
                self._lock.notify_all()
            if error and self._session.unreachable:
                self._break(error, HawkError)  # what waits as well: no dist would take it
            for call in left.values():
                if error:
                    self._fail(call, HawkError(error))
                elif abandoned and not self._kill and call.lost < LOST_RESULTS_MAX:
                    call.lost += 1
                    self._submit([call])
                else:
                    self._ended(call, pb.Task(state=pb.TASK_CANCELLED))
            left.clear()

        with self._lock:
            self._jobs.add(self._session.submit(spec, on_task, on_end))

    def _ended(self, call, task):
        if task.state == pb.TASK_DONE and task.result_lost and call.lost < LOST_RESULTS_MAX:
            call.lost += 1
            self._submit([call])
            return
        self._forget(call)
        if task.state == pb.TASK_DONE and task.result_lost:
            self._fail(call, WorkerError(f"{call.name}: this call ran {call.lost + 1} times, and each time a dist lost "
                                         "what it returned"))
        elif task.state == pb.TASK_DONE:
            if task.run_us >= 0:
                self._learn(call.kind, task.run_us / 1e6)
            self._settle(call, task.result)
        elif task.state == pb.TASK_LOST:
            self._fail(call, WorkerError(f"{call.name}: the process or machine that ran this call died, "
                                         f"{task.attempt} time{'s' * (task.attempt != 1)} in all"))
        elif task.state == pb.TASK_CANCELLED:
            self._fail(call, concurrent.futures.CancelledError())
        else:
            self._fail(call, HawkError(f"{call.name}: {text_of(task)}"))
        with self._lock:
            self._running.discard(call)
            if not self._running or self._room() > 0:
                self._lock.notify_all()

    def _learn(self, kind, seconds):
        with self._lock:
            self._seconds[kind] = 0.9 * self._seconds.pop(kind, seconds) + 0.1 * seconds
            if len(self._seconds) > KINDS_MAX:
                del self._seconds[next(iter(self._seconds))]

    def _forget(self, call):
        """Removes the files of a call that has ended; the function's with the last call of it."""
        with self._functions_lock:
            if call.over:
                return
            call.over, parts = True, [call.arguments or b""]
            if call.function:
                call.function.calls -= 1
                if call.function.calls == 0:
                    del self._functions[call.function.data]
                    parts.append(call.function.part)
        self._remove(*parts)

    @staticmethod
    def _remove(*parts):
        for path in filter(None, map(_calls.large_path, parts)):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _fail(self, call, error):
        with self._lock:
            self._running.discard(call)
            self._lock.notify_all()
        self._forget(call)
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # the executor was ended meanwhile
            call.future.set_exception(error)

    def _break(self, text, kind=WorkerError):
        """No call can run any more."""
        with self._lock:
            self._broken = text
            running, waiting = list(self._running), list(self._waiting)
            self._running.clear()
            self._waiting.clear()
            self._lock.notify_all()
        for call in running:
            self._fail(call, kind(text))  # unless it has just ended
        for call in waiting:
            if call.future.set_running_or_notify_cancel():
                self._fail(call, kind(text))
            else:
                self._forget(call)

    # ---- Residents ----

    def _find_workers(self):
        """Looks who serves, and starts residents where calls need them."""
        try:
            reply = self._cluster.nodes()
        except HawkError as e:
            if self._slots == 0 and not self._session.jobs:
                self._break(str(e), HawkError)
            reply = None
        with self._lock:
            self._look = min(LOOK_MAX, 2 * self._look)
            self._look_at = time.monotonic() + self._look
            if reply is None:
                return
            workers = [n for n in reply.nodes if n.role == "worker" and n.state == "up"]
            serving = sum(self._app in n.apps for n in workers)
            self._slots = max(1, sum(n.slots for n in workers))
            places = 1 if reply.embedded else len(workers)
            self._served = min(serving, places)
            per_worker = max(1, self._slots // max(1, places))
            calls = min(len(self._waiting) + len(self._running), self._max_workers or self._slots)
            wanted = min(places, -(-calls // per_worker)) - self._served - len(self._starting)
        if wanted > 0:
            self._start(wanted)

    def _start(self, number):
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        program = {"main": main_file(), "module": main_module(), "argv": sys.argv,
                   "path": [p or os.getcwd() for p in sys.path]}
        program = _calls.part(self._key, _calls.PROGRAM, json.dumps(program).encode(), self._large, _calls.PROGRAM_MAX)
        setup = {"app": self._app, "key": self._key.hex(), "idle": self._idle, "program": program.decode("latin-1"),
                 "token": self._cluster.token, "directory": self._large_results(), "most": self._max_workers}
        path = self._env.get("PYTHONPATH", os.environ.get("PYTHONPATH"))
        more = {**self._env, "HAWK_PYTHON_SETUP": json.dumps(setup),
                "PYTHONPATH": f"{package}{os.pathsep}{path}" if path else package}
        spec = pb.JobSpec(name="python", tasks=number, kind=pb.PAYLOAD_COMMAND,
                          argv=[bytes_of(self._python), b"-c", BOOT.encode()],
                          env=self._cluster.environment(more), cwd=os.getcwdb(), umask=umask(), tag=pb.TAG_SHORT,
                          lost_retries=2, ancestors=ancestors(), user=self._cluster.user)
        failed = []

        def on_task(job, task):
            if task.state != pb.TASK_DONE:
                failed.append((job, task))

        def on_end(job, error, abandoned):
            self._remove(program)
            with self._lock:
                self._starting.discard(job)
                self._look, self._look_at = LOOK_MIN, 0.0
                self._lock.notify_all()
            if error or len(failed) == number:
                threading.Thread(target=self._could_not_start, args=(failed, error), daemon=True).start()

        with self._lock:
            self._starting.add(self._session.submit(spec, on_task, on_end))

    def _could_not_start(self, failed, error):
        """No resident of a round has come up. If nobody else serves, that is the end."""
        if not error:
            job, task = failed[0]
            try:
                told = self._cluster.output(job.job, task.task, task.worker, stderr=True)
                told = told.decode(errors="replace").strip()[-STDERR_SHOWN:]
            except (HawkError, ValueError) as e:  # gRPC's ValueError: the executor was ended meanwhile
                told = str(e)
            error = told if task.code == EXIT_VERSION else \
                f"no Python process could be started ({self._python}: {text_of(task)}): {told}"
        with self._lock:
            serves = self._served > 0
        if not serves and not self._shut_and_empty():
            self._break(error, HawkError if self._session.unreachable else WorkerError)

    def _shut_and_empty(self):
        with self._lock:
            return self._shut and not self._waiting and not self._running

    # ---- The end ----

    def _finish(self):
        with self._lock:
            jobs = [*self._jobs, *self._starting]
            self._shut = True
        try:
            for job in jobs:
                self._session.cancel(job)
            self._break(self._broken or "the executor was ended")
            self._send_residents_away()
        except HawkError:
            pass  # they end by themselves after their idle time
        finally:
            self._session.close()
            self._cluster.close()
            executors.discard(self)
            with self._directory_lock:
                directory, self._directory = self._directory, ""  # nobody makes another one
            if directory:
                shutil.rmtree(directory, ignore_errors=True)

    def _send_residents_away(self):
        """Until no worker serves the application any more, each that does gets a call that ends its resident."""
        end, packet = time.monotonic() + LEAVE_SECONDS, _calls.pack(self._key, _calls.LEAVE, b"", self._large)
        with self._lock:
            self._lock.wait_for(lambda: not self._starting and not self._jobs, LEAVE_SECONDS)
        told_until = 0.0  # those that were told need a moment to leave the list
        while time.monotonic() < end:
            reply = self._cluster.nodes()
            number = sum(self._app in n.apps for n in reply.nodes if n.role == "worker")
            if number == 0:
                return
            if time.monotonic() < told_until:
                time.sleep(LEFT_SECONDS / 10)
                continue
            number = 1 if reply.embedded else number
            over = threading.Event()
            job = self._session.submit(
                pb.JobSpec(name="python-end", tasks=number, kind=pb.PAYLOAD_APP, app=self._app, each_arg=True,
                           task_args=[packet] * number, tag=pb.TAG_SHORT, ancestors=ancestors(),
                           user=self._cluster.user, lost_retries=LEAVE_RETRIES),
                lambda job, task: None, lambda job, error, abandoned: over.set())
            if over.wait(1.0):
                told_until = time.monotonic() + LEFT_SECONDS
            self._session.cancel(job)
            over.wait(1.0)


class Executor(concurrent.futures.Executor):
    """Runs calls on the cluster that `hawk submit` would use.

    max_workers: at most so many calls at a time; None: as the cluster has room. python: the interpreter there; it has
    this one's minor version. directory: where values above 1 MiB go, on a file system that the workers share. env: more
    variables for the processes. estimate: seconds that a call takes; klass: "short" or "long". lost_retries: how
    often a call runs again whose process or machine died, as in hawk.submit; one that raised does not. idle:
    seconds after which processes without calls end.
    """

    def __init__(self, max_workers=None, *, dist=None, token_file=None, python=None, directory=None, env=None,
                 estimate=None, klass=None, lost_retries=2, idle=60.0):
        self._core = Core(max_workers, dist, token_file, python, directory, env, estimate, klass, lost_retries, idle)
        # As concurrent.futures' own: when nobody has it any more, it ends once its calls have. By a thread of its own:
        # one in which garbage is collected may hold any lock.
        weakref.finalize(self, _thread.start_new_thread, self._core.shutdown, (False,)).atexit = False

    # ---- The interface of concurrent.futures ----

    def submit(self, fn, /, *args, **kwargs):
        core = self._core
        core._check_open()
        future = concurrent.futures.Future()
        core._add([core._call(future, fn, None, args, kwargs)])
        return future

    def map(self, fn, *iterables, timeout=None, chunksize=1, buffersize=None):
        """Takes its input whole; with buffersize, as in Python 3.14, at most so many chunks ahead of the results."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        check_whole(buffersize=buffersize)
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        core = self._core
        core._check_open()
        end = None if timeout is None else time.monotonic() + timeout
        items, function = zip(*iterables), fn
        if chunksize > 1:
            chunks, function = zip(*iterables), _calls.run_chunk
            items = ((fn, chunk) for chunk in iter(lambda: list(itertools.islice(chunks, chunksize)), []))
        calls = core._calls_of(fn, function, items)
        futures = collections.deque()
        core._add_to(futures, calls, buffersize)
        more = (lambda: self._core._add_to(futures, calls, 1)) if buffersize else None
        results = self._results(futures, more, end)
        return itertools.chain.from_iterable(results) if chunksize > 1 else results

    @staticmethod
    def _results(futures, more, end):
        def results():
            try:
                while futures:
                    if more:
                        more()
                    yield futures.popleft().result(None if end is None else end - time.monotonic())
            finally:
                for future in futures:
                    future.cancel()
        return results()

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._core.shutdown(wait, cancel_futures)

    def kill(self):
        """Ends the executor and everything that it runs, now."""
        self._core.kill()

    def __exit__(self, kind, value, trace):
        if kind is not None and not issubclass(kind, Exception):  # KeyboardInterrupt: nobody wants the results
            self.kill()
        else:
            self.shutdown(wait=True)
        return False


executors = weakref.WeakSet()  # those that have not ended


def _forked():
    """In the child: its executors have no threads, and their locks may be held by those of the parent."""
    for executor in list(executors):
        executor._lock, executor._broken = threading.Condition(), _cluster.FORKED


os.register_at_fork(after_in_child=_forked)


def _end_all():
    for executor in list(executors):
        executor.shutdown(wait=True)


# Before the interpreter waits for threads, as concurrent.futures does for its own.
getattr(threading, "_register_atexit", atexit.register)(_end_all)
