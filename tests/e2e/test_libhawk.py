"""libhawk as programs use it: compiled against what `make install` installs, nothing else of ours in sight."""
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

from executortest import Executor
from grpctest import pb
from hawktest import BOUND, Cluster, run_tests, wait_for
from installed import ROOT, clean, compiled, example

def run_example(c, name, *args):
    return subprocess.run([example(name), *args], capture_output=True, text=True,
                          timeout=BOUND * 2, env={**clean, "HAWK_DIST": ",".join(c.dist_addrs)})


def each(c, *args):
    return run_example(c, "each", *args)


def test_every_call():
    with Cluster(workers=2, slots=4, dist=["--client-grace", "500ms"]) as c:
        r = subprocess.run([compiled(f"{ROOT}/tests/e2e/libhawk_calls.c"), c.dist_addrs[0]], capture_output=True,
                           text=True, timeout=BOUND * 2)
        assert r.returncode == 0, r.stderr
        # What was freed was cancelled, and what was left behind is.
        wait_for("nothing is left", lambda: not [
            j for j in c.json("jobs")["jobs"] if j["state"] in ("waiting", "running", "pending")])


def test_the_example():
    with Cluster(workers=2, slots=2) as c:
        r = each(c, "sh", "-c", "test {} != b", "--", "a", "b", "c")
        assert r.returncode == 1, r
        assert sorted(x.split("\t")[:3] for x in r.stdout.splitlines()) == [
            ["a", "done", "exited 0"], ["b", "failed", "exited 1"], ["c", "done", "exited 0"]], r.stdout
        assert each(c, "true", "--", "x").returncode == 0
        assert "\tnot-started 127: nosuch: no such program" in each(c, "nosuch", "--", "x").stdout
    r = each(c, "true", "--", "x")
    assert r.returncode == 1 and "cannot reach" in r.stderr, r


def test_a_map_over_a_list():
    def upper(task):
        word = task.payload.decode()
        return (3, "no words") if word == "7" else word.upper().encode()

    with Cluster(workers=2, slots=4) as c:
        executors = [Executor(f"unix:{c.dir}/state/{w}/executors.sock", "upper", upper, slots=4) for w in ("w1", "w2")]
        for e in executors:
            e.wait_attached()
        words = ["a", "bc", "", "d e", "é"]
        r = run_example(c, "map", "upper", *words)
        assert r.returncode == 0 and r.stdout == "".join(f"{w}\t{w.upper()}\n" for w in words), r
        r = run_example(c, "map", "upper", "x", "7")
        assert r.returncode == 1 and r.stdout == "x\tX\n7\t(exited 3) no words\n", r
        for e in executors:
            e.leave()


class Slow:
    """A program that does nothing for its jobs until it is told to."""

    def __init__(self, c, jobs, tasks):
        self.p = subprocess.Popen([compiled(f"{ROOT}/tests/e2e/libhawk_slow.c"), c.dist_addrs[0], str(jobs), str(tasks)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.job = self.p.stdout.readline().strip()

    def goes_on(self):
        out, _ = self.p.communicate("\n", timeout=BOUND * 2)
        assert self.p.returncode == 0
        return map(int, out.split())


def test_what_was_forgotten_unread_is_said_to_be_lost():
    with Cluster(workers=1, slots=8, dist=["--set", "dist.finished_memory=9MiB"]) as c:
        x = Executor(f"unix:{c.dir}/state/w1/executors.sock", "slow", lambda t: bytes(1 << 20), slots=8).wait_attached()
        program = Slow(c, 2, 8)
        wait_for("all have run", lambda: len(x.tasks) >= 16)
        wait_for("one is forgotten", lambda: len(c.json("jobs")["jobs"]) < 2)
        ended, lost, size = program.goes_on()
        assert ended == 16 and size == (16 - lost) << 20, (ended, lost, size)
        assert lost > 0 or len(x.tasks) > 16  # it was thought dead, and its job had to run again
        x.leave()


def test_its_dist_dies():
    """Every job ends, each is told once, under the id it had, and the dist that is left has them."""
    with Cluster(workers=2, slots=4, dists=2) as c:
        out = f"{c.dir}/ran"
        words = [str(i) for i in range(60)]
        done = []
        runner = threading.Thread(target=lambda: done.append(
            each(c, "sh", "-c", f"echo {{}} >> {out}; sleep 0.1", "--", *words)))
        runner.start()
        wait_for("some have run", lambda: os.path.exists(out) and len(open(out).readlines()) > 10)
        c.dists[0].kill()
        runner.join(timeout=BOUND * 2)
        r = done[0]
        assert r.returncode == 0, (r.stdout, r.stderr)
        assert sorted(x.split("\t")[0] for x in r.stdout.splitlines()) == sorted(words), r.stdout
        assert all(x.split("\t")[1] == "done" for x in r.stdout.splitlines())
        assert set(x.strip() for x in open(out)) == set(words)


def test_the_other_dist_comes_back():
    """A dist that was asked in vain is asked again, for as long as no dist takes the jobs."""
    with Cluster(workers=2, slots=16, dists=2) as c:
        go = f"{c.dir}/go"
        p = subprocess.Popen([compiled(f"{ROOT}/tests/e2e/libhawk_moved.c"), c.dist_addrs[0], "5", go, "60"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "accepted\n"
        c.dists[1].kill()
        c.dists[0].kill()
        c.start_dist("d2", listen=c.dist_addrs[1])
        wait_for("all to be there", lambda: len(c.json("jobs", dist=c.dist_addrs[1])["jobs"]) == 5)
        open(go, "w").close()
        said, why = p.communicate(timeout=BOUND * 2)
        assert p.returncode == 0 and said == "5\n", (p.returncode, said, why)


def test_the_dist_that_is_left_is_full():
    """What was accepted waits for room there, longer than the client's timeout, and none of it is lost."""
    with Cluster(workers=2, slots=16, dists=2, dist=["--set", "dist.tasks_max=20"]) as c:
        go = f"{c.dir}/go"
        p = subprocess.Popen([compiled(f"{ROOT}/tests/e2e/libhawk_moved.c"), c.dist_addrs[0], "15", go, "2"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "accepted\n"
        full = c.hawk("submit", "--array", "1-20", "--", "sh", "-c", "test $HAWK_TASK_INDEX != 1 || sleep 5",
                      dist=c.dist_addrs[1]).stdout.strip()
        c.dists[0].kill()
        c.hawk("wait", full, dist=c.dist_addrs[1])
        wait_for("all to be there", lambda: len(c.json("jobs", dist=c.dist_addrs[1])["jobs"]) == 16)
        open(go, "w").close()
        said, why = p.communicate(timeout=BOUND * 2)
        assert p.returncode == 0 and said == "15\n", (p.returncode, said, why)


def test_the_last_dist_dies():
    """Whoever waits for a job, however long, hears that nobody has it any more."""
    with Cluster(workers=1) as c:
        p = subprocess.Popen([compiled(f"{ROOT}/tests/e2e/libhawk_refused.c"), c.dist_addrs[0]], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "accepted\n"
        c.dists[0].kill()
        said, _ = p.communicate("\n", timeout=BOUND * 3)
        assert p.returncode == 0 and f"cannot reach {c.dist_addrs[0]}" in said, (p.returncode, said)


def idle_while_the_dist_is_away(*flags):
    with Cluster(workers=1) as c:
        p = subprocess.Popen([compiled(f"{ROOT}/tests/e2e/libhawk_idle.c"), c.dist_addrs[0], *flags],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "done\n"
        c.dists[0].kill()
        p.stdin.write("\n")
        p.stdin.flush()
        assert p.stdout.readline() == "idle\n"
        c.start_dist("d1", listen=c.dist_addrs[0])
        said, _ = p.communicate("\n", timeout=BOUND * 3)
        assert p.returncode == 0 and said == "done\n", (p.returncode, said)


def test_the_dist_was_away_while_nobody_waited():
    """The client's timeout is about a job: without one it does not pass."""
    idle_while_the_dist_is_away()


def test_the_dist_was_away_and_the_job_was_freed():
    """Nor does it go on for the next job."""
    idle_while_the_dist_is_away("free")


class Guarded(Cluster):
    def __init__(self, directory):
        self.token_file = f"{directory}/clients"
        self.give_tokens("clients")
        with open(os.open(f"{directory}/nodes", os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
            f.write("the-token-of-nodes-is-long-enough\n")
        flags = ("--token-file", self.token_file, "--node-token-file", f"{directory}/nodes")
        super().__init__(workers=1, central=flags, worker=flags, dist=flags)

    def give_tokens(self, whose):
        with open(os.open(self.token_file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as f:
            f.write(f"the-token-of-{whose}-is-long-enough\n")

    def hawk(self, *args, **more):
        return super().hawk(*args, env={"HAWK_TOKEN_FILE": self.token_file}, **more)


def test_who_has_no_good_token_any_more_hears_it_at_once():
    """However long one asks, it stays wrong: the client's timeout is far beyond the program's bound."""
    with tempfile.TemporaryDirectory() as d, Guarded(d) as c:
        shutil.copy(c.token_file, f"{d}/old")
        p = subprocess.Popen([compiled(f"{ROOT}/tests/e2e/libhawk_refused.c"), c.dist_addrs[0], "3600"], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**clean, "HAWK_TOKEN_FILE": f"{d}/old"})
        assert p.stdout.readline() == "accepted\n"
        c.dists[0].kill()
        c.give_tokens("others")
        c.start_dist("d1", listen=c.dist_addrs[0])
        said, _ = p.communicate("\n", timeout=BOUND * 3)
        assert p.returncode == 0 and "token is missing or wrong" in said, (p.returncode, said)


def test_a_dist_that_is_drained():
    with Cluster(workers=2, slots=4, dists=2) as c:
        c.hawk("drain", "d1")
        r = each(c, "true", "--", *map(str, range(20)))
        assert r.returncode == 0 and len(r.stdout.splitlines()) == 20, (r.stdout, r.stderr)


def test_the_only_dist_is_drained():
    """What it took before does not count as an answer: whoever waits hears why."""
    with Cluster(workers=1) as c:
        p = subprocess.Popen([compiled(f"{ROOT}/tests/e2e/libhawk_drained.c"), c.dist_addrs[0]], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "accepted\n"
        c.hawk("drain", "d1")
        said, _ = p.communicate("\n", timeout=BOUND * 3)
        assert p.returncode == 0 and "is draining" in said, (p.returncode, said)


class FullDist(grpc.GenericRpcHandler):
    """A dist made up: it takes two jobs, ends the stream, has no room for them then, and says nothing of the first that it
    is asked for again. It takes the next one."""

    def __init__(self):
        self.taken, self.refused, self.asked = set(), set(), None

    def service(self, details):
        if details.method.endswith("/ListNodes"):
            return grpc.unary_unary_rpc_method_handler(lambda request, context: pb.ListNodesReply(),
                                                       response_serializer=pb.ListNodesReply.SerializeToString)
        return grpc.stream_stream_rpc_method_handler(self.session, request_deserializer=pb.SessionRequest.FromString,
                                                     response_serializer=pb.SessionEvent.SerializeToString)

    def session(self, requests, context):
        for tag in (s.tag for r in requests for s in r.submit):
            job = pb.SessionJob(tag=tag, job=f"3.{tag}")
            if tag not in self.taken:
                self.taken.add(tag)
                yield pb.SessionEvent(jobs=[job])
                if len(self.taken) == 2:
                    return
            elif tag not in self.refused:
                self.refused.add(tag)
                yield pb.SessionEvent(refused=[pb.SessionRefused(tag=tag, status=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])])
            elif not self.asked:
                self.asked = tag
            else:
                yield pb.SessionEvent(jobs=[job], ends=[pb.SessionEnd(tag=tag, state=pb.JOB_DONE)])


def test_one_that_was_asked_for_again_is_freed():
    """No answer to it is waited for, and the other one is asked for."""
    dist = FullDist()
    server = grpc.server(ThreadPoolExecutor(4), [dist])
    addr = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    p = subprocess.Popen([compiled(f"{ROOT}/tests/e2e/libhawk_freed.c"), addr], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    wait_for("one to be asked for again", lambda: dist.asked)
    said, _ = p.communicate(f"{dist.asked}\n", timeout=BOUND * 3)
    server.stop(None)
    assert p.returncode == 0 and said == "done\n", (p.returncode, said)


def test_what_is_left_behind_is_cancelled():
    """At once, wherever it is: the grace time of clients that died is not for it."""
    for how in ((), ("fd",)):
        with Cluster(workers=2, slots=4, dists=2, dist=["--client-grace", "10m"]) as c:
            p = subprocess.Popen([compiled(f"{ROOT}/tests/e2e/libhawk_left.c"), c.dist_addrs[0], *how],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            first = p.stdout.readline().strip()
            c.hawk("drain", "d1")
            p.stdin.write("\n")
            second = p.stdout.readline().strip()
            assert (first[0], second[0]) == ("3", "4")
            wait_for("what was freed to be cancelled", lambda: c.job(first)["state"] == "cancelled")
            p.communicate("\n", timeout=BOUND)
            assert p.returncode == 0
            wait_for("the rest to be cancelled", lambda: c.job(second)["state"] == "cancelled")


run_tests(sys.modules[__name__])
