"""Several users: who calls is known, jobs are their users', and who may not do something hears why."""
import os
import subprocess
import sys
import tempfile

import grpc

from grpctest import pb, refused
from hawktest import Daemon, run_tests, wait_for
from tlstest import SecureCaller, TlsCluster
from userstest import ANN, BOB, UserCluster, caller_as, others_exist

DENIED = grpc.StatusCode.PERMISSION_DENIED


def spec(**more):
    return pb.JobSpec(tasks=1, argv=["true"], **more)


def submit(caller, key=0, resubmit=None, **more):
    return caller("Submit", pb.SubmitRequest(job=spec(**more), key=key, resubmit=resubmit), pb.SubmitReply).job


def user_of(caller, job):
    return caller("GetJob", pb.GetJobRequest(job=job), pb.GetJobReply).job.user


def test_a_unix_socket_tells_who_calls():
    if not others_exist():
        return
    with UserCluster(workers=1) as c:
        c.as_user(ANN, "submit", "--wait", "--", "true")
        c.as_user(1, "submit", "--wait", "--class", "long", "--", "true")
        c.hawk("submit", "--wait", "--", "true")
        assert [j["user"] for j in c.json("jobs")["jobs"]] == ["root", "daemon", str(ANN)]
        for args, method in ((("drain", "w1"), "Drain"), (("policy", "set", "sparrow"), "SetPolicy")):
            r = c.as_user(ANN, *args, check=3)
            assert (f"you are {ANN} (uid {ANN}, by the unix socket; scopes read,submit): /hawk.v1.Hawk/{method} needs "
                    "scope operate") in r.stderr, r.stderr
            wait_for("a line in the log", lambda: f"{method} needs scope operate" in c.central.text())
        c.as_user(ANN, "nodes")
        r = c.as_user(65534, "nodes", check=3)
        assert "you are uid 65534, which stands for the uids of other user namespaces" in r.stderr, r.stderr
        c.hawk("drain", "w1")
        c.hawk("undrain", "w1")


def test_sockets_are_their_owners_unless_said_otherwise():
    if not others_exist():
        return
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        for flags, uid, good in (((), ANN, False), (("--local-users",), ANN, True)):
            up = Daemon("up", "--slots", "1", "--socket", f"{d}/s", "--output-dir", f"{d}/out", *flags)
            try:
                addr = up.ready()
                UserCluster.as_user(None, uid, "nodes", dist=addr, check=0 if good else 3)
            finally:
                up.stop()


def test_a_client_cannot_name_another_user():
    if not others_exist():
        return
    with UserCluster(workers=1, dists=2) as c:
        ann, bob = (caller_as(uid, c.dist_addrs[0]) for uid in (ANN, BOB))
        ann2, bob2 = (caller_as(uid, c.dist_addrs[1]) for uid in (ANN, BOB))
        job = submit(ann, key=7, user="root", tag=pb.TAG_LONG, detached=False)
        assert user_of(ann, job) == str(ANN)
        # The same key again is the same job, but only for its user.
        assert submit(ann, key=7, user=str(BOB)) == job
        refused(DENIED, lambda: submit(bob, key=7, user=str(ANN)))
        move = pb.Resubmit(job=job, epoch=3)
        refused(DENIED, lambda: submit(bob, key=7, resubmit=move, user=str(ANN)))
        # On a session as well.
        requests = pb.SessionRequest(submit=[pb.SessionSubmit(tag=1, job=spec(user="root"), key=9),
                                             pb.SessionSubmit(tag=2, job=spec(user=str(ANN)), key=7)])
        events = list(bob.both("Session", iter([requests]), pb.SessionEvent))
        told = {j.tag: j.job for e in events for j in e.jobs}
        assert user_of(bob, told[1]) == str(BOB)
        assert [(r.tag, r.status) for e in events for r in e.refused] == [(2, DENIED.value[0])]
        # Moved to a dist that does not know it, it is whose who moves it, and central's part stays another's.
        assert submit(ann2, key=7, resubmit=move, user="root", tag=pb.TAG_LONG) == job
        assert user_of(ann2, job) == str(ANN)


def test_central_gives_a_job_to_its_user_alone():
    if not others_exist():
        return
    with UserCluster(workers=1, dists=2) as c:
        ann = caller_as(ANN, c.dist_addrs[0])
        bob2 = caller_as(BOB, c.dist_addrs[1])
        sleep = pb.JobSpec(tasks=1, argv=["sleep", "600"], tag=pb.TAG_LONG)
        job = ann("Submit", pb.SubmitRequest(job=sleep, key=4), pb.SubmitReply).job
        wait_for("it to run", lambda: ann("GetJob", pb.GetJobRequest(job=job), pb.GetJobReply).job.running == 1)
        for epoch, class_, why, long_epoch in ((3, pb.CLASS_LONG, pb.WHY_TAG, 0), (5, pb.CLASS_SHORT, pb.WHY_PROMOTED, 1)):
            move = pb.Resubmit(job=job, epoch=epoch, long_epoch=long_epoch, why=why, **{"class": class_})
            bob2("Submit", pb.SubmitRequest(job=sleep, key=5, resubmit=move), pb.SubmitReply)
            bob2("Cancel", pb.CancelRequest(job=job), pb.CancelReply)
            wait_for("Bob's to end", lambda: bob2("GetJob", pb.GetJobRequest(job=job), pb.GetJobReply).job.state in
                     (pb.JOB_FAILED, pb.JOB_CANCELLED))
        view = ann("GetJob", pb.GetJobRequest(job=job), pb.GetJobReply).job
        assert (view.state, view.running) == (pb.JOB_RUNNING, 1), view


def test_a_certificate_has_its_users_scopes():
    with TlsCluster(workers=1) as c:
        c.ca.issue("user", "bob")
        c.ca.issue("user", "rea", "--scopes", "read")
        bob, rea = (SecureCaller(c.dist_addrs[0], c.ca, name, expected="dist.hawk") for name in ("bob", "rea"))
        assert user_of(bob, submit(bob, user="ann")) == "bob"
        assert "you are rea (by certificate; scopes read): /hawk.v1.Hawk/Submit needs scope submit" in refused(
            DENIED, lambda: submit(rea))
        rea("ListJobs", pb.ListJobsRequest(), pb.ListJobsReply)
        r = c.hawk("drain", "w1", env=c.ca.environment("bob"), check=3)
        assert "you are bob (by certificate; scopes read,submit): /hawk.v1.Hawk/Drain needs scope operate" in r.stderr
        c.hawk("drain", "w1")
        for wrong in (("--scopes", "fly"), ("--scopes", "read,"), ("--scopes", "")):
            try:
                c.ca.issue("user", "eve", *wrong)
            except subprocess.CalledProcessError as e:
                assert e.returncode == 2, e
            else:
                raise AssertionError(wrong)


run_tests(sys.modules[__name__])
