#!/usr/bin/python3
"""The Python package hawk with large functions and arguments: how they travel, where they lie, and for how long."""
# timeout: 300
import functools
import os
import sys
import tempfile
import tracemalloc

import pythontest as p
from hawktest import BOUND, run_tests, wait_for

import hawk


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


def test_calls_with_much_inside_are_several_jobs():
    """Together they are more than a dist takes as one."""
    data = bytes(1_000_000)
    with p.up(slots=4), hawk.Executor() as ex:
        wait_for("so much room", lambda: list(ex.map(p.square, range(50))) and ex._room() >= 95)
        assert list(ex.map(len, [data] * 95)) == [len(data)] * 95


run_tests(sys.modules[__name__])
