"""The audit log where calls are refused, and its file's rotation. What is changed is in test_users.py."""
# make test-all
import os
import re
import signal
import sys
import tempfile

from grpc import StatusCode as Code

from grpctest import pb, refused
from hawktest import Cluster, run_tests, wait_for
from userstest import ANN, BOB, UserCluster, caller_as, others_exist


def test_refused_calls_are_said_and_fill_no_disk():
    if not others_exist():
        return
    with UserCluster(workers=0, dist=["--user-jobs-max", "1"]) as c:
        ann, bob = (caller_as(u, c.dist_addrs[0]) for u in (ANN, BOB))
        one = pb.SubmitRequest(job=pb.JobSpec(name="one", tasks=1, argv=[b"true"]))
        job = ann("Submit", one, pb.SubmitReply).job
        refused(Code.PERMISSION_DENIED, lambda: bob("Rerun", pb.RerunRequest(job=job), pb.SubmitReply))
        refused(Code.INVALID_ARGUMENT, lambda: bob("Submit", pb.SubmitRequest(), pb.SubmitReply))
        for _ in range(40):
            refused(Code.RESOURCE_EXHAUSTED, lambda: ann("Submit", one, pb.SubmitReply))
        refused(Code.PERMISSION_DENIED, lambda: bob("Cancel", pb.CancelRequest(job=job), pb.CancelReply))
        c.as_user(ANN, "cancel", job)
        lines = [line.split(" audit: ", 1)[1] for line in c.dists[0].text().splitlines() if " audit: " in line]
        for who, what in ((ANN, f"submit of job {job}, 1 tasks, 'one': done"), (BOB, f"rerun of job {job}: you are {BOB} "),
                          (BOB, "/hawk.v1.Hawk/Submit: the request has no job"), (BOB, f"cancel of job {job}: you are {BOB} "),
                          (ANN, f"cancel of job {job}: done")):
            assert sum(x.startswith(f"{who} ") and what in x for x in lines) == 1, (who, what, lines)
        said = sum(f"submit of 1 tasks, 'one': the job was not accepted: user {ANN} has 1 unfinished jobs" in x for x in lines)
        assert 5 <= said <= 15, lines
        left_out = re.compile(rf"(\d+) more lines like this were left out: 'audit: refused calls of user {ANN}'")
        wait_for("the number of the others", lambda: said + sum(map(int, left_out.findall(c.dists[0].text()))) == 40)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def hang_up(daemon, answer):
    daemon.p.send_signal(signal.SIGHUP)
    wait_for(answer, lambda: f"Hangup: {answer}" in daemon.text())


def test_the_file_is_rotated():
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/log")
        with Cluster(workers=1, central=["--set", f"log.audit={d}/log/audit"]) as c:
            c.hawk("drain", "w1")
            os.rename(f"{d}/log/audit", f"{d}/log/audit.1")
            hang_up(c.central, f"audit lines go to {d}/log/audit, opened anew")
            c.hawk("undrain", "w1")
            assert "drain w1: done" in read(f"{d}/log/audit.1") and "undrain w1" not in read(f"{d}/log/audit.1")
            assert "undrain w1: done" in read(f"{d}/log/audit")
            assert os.stat(f"{d}/log/audit").st_mode & 0o777 == 0o600
            os.rename(f"{d}/log", f"{d}/old")
            hang_up(c.central, f"log.audit: {d}/log/audit cannot be opened: No such file or directory; audit lines")
            c.hawk("policy", "set", "sparrow")
            assert "policy set, now policy sparrow" in read(f"{d}/old/audit")


run_tests(sys.modules[__name__])
