#!/usr/bin/python3
"""The Python package hawk where jobs move between dists, or should not: dists are drained, full, killed, or only seem so."""
# timeout: 300
# make test-all
import ctypes
import subprocess
import sys
import tempfile
import threading

import pythontest as p
from hawktest import BOUND, run_tests, wait_for

import hawk
from hawk import _cluster, _session, hawk_pb2 as pb

SQUARES = [x * x for x in range(50)]


def where(c, ex):
    """The dist at which the executor is, and another one."""
    at = c.dist_addrs.index(ex._core._session.address)
    return at, 1 - at


def test_a_dist_is_drained():
    """New calls go to another dist when the last one there has ended."""
    with p.cluster(dists=2, workers=1, slots=2) as c, tempfile.TemporaryDirectory() as d, hawk.Executor() as ex:
        call = ex.submit(p.mark_and_wait, f"{d}/started", f"{d}/go")
        p.wait_for_file(f"{d}/started")
        at, other = where(c, ex)
        c.hawk("drain", f"d{at + 1}")
        futures = [ex.submit(p.square, x) for x in range(50)]
        wait_for("it to refuse them", lambda: ex._core._session.refused)
        p.mark(f"{d}/go")
        assert call.result(BOUND) == "w1"
        assert [future.result(BOUND) for future in futures] == SQUARES
        assert ex._core._session.address == c.dist_addrs[other]
        # Both: whoever waits hears why.
        before, hawk._session.TIMEOUT = hawk._session.TIMEOUT, 2.0
        try:
            c.hawk("drain", f"d{other + 1}")
            error = ex.submit(p.square, 2).exception(BOUND)
            assert type(error) is hawk.HawkError and "is draining" in str(error), error
            c.hawk("undrain", f"d{at + 1}")
            assert ex.submit(p.square, 2).result(BOUND) == 4
        finally:
            hawk._session.TIMEOUT = before


def test_the_dist_that_is_left_is_full():
    """What another dist had accepted waits for room there."""
    with p.cluster(dists=2, workers=2, slots=4, dist=["--set", "dist.tasks_max=20"]) as c, \
            tempfile.TemporaryDirectory() as d, hawk.Executor() as ex:
        futures = [ex.submit(p.mark_and_wait, f"{d}/started{i}", f"{d}/go") for i in range(4)]
        for i in range(4):
            p.wait_for_file(f"{d}/started{i}")
        at, other = where(c, ex)
        full = c.hawk("submit", "--array", "1-20", "--", "sh", "-c", f"test $HAWK_TASK_INDEX != 1 || until test -e {d}/room; "
                      "do sleep 0.1; done", dist=c.dist_addrs[other]).stdout.strip()
        c.dists[at].kill()
        wait_for("it to refuse them", lambda: ex._core._session.refused)
        p.mark(f"{d}/room")
        c.hawk("wait", full, dist=c.dist_addrs[other])
        p.mark(f"{d}/go")
        assert {future.result(BOUND * 2) for future in futures} <= {"w1", "w2"}
        assert ex.submit(p.square, 2).result(BOUND) == 4


def test_a_program_that_is_busy_keeps_its_dist():
    """Neither a callback nor whoever holds the interpreter makes a dist look silent."""
    with p.cluster(dists=2, workers=1, slots=2) as c, tempfile.TemporaryDirectory() as d, hawk.Executor() as ex:
        call, other = [ex.submit(p.mark_and_wait, f"{d}/started{i}", f"{d}/go{i}") for i in range(2)]
        p.wait_for_file(f"{d}/started0")
        p.wait_for_file(f"{d}/started1")
        session, beats, over = ex._core._session, [], threading.Event()
        address, take = session.address, session._take
        session._take = lambda event: (beats.append(event.beat_us), take(event))

        def stay(future):
            began = len(beats)
            wait_for("many more beats than a dist may miss", lambda: len(beats) - began >= 10 * (hawk._session.BEATS_MISSED + 1))
            over.set()
        other.add_done_callback(stay)
        p.mark(f"{d}/go1")
        assert over.wait(BOUND)
        # Nothing of this program runs until that command, which is longer than a dist may be silent, has ended.
        with subprocess.Popen(["sleep", "2"], stdout=subprocess.PIPE) as command:
            assert ctypes.PyDLL(None).read(command.stdout.fileno(), ctypes.create_string_buffer(1), 1) == 0
        # What has begun to move by now has moved when this one ends.
        assert ex.submit(p.square, 2).result(BOUND) == 4
        p.mark(f"{d}/go0")
        assert call.result(BOUND) == "w1"
        with open(f"{d}/started0", encoding="utf-8") as f:
            assert len(f.readlines()) == 1
        assert ex._core._session.address == address


def test_a_dist_is_known_by_one_address():
    """Calls would move from one to the other, at the same dist."""
    with p.cluster(dists=2, workers=1) as c, p.environment(HAWK_DIST=f"unix:{c.dir}/d1/dist.sock"):
        cluster = _cluster.Cluster()
        for _ in range(2):
            cluster.nodes()
            cluster.prefer_another(cluster.contacts[0])
        assert cluster.contacts == [f"unix:{c.dir}/d1/dist.sock", c.dist_addrs[1]]
        cluster.close()


def test_more_than_one_message_holds_moves():
    """Together these jobs are longer than a dist takes a message to be."""
    with p.cluster(dists=2, workers=1) as c:
        session, ends = _session.Session(_cluster.Cluster()), []
        spec = pb.JobSpec(tasks=1, kind=pb.PAYLOAD_COMMAND, argv=[b"sh", b"-c", f"until test -e {c.dir}/go; do sleep 0.1; done".encode()],
                          cwd=b"/", env=[b"PATH=/usr/bin:/bin"], stdin=bytes(500_000), tag=pb.TAG_SHORT)
        jobs = [session.submit(spec, lambda job, task: None, lambda job, error, abandoned: ends.append(error)) for _ in range(220)]
        wait_for("a dist to have them", lambda: all(job.job for job in jobs))
        c.dists[c.dist_addrs.index(session.address)].kill()
        p.mark(f"{c.dir}/go")
        wait_for("their ends", lambda: len(ends) == len(jobs), 3 * BOUND)
        assert set(ends) == {""}, set(ends)
        session.close()


def lines(path):
    with open(path, encoding="utf-8") as f:
        return f.read().split()


def test_the_only_dist_restarts():
    """What has ended does not run again, nor does what central has."""
    with p.cluster(workers=1, slots=3) as c:
        session, ends, began = _session.Session(_cluster.Cluster()), [], f"{c.dir}/began"

        def submit(tag, name, tasks):
            script = f"echo {name}$HAWK_TASK_INDEX >> {began}; test $HAWK_TASK_INDEX != {tasks - 1} || " \
                     f"until test -e {c.dir}/go; do sleep 0.1; done"
            spec = pb.JobSpec(tasks=tasks, kind=pb.PAYLOAD_COMMAND, argv=[b"sh", b"-c", script.encode()], cwd=b"/",
                              env=[b"PATH=/usr/bin:/bin"], tag=tag)
            return session.submit(spec, lambda job, task: None, lambda job, error, abandoned: ends.append(error))

        submit(pb.TAG_LONG, "long", 1)
        p.wait_for_file(began)
        job = submit(pb.TAG_SHORT, "", 7)
        wait_for("six to have ended, and one to wait", lambda: len(job.ended) == 6 and "6" in lines(began))
        c.dists.pop().kill()
        c.start_dist("d1", wait=False, listen=c.dist_addrs[0]).ready()
        wait_for("it to have both", lambda: len(session.here) == 2)
        p.mark(f"{c.dir}/go")
        wait_for("both ends", lambda: len(ends) == 2)
        assert ends == ["", ""]
        assert sorted(line for line in lines(began) if line != "6") == [*"012345", "long0"]
        session.close()


def test_a_connection_breaks():
    """What runs does not begin again, where the dist still has it."""
    with p.cluster(workers=1) as c, tempfile.TemporaryDirectory() as d, hawk.Executor() as ex:
        call = ex.submit(p.mark_and_wait, f"{d}/started", f"{d}/go")
        p.wait_for_file(f"{d}/started")
        session = ex._core._session
        before = session.generation
        session.stream.cancel()
        wait_for("another stream",
                 lambda: session.generation > before + 1 and len(session.here) == len(session.jobs) > 0)
        p.mark(f"{d}/go")
        assert call.result(BOUND) == "w1"
        assert len(lines(f"{d}/started")) == 1


run_tests(sys.modules[__name__])
