"""Signed submissions on sessions (cluster.require_signatures), from outside: a session signs what it sends together, once;
each job is looked at as if it were alone."""
# timeout: 240
# make test-all
import os
import queue
import subprocess
import sys
import tempfile

from pythontest import PACKAGE
from signedtest import BrokenDist, Catcher, SignedCluster, api, not_run, ran
from tlstest import EXPECTED, SecureCaller

import grpc

from hawk import _sign, hawk_pb2
from hawktest import BOUND, run_tests, wait_for

if os.environ.get("SANITIZE"):
    print("skip: programs are linked without sanitizers")
    sys.exit(77)

JOBS = 1000
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
programs = tempfile.TemporaryDirectory()
EACH = f"{programs.name}/each"
subprocess.run(["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", f"-I{ROOT}/libhawk", f"{ROOT}/examples/each.c",
                f"{os.path.dirname(PACKAGE)}/libhawk.a", "-lgrpc", "-lgpr", "-lssl", "-lcrypto", "-lev", "-lprotobuf-nanopb",
                "-lpthread", "-o", EACH], check=True)


class BatchCluster(SignedCluster):
    def __init__(self, **more):
        super().__init__(**more)
        self.central_flags += ["--ca", self.ca.dir]  # it hears who is revoked

    def each(self, command, words, addr=None):
        """A program of libhawk's that submits a job for each word, on one session."""
        env = {**os.environ, "HAWK_DIST": addr or self.dist_addrs[0], **self.ca.environment("ann")}
        return subprocess.run([EACH, *command, "--", *words], capture_output=True, text=True, timeout=4 * BOUND, env=env)

    def catch_session(self, catcher, command, words):
        """The JobSpecs that such a program sends, by their words."""
        assert self.each(command, words, f"127.0.0.1:{catcher.port}").returncode == 1
        caught, catcher.caught = catcher.caught, []
        assert len(caught) == len(words), caught
        return {spec.task_args[0].decode(): spec for spec in caught}

    def verified(self, addr, expected="scheduler.hawk"):
        """How many signatures the daemon there has verified."""
        stats = SecureCaller(addr, self.ca, "ann", expected=expected)("GetStats", api.GetStatsRequest(), api.GetStatsReply)
        return next(n.value for n in stats.nodes[0].counters if n.name == "signatures_verified")


class Session:
    """One stream of a user's."""

    def __init__(self, cluster, user):
        self.requests, self.tag = queue.Queue(), 0
        caller = SecureCaller(cluster.dist_addrs[0], cluster.ca, user)
        self.events = caller.both("Session", iter(self.requests.get, None), api.SessionEvent)

    def submit(self, spec):
        """Returns the refusal, or how the job's only task ended."""
        self.tag += 1
        task = None
        self.requests.put(api.SessionRequest(submit=[api.SessionSubmit(tag=self.tag, job=spec)]))
        for event in self.events:
            for refused in event.refused:
                return refused
            for task in event.tasks:
                pass
            if event.ends:
                return task
        raise AssertionError("the session ended")

    def close(self):
        self.requests.put(None)


def signed_of(spec):
    return api.Signed.FromString(spec.signature)


def with_signature(spec, **fields):
    """The job, with these parts of its signature changed."""
    signed, changed = signed_of(spec), api.JobSpec.FromString(spec.SerializeToString())
    for name, value in fields.items():
        setattr(signed, name, value)
    changed.signature = signed.SerializeToString()
    return changed


def test_a_session_of_many_jobs_has_few_signatures():
    with BatchCluster(workers=2, slots=4) as c:
        workers = [c.worker_addr(w) for w in ("w1", "w2")]
        r = c.each(["sh", "-c", f"echo {{}} >> {c.path('ran')}"], [str(i) for i in range(JOBS)])
        assert r.returncode == 0, r.stdout[-2000:] + r.stderr
        with open(c.path("ran"), encoding="ascii") as f:
            assert sorted(f.read().split(), key=int) == [str(i) for i in range(JOBS)]
        verified = [c.verified(c.dist_addrs[0]), *(c.verified(addr, EXPECTED["worker"]) for addr in workers)]
        assert all(0 < n <= JOBS // 50 for n in verified), verified
        # One that is alone is signed alone, at once.
        assert c.each(["true"], ["x"]).returncode == 0
        assert c.verified(c.dist_addrs[0]) == verified[0] + 1


def test_a_session_signs_what_it_sends_together():
    with BatchCluster(workers=1) as c:
        specs = c.catch_session(Catcher(c), ["true"], [str(i) for i in range(JOBS)])
        signed = [signed_of(spec) for spec in specs.values()]
        assert len({s.signature for s in signed}) <= JOBS // 50
        assert len({s.submission for s in signed}) == JOBS
        assert {s.index for s in signed if s.signature == signed[0].signature} == set(range(signed[0].leaves))
        alone = signed_of(c.catch_session(Catcher(c), ["true"], ["x"])["x"])
        assert (alone.index, alone.leaves, alone.hashes) == (0, 1, b""), alone


def test_the_python_package_signs_the_same_batches():
    with BatchCluster(workers=1) as c:
        signer = _sign.signer(*(c.ca.read(name) for name in ("roots.crt", "ann.key", "ann.crt")))
        for n in (1, 2, 7):
            specs = [hawk_pb2.JobSpec(name="of Python", tasks=1, argv=[b"true"], env=[b"PATH=" + os.environb[b"PATH"]]) for _ in range(n)]
            signer.sign(specs)
            before, ann = c.verified(c.dist_addrs[0]), Session(c, "ann")
            for spec in specs:
                task = ann.submit(api.JobSpec.FromString(spec.SerializeToString()))
                assert ran(task), task
            assert c.verified(c.dist_addrs[0]) == before + 1
            ann.close()


def test_a_broken_dist_cannot_mix_batches():
    with BatchCluster(workers=1) as c:
        catcher, broken = Catcher(c), BrokenDist(c)
        touch = ["sh", "-c", f"echo >> {c.path('ran')}-{{}}"]
        one, other = (c.catch_session(catcher, touch, [f"{name}{i}" for i in range(5)]) for name in "ab")
        a0, a1, b0 = signed_of(one["a0"]), signed_of(one["a1"]), signed_of(other["b0"])
        assert a0.signature == a1.signature != b0.signature and (a0.leaves, a1.leaves) == (5, 5)
        assert ran(broken.give(one["a0"])) and ran(broken.give(other["b0"]))  # both batches are known from now on
        wrong = "the user did not sign this"
        for spec in (
                with_signature(other["b1"], signature=a0.signature),  # a job of another batch, ...
                with_signature(other["b1"], signature=a0.signature, hashes=a1.hashes),
                with_signature(one["a1"], submission=signed_of(other["b1"]).submission),
                with_signature(one["a1"], index=a0.index),            # ... at another place, ...
                with_signature(one["a1"], index=7),
                with_signature(one["a1"], leaves=6),
                with_signature(one["a1"], index=0, leaves=1, hashes=b""),
                with_signature(one["a1"], hashes=a0.hashes),          # ... with another proof, ...
                with_signature(one["a1"], hashes=a1.hashes[:-32]),
                with_signature(one["a1"], hashes=a1.hashes + bytes(32)),
                with_signature(one["a1"], submission=a1.submission.replace(b"echo", b"true"))):  # ... or changed
            assert not_run(broken.give(spec), wrong)
        assert not_run(broken.give(with_signature(one["a1"], hashes=a1.hashes[:-1])), "no signed submission")
        assert not_run(broken.give(with_signature(one["a1"], hashes=bytes(33 * 32))), "no signed submission")
        assert not_run(broken.give(one["a0"]), "its user signed this job as ")  # one submission is one job
        assert ran(broken.give(one["a1"]))
        assert sorted(n for n in os.listdir(c.dir) if n.startswith("ran")) == ["ran-a0", "ran-a1", "ran-b0"]
        broken.close()


def test_a_session_is_its_users_alone():
    with BatchCluster(workers=1) as c:
        c.ca.issue("user", "eve", "--scopes", "read,submit")
        touch = ["sh", "-c", f"echo >> {c.path('ran')}-{{}}"]
        specs = c.catch_session(Catcher(c), touch, ["a", "b", "c"])
        ann, eve = Session(c, "ann"), Session(c, "eve")
        why = eve.submit(specs["a"])
        assert why.status == grpc.StatusCode.PERMISSION_DENIED.value[0] and "user ann signed it, and eve submits it" in why.error, why
        as_eve = api.JobSpec.FromString(specs["a"].SerializeToString())
        as_eve.user = "eve"
        as_ann = api.JobSpec.FromString(specs["a"].SerializeToString())
        as_ann.user = "ann"
        for spec in (as_eve, as_ann):
            assert "user ann signed it, and eve submits it" in eve.submit(spec).error
        spliced = with_signature(specs["a"], submission=signed_of(specs["b"]).submission)
        assert "the user did not sign this" in ann.submit(spliced).error
        other = api.JobSpec.FromString(specs["a"].SerializeToString())
        other.argv[2] = b"true"
        assert "another job than the one that is submitted" in ann.submit(other).error
        assert not [n for n in os.listdir(c.dir) if n.startswith("ran")] and c.json("jobs")["jobs"] == []
        assert ran(ann.submit(specs["a"]))  # refused, it was not used up
        again = ann.submit(specs["a"])      # a dist gives it another id, and the worker knows the nonce
        assert again.outcome == api.OUTCOME_NOT_STARTED and "its user signed this job as " in again.message, again
        assert [n for n in os.listdir(c.dir) if n.startswith("ran")] == ["ran-a"]
        ann.close()
        eve.close()


def test_a_revoked_users_open_job_and_batch_end():
    with BatchCluster(workers=1) as c:
        catcher, broken = Catcher(c), BrokenDist(c)
        several = catcher.catch(c, "--input", "one", "two", "three", "--", "touch", f"{c.path('ran')}-{{}}")
        specs = c.catch_session(catcher, ["true"], ["a", "b"])
        job = broken.next_job()
        assert ran(broken.give(several, job=job)) and ran(broken.give(specs["a"]))
        ann = Session(c, "ann")
        assert ran(ann.submit(c.catch_session(catcher, ["true"], ["c", "d"])["c"]))
        c.ca.run("revoke", c.ca.dir, "--role", "user", "--name", "ann")
        wait_for("the worker to hear of it", lambda: "version 1 of the list is in force" in c.workers[0].text())
        wait_for("the dist to hear of it", lambda: "version 1 of the list is in force" in c.dists[0].text())
        assert not_run(broken.give(several, task=1, job=job), "its credential is revoked")
        assert not_run(broken.give(specs["b"]), "its credential is revoked")
        assert [n for n in os.listdir(c.dir) if n.startswith("ran")] == ["ran-one"]
        try:
            assert "its credential is revoked" in ann.submit(specs["b"]).error
        except grpc.RpcError as e:  # its connection ends as well
            assert e.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED), e
        broken.close()


run_tests(sys.modules[__name__])
