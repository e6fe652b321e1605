#!/usr/bin/python3
"""The Python package hawk: calls on real clusters, as its users make them, and what becomes of them when things break."""
# timeout: 300
import asyncio
import concurrent.futures
import os
import pickle
import signal
import sys
import tempfile
import threading
import time

import pythontest as p
from hawktest import BOUND, run_tests, wait_for
from tlstest import TlsCluster
from userstest import KnownCluster

import hawk
from hawk import _executor


def test_map_and_submit():
    with p.up() as up, hawk.Executor() as ex:
        assert list(ex.map(p.square, range(500))) == [x * x for x in range(500)]
        assert list(ex.map(p.square, range(10), chunksize=3)) == [x * x for x in range(10)]
        assert list(ex.map(pow, [2, 3], [5, 2])) == [32, 9]
        assert list(ex.map(p.square, [])) == []
        assert ex.submit(p.keywords, 1, b=2).result(BOUND) == (1, 2)
        done, left = concurrent.futures.wait([ex.submit(p.square, x) for x in range(5)], timeout=BOUND)
        assert len(done) == 5 and not left
        assert ex.submit(p.variable, "HAWK_PYTHON_SETUP").result(BOUND) is None  # the key is in it
        try:
            list(ex.map(time.sleep, [10], timeout=0.05))
            raise AssertionError("no timeout")
        except concurrent.futures.TimeoutError:
            pass
        ex.kill()
        del up


def test_map_takes_its_input_as_results_are_taken():
    taken = []

    def numbers():
        for x in range(20):
            taken.append(x)
            yield x

    with p.up(), hawk.Executor() as ex:
        for chunk in 1, 3:
            del taken[:]
            results = ex.map(p.square, numbers(), chunksize=chunk, buffersize=2)
            assert len(taken) == 2 * chunk, taken
            assert next(results) == 0 and len(taken) == 3 * chunk, taken
            assert list(results) == [x * x for x in range(1, 20)] and len(taken) == 20
        assert list(ex.map(p.square, [], buffersize=2)) == []
        assert list(ex.map(p.square, range(3), buffersize=9)) == [0, 1, 4]
        # Whoever takes no more has taken no more of the input.
        del taken[:]
        results = ex.map(p.square, numbers(), buffersize=2)
        next(results)
        results.close()
        assert len(taken) == 3, taken
        for wrong, error in ("2", TypeError), (1.5, TypeError), (0, ValueError):
            try:
                ex.map(p.square, [1], buffersize=wrong)
            except error as e:
                assert "buffersize" in str(e), e
            else:
                raise AssertionError(wrong)
        more = ex.map(p.square, range(9), buffersize=2)
    try:
        list(more)
        raise AssertionError("calls after the end")
    except RuntimeError as e:
        assert "after shutdown" in str(e), e
    with p.up():  # an executor that nobody else has goes on while its results are taken
        assert list(hawk.Executor().map(p.square, range(9), buffersize=2)) == [x * x for x in range(9)]


def test_processes_stay_one_per_slot():
    with p.cluster(workers=2, slots=2) as c:
        with hawk.Executor() as ex:
            def everywhere():
                found = set(ex.map(p.who, [0.05] * 40))
                return found if len(found) == 4 else None
            found = wait_for("calls in four processes", everywhere)
            assert len({worker for worker, _ in found}) == 2, found
            assert set(ex.map(p.who, [0.02] * 40)) <= found, "the processes stay"
            jobs = c.json("jobs", "--all")["jobs"]
            assert {job["name"] for job in jobs} >= {"who", "python"}, jobs
            assert all(j["state"] == "done" for j in jobs if j["name"] == "who"), jobs
            wait_for("a process per slot, and a leader on each worker", lambda: len(p.residents()) == 6)
        wait_for("no process", lambda: not p.residents())
        wait_for("no application", lambda: not any(n["apps"] for n in c.json("nodes")["nodes"]))


def test_short_calls_beside_a_long_job():
    with p.cluster(workers=1, slots=2) as c, tempfile.TemporaryDirectory() as d:
        c.hawk("submit", "--class", "long", "--array", "1-4", "--", "sh", "-c", f"while ! test -e {d}/go; do sleep 0.1; done")
        with hawk.Executor() as ex:
            assert ex.submit(p.square, 3).result(BOUND) == 9
        p.mark(f"{d}/go")


def test_exceptions_bring_their_traceback():
    with p.up(), hawk.Executor() as ex:
        try:
            ex.submit(p.fail, "no such thing").result(BOUND)
            raise AssertionError("no exception")
        except LookupError as e:
            assert e.args == ("no such thing",)
            assert isinstance(e.__cause__, hawk.RemoteTraceback)
            assert "in fail\n" in str(e.__cause__) and "pythontest.py" in str(e.__cause__), str(e.__cause__)
        error = ex.submit(p.fail_oddly).exception(BOUND)
        assert isinstance(error, RuntimeError) and "Odd: one" in str(error), error
        assert "in fail_oddly" in str(error.__cause__)
        assert isinstance(ex.submit(sys.exit, 3).exception(BOUND), SystemExit)
        results = ex.map(p.fail, ["first", "second"])
        try:
            next(results)
            raise AssertionError("no exception")
        except LookupError as e:
            assert e.args == ("first",)


def test_cancel():
    with p.up(), tempfile.TemporaryDirectory() as d, hawk.Executor(max_workers=1) as ex:
        running = ex.submit(p.mark_and_wait, f"{d}/started", f"{d}/go")
        waiting = ex.submit(p.mark, f"{d}/waited")
        wait_for("the call", lambda: os.path.exists(f"{d}/started"))
        assert running.running() and running.cancel() is False
        assert waiting.cancel() is True and waiting.cancelled()
        p.mark(f"{d}/go")
        assert running.result(BOUND)
        assert ex.submit(p.square, 2).result(BOUND) == 4
        assert not os.path.exists(f"{d}/waited")
        with hawk.Executor(max_workers=1) as other:
            first = other.submit(p.wait_for_file, f"{d}/end")
            rest = [other.submit(p.square, x) for x in range(5)]
            wait_for("the call", first.running)
            other.shutdown(wait=False, cancel_futures=True)
            p.mark(f"{d}/end")
            assert first.result(BOUND) is True and all(future.cancelled() for future in rest)
        try:
            other.submit(p.square, 1)
            raise AssertionError("a call after shutdown")
        except RuntimeError as e:
            assert "after shutdown" in str(e)


def test_what_cannot_be_pickled():
    with p.up(), hawk.Executor() as ex:
        error = ex.submit(p.square, threading.Lock()).exception(BOUND)
        assert isinstance(error, pickle.PicklingError) and "an argument of square cannot be sent" in str(error), error
        error = ex.submit(threading.Lock).exception(BOUND)
        assert isinstance(error, pickle.PicklingError) and "result (lock) cannot be sent back" in str(error), error
        cloudpickle, hawk._calls.cloudpickle = hawk._calls.cloudpickle, None
        try:
            error = ex.submit(lambda: 1).exception(BOUND)
            assert isinstance(error, pickle.PicklingError), error
            assert "<lambda> cannot be sent" in str(error) and "install cloudpickle" in str(error), error
            assert ex.submit(p.square, 3).result(BOUND) == 9
        finally:
            hawk._calls.cloudpickle = cloudpickle


def test_lambdas_and_closures():
    if hawk._calls.cloudpickle is None:
        print("skipped: cloudpickle is not installed")
        return
    factor = 7
    with p.up(), hawk.Executor() as ex:
        assert list(ex.map(lambda x: factor * x, range(20))) == [7 * x for x in range(20)]
        assert ex.submit(p.lambda_of).result(BOUND)() == 1


MAIN = """
import hawk, os

class Point:
    def __init__(self, x):
        self.x = x

def move(point):
    point.x += 1
    return point

if __name__ == "__main__":
    %s
    with hawk.Executor() as ex:
        moved = list(ex.map(move, [Point(1), Point(2)]))
        print([type(m) is Point and m.x for m in moved])
"""


def test_what_the_main_program_defines():
    with p.up(), tempfile.TemporaryDirectory() as d:
        for prepare in ("pass", "hawk._calls.cloudpickle = None"):
            r = p.program(d, MAIN % prepare)
            out, err = r.communicate(timeout=BOUND)
            assert r.returncode == 0 and out == "[2, 3]\n", (prepare, out, err)
        r = p.program(d, MAIN.replace('if __name__ == "__main__":', "if True:") % "hawk._calls.cloudpickle = None")
        out, err = r.communicate(timeout=BOUND)
        assert r.returncode == 1 and "put what it runs below `if __name__" in err, (out, err)


def test_large_values_go_through_files():
    with p.cluster(workers=1) as c, tempfile.TemporaryDirectory() as d:
        data = os.urandom(3 << 20)
        with hawk.Executor(directory=d) as ex:
            for result in ex.map(p.double, [data, data, b"small"]):
                assert result in (data + data, b"smallsmall")
            assert isinstance(ex.submit(p.fail, data).exception(BOUND), LookupError)
            inside = [f for _, _, files in os.walk(d) for f in files]
            assert inside == [], "files of calls that have ended are gone"
        assert os.listdir(d) == []
        assert c.json("jobs", "--all")["jobs"]


def test_a_current_directory_that_takes_no_files():
    """Large values alone need one that does."""
    before, large = os.getcwd(), bytes(2 << 20)
    with p.cluster(workers=1):
        try:
            os.chdir("/proc")
            with hawk.Executor() as ex:
                assert ex.submit(p.square, 3).result(BOUND) == 9
                for call in (bytes, p.fail_at_length):
                    error = ex.submit(call, len(large)).exception(BOUND)
                    assert isinstance(error, OSError) and "Executor(directory=...)" in str(error), repr(error)
                error = ex.submit(len, large).exception(BOUND)
                assert isinstance(error, pickle.PicklingError) and "/proc/" in str(error), repr(error)
        finally:
            os.chdir(before)


def test_asyncio():
    async def calls(ex):
        loop = asyncio.get_running_loop()
        one = loop.run_in_executor(ex, p.square, 3)
        many = asyncio.gather(*(asyncio.wrap_future(ex.submit(p.square, x)) for x in range(50)))
        assert await one == 9 and await many == [x * x for x in range(50)]
        try:
            await loop.run_in_executor(ex, p.fail, "there")
            raise AssertionError("no exception")
        except LookupError as e:
            assert e.args == ("there",)

    with p.up(), hawk.Executor() as ex:
        asyncio.run(calls(ex))


INTERRUPTED = """
import hawk, pythontest as p, sys

if __name__ == "__main__":
    with hawk.Executor() as ex:
        for _ in ex.map(p.mark_and_wait, [sys.argv[0] + ".started"] * 2, ["/nowhere"] * 2):
            pass
"""


def test_keyboard_interrupt_ends_everything():
    with p.up(), tempfile.TemporaryDirectory() as d, \
            p.environment(PYTHONPATH=None):
        text = INTERRUPTED.replace("import hawk", f"import sys; sys.path.append({os.path.dirname(__file__)!r}); import hawk")
        r = p.program(d, text)
        wait_for("two calls", lambda: os.path.exists(f"{d}/program.py.started") and
                 len(open(f"{d}/program.py.started").read().split()) == 2)
        r.send_signal(signal.SIGINT)
        out, err = r.communicate(timeout=BOUND)
        assert r.returncode != 0 and "KeyboardInterrupt" in err, (r.returncode, out, err)
        wait_for("no process", lambda: not p.residents())


def test_who_forgets_shutdown():
    with p.up(), tempfile.TemporaryDirectory() as d:
        r = p.program(d, "import hawk\nex = hawk.Executor()\nprint(ex.submit(pow, 2, 3).result())\n")
        out, err = r.communicate(timeout=BOUND)
        assert r.returncode == 0 and out == "8\n", (out, err)
        wait_for("no process", lambda: not p.residents())
        r = p.program(d, "import hawk, os\nex = hawk.Executor(idle=0.3)\nprint(ex.submit(pow, 2, 3).result(), flush=True)\n"
                         "os._exit(1)\n")
        assert r.communicate(timeout=BOUND)[0] == "8\n"
        wait_for("no process: none has calls any more", lambda: not p.residents())


def test_idle_processes_end_and_come_back():
    with p.up(), hawk.Executor(idle=0.3) as ex:
        first = ex.submit(p.parent).result(BOUND)
        wait_for("no process", lambda: not p.residents())
        assert ex.submit(p.parent).result(BOUND) != first


def test_a_worker_is_killed():
    with p.cluster(workers=2, slots=1, central=("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease", "1s")) as c, \
            tempfile.TemporaryDirectory() as d, hawk.Executor() as ex:
        wait_for("calls on both", lambda: len(set(ex.map(p.who, [0.05] * 8))) == 2)
        futures = [ex.submit(p.mark_and_wait, f"{d}/started{i}", f"{d}/go") for i in range(2)]
        wait_for("two calls", lambda: all(os.path.exists(f"{d}/started{i}") for i in range(2)))
        c.workers[0].kill()
        more = [ex.submit(p.square, x) for x in range(20)]
        p.mark(f"{d}/go")
        assert {future.result(BOUND * 2) for future in futures} == {"w2"} | {f.result() for f in futures}
        assert [future.result(BOUND * 2) for future in more] == [x * x for x in range(20)]


def test_a_dist_is_killed_and_another_is_there():
    with p.cluster(KnownCluster, dists=2, workers=2, slots=1) as c, tempfile.TemporaryDirectory() as d, hawk.Executor() as ex:
        assert list(ex.map(p.square, range(5))) == [x * x for x in range(5)]
        futures = [ex.submit(p.mark_and_wait, f"{d}/started{i}", f"{d}/go") for i in range(2)]
        wait_for("two calls", lambda: all(os.path.exists(f"{d}/started{i}") for i in range(2)))
        at = c.dist_addrs.index(ex._core._session.address)
        c.dists[at].kill()
        more = [ex.submit(p.square, x) for x in range(50)]
        p.mark(f"{d}/go")
        assert [future.result(BOUND * 2) for future in more] == [x * x for x in range(50)]
        assert {future.result(BOUND * 2) for future in futures} <= {"w1", "w2"}


def test_no_dist_is_left():
    with p.cluster(workers=1) as c:
        with hawk.Executor() as ex:
            assert ex.submit(p.square, 2).result(BOUND) == 4
            before, hawk._session.TIMEOUT = hawk._session.TIMEOUT, 2.0
            try:
                c.dists[0].kill()
                futures = [ex.submit(p.square, i) for i in range(100)]  # more than the cluster gets at a time
                for future in futures:
                    error = future.exception(BOUND)
                    assert type(error) is hawk.HawkError and "no dist answers" in str(error), error
            finally:
                hawk._session.TIMEOUT = before


def test_hawk_up_is_stopped():
    """Its jobs have ended with it: nobody waits for it to come back."""
    from hawk import _jobs, _session
    before = _session.TIMEOUT, _jobs.GONE_SECONDS
    _session.TIMEOUT = _jobs.GONE_SECONDS = 10 * BOUND
    try:
        with p.up() as daemon, hawk.Executor() as ex:
            job, future = hawk.submit(["sleep", "600"]), ex.submit(time.sleep, 600)
            wait_for("both to run", lambda: job.state == "running" and future.running())
            daemon.stop()
            error = future.exception(BOUND)
            assert type(error) is hawk.HawkError, repr(error)
            try:
                job.wait(BOUND)
                raise AssertionError("it has ended?")
            except hawk.HawkError as e:
                assert "is `hawk up` running?" in str(e), e
    finally:
        _session.TIMEOUT, _jobs.GONE_SECONDS = before


def test_a_process_dies():
    with p.up(), tempfile.TemporaryDirectory() as d, hawk.Executor() as ex:
        list(ex.map(p.who, [0.05] * 4))
        assert ex.submit(p.die_once, f"{d}/died").result(BOUND) > 0
        error = ex.submit(p.die).exception(BOUND)
        assert isinstance(error, hawk.WorkerError) and "die: the process or machine" in str(error), error
        assert isinstance(error, concurrent.futures.BrokenExecutor)
        for then in ("nothing", "files", "sockets"):  # it cannot tell the worker of its end, nor of anything else
            error = ex.submit(p.close_all, then).exception(BOUND)
            assert isinstance(error, hawk.WorkerError) and "close_all: the process or machine" in str(error), error
        assert list(ex.map(p.square, range(20))) == [x * x for x in range(20)], "others go on"
        wait_for("as many processes as before", lambda: len(p.residents()) == 3)


def test_another_version_of_python_says_so():
    with p.cluster(workers=1):
        boot, here = _executor.BOOT, "%d.%d" % sys.version_info[:2]
        _executor.BOOT = boot.replace(f'"{here}"', '"2.7"', 1)
        try:
            with hawk.Executor() as ex:
                error = ex.submit(p.square, 1).exception(BOUND)
                assert isinstance(error, hawk.WorkerError), error
                for part in ("the caller runs Python 2.7", f"on worker w1 is Python {here}", "Executor(python=...)"):
                    assert part in str(error), error
        finally:
            _executor.BOOT = boot
        with hawk.Executor(python="/no/such/python") as ex:
            error = ex.submit(p.square, 1).exception(BOUND)
            assert isinstance(error, hawk.WorkerError) and "/no/such/python: no such program" in str(error), error


def test_a_token_and_tls():
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/token", "w", encoding="utf-8") as f:
            f.write("a token of sixteen characters".replace(" ", "-"))
        os.chmod(f"{d}/token", 0o600)
        flags = ("--token-file", f"{d}/token")
        with p.environment(HAWK_TOKEN_FILE=f"{d}/token"), \
                p.cluster(workers=1, central=flags, worker=flags, dist=flags), hawk.Executor() as ex:
            assert ex.submit(p.square, 3).result(BOUND) == 9
            assert ex.submit(p.variable, "HAWK_TOKEN_FILE").result(BOUND) is None
    with TlsCluster(workers=1) as c, \
            p.environment(HAWK_DIST=c.dist_addrs[0], **c.ca.environment("ann")), hawk.Executor() as ex:
        assert ex.submit(p.square, 4).result(BOUND) == 16
        assert hawk.run(["echo", "hi"]).tasks()[0].output() == b"hi\n"
        with tempfile.TemporaryDirectory() as d:  # the same files, where `hawk login` puts them
            for name, file in (("user.crt", "ann.crt"), ("user.key", "ann.key"), ("roots.crt", "roots.crt")):
                os.symlink(f"{c.ca.dir}/{file}", f"{d}/{name}")
            with open(f"{d}/dist", "w", encoding="utf-8") as f:
                f.write(c.dist_addrs[0] + "\n")
            none = dict.fromkeys(c.ca.environment("ann"))
            with p.environment(HAWK_DIST=None, HAWK_LOGIN=d, XDG_RUNTIME_DIR=d, **none), hawk.Executor() as other:
                assert other.submit(p.square, 5).result(BOUND) == 25
            with p.up(), p.environment(HAWK_LOGIN=d, **none):  # named, it goes before a cluster that runs here
                with hawk.Executor() as ex:
                    assert ex._core._cluster.contacts == [c.dist_addrs[0]]
            with p.up(), p.environment(HAWK_LOGIN=f"{d}/nowhere", **none):
                try:
                    hawk.Executor()
                    raise AssertionError("a login that is not there was passed over")
                except hawk.HawkError as e:
                    assert "no credential" in str(e), e


def test_wrong_arguments():
    """They are refused here, and nothing of them runs."""
    with p.up():
        for command, more, words in (
                ([], {}, "no command"), (["true"], {"inputs": []}, "inputs is empty"), (["true"], {"count": 0}, "count must be at least 1, not 0"),
                (["true"], {"mem": 4000}, "mem must be at least 1048576, not 4000"),
                (["true"], {"inputs": ["a"], "count": 2}, "exclude one another"), (["true"], {"time_limit": -1}, "time_limit must be at least 0"),
                (["true"], {"estimate": -0.5}, "estimate must"), (["true"], {"mem": -1}, "mem must"), (["true"], {"retries": -1}, "retries must"),
                (["true"], {"inputs": ["a\0b"]}, "null byte"), (["echo", b"a\0"], {}, "null byte"), (["true"], {"env": {"A": "\0"}}, "null byte")):
            try:
                hawk.submit(command, **more)
                raise AssertionError(f"{command} {more} was taken")
            except ValueError as e:
                assert words in str(e), e
        try:
            hawk.submit(["cat"], stdin="text")
            raise AssertionError("text was taken for bytes")
        except TypeError as e:
            assert "stdin is bytes" in str(e), e
        for name, wrong in ("max_workers", "4"), ("max_workers", 1.5), ("estimate", "4"), ("lost_retries", "2"), ("idle", b""):
            try:
                hawk.Executor(**{name: wrong})
            except TypeError as e:
                assert name in str(e) and repr(wrong) in str(e), e
            else:
                raise AssertionError((name, wrong))
        for wrong in ({"lost_retries": -1}, {"estimate": -1}, {"idle": -1}, {"max_workers": 0}, {"klass": "x"}):
            try:
                hawk.Executor(**wrong)
                raise AssertionError(f"{wrong} was taken")
            except ValueError as e:
                assert next(iter(wrong)) in str(e), e


def test_no_cluster():
    with tempfile.TemporaryDirectory() as d, p.environment(XDG_RUNTIME_DIR=d, HAWK_DIST=None):
        try:
            hawk.Executor()
            raise AssertionError("an executor without a cluster")
        except hawk.HawkError as e:
            assert "start one with `hawk up`" in str(e), e


def test_somebody_elses_bytes_are_not_unpickled():
    with p.up(), hawk.Executor() as ex:
        assert ex.submit(p.square, 2).result(BOUND) == 4
        spec = _executor.pb.JobSpec(tasks=1, kind=_executor.pb.PAYLOAD_APP, app=ex._core._app, each_arg=True,
                                     task_args=[b"x" * 16 + b"C" + pickle.dumps(print)])
        over = []
        ex._core._session.submit(spec, lambda job, task: over.append(task), lambda job, error, abandoned: None)
        wait_for("its end", lambda: over)
        assert "a packet that this executor did not make" in over[0].message, over


def test_a_dist_tells_the_last_result_and_the_end_of_its_job_apart():
    before, _executor.LEAVE_SECONDS = _executor.LEAVE_SECONDS, 3 * BOUND
    try:
        with p.up():
            ex = hawk.Executor()
            end = ex._core._session._end

            def late(tag, *said):
                if ex._core._session.jobs[tag] in ex._core._jobs:
                    wait_for("the executor to end", lambda: ex._core._broken)
                end(tag, *said)
            ex._core._session._end = late
            assert ex.submit(p.square, 2).result(BOUND) == 4
            over = threading.Thread(target=ex.shutdown, daemon=True)
            over.start()
            over.join(BOUND)
            assert not over.is_alive(), "its end waits for something that has happened"
    finally:
        _executor.LEAVE_SECONDS = before


def test_variables_that_hawk_does_not_set_are_passed():
    with p.up(), tempfile.TemporaryDirectory() as d, p.environment(HAWK_JOB_TIER="gold", HAWK_TASKS="7", HAWK_TOKEN="s" * 16):
        hawk.run(["sh", "-c", "echo $HAWK_JOB_TIER $HAWK_TASKS $HAWK_TASK_INDEX ${HAWK_TOKEN-none}"], stdout=f"{d}/out")
        assert open(f"{d}/out", encoding="utf-8").read() == "gold 7 0 none\n"


def test_run_and_submit():
    with p.cluster(workers=2) as c, tempfile.TemporaryDirectory() as d:
        job = hawk.run(["sh", "-c", "echo {} squared is $(({} * {}))"], inputs=[1, 2, 3], stdout=f"{d}/%t")
        assert job.state == "done" and [t.returncode for t in job.tasks()] == [0, 0, 0]
        assert open(f"{d}/1", encoding="utf-8").read() == "2 squared is 4\n"
        # Words, variables and paths are bytes, or text as Python has names that are not UTF-8.
        name = b"caf\xe9"
        for is_name in (bytes, os.fsdecode):
            where = os.path.join(os.fsencode(d), name + is_name.__name__.encode())
            os.mkdir(where)
            job = hawk.run(["sh", "-c", 'printf "%s.%s" "$1" "$V"; pwd', "sh", is_name(name)], env={"V": is_name(name)},
                           cwd=is_name(where), stdout=is_name(b"out-" + name))
            with open(os.path.join(where, b"out-" + name), "rb") as f:
                assert f.read() == name + b"." + name + where + b"\n"
        kept = hawk.submit(["sh", "-c", "echo $HOW; echo oops >&2; exit 3"], env={"HOW": "well"}, name="three")
        try:
            kept.check()
            raise AssertionError("no failure")
        except hawk.JobFailed as e:
            assert "task 0: exited 3" in str(e) and e.job is kept, e
        task = kept.tasks()[0]
        assert (task.state, task.returncode, task.output(), task.output(stderr=True)) == ("failed", 3, b"well\n", b"oops\n")
        assert c.job(kept.id)["name"] == "three"
        try:
            hawk.submit(["true"], after=[kept]).check()
            raise AssertionError("a job whose predecessor failed was done")
        except hawk.JobFailed as e:
            assert f"task 0: cancelled; job {kept.id} did not end as `after` asks" in str(e), e
            assert e.job.tasks()[0].output() == b""
        assert hawk.run(["true"], cwd="/no/such/dir", check=False).tasks()[0].output() == b""
        long = hawk.submit(["sleep", "60"], klass="long")
        wait_for("it runs", lambda: long.state == "running")
        try:
            long.wait(0.1)
            raise AssertionError("no timeout")
        except TimeoutError:
            pass
        assert long.tasks()[0].returncode is None
        assert long.cancel() and long.wait(BOUND) == "cancelled" and not long.cancel()
        some = hawk.submit(["true"], inputs=list("abcd"), hold=True)
        assert some.cancel(tasks=[3, 1]) and not some.cancel(tasks=[1])
        assert [task.state for task in some.tasks()] == ["waiting", "cancelled"] * 2, some.tasks()
        some.cancel()
        assert long.tasks()[0].returncode is None
        over = hawk.run(["sleep", "60"], time_limit=0.1, check=False).tasks()[0]
        assert (over.returncode, over.text) == (-15, "killed, time limit over"), (over.returncode, over.text)
        try:
            hawk.run(["sh", "-c", "exit {}"], inputs=range(1, 23))
            raise AssertionError("no failure")
        except hawk.JobFailed as e:
            assert "22 tasks did not succeed" in str(e) and str(e).endswith("task 19: exited 20; and 2 others"), e
        try:
            hawk.submit(["echo"], inputs="abc")
            raise AssertionError("a task for each letter")
        except TypeError as e:
            assert "inputs is a list" in str(e), e
        assert hawk.run(["false"], check=False).state == "failed"


def test_a_call_submits_calls():
    with p.up(slots=2), hawk.Executor() as ex:
        assert ex.submit(p.nested, 4).result(BOUND * 2) == 16


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
