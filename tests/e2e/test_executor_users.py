"""Executors of several users on one worker: each gets its own user's tasks and nobody else's, and operators share an
application by name."""
# make test-all
import sys

import grpc

from executortest import Executor, epb
from grpctest import Caller, pb
from hawktest import alive, run_tests, wait_for
from userstest import ANN, BOB, UserCluster, address_as, others_exist

DENIED = grpc.StatusCode.PERMISSION_DENIED


def as_user(c, uid):
    return Caller(address_as(uid, c.dist_addrs[0]))


def attach(c, uid, app, answer, **more):
    return Executor(address_as(uid, f"unix:{c.dir}/w1.sock"), app, lambda t: answer + t.payload, **more)


def submit(caller, app, payloads, **more):
    spec = pb.JobSpec(tasks=len(payloads), kind=pb.PAYLOAD_APP, app=app, task_args=payloads, each_arg=True, **more)
    return caller("Submit", pb.SubmitRequest(job=spec), pb.SubmitReply).job


def results(caller, job):
    tasks = {}
    for event in caller.stream("Watch", pb.WatchRequest(job=job, ended=True, results=True), pb.Event):
        tasks.update((t.task, t.result) for t in event.tasks)
    return [tasks[i] for i in sorted(tasks)]


def served(c):
    """(application, user) of each that the worker serves, as the dist knows it."""
    return [tuple(pair) for n in c.json("nodes")["nodes"] for pair in zip(n["apps"], n["app_users"])]


def blocked(caller, job):
    return caller("GetJob", pb.GetJobRequest(job=job), pb.GetJobReply).blocked


def test_two_users_have_executors_of_one_name():
    if not others_exist():
        return
    with UserCluster(workers=1, slots=4) as c:
        ann, bob = as_user(c, ANN), as_user(c, BOB)
        early = submit(bob, "sum", [b"early"])
        of_ann = attach(c, ANN, "sum", b"ann:", slots=2).wait_attached()
        wait_for("ann's to be served", lambda: served(c) == [("sum", str(ANN))])
        for tag in (pb.TAG_SHORT, pb.TAG_LONG):
            assert results(ann, submit(ann, "sum", [b"1", b"2"], tag=tag)) == [b"ann:1", b"ann:2"]
        # Bob's job waits, though an executor of that name has nothing to do.
        assert f"no worker serves application sum for user {BOB}" in blocked(bob, early), blocked(bob, early)
        of_bob = attach(c, BOB, "sum", b"bob:", slots=2).wait_attached()
        assert results(bob, early) == [b"bob:early"]
        wait_for("both to be served", lambda: served(c) == [("sum", str(ANN)), ("sum", str(BOB))])
        jobs = [(who, name, [f"{name}{i}".encode() for i in range(40)]) for who, name in ((ann, "ann"), (bob, "bob")) for _ in range(2)]
        asked = [(who, name, args, submit(who, "sum", args, tag=tag)) for (who, name, args), tag in
                 zip(jobs, (pb.TAG_SHORT, pb.TAG_LONG) * 2)]
        for who, name, args, job in asked:
            assert results(who, job) == [f"{name}:".encode() + arg for arg in args]
        for x, name in ((of_ann, b"ann"), (of_bob, b"bob")):
            assert len(x.tasks) == (84 if x is of_ann else 81) and all(t.payload[:3] == name or x is of_ann and t.payload in (b"1", b"2") or
                                                                       t.payload == b"early" for t in x.tasks)
        # His executor leaves: his tasks do not go to the other one, which goes on.
        of_bob.leave()
        assert of_bob.ended()[0] == grpc.StatusCode.OK
        wait_for("bob's to be gone", lambda: served(c) == [("sum", str(ANN))])
        last = submit(bob, "sum", [b"bob"])
        assert results(ann, submit(ann, "sum", [b"3"])) == [b"ann:3"]
        assert f"no worker serves application sum for user {BOB}" in blocked(bob, last)
        assert b"bob" not in [t.payload for t in of_ann.tasks]
        assert f"application sum of user {ANN}" in c.workers[0].text()


def test_an_operator_shares_an_application_by_name():
    if not others_exist():
        return
    with UserCluster(workers=1, slots=4, worker=("--shared-apps", "other,sum")) as c:
        ann, bob = as_user(c, ANN), as_user(c, BOB)
        status, text = attach(c, BOB, "sum", b"bob:").ended()
        assert status == DENIED and "sum is everybody's" in text and "cluster.shared_apps" in text and "scope operate" in text, text
        waits = submit(ann, "sum", [b"1"])
        of_root = Executor(f"unix:{c.dir}/w1.sock", "sum", lambda t: b"root:" + t.payload, slots=4).wait_attached()
        assert results(ann, waits) == [b"root:1"]
        assert served(c) == [("sum", None)]
        for tag in (pb.TAG_SHORT, pb.TAG_LONG):
            for who in (ann, bob):
                assert results(who, submit(who, "sum", [b"2", b"3"], tag=tag)) == [b"root:2", b"root:3"]
        # Another name is a user's own, one that a shared name begins with as well, and root's.
        attach(c, BOB, "su", b"bob:").wait_attached()
        wait_for("bob's own to be served", lambda: ("su", str(BOB)) in served(c))
        of_root2 = Executor(f"unix:{c.dir}/w1.sock", "sums", lambda t: b"root:", slots=4).wait_attached()
        wait_for("root's own to be served", lambda: ("sums", "root") in served(c))
        job = submit(ann, "sums", [b""])
        assert "no worker serves application sums for user" in blocked(ann, job) and not of_root2.tasks
        of_root.die()
        wait_for("it to be gone", lambda: ("sum", None) not in served(c))


def test_who_may_not_be_of_a_resident_does_not_end_it():
    if not others_exist():
        return
    with UserCluster(workers=1) as c:
        job = c.as_user(ANN, "submit", "--", "sh", "-c", "echo $$; exec sleep 1000").stdout.strip()
        resident = wait_for("its process", lambda: c.as_user(ANN, "cat", job, check=None).stdout.strip())
        of_ann, of_bob = attach(c, ANN, None, b""), attach(c, BOB, None, b"")
        of_ann.send(hello=epb.Hello(app="sum", slots=1, task_of=job, task=0))
        of_ann.wait_attached()
        of_bob.send(hello=epb.Hello(app="sum", slots=1, resident_of=job, task=0))
        status, text = of_bob.ended()
        assert status == DENIED and "is not yours" in text, (status, text)
        c.hawk("submit", "--wait", "--", "true")  # the spawner would have ended it before
        assert alive(resident)
        of_ann.leave()
        wait_for("its end", lambda: not alive(resident))


run_tests(sys.modules[__name__])
