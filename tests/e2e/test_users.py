# timeout: 240
"""Several users: who calls is known, jobs are their users', and who may not do something hears why."""
import json
import os
import queue
import socket
import struct
import subprocess
import sys
import tempfile
import threading

import grpc

import floodtest
from grpctest import pb, refused
from hawktest import BOUND, HAWK, Cluster, Daemon, dropped, run_tests, wait_for
from linktest import Link
from tlstest import SecureCaller, TlsCluster
from userstest import ANN, BOB, UserCluster, caller_as, connected_as, others_exist

DENIED, EXHAUSTED = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.RESOURCE_EXHAUSTED


def spec(**more):
    return pb.JobSpec(tasks=1, argv=[b"true"], **more)


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
                r = UserCluster.as_user(None, uid, "nodes", dist=addr, check=0 if good else 3)
                assert good or f"{d}/s is root's: name your dist" in r.stderr, r.stderr
                os.chmod(d, 0o700)  # now the directory keeps them out
                r = UserCluster.as_user(None, uid, "nodes", dist=addr, check=3)
                assert f"{d} is root's: name your dist" in r.stderr, r.stderr
                os.chmod(d, 0o755)
            finally:
                up.stop()


def test_where_users_are_known_tcp_without_tls_is_refused():
    """Nobody is known there."""
    with tempfile.TemporaryDirectory() as d:
        more = ("--state-dir", f"{d}/s", "--local-users")
        for role, flags in (("central", ("--listen", "127.0.0.1:0")), ("dist", ()), ("worker", ()),
                            ("worker", ("--listen", f"unix:{d}/w,[::1]:0"))):
            p = Daemon(role, *flags, *more)
            assert p.wait() == 2 and "lets every user of this machine in, and who calls" in p.text(), p.text()
        c = Daemon("central", "--listen", f"unix:{d}/c", *more)
        c.ready()
        c.stop()


def test_the_local_default_of_clients_is_a_dists_socket():
    with tempfile.TemporaryDirectory() as d:
        env = {k: v for k, v in os.environ.items() if not k.startswith("HAWK_")}
        env = {**env, "HOME": d, "XDG_STATE_HOME": f"{d}/state", "XDG_RUNTIME_DIR": d, "HAWK_LOGIN": "none"}
        uid = ANN if os.geteuid() == 0 else None
        if uid:  # root's own is in /var/lib
            os.chmod(os.path.dirname(d), 0o711)
            os.chown(d, uid, uid)

        def start(*args):
            daemons.append(Daemon(argv=[*dropped(uid), HAWK, *args], env=env))
            return daemons[-1].ready()

        def hawk(*args, check=0):
            r = subprocess.run([*dropped(uid), HAWK, *args], capture_output=True, text=True, timeout=BOUND, env=env, cwd="/")
            assert r.returncode == check, r
            return r

        daemons = []
        assert "no cluster found" in hawk("nodes", check=3).stderr
        try:
            central = start("central", "--listen", f"unix:{d}/c")
            start("worker", "--listen", f"unix:{d}/w", "--central", central, "--slots", "1", "--agent-grace", "2s")
            start("dist", "--listen", f"unix:{d}/d", "--central", central)
            assert os.path.exists(f"{d}/state/hawk/dist/dist.sock")
            job = hawk("submit", "--wait", "--", "true").stdout.strip()
            assert f"unix:{d}/d" in hawk("nodes").stdout and job
        finally:
            for p in reversed(daemons):
                p.stop()
        assert "no cluster found" in hawk("nodes", check=3).stderr


def test_plain_loopback_is_its_daemons_users_alone():
    if not others_exist():
        return
    whose = "at this address this daemon serves its own user ({}) and root alone"

    def as_user(uid, *args, check=0):
        r = subprocess.run([*dropped(uid), HAWK, *args], capture_output=True, text=True, timeout=BOUND, cwd="/",
                           env={**os.environ, "HOME": "/nonexistent", "HAWK_LOGIN": "none"})
        assert r.returncode == check, (uid, args, r)
        return r

    with Cluster(workers=1) as c, tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o711)
        for name in ("w", "d", "central"):
            os.mkdir(f"{d}/{name}")
            os.chown(f"{d}/{name}", ANN, ANN)
        at = c.dist_addrs[0]
        for command in (["submit", "--dist", at, "--", "id"], ["nodes", "--dist", at], ["drain", "w1", "--dist", at],
                        ["nodes", "--dist", c.central_addr]):
            said = as_user(ANN, *command, check=3).stderr
            assert f"you are {ANN} (uid {ANN})" in said and whose.format("root") in said, (command, said)
        said = as_user(65534, "nodes", "--dist", at, check=3).stderr
        assert "you are uid 65534, which stands for" in said and whose.format("root") in said, said
        # Nor does he become a node, or an executor.
        for role, flags in (("worker", ["--slots", "1"]), ("dist", [])):
            node = Daemon(argv=[*dropped(ANN), HAWK, role, "--name", {"worker": "annw", "dist": "anns"}[role], "--central", c.central_addr, "--state-dir", f"{d}/{role[0]}",
                                *flags], env={**os.environ, "HOME": f"{d}/{role[0]}"})
            wait_for("it to be refused", lambda n=node: whose.format("root") in n.text())
            node.stop()
        assert "ann" not in c.hawk("nodes").stdout
        # Whoever runs it, and root, are let in.
        own, env = [], {**os.environ, "HOME": f"{d}/w"}

        def start(role, state, *args):
            own.append(Daemon(argv=[*dropped(ANN), HAWK, role, "--state-dir", f"{d}/{state}", *args], env=env))
            return own[-1].ready()
        try:
            central = start("central", "central", "--listen", "127.0.0.1:0")
            start("worker", "w", "--name", "annw", "--central", central, "--slots", "1")
            at = start("dist", "d", "--name", "anns", "--central", central, "--listen", "127.0.0.1:0")
            for uid in (ANN, 0):
                as_user(uid, "submit", "--dist", at, "--wait", "--", "true")
                assert f"audit: uid {uid} (by the loopback connection), from 127.0.0.1" in own[-1].text(), own[-1].text()
            assert whose.format(ANN) in as_user(BOB, "submit", "--dist", at, "--", "true", check=3).stderr
        finally:
            for daemon in reversed(own):
                daemon.stop()


def test_a_socket_that_another_user_has_put_there_is_nobodys():
    if not others_exist():
        return
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o711)
        os.mkdir(f"{d}/hawk", 0o755)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HAWK_", "XDG_"))}
        env = {**env, "XDG_RUNTIME_DIR": d, "HOME": "/nonexistent"}
        # Root's is taken, as the service's is; and BOB's own hawk up is no trap for ANN.
        for uid, code, why in ((BOB, 3, "no cluster found"), (0, 0, "")):
            os.chown(f"{d}/hawk", uid, uid)
            up = Daemon(argv=[*dropped(uid), HAWK, "up", "--local-users", "--slots", "1", "--socket", f"{d}/hawk/up.sock",
                              "--output-dir", f"{d}/hawk/out-{uid}"], env=env)
            try:
                up.ready()
                r = subprocess.run([*dropped(ANN), HAWK, "nodes"], capture_output=True, text=True, timeout=BOUND, env=env,
                                   cwd="/")
                assert r.returncode == code and why in r.stderr, r
                if uid == 0:  # but not in a directory where BOB could put another one in its place
                    os.chown(f"{d}/hawk", BOB, BOB)
                    r = subprocess.run([*dropped(ANN), HAWK, "nodes"], capture_output=True, text=True, timeout=BOUND, env=env, cwd="/")
                    assert r.returncode == 3 and "no cluster found" in r.stderr, r
            finally:
                up.stop()


def test_users_of_the_machine_are_no_nodes():
    if not others_exist():
        return
    with UserCluster(workers=1) as c:
        for addr, role in ((c.central_addr, "dist"), (c.central_addr, "worker"), (f"unix:{c.dir}/w1.sock", "dist"),
                           (f"unix:{c.dir}/w1.sock", "worker"), (f"unix:{c.dir}/w1.sock", "central")):
            link = Link(caller_as(BOB, addr).channel, role, "forged")
            why = refused(DENIED, lambda k=link: next(iter(k.call)))
            assert f"you are {BOB} (uid {BOB}, by the unix socket; scopes read,submit): /hawk.v1.Peer/Link needs" in why, why
            link.close()
        assert c.as_user(ANN, "submit", "--wait", "--", "true").returncode == 0


def test_a_client_cannot_name_another_user():
    if not others_exist():
        return
    with UserCluster(workers=1, dists=2) as c:
        ann, bob = (caller_as(uid, c.dist_addrs[0]) for uid in (ANN, BOB))
        ann2, bob2 = (caller_as(uid, c.dist_addrs[1]) for uid in (ANN, BOB))
        reply = ann("Submit", pb.SubmitRequest(job=spec(user="root", tag=pb.TAG_LONG), key=7), pb.SubmitReply)
        job = reply.job
        assert user_of(ann, job) == str(ANN)
        # The same key again is the same job, but only for its user.
        assert submit(ann, key=7, user=str(BOB)) == job
        refused(DENIED, lambda: submit(bob, key=7, user=str(ANN)))
        move = pb.Resubmit(job=job, epoch=3, receipt=reply.receipt)
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
        c.forget_receipts()  # or Bob would not get as far
        sleep = pb.JobSpec(tasks=1, argv=[b"sleep", b"600"], tag=pb.TAG_LONG)
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
        # Who may drain nothing is told once, and waits for nothing.
        for stop in (("--yes",), ("w1",)):
            r = c.hawk("down", *stop, "--grace", "0s", env=c.ca.environment("bob"), check=3)
            assert r.stderr.count("\n") == 1 and "Drain needs scope operate" in r.stderr and not r.stdout, r
        c.hawk("drain", "w1")
        for wrong in (("--scopes", "fly"), ("--scopes", "read,"), ("--scopes", "")):
            try:
                c.ca.issue("user", "eve", *wrong)
            except subprocess.CalledProcessError as e:
                assert e.returncode == 2, e
            else:
                raise AssertionError(wrong)


def test_jobs_are_their_users():
    if not others_exist():
        return
    with UserCluster(workers=1, slots=2) as c:
        job = c.as_user(ANN, "submit", "--name", "secret", "--", "sh", "-c", "echo ann; sleep 600").stdout.strip()
        tall = c.as_user(ANN, "submit", "--class", "long", "--", "sleep", "600").stdout.strip()
        wait_for("both to run", lambda: all(j["running"] for j in c.json("jobs")["jobs"]))
        for args in (("job", job), ("cancel", job), ("cat", job), ("explain", job), ("wait", job), ("job", tall),
                     ("cancel", tall), ("explain", tall)):
            r = c.as_user(BOB, *args, check=None)
            assert r.returncode != 0, args
            assert (f"you are {BOB} (uid {BOB}, by the unix socket; scopes read,submit): job {args[1]} is of user {ANN}, "
                    "and others need scope operate for this") in r.stderr, (args, r.stderr)
        # Central and the worker know it as well, whatever way one asks.
        for addr, method, request, reply in (
                (c.central_addr, "Cancel", pb.CancelRequest(job=tall), pb.CancelReply),
                (c.central_addr, "GetJob", pb.GetJobRequest(job=tall, spec=True), pb.GetJobReply)):
            assert f"is of user {ANN}" in refused(DENIED, lambda: caller_as(BOB, addr)(method, request, reply))
        worker = f"unix:{c.dir}/w1.sock"

        def read_output(uid, of=job):
            return b"".join(x.data for x in caller_as(uid, worker).stream(
                "ReadOutput", pb.ReadOutputRequest(job=of), pb.OutputChunk))

        assert f"is of user {ANN}" in refused(DENIED, lambda: read_output(BOB))
        wait_for("what it wrote", lambda: read_output(ANN) == b"ann\n")
        assert read_output(0) == b"ann\n"
        # `all` and `last` are one's own; lists have everybody's, without what was run.
        assert "nothing to cancel" in c.as_user(BOB, "cancel", "all").stdout
        mine = json.loads(c.as_user(BOB, "jobs", "--mine", "--output", "json").stdout)["jobs"]
        assert mine == []
        of_ann = json.loads(c.as_user(BOB, "jobs", "--user", str(ANN), "--output", "json").stdout)["jobs"]
        assert {j["job"] for j in of_ann} == {job, tall} and {j["user"] for j in of_ann} == {str(ANN)}
        assert {j["name"] for j in of_ann} == {""} and "secret" in c.as_user(ANN, "jobs").stdout
        # An operator may; so may its user.
        c.hawk("job", job)
        c.hawk("cancel", tall)
        assert {x.split()[0] for x in c.as_user(ANN, "cancel", "all").stdout.splitlines()} <= {job, tall}
        wait_for("both to end", lambda: {j["state"] for j in c.json("jobs")["jobs"]} == {"cancelled"})
        # A trace has what its writer may see.
        c.as_user(BOB, "submit", "--wait", "--", "true")
        r = c.as_user(BOB, "history", "--trace")
        assert r.stdout.count("\n") == 1 and "1 job; left out: 0 of which no task is done, 2 of other users" in r.stderr, r
        for uid in (ANN, BOB, ANN):
            c.as_user(uid, "submit", "--wait", "--name", "same", "--", "true")
        shown = {(n["user"], n["jobs"]) for n in c.json("history", "--name", "same")["names"]}
        assert shown == {(str(ANN), 2), (str(BOB), 1)}, shown
        # It would run as its user: an operator may not have that.
        failed = c.as_user(ANN, "submit", "--", "false").stdout.strip()
        c.as_user(ANN, "wait", failed, check=1)
        r = c.hawk("resubmit", failed, check=None)
        assert r.returncode == 3 and f"job {failed} is of user {ANN}: only they can run it again" in r.stderr, r
        assert c.as_user(ANN, "resubmit", failed).stdout.strip() != failed


def test_jobs_whose_dist_is_down_are_their_users():
    if not others_exist():
        return
    with UserCluster(workers=1) as c:
        job = c.as_user(ANN, "submit", "--name", "secret", "--class", "long", "--", "sleep", "600").stdout.strip()
        wait_for("it to run", lambda: c.job(job)["running"])
        c.dists[0].kill()

        def listed(uid):
            reply = caller_as(uid, c.central_addr)("ListJobs", pb.ListJobsRequest(), pb.ListJobsReply)
            return [(j.job, j.user, j.name) for j in reply.jobs]

        wait_for("central to show it", lambda: listed(0))
        assert listed(0) == listed(ANN) == [(job, str(ANN), "secret")] and listed(BOB) == [(job, str(ANN), "")], listed(BOB)


def test_an_operator_may_show_everybody_the_names():
    if not others_exist():
        return
    shown = ("--set", "cluster.show_names=yes")
    with UserCluster(workers=1, slots=2, dist=shown, central=shown) as c:
        jobs = [c.as_user(ANN, "submit", "--name", "for all", *more, "--", "sleep", "600").stdout.strip() for more in ((), ("--class", "long"))]
        wait_for("both to run", lambda: all(j["running"] for j in c.json("jobs")["jobs"]))
        names = {j["job"]: j["name"] for j in json.loads(c.as_user(BOB, "jobs", "--output", "json").stdout)["jobs"]}
        assert names == dict.fromkeys(jobs, "for all"), names
        assert c.as_user(BOB, "job", jobs[0], check=None).returncode != 0
        c.dists.pop().kill()
        gone = wait_for("central to list what has no dist", lambda: c.json("jobs", dist=c.central_addr)["jobs"])
        names = [j["name"] for j in json.loads(c.as_user(BOB, "jobs", "--output", "json", dist=c.central_addr).stdout)["jobs"]]
        assert [j["job"] for j in gone] == jobs[1:] and names == ["for all"], (gone, names)


def test_kept_output_is_its_users():
    """A restarted worker remembers no task."""
    if not others_exist():
        return
    with UserCluster(workers=1) as c:
        job = c.as_user(ANN, "submit", "--wait", "--", "echo", "ann").stdout.strip()
        nobodys = c.hawk("submit", "--wait", "--", "echo", "root").stdout.strip()
        c.workers.pop().stop()
        os.unlink(f"{c.dir}/out-w1/{nobodys}/.user")  # as an earlier version has left it
        c.start_worker("w1")

        def read_output(uid, of):
            return b"".join(x.data for x in caller_as(uid, f"unix:{c.dir}/w1.sock").stream(
                "ReadOutput", pb.ReadOutputRequest(job=of), pb.OutputChunk))

        assert read_output(ANN, job) == b"ann\n"
        assert read_output(0, nobodys) == b"root\n"
        assert f"job {job} is of user {ANN}" in refused(DENIED, lambda: read_output(BOB, job))
        assert f"job {nobodys} is nobody's that is known here" in refused(DENIED, lambda: read_output(BOB, nobodys))
        # Nobody writes there under a job id that is another's.
        c.forget_receipts()
        move = pb.Resubmit(job=job, epoch=3)
        c.start_dist("d2")
        bob = caller_as(BOB, c.dist_addrs[-1])
        wait_for("it to know the worker", lambda: any(n.name == "w1" and n.state == "up" for n in bob(
            "ListNodes", pb.ListNodesRequest(), pb.ListNodesReply).nodes))
        bob("Submit", pb.SubmitRequest(job=pb.JobSpec(tasks=1, argv=[b"echo", b"bob"]), key=3, resubmit=move),
            pb.SubmitReply)
        events = list(bob.stream("Watch", pb.WatchRequest(job=job, tasks=True), pb.Event))
        task = events[-1].tasks[0]
        assert task.state == pb.TASK_FAILED and "another user's job" in task.message, events
        assert read_output(ANN, job) == b"ann\n"


def test_nobody_takes_the_ids_that_another_dist_gives_out_next():
    """A client names the id of a job that it moves, and ids are given out in order."""
    if not others_exist():
        return
    with UserCluster(workers=1, slots=4, dists=2) as c:
        ann, bob = (caller_as(uid, c.dist_addrs[0]) for uid in (ANN, BOB))
        ann2, bob2 = (caller_as(uid, c.dist_addrs[1]) for uid in (ANN, BOB))
        anns = ann("Submit", pb.SubmitRequest(job=spec(), key=7), pb.SubmitReply)
        bobs = bob("Submit", pb.SubmitRequest(job=spec(), key=8), pb.SubmitReply)
        node, seq = map(int, bobs.job.split("."))
        following = f"{node}.{seq + 1}"
        for receipt in (0, 1, anns.receipt, bobs.receipt):
            move = pb.Resubmit(job=following, epoch=3, receipt=receipt)
            assert "receipt" in refused(DENIED, lambda m=move: submit(bob2, key=8, resubmit=m))
            request = pb.SessionRequest(submit=[pb.SessionSubmit(tag=1, job=spec(), key=8, resubmit=move)])
            events = list(bob2.both("Session", iter([request]), pb.SessionEvent))
            assert [(r.tag, r.status) for e in events for r in e.refused] == [(1, DENIED.value[0])], events
        # A receipt is of one id, and one user's.
        refused(DENIED, lambda: submit(bob2, key=8, resubmit=pb.Resubmit(job=anns.job, epoch=3, receipt=anns.receipt)))
        for caller, key, of in ((bob2, 8, bobs), (ann2, 7, anns)):
            for epoch in (3, 5):
                moved = caller("Submit", pb.SubmitRequest(job=spec(), key=key, resubmit=pb.Resubmit(
                    job=of.job, epoch=epoch, receipt=of.receipt)), pb.SubmitReply)
                assert (moved.job, moved.receipt) == (of.job, of.receipt)
        # A client or dist of an earlier version has none.
        c.forget_receipts()
        for epoch, receipt in ((7, 0), (9, bobs.receipt)):
            move = pb.Resubmit(job=bobs.job, epoch=epoch, receipt=receipt)
            assert submit(bob2, key=8, resubmit=move) == bobs.job
        refused(DENIED, lambda: submit(bob2, key=8, resubmit=pb.Resubmit(job=following, epoch=3, receipt=1)))


def test_jobs_are_moved_where_users_are_known():
    if not others_exist():
        return
    with UserCluster(workers=1, slots=4, dists=2) as c:
        env = {**os.environ, "HAWK_DIST": ",".join(c.dist_addrs), "HOME": "/nonexistent"}
        with subprocess.Popen([*dropped(ANN), HAWK, "submit", "--wait", "--array", "1-3", "--", "sh", "-c",
                               f"until [ -e {c.dir}/go ]; do sleep 0.1; done"], env=env, cwd="/",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
            def runs_at(addr):
                return any(j["running"] == 3 for j in c.json("jobs", dist=addr)["jobs"])

            wait_for("it to run", lambda: runs_at(c.dist_addrs[0]))
            c.dists[0].kill()
            wait_for("it to move", lambda: runs_at(c.dist_addrs[1]))
            open(f"{c.dir}/go", "w").close()
            _, err = p.communicate(timeout=BOUND)
            assert p.returncode == 0, err


def test_what_is_changed_is_said():
    if not others_exist():
        return
    with tempfile.TemporaryDirectory() as d:
        with UserCluster(workers=1, central=["--set", f"log.audit={d}/audit"]) as c:
            job = c.as_user(ANN, "submit", "--name", "a\nb", "--", "sleep", "600").stdout.strip()
            c.as_user(BOB, "cancel", job, check=3)
            c.as_user(ANN, "cancel", job)
            bob = caller_as(BOB, c.dist_addrs[0])
            refused(DENIED, lambda: bob("Stop", pb.StopRequest(), pb.StopReply))
            batch = pb.SessionRequest(submit=[pb.SessionSubmit(tag=i, job=spec()) for i in range(100)])
            list(bob.both("Session", iter([batch]), pb.SessionEvent))
            ann, him = (f"{u} (uid {u}, by the unix socket; scopes read,submit), from process " for u in (ANN, BOB))
            log = [line.split(" audit: ", 1)[1] for line in c.dists[0].text().splitlines() if " audit: " in line]
            for who, what in ((ann, f"submit of job {job}, 1 tasks, 'a?b': done"),
                              (him, f"cancel of job {job}: you are {BOB} "), (ann, f"cancel of job {job}: done"),
                              (him, "on a session: submit of 100 jobs, cancel of 0: 0 refused")):
                assert any(x.startswith(who) and what in x for x in log), (who, what, log)
            assert len(log) <= 5, log
            assert f"a call from process" in c.dists[0].text() and "Stop needs scope operate" in c.dists[0].text()
            c.hawk("drain", "w1")
            c.hawk("undrain", "w1")
            c.hawk("policy", "set", "sparrow")
            c.hawk("policy", "set", "nosuch", check=None)
            assert " audit: " not in c.central.text()
            with open(f"{d}/audit", encoding="utf-8") as f:
                said = f.read()
            assert os.stat(f"{d}/audit").st_mode & 0o777 == 0o600
            for what in ("drain w1: done", "undrain w1: done", "policy set, now policy sparrow"):
                assert f": {what}" in said, (what, said)
            assert all("audit: root (uid 0, by the unix socket; scopes read,submit,operate,admin), from process " in x
                       for x in said.splitlines()), said


def test_one_user_cannot_take_all_connections():
    """Each user of a machine is an address of his own: of connections without a call he has as many as one."""
    if not others_exist():
        return
    with UserCluster(workers=1, dist=["--unproven-per-address", "20"]) as c:
        path = c.dist_addrs[0].removeprefix("unix:")
        held = connected_as(BOB, path, 60)
        wait_for("the dist to say so", lambda: "cut off to make room" in c.dists[0].text())
        c.as_user(ANN, "submit", "--wait", "--", "true")
        for s in held:
            s.close()


class Unread:
    """A connection that takes no byte of any reply. It opens many calls before it sends the first request.

    A thread answers the server's PINGs at all times: one that waits for its turn is not taken for dead.
    """
    CALLS = 250

    def __init__(self, s, method, request):
        body = b"\0" + struct.pack(">I", len(request)) + request
        headers = [floodtest.first_block(method)] + [floodtest.NEXT_BLOCK] * (self.CALLS - 1)
        self.s, self.ends, self.writing = s, queue.Queue(), threading.Lock()
        s.settimeout(None)
        s.sendall(floodtest.PREFACE + floodtest.frame(floodtest.SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) +
                  b"".join(floodtest.frame(floodtest.HEADERS, floodtest.END_HEADERS, 2 * i + 1, h)
                           for i, h in enumerate(headers)))
        self.requests = [floodtest.frame(floodtest.DATA, floodtest.END_STREAM, 2 * i + 1, body) for i in range(self.CALLS)]
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with self.s.makefile("rb") as frames:
            while len(head := frames.read(9)) == 9:
                payload = frames.read(int.from_bytes(head[:3], "big"))
                if head[3] == floodtest.PING and not head[4] & floodtest.ACK:
                    self.write(floodtest.frame(floodtest.PING, floodtest.ACK, 0, payload))
                elif head[3] == floodtest.HEADERS:  # of an answer that would have a message, these are not the last
                    self.ends.put(bool(head[4] & floodtest.END_STREAM))
        self.ends.put(None)

    def write(self, data):
        with self.writing:
            self.s.sendall(data)

    def ask(self, n):
        """Sends the next n requests, and waits until each is answered. How many were refused."""
        now, self.requests = self.requests[:n], self.requests[n:]
        self.write(b"".join(now))
        refusals = [self.ends.get(timeout=BOUND) for _ in now]
        assert None not in refusals, "cut off"
        return sum(refusals)


def test_who_reads_no_replies_holds_up_himself_alone():
    """Beyond 256 MiB of replies that nobody has read, who has left them is refused, also calls that he began before."""
    if not others_exist():
        return
    with UserCluster(workers=1) as c:
        ann = caller_as(ANN, c.dist_addrs[0])
        job = ann("Submit", pb.SubmitRequest(job=pb.JobSpec(tasks=1, argv=[b"true", *[b"x" * 100000] * 9])),
                  pb.SubmitReply).job
        request = pb.GetJobRequest(job=job, spec=True).SerializeToString()
        unread = [Unread(s, b"/hawk.v1.Hawk/GetJob", request)
                  for s in connected_as(ANN, c.dist_addrs[0].removeprefix("unix:"), 3)]
        for u in unread:
            assert u.ask(1) == 0
        # In steps: all of them in one turn of a slow dist's loop would break its links.
        refusals = sum(u.ask(25) for u in unread for _ in range(0, Unread.CALLS - 1, 25))
        answered = len(unread) * Unread.CALLS - refusals
        assert 256 << 20 < answered * 900000 < 260 << 20, answered
        assert "have not read 256 MiB of replies" in c.as_user(ANN, "jobs", check=3).stderr
        c.as_user(BOB, "submit", "--wait", "--", "true")
        for u in unread:
            u.s.shutdown(socket.SHUT_RDWR)
        wait_for("ann to be served again", lambda: c.as_user(ANN, "jobs", check=None).returncode == 0)


def test_who_connects_too_fast_waits_alone():
    """Beyond ten seconds' worth of connections a user waits for his turn; others do not."""
    if not others_exist():
        return
    with UserCluster(workers=1, dist=["--connect-rate", "1"]) as c:
        path = c.dist_addrs[0].removeprefix("unix:")
        held = connected_as(BOB, path, 40)
        wait_for("the dist to say so", lambda: "waits: its address connects more than 1 times a second "
                                               "(cluster.connect_rate)" in c.dists[0].text())
        assert f"of user {BOB} on this machine waits" in c.dists[0].text()
        c.as_user(ANN, "submit", "--wait", "--", "true")
        for _ in range(20):  # nor has the daemon's own user a limit
            c.hawk("nodes")
        for s in held:
            s.close()
        c.as_user(BOB, "submit", "--wait", "--", "true")


def watch_again(caller, job):
    try:
        next(caller.stream("Watch", pb.WatchRequest(job=job), pb.Event))
        return True
    except grpc.RpcError:
        return False


def test_a_limit_is_its_users_alone():
    if not others_exist():
        return
    limits = {"user-jobs-max": 2, "user-tasks-max": 100, "user-submit-rate": 5, "user-watches-max": 2,
              "user-journal-max": "64KiB"}
    with UserCluster(workers=1, dist=[x for k, v in limits.items() for x in (f"--{k}", v)]) as c:
        jobs = [c.as_user(ANN, "submit", "--", "sleep", "600").stdout.strip() for _ in range(2)]
        r = c.as_user(ANN, "submit", "--", "true", check=3)
        assert f"user {ANN} has 2 unfinished jobs at this dist, the limit of one user (dist.user_jobs_max)" in r.stderr, r
        r = c.as_user(BOB, "submit", "--array", "1-101", "--", "true", check=3)
        assert f"user {BOB} would have more than 100 tasks" in r.stderr and "(dist.user_tasks_max)" in r.stderr, r.stderr
        r = c.as_user(BOB, "submit", "--", "true", "x" * 66000, check=3)
        words = f"the unfinished jobs of user {BOB} would fill more than 65536 bytes"
        assert words in r.stderr and "(dist.user_journal_max)" in r.stderr, r.stderr
        c.as_user(BOB, "submit", "--", "sleep", "600", "0" * 40000)
        r = c.as_user(BOB, "submit", "--", "true", "x" * 40000, check=3)
        assert words in r.stderr, r.stderr
        c.hawk("submit", "--", "true", "x" * 66000)
        c.as_user(BOB, "cancel", "last")
        c.as_user(BOB, "submit", "--array", "1-100", "--", "true")
        for _ in range(4):  # operators have none
            c.hawk("submit", "--", "true")
        ann = caller_as(ANN, c.dist_addrs[0])
        watches = [ann.stream("Watch", pb.WatchRequest(job=jobs[0]), pb.Event) for _ in range(2)]
        for w in watches:
            next(w)
        words = refused(EXHAUSTED, lambda: next(ann.stream("Watch", pb.WatchRequest(job=jobs[0]), pb.Event)))
        assert f"user {ANN} has 2 watches at this dist, the limit of one user (dist.user_watches_max)" in words, words
        watches[0].cancel()
        wait_for("a place for a watch", lambda: watch_again(ann, jobs[0]))
        for job in jobs:
            c.as_user(ANN, "cancel", job)
        wait_for("them to end", lambda: all(j["state"] == "cancelled" for j in c.json("jobs")["jobs"] if j["job"] in jobs))
        c.as_user(ANN, "submit", "--", "true")
        # 50 at once, then 5 a second.
        batch = pb.SessionRequest(submit=[pb.SessionSubmit(tag=i, job=spec()) for i in range(100)])
        events = caller_as(BOB + 1, c.dist_addrs[0]).both("Session", iter([batch]), pb.SessionEvent)
        told = [(r.status, r.error) for e in events for r in e.refused]
        slow = [t for t in told if "more than 5 jobs a second, the limit of one user (dist.user_submit_rate)" in t[1]]
        assert 45 <= len(slow) <= 50 and {t[0] for t in told} == {EXHAUSTED.value[0]}, told


def test_a_job_that_moves_is_no_new_submission():
    """It waits for its user's other limits alone."""
    if not others_exist():
        return
    with UserCluster(workers=1, dists=2, dist=["--user-submit-rate", "1", "--user-jobs-max", "12"]) as c:
        timer = pb.JobSpec(tasks=1, kind=pb.PAYLOAD_TIMER, argv=[b"600s"])
        first = caller_as(ANN, c.dist_addrs[0])
        had = [first("Submit", pb.SubmitRequest(job=timer, key=key), pb.SubmitReply) for key in (1, 2, 3)]
        batch = pb.SessionRequest(submit=[pb.SessionSubmit(tag=i, job=timer) for i in range(11, 31)])
        batch.submit.extend(pb.SessionSubmit(tag=i, job=timer, key=i, resubmit=pb.Resubmit(
            job=job.job, epoch=3, receipt=job.receipt)) for i, job in enumerate(had, 1))
        taken, told = set(), {}
        for e in caller_as(ANN, c.dist_addrs[1]).both("Session", iter([batch]), pb.SessionEvent):
            taken |= {(j.tag, j.job) for j in e.jobs}
            told.update((r.tag, r.error) for r in e.refused)
            if len(told) + len({tag for tag, _ in taken}) == 23:
                break
        assert {(1, had[0].job), (2, had[1].job)} <= taken, (taken, told)
        assert len(told) == 11 and "dist.user_jobs_max" in told[3] and "dist.user_submit_rate" in told[30], told


def test_outputs_that_a_user_reads_are_limited():
    """Each that is followed is read ten times a second."""
    if not others_exist():
        return
    with UserCluster(workers=1, slots=2, worker=("--user-reads-max", "2")) as c:
        def starts(uid):
            job = c.as_user(uid, "submit", "--", "sh", "-c", "echo up; exec sleep 600").stdout.strip()
            wait_for("its output", lambda: c.as_user(uid, "cat", job, check=None).stdout == "up\n")
            return job

        def follow(caller, job=starts(ANN)):
            stream = caller.stream("ReadOutput", pb.ReadOutputRequest(job=job, follow=True), pb.OutputChunk)
            assert next(stream).data == b"up\n"
            return stream

        def has_room():
            try:
                return follow(ann)
            except grpc.RpcError:
                return None

        ann, bob, root = (caller_as(uid, f"unix:{c.dir}/w1.sock") for uid in (ANN, BOB, 0))
        reads = [follow(ann) for _ in range(2)]
        words = refused(EXHAUSTED, lambda: follow(ann))
        assert (f"user {ANN} has 2 outputs that are read at this worker, the limit of one user (worker.user_reads_max)"
                in words), words
        more = [follow(root) for _ in range(3)]  # operators have none
        more.append(follow(bob, starts(BOB)))
        reads[0].cancel()
        again = wait_for("a place for a read", has_room)
        for stream in (reads[1], again, *more):
            stream.cancel()


run_tests(sys.modules[__name__])
