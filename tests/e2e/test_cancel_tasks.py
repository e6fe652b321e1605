"""Single tasks of a job are cancelled (`hawk cancel --task`); the others go on."""
import sys

import grpc
from grpctest import Caller, pb
from hawktest import Cluster, run_tests, wait_for

SCRIPT = "echo $HAWK_TASK_INDEX >> {dir}/ran; while ! test -e {dir}/go; do sleep 0.05; done; echo $HAWK_TASK_INDEX >> {dir}/done"


def submit(c, n, *flags):
    return c.submit("--array", f"0-{n - 1}", *flags, "--", "sh", "-c", SCRIPT.replace("{dir}", c.dir))


def lines(c, name):
    try:
        with open(f"{c.dir}/{name}", encoding="utf-8") as f:
            return sorted(int(line) for line in f.read().split())
    except FileNotFoundError:
        return []


def states(c, job):
    return [t["state"] for t in c.job(job)["task_list"]]


def go(c, job):
    open(f"{c.dir}/go", "w", encoding="utf-8").close()
    return c.hawk("wait", job, check=1).stderr


def test_running_and_waiting_ones():
    for job_class in ("short", "long"):
        with Cluster(workers=2, slots=2) as c:
            job = submit(c, 12, "--class", job_class)
            wait_for("four to run", lambda c=c: len(lines(c, "ran")) == 4)
            running = lines(c, "ran")
            waiting = [i for i in range(12) if i not in running]
            out = c.hawk("cancel", job, "--task", f"{running[0]},{waiting[-2]}-{waiting[-1]},{waiting[-1]}").stdout
            assert out == f"tasks of {job} cancelled\n", out
            gone = {running[0], waiting[-2], waiting[-1]}
            wait_for("them to end", lambda c=c, job=job, gone=gone: {
                i for i, s in enumerate(states(c, job)) if s == "cancelled"} == gone)
            assert f"tasks of {job} had already ended" in c.hawk("cancel", job, "-t", str(running[0])).stdout
            assert "9 of 12" in go(c, job)
            assert lines(c, "done") == [i for i in range(12) if i not in gone]
            assert c.job(job)["state"] == "cancelled"


def test_it_survives_the_dist_and_central():
    for job_class in ("short", "long"):
        with Cluster(workers=1, slots=2, central=("--long-lease", "5s")) as c:
            job = submit(c, 8, "--class", job_class)
            wait_for("two to run", lambda c=c: len(lines(c, "ran")) == 2)
            waiting = [i for i in range(8) if i not in lines(c, "ran")]
            c.hawk("cancel", job, "--task", f"{waiting[0]}-{waiting[2]}")
            c.dists.pop().kill()
            c.dist_addrs.clear()
            c.central.kill()
            c.start_central(c.central_addr)
            c.start_dist("d1")
            go(c, job)
            assert lines(c, "ran") == [i for i in range(8) if i not in waiting[:3]], (job_class, lines(c, "ran"))
            assert states(c, job) == ["cancelled" if i in waiting[:3] else "done" for i in range(8)]


def test_of_a_job_that_is_held():
    for job_class in ("short", "long"):
        with Cluster(workers=1, slots=2) as c:
            job = submit(c, 6, "--class", job_class, "--hold")
            c.hawk("cancel", job, "--task", "0-4:2")
            assert states(c, job) == ["cancelled", "waiting"] * 3
            c.hawk("release", job)
            go(c, job)
            assert lines(c, "ran") == [1, 3, 5] == lines(c, "done")
            at = {t["worker_name"] for t in c.job(job)["task_list"] if t["state"] == "done"}
            assert at == {"w1"} and (c.job(job)["probes_sent"] > 0) is (job_class == "short"), c.job(job)


def test_all_of_them_is_the_job():
    with Cluster(workers=1, slots=2) as c:
        job = submit(c, 4, "--hold")
        c.hawk("cancel", job, "--task", "0-3")
        assert c.job(job)["state"] == "cancelled"
        after = c.submit("--after", f"{job}:any", "--array", "0-3", "--", "true")
        c.hawk("wait", after)


def test_what_is_refused():
    with Cluster(workers=1) as c:
        job = submit(c, 4, "--hold")
        assert f"job {job} has no task 4: its tasks are 0 to 3" in c.hawk("cancel", job, "--task", "2-4", check=2).stderr
        assert "--task takes numbers and ranges" in c.hawk("cancel", job, "--task", "x", check=2).stderr
        assert "--task 3-2 has no tasks" in c.hawk("cancel", job, "--task", "3-2", check=2).stderr
        assert states(c, job) == ["waiting"] * 4
        call = Caller(c.dist_addrs[0])
        for ranges, why in (([], "no task is named"), ([(1, 4)], "it has tasks 0 to 3, and no task 4"),
                            ([(2, 3), (1, 1)], "in ascending order"), ([(1, 2), (2, 3)], "in ascending order")):
            error = None
            try:
                call("CancelTasks", pb.CancelTasksRequest(job=job, tasks=[pb.TaskRange(first=a, last=b) for a, b in ranges]), pb.CancelReply)
            except grpc.RpcError as e:
                error = e.details()
            assert error and why in error, (ranges, error)
        c.hawk("cancel", job)
        # Numbers are those of `hawk job` and HAWK_TASK_INDEX.
        job = c.submit("--array", "5-8", "--hold", "--", "true")
        c.hawk("cancel", job, "--task", "6,8")
        assert states(c, job) == ["waiting", "cancelled"] * 2
        assert "its tasks are 5 to 8" in c.hawk("cancel", job, "--task", "4-6", check=2).stderr
        c.hawk("cancel", job)


def test_what_others_cancelled_runs_again_and_says_why():
    with Cluster(workers=1, slots=2) as c:
        env = {"MINE": "x"}
        bad = c.submit("--array", "0-3", "--max-fails", "1", "--", "false")
        c.hawk("wait", bad, check=1)
        assert "cause     --max-fails 1: so many of its tasks failed" in c.hawk("job", bad).stdout
        then = c.hawk("submit", "--env", "MINE", "--after", bad, "--", "sh", "-c", f"echo $MINE >> {c.dir}/mine", env=env).stdout.strip()
        assert f"job {bad} did not end as --after asks" in c.hawk("wait", then, check=1).stderr
        c.hawk("wait", c.hawk("resubmit", then).stdout.strip())
        part = c.hawk("submit", "--env", "MINE", "--hold", "--array", "0-1", "--", "sh", "-c", f"echo $MINE >> {c.dir}/mine", env=env).stdout.strip()
        c.hawk("cancel", part, "--task", "1")
        c.hawk("release", part)
        c.hawk("wait", part, check=1)
        c.hawk("wait", c.hawk("resubmit", "--failed", part).stdout.strip())
        assert open(f"{c.dir}/mine", encoding="utf-8").read() == "x\n" * 3
        mine = submit(c, 2, "--hold")
        c.hawk("cancel", mine)
        shown = c.hawk("job", mine).stdout
        assert "cause     `hawk cancel`, or its client" in shown and "held" not in shown, shown
        assert c.job(mine)["by_client"] and not c.job(mine)["held"]


def test_running_ones_are_held_in_words():
    with Cluster(workers=1, slots=2) as c:
        job = submit(c, 4)
        wait_for("two to run", lambda: len(lines(c, "ran")) == 2)
        c.hawk("hold", job)
        assert f"job {job}  running, held, " in c.hawk("job", job).stdout
        assert "running, held\n" in c.hawk("explain", job).stdout
        c.hawk("cancel", job)


def test_large_jobs_are_cancelled_in_turns():
    """One a turn of the daemon's loop: what else is asked meanwhile is answered between them."""
    with Cluster(workers=1) as c:
        dist, order = Caller(c.dist_addrs[0]), []
        spec = pb.JobSpec(tasks=1_000_000, kind=pb.PAYLOAD_TIMER, argv=[b"1h"], tag=pb.TAG_SHORT, submit_held=True)
        jobs = [dist("Submit", pb.SubmitRequest(job=spec), pb.SubmitReply).job for _ in range(8)]

        def ask(name, method, request, reply):
            call = dist.channel.unary_unary(f"/hawk.v1.Hawk/{method}", request_serializer=type(request).SerializeToString,
                                            response_deserializer=reply.FromString)
            calls.append(call.future(request))
            calls[-1].add_done_callback(lambda _: order.append(name))

        calls = []
        for job in jobs[:4]:
            ask("cancel", "Cancel", pb.CancelRequest(job=job), pb.CancelReply)
        for job in jobs[4:]:
            tasks = [pb.TaskRange(first=0, last=999_999)]
            ask("cancel", "CancelTasks", pb.CancelTasksRequest(job=job, tasks=tasks), pb.CancelReply)
        ask("stats", "GetStats", pb.GetStatsRequest(), pb.GetStatsReply)
        replies = [call.result(timeout=60) for call in calls]
        wait_for("all to be told", lambda: len(order) == len(calls))
        assert order.index("stats") < 4, order
        assert not any(r.already_ended for r in replies[:-1]), replies
        assert {job["state"] for job in c.json("jobs")["jobs"]} == {"cancelled"}


run_tests(sys.modules[__name__])
