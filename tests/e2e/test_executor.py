"""Attached executors: tasks without a process each, their results, and what becomes of them when things break."""
# timeout: 240
# seconds: 80
# make test-all
import base64
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile

import grpc

from executortest import Executor, echo, epb, socket_of, submit, watch
from grpctest import ROOT, Caller, pb
from hawktest import BOUND, HAWK, SLOW, Cluster, Daemon, run_tests, user_environment, wait_for


def blocked(c, job):
    return Caller(c.dist_addrs[0])("GetJob", pb.GetJobRequest(job=job), pb.GetJobReply).blocked


def test_results_come_back():
    with Cluster(workers=2, slots=4) as c:
        xs = [Executor(socket_of(c, w), "echo", echo, slots=4, name=f"x-{w}").wait_attached() for w in ("w1", "w2")]
        assert [x.worker for x in xs] == ["w1", "w2"]
        payloads = [str(i).encode() for i in range(500)]
        job = submit(c, "echo", payloads)
        last, tasks = watch(c, job)
        assert last.state == pb.JOB_DONE and last.done == 500, last
        assert [tasks[i].result for i in range(500)] == [b"<" + p + b">" for p in payloads]
        page = Caller(c.dist_addrs[0])("GetJob", pb.GetJobRequest(job=job, max_tasks=3, results=True), pb.GetJobReply)
        assert [t.result for t in page.tasks] == [b"<0>", b"<1>", b"<2>"]
        t = xs[0].tasks[0]
        assert t.job == job and t.count == 500 and t.attempt == 1 and t.payload == str(t.index).encode(), t
        assert all(len(x.tasks) > 50 for x in xs), [len(x.tasks) for x in xs]  # both took their share
        for x in xs:
            x.leave()
            assert x.ended()[0] == grpc.StatusCode.OK


def test_failures_and_limits():
    with Cluster(workers=1, slots=2) as c:
        def do(task):
            return {b"ok": b"", b"fail": (7, "no such number"), b"words": (0, "only words"), b"large": bytes((1 << 20) + 1),
                    b"most": bytes(1 << 20)}[task.payload]
        Executor(socket_of(c, "w1"), "mixed", do, slots=2).wait_attached()
        last, tasks = watch(c, submit(c, "mixed", [b"ok", b"fail", b"words", b"large", b"most"]))
        assert last.state == pb.JOB_FAILED and last.done == 2 and last.failed == 3, last
        assert tasks[0].state == pb.TASK_DONE and tasks[0].result == b""
        assert tasks[1].code == 7 and tasks[1].message == "no such number", tasks[1]
        assert tasks[2].code == 1 and tasks[2].message == "only words", tasks[2]
        assert tasks[3].code == 1 and "1048577" in tasks[3].message, tasks[3]
        assert tasks[4].result == bytes(1 << 20)
        try:
            submit(c, "mixed", [bytes((1 << 20) + 1)])
            raise AssertionError("a payload beyond the limit was taken")
        except grpc.RpcError as e:
            assert "payload" in e.details() and "1048576" in e.details(), e


def test_nodes_shows_who_serves_what():
    def apps(where):
        return {n["name"]: n["apps"] for n in c.json("nodes", dist=where)["nodes"]}

    with Cluster(workers=2, slots=1) as c:
        asked = (c.central_addr, c.dist_addrs[0])
        assert all(not served for where in asked for served in apps(where).values())
        assert "APPLICATIONS" not in c.hawk("nodes").stdout
        xs = [Executor(socket_of(c, "w2"), app, echo).wait_attached() for app in ("sum", "mean")]
        for where in asked:
            wait_for("both", lambda: apps(where)["w2"] == ["mean", "sum"] and apps(where)["w1"] == [])
        lines = c.hawk("nodes").stdout.splitlines()
        assert lines[0].split()[-1] == "APPLICATIONS", lines
        assert {line.split()[1]: line.split()[-1] for line in lines[1:]}["w2"] == "mean,sum", lines
        assert {line.split()[1]: line.split()[-1] for line in lines[1:]}["w1"] == "-", lines
        xs[0].die()
        for where in asked:
            wait_for("one", lambda: apps(where)["w2"] == ["mean"])


def test_waits_for_an_executor_and_says_so():
    with Cluster(workers=2, slots=1) as c:
        job = submit(c, "later", [b"a", b"b"])
        wait_for("explanation", lambda: "no worker serves application later" in blocked(c, job))
        assert "no worker serves application later" in c.hawk("explain", job).stdout
        assert "waiting, no executor" in c.hawk("jobs").stdout and c.json("jobs")["jobs"][0]["no_executor"]
        x = Executor(socket_of(c, "w2"), "later", echo).wait_attached()
        last, tasks = watch(c, job)
        assert last.state == pb.JOB_DONE and tasks[1].result == b"<b>"
        assert {t.worker_name for t in tasks.values()} == {"w2"}
        # Commands go on everywhere, and another application's tasks do not come here.
        other = submit(c, "other", [b"c"])
        c.hawk("submit", "--wait", "--array", "1-4", "--", "true")
        wait_for("explanation", lambda: "application other" in blocked(c, other))
        assert len(x.tasks) == 2


def test_leaves_while_more_waits():
    with Cluster(workers=2, slots=1) as c:
        first = Executor(socket_of(c, "w1"), "a", lambda t: None).wait_attached()
        job = submit(c, "a", [b"1", b"2", b"3"])
        held = first.task()
        first.send(drain=True)  # the others' reservations at w1 go back
        second = Executor(socket_of(c, "w2"), "a", echo).wait_attached()
        assert {second.task().payload, second.task().payload} | {held.payload} == {b"1", b"2", b"3"}
        first.answer(held, b"after all")
        assert first.ended()[0] == grpc.StatusCode.OK
        last, tasks = watch(c, job)
        assert last.done == 3 and tasks[held.index].result == b"after all", last


def test_who_ends_its_side_with_tasks_has_lost_them():
    """It cannot answer them any more, and would wait for the worker to end the call as the worker for it."""
    with Cluster(workers=2, slots=1) as c:
        first = Executor(socket_of(c, "w1"), "a", lambda t: None).wait_attached()
        job = submit(c, "a", [b"1"], lost_retries=1)
        first.task()
        second = Executor(socket_of(c, "w2"), "a", echo).wait_attached()
        first.leave()
        code, text = first.ended()
        assert code == grpc.StatusCode.INVALID_ARGUMENT and "send drain" in text, (code, text)
        last, tasks = watch(c, job)
        assert last.state == pb.JOB_DONE and tasks[0].attempt == 2 and tasks[0].worker_name == "w2", tasks
        second.leave()


def test_killed_executors_tasks_run_elsewhere():
    with Cluster(workers=2, slots=1) as c:
        first = Executor(socket_of(c, "w1"), "a", lambda t: None).wait_attached()
        job = submit(c, "a", [b"1"], lost_retries=1)
        once = submit(c, "a", [b"2"], at_most_once=True)
        assert first.task().payload == b"1"
        second = Executor(socket_of(c, "w2"), "a", echo).wait_attached()
        first.die()
        last, tasks = watch(c, job)
        assert last.state == pb.JOB_DONE and tasks[0].attempt == 2 and tasks[0].result == b"<1>", tasks
        assert tasks[0].worker_name == "w2"
        last, tasks = watch(c, once)  # it waited at the first, or came to the second: it never ran before
        assert last.state == pb.JOB_DONE and tasks[0].result == b"<2>", tasks

        third = Executor(socket_of(c, "w1"), "b", lambda t: None).wait_attached()
        once = submit(c, "b", [b"3"], at_most_once=True, lost_retries=3)
        third.task()
        third.die()
        last, tasks = watch(c, once)
        assert last.lost == 1 and tasks[0].state == pb.TASK_LOST, last
        second.leave()


def test_cancel_and_time_limit():
    with Cluster(workers=1, slots=4, worker=["--kill-grace", "300ms"]) as c:
        x = Executor(socket_of(c, "w1"), "slow", lambda t: None, slots=3).wait_attached()
        submit(c, "slow", [b"0"])  # has the third place to the end
        x.task()
        job = submit(c, "slow", [b"1", b"2", b"3"])
        held = [x.task(), x.task()]
        c.hawk("cancel", job)
        assert {x.cancelled.get(timeout=BOUND), x.cancelled.get(timeout=BOUND)} == {t.id for t in held}
        x.answer(held[0], (1, "stopped"))
        last, _ = watch(c, job)  # the other one does not answer: the grace ends it
        assert last.state == pb.JOB_CANCELLED and last.cancelled == 3, last
        limited = submit(c, "slow", [b"4"], time_limit_us=100000)
        t = x.task()
        assert t.time_limit_us == 100000
        last, tasks = watch(c, limited)
        assert tasks[0].outcome == pb.OUTCOME_TIME_LIMIT, tasks
        # Late answers are dropped, and what they held is free again.
        x.answer(t, b"late")
        x.answer(held[1], b"later")
        again = submit(c, "slow", [b"5", b"6"])
        for t in (x.task(), x.task()):
            x.answer(t, b"now")
        last, tasks = watch(c, again)
        assert [tasks[i].result for i in (0, 1)] == [b"now", b"now"]


def test_who_never_answers_is_sent_away():
    """What waits for room at an executor that hangs takes the worker's slots: not for ever."""
    with Cluster(workers=1, slots=4, worker=["--kill-grace", "100ms"]) as c:
        x = Executor(socket_of(c, "w1"), "hangs", lambda t: None, name="stuck").wait_attached()
        job = submit(c, "hangs", [b"%d" % i for i in range(20)], time_limit_us=200000)
        first = x.task()
        code, text = x.ended()
        assert code == grpc.StatusCode.UNAVAILABLE and "stuck" in text and "counts as gone" in text, (code, text)
        assert len(x.tasks) == 1 and x.cancelled.get(timeout=BOUND) == first.id
        c.hawk("submit", "--wait", "--", "true")  # the slots are free
        wait_for("explanation", lambda: "no worker serves application hangs" in blocked(c, job))
        Executor(socket_of(c, "w1"), "hangs", echo).wait_attached()
        last, tasks = watch(c, job)
        assert last.failed == 1 and last.done == 19 and tasks[first.index].outcome == pb.OUTCOME_TIME_LIMIT, last


def test_results_that_central_does_not_take_hold_nobody_else():
    with Cluster(workers=1, slots=16, central=["--short-partition", "0%"]) as c:
        big = Executor(socket_of(c, "w1"), "big", lambda t: None, slots=12).wait_attached()
        small = Executor(socket_of(c, "w1"), "small", echo, slots=4).wait_attached()
        long = submit(c, "big", [b"x"] * 12, tag=pb.TAG_LONG, detached=True)
        held = [big.task() for _ in range(12)]
        os.kill(c.central.p.pid, signal.SIGSTOP)
        try:
            for t in held[:-1]:
                big.answer(t, bytes(1 << 20))
            short = submit(c, "big", [b"y"] * 9, detached=True)
            more = [big.task() for _ in range(9)]  # the worker has read more than 8 MiB, so it has room
            last, tasks = watch(c, submit(c, "small", [b"%d" % i for i in range(100)]))
            assert last.state == pb.JOB_DONE and len(small.tasks) == 100, last
        finally:
            os.kill(c.central.p.pid, signal.SIGCONT)
        for t in [held[-1]] + more:
            big.answer(t, b"the last")
        assert watch(c, short)[0].done == 9
        last, tasks = watch(c, long)
        assert last.state == pb.JOB_DONE and last.done == 12, last
        assert tasks[held[-1].index].result == b"the last" and tasks[held[0].index].result == bytes(1 << 20)


def test_much_to_send():
    """More than a connection takes at once, in both directions."""
    with Cluster(workers=1, slots=32) as c:
        x = Executor(socket_of(c, "w1"), "big", echo, slots=32).wait_attached()
        payloads = [b"%d" % i + b"p" * 100000 for i in range(150)]
        last, tasks = watch(c, submit(c, "big", payloads))
        assert last.state == pb.JOB_DONE and last.done == 150 and len(x.tasks) == 150, last
        assert [tasks[i].result for i in range(150)] == [b"<" + p + b">" for p in payloads]


def test_names_that_are_not_utf8():
    """No protobuf reader takes them in a text: neither executors nor clients are ended by another's job."""
    with Cluster(workers=1) as c:
        x = Executor(socket_of(c, "w1"), "a", echo).wait_attached()
        r = subprocess.run([HAWK.encode(), b"submit", b"--app", b"a", b"--name", b"n\xff\xc3\xa9\xc3", b"--payload", b"\xff", b"-q"],
                           capture_output=True, timeout=BOUND, env={**os.environ, "HAWK_DIST": c.dist_addrs[0]}, check=True)
        last, tasks = watch(c, r.stdout.decode().strip())
        assert last.name == "n?\u00e9?" and tasks[0].result == b"<\xff>", (last, tasks)
        assert [t.name for t in x.tasks] == ["n?\u00e9?"], x.tasks


def test_what_is_wrong_ends_the_stream():
    with Cluster(workers=1) as c:
        addr = socket_of(c, "w1")

        def status(*messages, app=None, slots=1):
            x = Executor(addr, app, echo, slots=slots)
            for m in messages:
                x.out.put(m)
            return x.ended()
        M, S = epb.FromExecutor, grpc.StatusCode
        for messages, app, words in (
                ([M(results=[epb.AppResult(id=1)])], None, "result before hello"),
                ([M()], None, "no hello"),
                ([None], None, "before hello"),
                ([M(hello=epb.Hello(app="a", slots=1))], "a", "second hello"),
                ([M(results=[epb.AppResult(id=77)])], "a", "task 77"),
                ([], "", "1 to 255 bytes"),
                ([], "x" * 256, "1 to 255 bytes"),
                ([M(hello=epb.Hello(app="a", slots=4097))], None, "4097"),
                ([M(hello=epb.Hello(app="a", slots=0))], None, "slots"),
                ([M(hello=epb.Hello(app="a\0b", slots=1))], None, "NUL")):
            code, text = status(*messages, app=app)
            assert code == S.INVALID_ARGUMENT and words in text, (words, code, text)
        xs = [Executor(addr, f"app{i}", echo).wait_attached() for i in range(64)]
        code, text = status(app="one-more")
        assert code == S.RESOURCE_EXHAUSTED and "64" in text, text
        xs[0].leave()
        xs[0].ended()
        Executor(addr, "one-more", echo).wait_attached()
        # Bytes that are no message at all.
        raw = grpc.insecure_channel(addr).stream_stream("/hawk.v1.Executors/Attach")
        for garbage in (b"\xff", b"\x0a\x05ab", b"\x0a\x02\x08\x01", bytes(range(256))):
            try:
                list(raw(iter([garbage]), timeout=BOUND))
                raise AssertionError(f"taken: {garbage}")
            except grpc.RpcError as e:
                assert e.code() == S.INVALID_ARGUMENT, (garbage, e)
        last, _ = watch(c, submit(c, "app7", [b"still there"]))
        assert last.state == pb.JOB_DONE
        wait_for("not all to be told", lambda: "left out: 'an executor that is sent away'" in c.workers[0].text())


def test_long_jobs_and_stealing():
    with Cluster(workers=3, slots=1) as c:
        x = Executor(socket_of(c, "w2"), "a", lambda t: None, slots=1).wait_attached()
        job = submit(c, "a", [b"1", b"2"], tag=pb.TAG_LONG)
        for _ in range(2):
            t = x.task()
            x.answer(t, echo(t))
        last, tasks = watch(c, job)
        assert last.state == pb.JOB_DONE and getattr(last, "class") == pb.CLASS_LONG, last
        assert [tasks[i].result for i in (0, 1)] == [b"<1>", b"<2>"] and tasks[0].worker_name == "w2"
        x.leave()
        x.ended()
        job = submit(c, "a", [b"3"], tag=pb.TAG_LONG, lost_retries=1)
        wait_for("explanation", lambda: "no worker serves application a" in blocked(c, job))
        x = Executor(socket_of(c, "w3"), "a", lambda t: None).wait_attached()
        x.task()
        x.die()
        y = Executor(socket_of(c, "w1"), "a", echo).wait_attached()
        last, tasks = watch(c, job)
        assert last.state == pb.JOB_DONE and tasks[0].attempt == 2 and tasks[0].result == b"<3>", tasks
        y.leave()


def test_worker_and_dist_restart():
    with Cluster(workers=2, slots=1) as c:
        x = Executor(socket_of(c, "w1"), "a", lambda t: None).wait_attached()
        job = submit(c, "a", [b"1"], lost_retries=1)
        x.task()
        c.workers[0].kill()
        assert x.ended()[0] == grpc.StatusCode.UNAVAILABLE
        y = Executor(socket_of(c, "w2"), "a", echo).wait_attached()
        last, tasks = watch(c, job)
        assert last.state == pb.JOB_DONE and tasks[0].worker_name == "w2", last
        c.workers[1].stop()
        code, text = y.ended()
        assert code == grpc.StatusCode.UNAVAILABLE and "w2" in text, (code, text)


def test_who_does_not_serve_it_steals_nothing():
    """Idle w2 is offered what is stuck at w1 behind a long task, and is given what it can run."""
    with Cluster(workers=2, slots=1, central=["--short-partition", "0%"]) as c:
        x = Executor(socket_of(c, "w1"), "a", lambda t: None).wait_attached()
        long = submit(c, "a", [b"long"], tag=pb.TAG_LONG)
        held = x.task()
        job = submit(c, "a", [b"1"])
        for _ in range(5):  # what w2 does steal goes on as ever
            c.hawk("submit", "--wait", "--array", "1-4", "--", "true")
        assert Caller(c.dist_addrs[0])("GetJob", pb.GetJobRequest(job=job), pb.GetJobReply).job.running == 0
        x.answer(held, b"")
        t = x.task()
        x.answer(t, echo(t))
        last, tasks = watch(c, job)
        assert tasks[0].result == b"<1>" and tasks[0].worker_name == "w1" and last.reservations_stolen == 0, last
        assert watch(c, long)[0].state == pb.JOB_DONE


def test_command_line():
    with Cluster(workers=1, slots=4) as c:
        def do(task):
            return (3, "no number") if task.payload == b"x" else task.payload.upper() + b"!"
        x = Executor(socket_of(c, "w1"), "up", do, slots=4).wait_attached()
        assert c.hawk("submit", "--app", "up", "--payload", "hi", "--wait", "--results").stdout == "HI!\n"
        r = c.hawk("submit", "--app", "up", "--each-line", "-", "--wait", "--results", input="a\nb\nc\n")
        assert r.stdout == "A!\nB!\nC!\n", r.stdout
        assert c.hawk("submit", "--app", "up", "--array", "3-5", "--wait", "--results").stdout == "3!\n4!\n5!\n"
        with open(f"{c.dir}/payload", "wb") as f:
            f.write(b"from a file\n")
        r = c.hawk("submit", "--app", "up", "--payload-file", f"{c.dir}/payload", "--array", "1-2", "--wait", "--results")
        assert r.stdout == "FROM A FILE\n!\n" * 2, r.stdout
        job = c.hawk("submit", "--app", "up", "--each-line", "-", input="p\nx\nq\n").stdout.strip()
        r = c.hawk("wait", "--results", job, check=1)
        assert r.stdout == "P!\nQ!\n" and "task 1 has no result: failed 3: no number" in r.stderr, (r.stdout, r.stderr)
        r = c.hawk("result", "--raw", job, check=1)
        assert r.stdout == "P!Q!", r.stdout
        assert c.hawk("result", job, "2").stdout == "Q!\n"
        tasks = c.json("result", job, check=1)["jobs"][0]["tasks"]
        assert tasks[0]["result"] == "UCE=" and tasks[1]["message"] == "no number" and "result" not in tasks[1], tasks
        jobs = c.json("submit", "--app", "up", "--payload", "j", "--wait", "--results")["jobs"]
        assert jobs[0]["state"] == "done" and jobs[0]["results"][0]["result"] == "SiE=", jobs
        for flags, words in ((("--payload", "x"), "--app"), (("--app", "a", "--", "true"), "no command"),
                             (("--app", "a", "--env", "A=b"), "--env"), (("--app", "a", "--timer"), "--timer"),
                             (("--app", ""), "1 to 255"), (("--app", "a", "--results"), "--wait"),
                             (("--app", "a", "--payload", "x", "--payload-file", "-"), "give one"),
                             (("--results", "--wait", "--", "true"), "--app")):
            r = c.hawk("submit", *flags, check=2, input="")
            assert words in r.stderr, (flags, r.stderr)
        assert "up" in c.hawk("cat", job, check=3).stderr
        command = c.hawk("submit", "--wait", "--", "true").stdout.strip()
        assert "hawk cat" in c.hawk("result", command, check=3).stderr
        x.leave()


def little_room():
    """Files of at most three bytes, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, 3))


def test_results_that_find_no_room_are_asked_for_again():
    with Cluster(workers=1, slots=1) as c:
        x = Executor(socket_of(c, "w1"), "up", lambda t: t.payload.upper() + b"!").wait_attached()
        r = subprocess.run([HAWK, "submit", "--app", "up", "--each-line", "-", "--wait", "--results"], input="a\nb\n", text=True,
                           capture_output=True, timeout=BOUND, env={**os.environ, "HAWK_DIST": c.dist_addrs[0]},
                           preexec_fn=little_room)
        assert (r.returncode, r.stdout) == (0, "A!\nB!\n"), r
        x.leave()


def test_hawk_up_serves_executors():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "4", "--output-dir", f"{d}/out", env=env)
        try:
            addr = up.ready()
            x = Executor(addr, "up", lambda t: t.payload[::-1], slots=4).wait_attached()
            r = subprocess.run([HAWK, "submit", "--app", "up", "--each-line", "-", "--wait", "--results"], env=env, text=True,
                               input="".join(f"{i:03}\n" for i in range(200)), capture_output=True, timeout=BOUND)
            assert r.returncode == 0 and r.stdout == "".join(f"{i:03}"[::-1] + "\n" for i in range(200)), (r.stdout, r.stderr)
            assert len(x.tasks) == 200
            r = subprocess.run([sys.executable, f"{ROOT}/examples/map.py", "--dist", addr, "--worker", addr, "--", "3", "-12",
                                "70000"], capture_output=True, text=True, timeout=BOUND)
            assert r.returncode == 0 and r.stdout == "3 9\n-12 144\n70000 4900000000\n", (r.stdout, r.stderr)
        finally:
            assert up.stop() == 0


def test_a_watch_that_begins_while_tasks_end_hears_of_each():
    with tempfile.TemporaryDirectory() as d:
        up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", env=user_environment(d))
        addr = up.ready()
        dist = Caller(addr)
        executor = Executor(addr, "echo", lambda t: t.payload, slots=4).wait_attached()
        spec = pb.JobSpec(tasks=3, kind=pb.PAYLOAD_APP, app="echo", task_args=[b"a", b"b", b"c"], each_arg=True)

        def results():
            job = dist("Submit", pb.SubmitRequest(job=spec), pb.SubmitReply).job
            return {t.task: t.result for event in dist.stream(
                "Watch", pb.WatchRequest(job=job, ended=True, results=True), pb.Event) for t in event.tasks}

        partial = [r for r in (results() for _ in range(2000)) if r != {0: b"a", 1: b"b", 2: b"c"}]
        assert not partial, partial
        executor.leave()
        up.stop()


def test_large_payloads_and_small_jobs():
    """As many payloads and results of the largest size as there are slots, and small jobs between them."""
    n = 40 // SLOW  # more than two seconds of a loop that a sanitizer slows down would break links
    with Cluster(workers=2, slots=n * 2 // 5) as c:
        for w in ("w1", "w2"):
            Executor(socket_of(c, w), "echo", lambda t: t.payload, slots=n * 2 // 5).wait_attached()
        large = [bytes([i]) * (1 << 20) for i in range(n)]
        job = submit(c, "echo", large)
        for i in range(5):
            last, tasks = watch(c, submit(c, "echo", [b"small %d" % i]))
            assert tasks[0].result == b"small %d" % i
        last, tasks = watch(c, job)
        assert last.state == pb.JOB_DONE and all(tasks[i].result == large[i] for i in range(n)), last
        assert all(t.attempt == 1 for t in tasks.values())  # no link broke over it
        first = 0
        while first < n:  # in pages that a client of any make takes
            page = Caller(c.dist_addrs[0])("GetJob", pb.GetJobRequest(job=job, first_task=first, max_tasks=n, results=True),
                                           pb.GetJobReply).tasks
            assert 1 <= len(page) <= 2 and page[0].result == large[first], len(page)
            first += len(page)


def test_who_waits_has_the_results_that_came():
    """A job that moves to another dist leaves behind what its tasks had returned: who waited all the time has it."""
    for output in ("table", "json"):
        with Cluster(dists=2, workers=1, slots=2) as c:
            x = Executor(socket_of(c, "w1"), "a", lambda t: None, slots=2).wait_attached()
            p = subprocess.Popen([HAWK, "submit", "--app", "a", "--array", "0-1", "--wait", "--results", "--output", output],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "HAWK_DIST": ",".join(c.dist_addrs)})
            held = {t.index: t for t in (x.task(), x.task())}
            x.answer(held[0], b"early")
            wait_for("the first is done", lambda: c.json("jobs")["jobs"][0]["done"] == 1)
            c.dists[0].kill()
            while True:  # it runs again
                t = x.task()
                if t.index == 1:
                    break
            x.answer(t, b"late")
            out, err = p.communicate(timeout=BOUND)
            assert p.returncode == 0, (p.returncode, out, err)
            if output == "json":
                tasks = json.loads(out)["jobs"][0]["results"]
                assert [base64.b64decode(t["result"]) for t in tasks] == [b"early", b"late"], tasks
            else:
                assert out == "early\nlate\n", (out, err)


def test_results_of_before_a_restart_are_lost_and_said_to_be():
    with Cluster(workers=1, slots=2) as c:
        x = Executor(socket_of(c, "w1"), "a", lambda t: None if t.payload == b"wait" else b"", slots=2).wait_attached()
        job = submit(c, "a", [b"now", b"wait"], detached=True, lost_retries=2)
        x.task(), x.task()
        wait_for("one is done", lambda: c.job(job)["done"] == 1)
        c.dists[0].kill()
        addr = c.dist_addrs[0]
        c.dists[0] = Daemon("dist", "--name", "d1", "--listen", addr, "--central", c.central_addr, "--state-dir", f"{c.dir}/d1")
        c.dists[0].ready()
        t = x.tasks[-1] if x.tasks[-1].payload == b"wait" else x.tasks[-2]
        x.answer(t, b"late")
        last, tasks = watch(c, job)
        assert last.state == pb.JOB_DONE and tasks[1].result == b"late" and not tasks[1].result_lost, tasks
        assert tasks[0].result_lost, tasks
        for command in (("result", job), ("wait", "--results", job)):
            r = c.hawk(*command, check=1)
            assert r.stdout == "late\n" and "task 0 has no result: it is not known any more" in r.stderr, r.stderr
        r = c.hawk("wait", "--results", "--output", "json", job, check=1)
        tasks = json.loads(r.stdout)["jobs"][0]["results"]
        assert [t.get("result_lost", False) for t in tasks] == [True, False], tasks
        x.leave()


def test_who_is_no_task_becomes_no_resident():
    with Cluster(workers=1, slots=1) as c:
        for job, task in (("3.17", 0), ("no job", 0), (c.submit("--", "true"), 7)):
            x = Executor(socket_of(c, "w1"), None, echo)
            x.send(hello=epb.Hello(app="home", slots=1, task_of=job, task=task))
            code, text = x.ended()
            assert code == grpc.StatusCode.INVALID_ARGUMENT and "does not run at this worker" in text, (code, text)
        assert "applications" not in c.hawk("nodes").stdout


def test_a_task_is_told_where_executors_attach():
    with Cluster(workers=1, slots=1) as c:
        c.hawk("submit", "--wait", "--", "sh", "-c", "echo $HAWK_WORKER_SOCKET")
        assert c.hawk("cat", "last").stdout.strip() == socket_of(c, "w1")


def test_an_executor_hears_how_many_slots_its_worker_has():
    with Cluster(workers=1, slots="auto") as c:
        x = Executor(socket_of(c, "w1"), "a", echo).wait_attached()
        nodes = json.loads(c.hawk("nodes", "--output", "json").stdout)["nodes"]
        assert [x.worker_slots] == [n["slots"] for n in nodes if n["name"] == "w1"], (x.worker_slots, nodes)


run_tests(sys.modules[__name__])
