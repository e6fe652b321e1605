"""Signed submissions (cluster.require_signatures), from outside: what users sign runs; what a dist that was broken into makes
up, changes, or gives out a second time does not."""
# make test-all
import contextlib
import os
import pwd
import sqlite3
import sys
import tempfile
import time

import pythontest as p
from executortest import Executor
from signedtest import DENIED, BrokenCentral, BrokenDist, BrokenWorker, Catcher, SignedCluster, api, id_of, not_run, proof_of, ran
from tlstest import EXPECTED, Roots, SecureCaller, secure_channel

import grpc

import hawk
from grpctest import refused
from hawktest import BOUND, SLOW, Daemon, run_tests, small_disk, wait_for


def test_what_users_sign_runs():
    with SignedCluster(workers=2) as c:
        assert c.hawk("submit", "--wait", "--", "sh", "-c", f"touch {c.path('a')}").returncode == 0
        assert c.has("a")
        for tag in ("short", "long"):  # a dist's tasks, and central's
            out = c.hawk("submit", "--wait", "--class", tag, "--input", "x y", "it's", "z", "w", "v", "--", "sh", "-c", f"echo {{}} >> {c.path(tag)}.{{#}}")
            assert out.returncode == 0, out
            texts = sorted(open(f"{c.path(tag)}.{i}", encoding="utf-8").read() for i in range(1, 6))
            assert texts == ["it's\n", "v\n", "w\n", "x y\n", "z\n"], texts
        assert c.hawk("exec", "--", "cat", input="through\n").stdout == "through\n"
        assert c.hawk("submit", "--wait", "--retries", "1", "--", "sh", "-c", f"test -e {c.path('b')} || {{ touch {c.path('b')}; exit 1; }}").returncode == 0


def test_a_job_that_runs_again_is_signed_again():
    with SignedCluster(workers=1) as c:
        job = c.submit("--input", "one", "two", "--", "sh", "-c", f"test {{}} = one || test -e {c.path('mended')}")
        assert c.hawk("wait", job, check=None).returncode != 0
        open(c.path("mended"), "w", encoding="ascii").close()
        again = c.hawk("resubmit", "--failed", job).stdout.split()[-1]
        assert c.hawk("wait", again).returncode == 0, again


def test_signatures_are_their_users_alone():
    """They hold the environment."""
    with SignedCluster(workers=1) as c:
        c.ca.issue("user", "op", "--scopes", "read,operate")
        job = c.submit("--env", "SECRET=s3cret", "--", "sleep", "1000")
        ann, operator = (SecureCaller(c.dist_addrs[0], c.ca, name) for name in ("ann", "op"))
        request = api.GetJobRequest(job=job, spec=True, signature=True)
        assert b"s3cret" in ann("GetJob", request, api.GetJobReply).signature
        assert b"s3cret" not in operator("GetJob", request, api.GetJobReply).SerializeToString()
        request.signature = False
        assert b"s3cret" not in ann("GetJob", request, api.GetJobReply).SerializeToString()
        c.hawk("cancel", job)


def test_python_signs():
    with SignedCluster(workers=1, slots=2) as c, p.environment(HAWK_DIST=c.dist_addrs[0], **c.ca.environment("ann")):
        assert hawk.run(["echo", "hi"]).tasks()[0].output() == b"hi\n"
        outputs = [task.output() for task in hawk.run(["echo"], inputs=["a", "b", "c"]).tasks()]
        assert outputs == [b"a\n", b"b\n", b"c\n"], outputs
        failed = hawk.run(["sh", "-c", f"test {{}} = a || test -e {c.path('mended')}"], inputs=["a", "b"], check=False)
        open(c.path("mended"), "w", encoding="ascii").close()
        assert (failed.state, failed.resubmit(failed=True).wait(BOUND)) == ("failed", "done")
        assert failed.resubmit().wait(BOUND) == "done"
        with hawk.Executor() as ex:
            assert list(ex.map(p.square, range(20))) == [x * x for x in range(20)]


def test_signatures_are_in_the_journal():
    with SignedCluster(workers=0) as c:
        job = c.submit("--input", "one", "two", "three", "--", "touch", f"{c.path('input')}-{{}}")
        c.dists[0].kill()
        c.dists.clear()
        c.dist_addrs.clear()
        c.start_dist("d1")
        c.start_worker("w1")
        assert c.hawk("wait", job).returncode == 0
        assert sorted(n for n in os.listdir(c.dir) if n.startswith("input")) == ["input-one", "input-three", "input-two"]


def test_what_nobody_signed_is_refused_by_the_dist():
    with SignedCluster(workers=1) as c:
        ann = SecureCaller(c.dist_addrs[0], c.ca, "ann")
        job = api.JobSpec(name="unsigned", tasks=1, argv=[b"touch", c.path("a").encode()], detached=True)
        why = refused(DENIED, lambda: ann("Submit", api.SubmitRequest(job=job), api.SubmitReply))
        assert "this cluster takes signed jobs alone: it is not signed" in why, why
        catcher = Catcher(c)
        spec = catcher.catch(c, "--", "true")
        spec.argv[:] = [b"touch", c.path("a").encode()]
        why = refused(DENIED, lambda: ann("Submit", api.SubmitRequest(job=spec), api.SubmitReply))
        assert "another job than the one that is submitted" in why, why
        assert not c.has("a") and c.json("jobs")["jobs"] == []


class HastyCluster(SignedCluster):
    """A user without scope `operate` may submit once a second, and ten times at once."""

    daemon_flags = (*SignedCluster.daemon_flags, "--set", "dist.user_submit_rate=1")


def test_who_submits_too_fast_costs_no_signature():
    """What is not signed well counts for its user's rate, and beyond that nobody looks at signatures."""
    with HastyCluster(workers=1) as c:
        c.ca.issue("user", "bob")
        bob = SecureCaller(c.dist_addrs[0], c.ca, "bob")
        job = c.hawk("submit", "--retries", "0", "--", "false", env=c.ca.environment("bob")).stdout.strip()
        c.hawk("wait", job, check=1)
        again = api.RerunRequest(job=job)
        unsigned = api.SubmitRequest(job=api.JobSpec(name="x", tasks=1, argv=[b"true"], detached=True))
        for call in (lambda: bob("Submit", unsigned, api.SubmitReply), lambda: bob("Rerun", again, api.SubmitReply)):
            assert "it is not signed" in refused(DENIED, call)
        batch = api.SessionRequest(submit=[api.SessionSubmit(tag=i, job=unsigned.job) for i in range(100)])
        told = [r.error for e in bob.both("Session", iter([batch]), api.SessionEvent) for r in e.refused]
        fast = [t for t in told if "more than 1 jobs a second" in t]
        assert len(told) == 100 and 80 <= len(fast) < 100 and all("it is not signed" in t for t in told if t not in fast), told
        for call in (lambda: bob("Submit", unsigned, api.SubmitReply), lambda: bob("Rerun", again, api.SubmitReply)):
            assert "more than 1 jobs a second" in refused(grpc.StatusCode.RESOURCE_EXHAUSTED, call)


def test_a_stolen_workers_key_ends_no_others_tasks():
    with SignedCluster(workers=1, slots=3) as c:
        program = ("sh", "-c", f"until test -e {c.path('go')}; do sleep 0.1; done; exit 7")
        jobs = [c.submit("--class", kind, "--retries", "0", "--", *program) for kind in ("short", "long")]
        wait_for("both to run", lambda: all(c.job(job)["running"] == 1 for job in jobs))
        broken = BrokenWorker(c)
        for outcome in (api.OUTCOME_EXITED, api.OUTCOME_SIGNALED, api.OUTCOME_NOT_STARTED, api.OUTCOME_LOST, api.OUTCOME_CANCELLED):
            for job in jobs:
                for attempt in (1, 2):
                    broken.ends(id_of(job), attempt, outcome)
        for job in jobs:
            assert c.job(job)["running"] == 1, c.job(job)
        open(c.path("go"), "w", encoding="ascii").close()
        for job in jobs:
            c.hawk("wait", job, check=1)
            task, = c.job(job)["task_list"]
            assert (task["state"], task["code"], task["attempt"], task["worker_name"]) == ("failed", 7, 1, "w1"), task
        broken.close()


def test_a_broken_dist_runs_what_users_asked_for_alone():
    with SignedCluster(workers=1) as c:
        catcher = Catcher(c)
        spec = catcher.catch(c, "--", "touch", c.path("signed"))
        several = catcher.catch(c, "--input", "one", "two", "three", "--", "touch", f"{c.path('input')}-{{}}")
        broken = BrokenDist(c)
        made_up = api.JobSpec(name="forged", tasks=1, user="ann", argv=[b"touch", c.path("forged").encode()])
        assert not_run(broken.give(made_up), "it is not signed")
        changed = api.JobSpec.FromString(spec.SerializeToString())
        changed.argv[:] = [b"touch", c.path("forged").encode()]
        first = broken.next_job()
        assert ran(broken.give(changed, job=first)), "the worker reads the command from what was signed"
        assert c.has("signed") and not c.has("forged")
        os.unlink(c.path("signed"))
        assert not_run(broken.give(spec), f"its user signed this job as {broken.node}.{first & 0xff}: ")
        assert not c.has("signed")
        assert ran(broken.give(spec, job=first, attempt=2)), "another try of the same job"
        signed = api.Signed.FromString(spec.signature)
        for field in ("submission", "signature", "credential"):
            bad = api.Signed.FromString(spec.signature)
            data = bytearray(getattr(signed, field))
            data[-1 if field != "credential" else len(data) // 2] ^= 1
            setattr(bad, field, bytes(data))
            forged = api.JobSpec.FromString(spec.SerializeToString())
            forged.signature = bad.SerializeToString()
            assert not_run(broken.give(forged), "this worker runs signed jobs alone: ")
        job = broken.next_job()
        assert not_run(broken.give(several, job=job, arg=b"four"), "did not sign this task's input")
        assert not_run(broken.give(several, task=1, job=job, arg=b"one", proof=proof_of([b"one", b"two", b"three"], 0)), "did not sign this task's input")
        assert not_run(broken.give(several, task=2, job=job, proof=b""), "did not sign this task's input")
        assert ran(broken.give(several, task=2, job=job, attempt=2))
        assert sorted(n for n in os.listdir(c.dir) if n.startswith("input")) == ["input-three"]
        broken.close()
        # The worker still knows after kill -9.
        c.workers[0].kill()
        c.workers.clear()
        c.start_worker("w1")
        broken = BrokenDist(c)
        assert not_run(broken.give(spec), "its user signed this job as ")
        broken.close()


def test_a_broken_central_runs_what_users_asked_for_alone():
    """As long jobs, which central gives out."""
    with SignedCluster(workers=1) as c:
        catcher, broken = Catcher(c), BrokenCentral(c)
        spec = catcher.catch(c, "--", "touch", c.path("signed"))
        several = catcher.catch(c, "--input", "one", "two", "--", "touch", f"{c.path('input')}-{{}}")
        c.central_addr = broken.addr
        c.start_worker("w2")
        made_up = api.JobSpec(name="forged", tasks=1, user="ann", argv=[b"touch", c.path("forged").encode()])
        assert not_run(broken.give(made_up), "it is not signed")
        spec.argv[:] = [b"touch", c.path("forged").encode()]
        assert ran(broken.give(spec)), "the worker reads the command from what was signed"
        assert c.has("signed") and not c.has("forged")
        assert not_run(broken.give(spec), "its user signed this job as 9.2: ")
        assert not_run(broken.give(several, arg=b"three"), "did not sign")
        assert ran(broken.give(several, task=1)) and c.has("input-two")
        broken.close()


def test_executors_get_what_their_users_asked_for_alone():
    with SignedCluster(workers=1) as c:
        channel = secure_channel(c.worker_addr(), c.ca, "ann", EXPECTED["worker"])
        executor = Executor(None, "sum", lambda task: task.payload, channel=channel).wait_attached()
        for tag in ("short", "long"):
            assert c.hawk("submit", "--wait", "--class", tag, "--app", "sum", "--input", "one", "two").returncode == 0
        assert c.hawk("submit", "--wait", "--app", "sum", "--payload", "whole").returncode == 0
        ann = SecureCaller(c.dist_addrs[0], c.ca, "ann")
        made_up = api.JobSpec(kind=api.PAYLOAD_APP, app="sum", user="ann", tasks=1, stdin=b"made up")
        why = refused(DENIED, lambda: ann("Submit", api.SubmitRequest(job=made_up), api.SubmitReply))
        assert "this cluster takes signed jobs alone: it is not signed" in why, why
        catcher, broken = Catcher(c), BrokenDist(c)
        several = catcher.catch(c, "--app", "sum", "--input", "three", "four")
        assert not_run(broken.give(made_up), "it is not signed")
        job = broken.next_job()
        assert not_run(broken.give(several, job=job, arg=b"made up"), "did not sign this task's input")
        assert ran(broken.give(several, task=1, job=job))
        assert not_run(broken.give(several, task=1), "its user signed this job as ")
        whole = catcher.catch(c, "--app", "sum", "--payload", "all of it")
        changed = api.JobSpec.FromString(whole.SerializeToString())
        changed.stdin = b"made up"
        assert ran(broken.give(changed)), "the executor gets what was signed"
        command = catcher.catch(c, "--", "touch", c.path("a"))
        for kind in (api.PAYLOAD_TIMER, api.PAYLOAD_APP):  # of which the worker keeps and ends other things
            other = api.JobSpec.FromString(command.SerializeToString())
            other.kind, other.app = kind, "sum" if kind == api.PAYLOAD_APP else ""
            assert not_run(broken.give(other), "did not sign this task's kind of payload")
        assert ran(broken.give(command)) and c.has("a"), "what was refused uses up no submission"
        assert sorted(t.payload for t in executor.tasks) == sorted([b"one", b"two"] * 2 + [b"whole", b"four", b"all of it"])
        broken.close()
        executor.die()


def test_tasks_are_of_this_machines_user_of_that_name():
    with SignedCluster(workers=1) as c:
        channel = secure_channel(c.worker_addr(), c.ca, "ann", EXPECTED["worker"])
        executor = Executor(None, "sum", lambda task: task.payload, channel=channel).wait_attached()
        for name, uid, fits in (("daemon", 65001, False), ("bin", pwd.getpwnam("bin").pw_uid, True), ("stranger", 65002, True)):
            c.ca.user(name, uid)
            other = Executor(None, "sum", lambda task: task.payload, channel=secure_channel(c.worker_addr(), c.ca, name, EXPECTED["worker"]))
            other.wait_attached()
            done = c.hawk("submit", "--wait", "--app", "sum", "--payload", "x", env=c.ca.environment(name), check=None)
            assert (done.returncode == 0) == fits and (fits or "has another on this machine" in done.stderr + done.stdout), done
            assert len(other.tasks) == fits and not executor.tasks
            other.die()
        executor.die()


def test_no_task_starts_by_a_credential_that_has_expired():
    with SignedCluster(workers=1) as c:
        catcher, broken = Catcher(c), BrokenDist(c)
        c.ca.issue("user", "ann", "--for", f"{10 * SLOW}s", "--scopes", "read,submit")
        until = time.time() + 10 * SLOW
        spec, job = catcher.catch(c, "--array", "0-1", "--", "true"), broken.next_job()
        assert ran(broken.give(spec, job=job))
        wait_for("ann's credential to expire", lambda: time.time() > until + 2, bound=2 * BOUND)
        assert not_run(broken.give(spec, task=1, job=job), "the credential has expired")
        broken.close()


def test_a_nonce_is_known_for_longer_than_clocks_differ():
    """Whoever sets a worker's clock back brings no nonce back that it has forgotten."""
    with SignedCluster(workers=1) as c:
        catcher, broken = Catcher(c), BrokenDist(c)
        spec = catcher.catch(c, "--", "true")
        assert ran(broken.give(spec))
        head = api.Signed.FromString(spec.signature).submission.removeprefix(b"hawk signed 1\n")
        for _ in ("cluster", "user"):
            head = head[1 + head[0]:]
        nonce, not_after_s = head[4:20], int.from_bytes(head[20:28], "big")
        with contextlib.closing(sqlite3.connect(f"{c.dir}/state/w1/nonces.db")) as db:
            assert db.execute("SELECT until FROM nonces WHERE nonce = ?", (nonce,)).fetchall() == [(not_after_s + 300,)]
        broken.close()


def test_no_task_starts_by_a_root_that_has_been_taken_away():
    with SignedCluster(workers=1) as c:
        catcher, broken, others = Catcher(c), BrokenDist(c), Roots()
        spec, job = catcher.catch(c, "--array", "0-1", "--", "true"), broken.next_job()
        assert ran(broken.give(spec, job=job))
        others.issue("user", "bob")
        with open(f"{c.ca.dir}/new", "wb") as f:  # the root of nodes stays, and that of users is another
            end = b"-----END CERTIFICATE-----\n"
            f.write(c.ca.read("roots.crt").partition(end)[0] + end + others.read("roots.crt").partition(end)[2])
        os.rename(f.name, c.ca.roots)

        def comes_in():
            with contextlib.suppress(grpc.RpcError):
                return SecureCaller(c.worker_addr(), others, "bob", roots=c.ca, expected=EXPECTED["worker"])("GetStats", api.GetStatsRequest(), api.GetStatsReply)

        wait_for("the worker to take the other root", comes_in)
        assert not_run(broken.give(spec, task=1, job=job), "the user root has not signed its credential")
        broken.close()


def test_a_worker_that_cannot_note_nonces_swallows_nothing():
    with small_disk("size=4m") as full:
        if not full:
            return
        with SignedCluster(workers=2) as c:
            c.start_worker("full", flags=("--state-dir", f"{full}/state"), slots=4)
            c.wait_nodes(3)
            with open(f"{full}/filler", "wb", buffering=0) as f, contextlib.suppress(OSError):
                while True:
                    f.write(bytes(4096))
            for flags in (("--class", "short", "--at-most-once"), ("--class", "long")):
                for _ in range(3):  # it leaves service on the way, and does not come back
                    job = c.hawk("submit", "--wait", *flags, "--array", "1-30", "--", "sleep", "0.02").stdout.strip()
                    assert {t["worker_name"] for t in c.job(job)["task_list"]} <= {"w1", "w2"}


def test_without_tls_signatures_cannot_be_required():
    with tempfile.TemporaryDirectory() as d1:
        d = Daemon("worker", "--name", "w", "--central", "127.0.0.1:1", "--require-signatures", "--state-dir", d1, "--output-dir", f"{d1}/out")
        assert d.wait() != 0 and "users sign with the credentials" in d.text(), d.text()


run_tests(sys.modules[__name__])
