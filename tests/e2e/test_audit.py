"""The audit log where calls are refused. What is changed is in test_users.py."""
# make test-all
import re
import sys

from grpc import StatusCode as Code

from grpctest import pb, refused
from hawktest import run_tests, wait_for
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


run_tests(sys.modules[__name__])
