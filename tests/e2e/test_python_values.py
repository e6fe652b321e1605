#!/usr/bin/python3
"""The Python package hawk with large functions and arguments: how they travel, where they lie, and for how long."""
# timeout: 300
# make test-all
import functools
import os
import sys
import tempfile
import threading
import tracemalloc

import pythontest as p
from hawktest import BOUND, run_tests, small_disk, wait_for

import hawk
from hawk import _executor


def files_in(directory):
    return [f for _, _, files in os.walk(directory) for f in files]


def test_calls_that_wait_share_their_function():
    """A large one lies in one file, and none is in memory once a call."""
    with p.up(slots=1), tempfile.TemporaryDirectory() as d, hawk.Executor(max_workers=1, directory=d) as ex:
        held = ex.submit(p.mark_and_wait, f"{d}/started", f"{d}/go")
        p.wait_for_file(f"{d}/started")
        os.unlink(f"{d}/started")
        large, small = (functools.partial(p.length_of_all, bytes(n)) for n in (3 << 19, 600_000))
        futures = list(map(ex.submit, [large] * 100, range(100)))
        mapped = ex.map(large, range(100))
        assert len(files_in(d)) == 1, len(files_in(d))
        tracemalloc.start()
        try:
            futures += map(ex.submit, [small] * 100, range(100))
            mapped_small = ex.map(small, range(100))
            kept = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert kept < 10 << 20, kept
        p.mark(f"{d}/go")
        assert held.result(BOUND)
        for results, length in ((mapped, 3 << 19), (mapped_small, 600_000)):
            assert list(results) == [length + x for x in range(100)]
        assert [f.result(BOUND) for f in futures] == [n + x for n in (3 << 19, 600_000) for x in range(100)]
        os.unlink(f"{d}/go")
        assert files_in(d) == [], "the last call of a function takes its file along"


def warm_up(ex, function, arguments):
    """Until the executor sends 25 calls of the function ahead for each slot. It knows no other."""
    ahead = _executor.AHEAD_SECONDS / 25
    wait_for("short calls", lambda: list(ex.map(function, arguments)) and max(ex._core._seconds.values()) < ahead)


def test_few_calls_of_a_new_function_are_sent_ahead():
    """However short those of others were: shutdown cancels the rest."""
    with p.up(slots=1), tempfile.TemporaryDirectory() as d, hawk.Executor() as ex:
        warm_up(ex, p.square, range(50))
        futures = [ex.submit(p.mark_and_wait, f"{d}/started{i}", f"{d}/go") for i in range(20)]
        p.wait_for_file(f"{d}/started0")
        ex.shutdown(wait=False, cancel_futures=True)
        cancelled = sum(future.cancelled() for future in futures)
        p.mark(f"{d}/go")
        assert cancelled >= 18, cancelled


def test_which_calls_are_taken_to_last_alike():
    """What is made anew for each call is known; few functions are remembered."""
    made, other = [lambda x=x: x for x in range(2)], lambda: None
    kinds = [_executor.kind_of(f) for f in (*made, functools.partial(made[0], 3), other, len, functools.partial(len, []))]
    assert kinds[0] == kinds[1] == kinds[2] != kinds[3] and kinds[4] == kinds[5] == "len", kinds
    executor = object.__new__(_executor.Core)
    executor._lock, executor._seconds = threading.Condition(), {}
    for i in range(_executor.KINDS_MAX):
        executor._learn(i, 1.0)
    executor._learn(0, 2.0)
    executor._learn("new", 1.0)
    assert len(executor._seconds) == _executor.KINDS_MAX and 1 not in executor._seconds, executor._seconds
    assert 1.0 < executor._seconds[0] < 2.0, executor._seconds[0]


def test_calls_with_much_inside_are_several_jobs():
    """Together they are more than a dist takes as one."""
    data = bytes(1_000_000)
    with p.up(slots=4), hawk.Executor() as ex:
        warm_up(ex, len, [b""] * 50)
        assert list(ex.map(len, [data] * 95)) == [len(data)] * 95


def test_a_call_that_never_runs_leaves_no_file():
    large = bytes(2 << 20)
    with p.up(slots=1), tempfile.TemporaryDirectory() as d, tempfile.TemporaryDirectory() as values:
        with hawk.Executor(max_workers=1, directory=values) as ex:
            held = ex.submit(p.mark_and_wait, f"{d}/started", f"{d}/go")
            p.wait_for_file(f"{d}/started")
            waiting = [ex.submit(len, large) for _ in range(10)]
            assert len(files_in(values)) == 10
            assert all(future.cancel() for future in waiting)
            p.mark(f"{d}/go")
            assert held.result(BOUND)
            assert ex.submit(len, large).result(BOUND) == len(large)
            assert files_in(values) == []
            held = ex.submit(p.mark_and_wait, f"{d}/again", f"{d}/on")
            p.wait_for_file(f"{d}/again")
            waiting = [ex.submit(len, large) for _ in range(10)]
            ex.shutdown(wait=False, cancel_futures=True)
            assert files_in(values) == [] and all(future.cancelled() for future in waiting)
            p.mark(f"{d}/on")
        try:
            ex.submit(len, large)
            raise AssertionError("a call after shutdown")
        except RuntimeError as e:
            assert "after shutdown" in str(e), e
        assert os.listdir(values) == [], "the executor has ended"


def test_what_a_dist_refuses_leaves_no_file():
    with p.cluster(workers=1, dist=["--set", "dist.tasks_max=20"]) as c, tempfile.TemporaryDirectory() as d, \
            tempfile.TemporaryDirectory() as values, hawk.Executor(directory=values) as ex:
        assert ex.submit(p.square, 3).result(BOUND) == 9
        held = c.hawk("submit", "--array", "1-20", "--",
                      "sh", "-c", f"until test -e {d}/go; do sleep 0.1; done").stdout.strip()
        error = ex.submit(len, bytes(2 << 20)).exception(BOUND)
        assert isinstance(error, hawk.HawkError), repr(error)
        assert files_in(values) == [], "it never ran"
        p.mark(f"{d}/go")
        c.hawk("wait", held)


def test_a_program_with_a_long_command_line():
    """More than fits in a variable; and the file that it takes has gone when the processes have come up."""
    before, added = sys.argv[:], [f"{n:040}" for n in range(5000)]
    with p.up(slots=1), tempfile.TemporaryDirectory() as d, hawk.Executor(directory=d) as ex:
        try:
            sys.argv += added
            assert ex.submit(p.arguments_of_program).result(BOUND) == before + added
        finally:
            sys.argv[:] = before
        wait_for("no file", lambda: files_in(d) == [])


NEIGHBOURS = """
import hawk
from .other import double

def twice_double(x):
    return 2 * double(x)

if __name__ == "__main__":
    hawk._calls.cloudpickle = None
    with hawk.Executor() as ex:
        print(list(ex.map(twice_double, [1, 2])))
"""


def test_a_program_that_is_a_module_of_a_package():
    """`python -m`: what it imports beside itself is found where processes import it."""
    with p.up(slots=1), tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/tools")
        with open(f"{d}/tools/other.py", "w", encoding="utf-8") as f:
            f.write("def double(x):\n    return 2 * x\n")
        for name, module in (("tools/program.py", "tools.program"), ("tools/__main__.py", "tools")):
            out, err = p.program(d, NEIGHBOURS, name, module).communicate(timeout=BOUND)
            assert out == "[4, 8]\n", (module, out, err)


def test_what_does_not_fit_on_the_disk_leaves_nothing_there():
    with small_disk("size=2m") as full:
        if not full:
            return
        with p.up(slots=1), hawk.Executor(max_workers=1, directory=full) as ex:
            assert ex.submit(len, b"").result(BOUND) == 0
            before = os.statvfs(full).f_bavail
            for call in ((len, bytes(3 << 20)), (bytes, 3 << 20)):
                error = ex.submit(*call).exception(BOUND)
                assert "No space left on device" in str(error) and full in str(error), error
                assert os.statvfs(full).f_bavail >= before, files_in(full)
            assert len(ex.submit(bytes, 1 << 20).result(BOUND)) == 1 << 20


run_tests(sys.modules[__name__])
