"""Tasks of attached executors stand still for short ones if their executor offers that."""
import sys

import grpc

from executortest import Executor
from hawktest import BOUND, Cluster, run_tests, wait_for


def attach(c, app="a", **more):
    """An executor that answers all tasks but those whose payload is "long" or "later"."""
    return Executor(f"unix:{c.dir}/state/w1/executors.sock", app,
                    lambda t: None if t.payload in (b"long", b"later") else b"<" + t.payload + b">", **more).wait_attached()


def start_long(c, x, *flags):
    """Its job and its task, which runs."""
    job = c.submit("--app", "a", "--class", "long", "--payload", "long", *flags)
    task = x.task()
    wait_for("its owner to hear of it", lambda: c.job(job)["running"] == 1)
    return job, task


def submit_short(c, payload="short"):
    return c.submit("--app", "a", "--class", "short", "--payload", payload)


def times_paused(c):
    return c.json("stats")["total"]["tasks_paused"]


def test_a_long_task_stands_still_and_goes_on():
    with Cluster(workers=1, slots=1) as c:
        x = attach(c, pauses=True)
        job, long = start_long(c, x)
        short = submit_short(c, "later")
        assert x.pause() == (long.id, True)
        assert len(x.tasks) == 1  # nothing runs in its slot before it stands still
        x.paused(long)
        quick = x.task()  # it takes one task at once, beside the one that stands still
        assert quick.payload == b"later"
        wait_for("a pause that has a length", lambda: (c.job(job)["task_list"][0]["stood_us"] or 0) > 1000)
        x.answer(quick, b"now")
        c.hawk("wait", short)
        assert x.pause() == (long.id, False)
        x.answer(long, b"after all")
        c.hawk("wait", job)
        task = c.job(job)["task_list"][0]
        assert task["pauses"] == 1 and task["paused_us"] > 0 and task["paused_for"] == short, task
        assert c.hawk("result", "-r", job).stdout == "after all"
        x.leave()


def test_a_pause_that_nobody_confirms_is_undone():
    with Cluster(workers=1, slots=1) as c:
        x = attach(c, pauses=True)
        job, long = start_long(c, x)
        short = submit_short(c)
        assert [x.pause(), x.pause()] == [(long.id, True), (long.id, False)]
        x.paused(long)  # late, and of a task that is not there: both change nothing
        x.paused(type(long)(id=12345))
        assert x.pause() == (long.id, True)  # it is asked again after a while
        x.paused(long, refused=True)
        c.hawk("wait", "--for", "1s", short, check=4)
        assert times_paused(c) == 0 and len(x.tasks) == 1 and x.pauses.empty()
        x.answer(long, b"")
        c.hawk("wait", job)
        c.hawk("wait", short)
        x.leave()


def test_a_task_that_stands_still_can_be_cancelled():
    with Cluster(workers=1, slots=1) as c:
        x = attach(c, pauses=True)
        job, long = start_long(c, x)
        other = attach(c, "b", pauses=True)
        short = c.submit("--app", "b", "--class", "short", "--payload", "long")  # it takes its time
        x.pause()
        x.paused(long)
        other.task()
        c.hawk("cancel", job)
        assert x.pause() == (long.id, False) and x.cancelled.get(timeout=BOUND) == long.id
        x.answer(long, (1, "stopped"))
        wait_for("its end", lambda: c.job(job)["state"] == "cancelled")
        c.hawk("cancel", short)


def test_who_dies_loses_what_stands_still():
    with Cluster(workers=1, slots=1) as c:
        x = attach(c, pauses=True)
        job, long = start_long(c, x, "--lost-retries", "1")
        second = attach(c)
        other = attach(c, "b")
        short = c.submit("--app", "b", "--class", "short", "--payload", "long")
        x.pause()
        x.paused(long)
        held = other.task()
        x.die()
        other.answer(held, b"done")
        c.hawk("wait", short)
        again = second.task()
        assert again.payload == b"long" and again.attempt == 2, again
        second.answer(again, b"done")
        c.hawk("wait", job)


def test_who_does_not_offer_it_is_not_asked():
    with Cluster(workers=1, slots=1) as c:
        x = attach(c)
        job, long = start_long(c, x)
        short = submit_short(c)
        c.hawk("wait", "--for", "1s", short, check=4)
        assert times_paused(c) == 0 and x.pauses.empty() and len(x.tasks) == 1
        x.paused(long)
        code, text = x.ended()
        assert code == grpc.StatusCode.INVALID_ARGUMENT and "hello.pauses" in text, (code, text)
        c.hawk("cancel", job)
        c.hawk("cancel", short)


def test_with_too_little_memory_nobody_is_asked():
    with Cluster(workers=1, slots=1, worker=("--set", "worker.pause_free_mem=1000TiB")) as c:
        x = attach(c, pauses=True)
        job, long = start_long(c, x)
        short = submit_short(c)
        c.hawk("wait", "--for", "1s", short, check=4)
        assert times_paused(c) == 0 and x.pauses.empty() and len(x.tasks) == 1
        x.answer(long, b"")
        c.hawk("wait", job, short)


run_tests(sys.modules[__name__])
