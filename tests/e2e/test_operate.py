"""Taking nodes out of service on a real cluster: drain, undrain, down."""
# timeout: 240
# make test-all
import functools
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Cluster, Daemon, code_of_signal, heed_signals, run_hawk, run_tests, user_environment, wait_for

FAST = ("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease", "5s")


def node(c, name):
    """A node as central lists it; None when it does not."""
    found = [n for n in c.json("nodes", dist=c.central_addr)["nodes"] if n["name"] == name]
    return found[0] if found else None


def state_at(c, name, dist):
    return next((n["state"] for n in c.json("nodes", dist=dist)["nodes"] if n["name"] == name), None)


def tasks(c, job):
    return c.job(job)["task_list"]


def running(c, job):
    return [t["worker_name"] for t in tasks(c, job) if t["state"] == "running"]


def until_file(path):
    """A command that runs until the file is there."""
    return ("--", "sh", "-c", f"until test -e {path}; do sleep 0.1; done")


def catches(pid, signo):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"SigCgt:\s*(\w+)", f.read())[1], 16) >> (signo - 1) & 1


def test_a_drained_worker_takes_nothing_new():
    drain_under("hawk", "placed")


def test_a_drained_worker_asks_for_nothing():
    drain_under("harrier", "waiting")


def drain_under(policy, kept):
    with Cluster(dists=2, workers=2, central=FAST + ("--short-partition", "0%", "--policy", policy)) as c:
        go = f"{c.dir}/go"
        # Both slots run a long task; four more wait, in the two queues or at central, and short ones in the queues.
        long_job = c.submit("--class", "long", "--no-pause", "--lost-retries", "0", "--array", "1-6", *until_file(go))
        wait_for("two long tasks to run", lambda: len(running(c, long_job)) == 2)
        wait_for("the others to wait", lambda: sum(t["state"] == kept for t in tasks(c, long_job)) == 4)
        short = c.submit("--class", "short", "--lost-retries", "0", "--array", "1-4", "--", "true")
        said = c.json("drain", "w1")["nodes"]
        assert [n["name"] for n in said] == ["w1"] and said[0]["state"] == "draining", said
        # What waits there goes to the other one; what runs goes on.
        if kept == "placed":
            wait_for("all but one long task at w2", lambda: sorted(
                t["worker_name"] for t in tasks(c, long_job)) == ["w1"] + 5 * ["w2"])
        assert sorted(running(c, long_job)) == ["w1", "w2"]
        assert not node(c, "w1")["drained"]
        text = c.hawk("nodes").stdout
        assert any("w1" in line and "draining" in line for line in text.splitlines()), text
        # Waiting for it, first until a Ctrl-C, and then for its task's end.
        waiting = subprocess.Popen([HAWK, "drain", "--wait", "w1"], stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals,
                                   env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
        wait_for("it to wait", lambda: catches(waiting.pid, signal.SIGINT))
        waiting.send_signal(signal.SIGINT)
        err = waiting.communicate(timeout=BOUND)[1]
        assert waiting.returncode == code_of_signal(signal.SIGINT) and "`hawk undrain NODE` takes it back" in err, err
        waiting = subprocess.Popen([HAWK, "drain", "--wait", "w1", "--output", "json"], stdout=subprocess.PIPE,
                                   env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
        open(go, "w").close()
        out, _ = waiting.communicate(timeout=BOUND)
        assert waiting.returncode == 0 and json.loads(out)["nodes"][0]["drained"], out
        c.hawk("wait", long_job, short)
        # No attempt was lost by it: those that were handed back ran once, elsewhere.
        assert {t["worker_name"] for t in tasks(c, short)} == {"w2"}
        assert sum(t["worker_name"] == "w2" for t in tasks(c, long_job)) == 5
        for _ in range(5):
            job = c.submit("--class", "short", "--array", "1-4", "--", "true")
            long_job = c.submit("--class", "long", "--", "true")
            c.hawk("wait", job, long_job)
            assert {t["worker_name"] for j in (job, long_job) for t in tasks(c, j)} == {"w2"}
        # A restart of the worker, or of central, does not change it.
        c.workers[0].stop()
        wait_for("w1 to be gone", lambda: not node(c, "w1"))
        c.workers[0].p.wait()
        assert c.hawk("drain", "w1").stdout == "worker w1: not there now\n"
        c.workers.pop(0)
        c.start_worker("w1")
        wait_for("w1 to be drained still", lambda: node(c, "w1")["drained"])
        c.central.kill()
        c.start_central(c.central_addr)
        wait_for("w1 to be back, and drained", lambda: (node(c, "w1") or {}).get("drained"))
        wait_for("w2 to be back", lambda: (node(c, "w2") or {}).get("state") == "up")
        wait_for("dists to know", lambda: all(state_at(c, "w1", a) == "draining" for a in c.dist_addrs))
        # With the other one drained as well, jobs wait, and are told why.
        c.hawk("drain", "w2")
        job = c.submit("--class", "short", "--", "true")
        wait_for("an explanation", lambda: "draining" in c.hawk("explain", job).stdout)
        c.hawk("undrain", "w1", "w2")
        c.hawk("wait", job)
        wait_for("both to take long tasks again", lambda: all(
            node(c, w)["state"] == "up" and node(c, w)["general"] for w in ("w1", "w2")))
        job = c.submit("--class", "long", "--array", "1-2", *until_file(f"{c.dir}/go2"))
        wait_for("both to run a long task", lambda: sorted(running(c, job)) == ["w1", "w2"])
        open(f"{c.dir}/go2", "w").close()
        c.hawk("wait", job)


def test_until_restart():
    with Cluster(workers=2, central=FAST) as c:
        c.hawk("drain", "--wait", "--until-restart", "w1")
        assert node(c, "w1")["until_restart"]
        w1 = c.workers.pop(0)
        assert w1.stop() == 0
        c.start_worker("w1")
        wait_for("it to be up", lambda: (node(c, "w1") or {}).get("state") == "up")
        job = c.submit("--class", "short", "--array", "1-2", *until_file(f"{c.dir}/go"))
        wait_for("both to run a task", lambda: sorted(running(c, job)) == ["w1", "w2"])
        open(f"{c.dir}/go", "w").close()
        c.hawk("wait", job)


def test_what_is_drained_is_shown_without_what_it_had():
    """Its word that nothing is left is newer than its last heartbeat."""
    with Cluster(workers=1, slots=2, central=("--heartbeat", "2s", "--suspect", "10s", "--short-partition", "0%")) as c:
        go = f"{c.dir}/go"
        c.submit("--class", "long", "--array", "1-2", *until_file(go))
        wait_for("a heartbeat that tells of them", lambda: node(c, "w1")["running_long"] == 2)
        open(go, "w").close()
        said = c.json("drain", "--wait", "w1")["nodes"][0]
        assert said["drained"] and (said["running_short"], said["running_long"], said["queued"]) == (0, 0, 0), said


def test_a_drained_dist_sends_clients_elsewhere():
    with Cluster(dists=2, workers=1, central=FAST) as c:
        go = f"{c.dir}/go"
        first, second = c.dist_addrs
        mine = c.json("submit", *until_file(go), dist=first)["job"]
        c.hawk("drain", "d1")
        assert state_at(c, "d1", first) == "draining"
        # Its own jobs go on, and are answered for.
        assert not node(c, "d1")["drained"]
        open(go, "w").close()
        c.hawk("wait", mine, dist=first)
        wait_for("nothing to be left at d1", lambda: node(c, "d1")["drained"])
        for flags in ([], ["--wait"], ["--wait", "--at-most-once"]):
            c.hawk("submit", *flags, "--name", "sent-on", "--", "true", dist=first)
        sent_on = c.json("jobs", "--name", "sent-on", dist=second)["jobs"]
        assert len(sent_on) == 3 and all(j["job"].split(".")[0] != mine.split(".")[0] for j in sent_on), sent_on
        c.hawk("drain", "d2")
        wait_for("d2 to know", lambda: state_at(c, "d2", second) == "draining")
        for flags in ([], ["--wait"], ["--wait", "--at-most-once"]):
            r = c.hawk("submit", *flags, "--", "true", dist=first, check=3)
            assert "draining" in r.stderr and "not known" not in r.stderr, r.stderr
        c.hawk("undrain", "d2")
        c.hawk("undrain", "d1")
        c.hawk("submit", "--wait", "--", "true", dist=first)


def test_mistakes():
    with Cluster(workers=1, central=FAST) as c:
        assert "`hawk nodes`" in c.hawk("drain", check=2).stderr
        assert "nosuch" in c.hawk("drain", "w1", "nosuch", check=3).stderr
        assert node(c, "w1")["state"] == "up", "one unknown name, and none is drained"
        assert "central" in c.hawk("drain", "central", check=2).stderr
        assert "nosuch" in c.hawk("down", "nosuch", check=3).stderr
        assert "central is stopped last" in c.hawk("down", "central", check=2).stderr
        assert "--yes" in c.hawk("down", check=2).stderr
        assert json.loads(c.hawk("down", "nosuch", "--output", "json", check=3).stdout)["errors"]
        # By id, and twice.
        number = node(c, "w1")["node"]
        c.hawk("drain", number)
        assert len(c.json("drain", "w1", number, "w1")["nodes"]) == 1
        assert node(c, "w1")["state"] == "draining"
        c.hawk("undrain", number)
        assert node(c, "w1")["state"] == "up"
        c.hawk("submit", "--wait", "--", "true")
        c.central.kill()
        assert c.central_addr in c.hawk("drain", "w1", "--timeout", "2s", check=3).stderr
        c.start_central(c.central_addr)


def test_one_that_cannot_be_drained_and_none_is():
    with Cluster(workers=3, central=FAST) as c:
        w2 = c.workers.pop(1)
        c.hawk("down", "w2")
        assert w2.wait() == 0, w2.text()
        said = c.hawk("drain", "--until-restart", "w3", "w2", "w1", check=3).stderr
        assert "w2: it is not there" in said, said
        assert [node(c, name)["state"] for name in ("w1", "w3")] == ["up", "up"]


def test_one_node_goes_down():
    with Cluster(workers=2, central=FAST) as c:
        job = c.submit("--class", "short", "--lost-retries", "0", "--array", "1-40", "--", "sleep", "0.05")
        w1 = c.workers.pop(0)
        c.hawk("down", "w1")
        assert w1.wait() == 0, w1.text()
        assert not node(c, "w1")
        c.hawk("wait", job)
        # It comes back as it was: `down` leaves no drain behind.
        c.start_worker("w1")
        wait_for("it to be up", lambda: (node(c, "w1") or {}).get("state") == "up")
        # One with a task that does not end: after the grace it is ended, and runs elsewhere.
        job = c.submit("--class", "long", "--array", "1-2", "--", "sh", "-c",
                       f"test $HAWK_ATTEMPT != 1 || sleep 600")
        wait_for("both to run", lambda: sorted(running(c, job)) == ["w1", "w2"])
        w1 = c.workers.pop()
        r = c.hawk("down", "w1", "--grace", "100ms")
        assert "w1 still had work" in r.stderr, r.stderr
        assert w1.wait() == 0
        c.hawk("cancel", job)
        # A stopped process cannot be told, and is said not to have stopped.
        c.start_worker("w3")
        w3 = c.workers[-1]
        w3.p.send_signal(19)
        wait_for("silence", lambda: (node(c, "w3") or {}).get("state") == "suspect")
        wait_for("its stream to end", lambda: (node(c, "w3") or {}).get("state") != "up")
        r = subprocess.Popen([HAWK, "down", "w3", "--grace", "0", "--output", "json"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
        w3.p.send_signal(18)
        out, err = r.communicate(timeout=BOUND * 2)
        assert r.returncode in (0, 1) and json.loads(out)["nodes"][0]["name"] == "w3", (out, err)


def test_one_that_cannot_be_reached():
    with Cluster(workers=1) as c:
        w1 = c.workers.pop()
        w1.p.kill()
        wait_for("its stream to end", lambda: node(c, "w1")["state"] == "suspect")
        assert "w1: it cannot be reached" in c.hawk("down", "w1", "--grace", "0", check=1).stderr


def test_one_that_does_not_end_is_not_called_stopped():
    """Central gives it up before `hawk down` does."""
    with Cluster(workers=2, central=("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease", "1s")) as c:
        stands, ends = c.workers
        stands.p.send_signal(signal.SIGSTOP)
        r = c.hawk("down", "w1", "w2", "--grace", "0", "--output", "json", check=1)
        document = json.loads(r.stdout)
        assert {n["name"]: n["stopped"] for n in document["nodes"]} == {"w1": False, "w2": True}, document
        assert len(document["errors"]) == 1 and "w1: it " in document["errors"][0]["message"], document
        assert ends.wait() == 0 and not node(c, "w1")
        c.workers.clear()
        stands.p.kill()


def test_a_drain_that_the_journal_does_not_take_is_asked_for_once():
    with Cluster(workers=3, central=FAST, piped=True) as c:
        resource.prlimit(c.central.p.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))  # as a full disk
        for names in (["w1"], ["w2", "w3"]):
            said = c.hawk("down", *names)
            assert said.stderr.count("it is in force, but central's journal cannot be written") == 1, said.stderr
            assert said.stdout.count("stopped") == len(names), said.stdout
        audited = re.findall(r"audit: .*: (drain until restart [w0-9 ]+):", c.central.text())
        assert audited == ["drain until restart w1", "drain until restart w2 w3"], c.central.text()
        resource.prlimit(c.central.p.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_for("the journal back", lambda: "the journal can be written again" in c.central.text())
        assert all(w.wait() == 0 for w in c.workers)
        c.workers.clear()


def test_all_goes_down_and_comes_back():
    with Cluster(dists=2, workers=3, central=FAST) as c:
        jobs = [c.submit("--class", "short", "--array", "1-20", "--", "sleep", "0.02") for _ in range(3)]
        stuck = c.submit("--class", "long", "--lost-retries", "5", "--", "sh", "-c",
                         f"until test -e {c.dir}/go; do sleep 0.1; done")
        wait_for("the long task to run", lambda: running(c, stuck))
        r = c.hawk("down", "--yes", "--grace", "2s")
        assert "central: stopped" in r.stdout and r.stdout.count("stopped") == 6, r.stdout
        assert re.findall(r"(\w)\d still had work", r.stderr) == ["d", "w"], "dists first, whose jobs need the workers"
        for d in c.dists + c.workers + [c.central]:
            assert d.wait() == 0, d.text()
        assert "cannot reach" in c.hawk("nodes", check=3).stderr
        # Nothing is drained when it starts again, and the long job goes on.
        c.dists.clear(), c.workers.clear(), c.dist_addrs.clear()
        open(f"{c.dir}/go", "w").close()
        c.start_central(c.central_addr)
        for name in ("w1", "w2", "w3"):
            c.start_worker(name)
        for name in ("d1", "d2"):
            c.start_dist(name)
        c.wait_nodes(3)
        assert {n["state"] for n in c.json("nodes")["nodes"]} == {"up"}
        wait_for("the long job to end", lambda: c.json("stats")["long_jobs_unfinished"] == 0)
        c.hawk("submit", "--wait", "--", "true")
        assert jobs


def test_down_says_what_it_waits_for():
    for whom, said in (("--yes", "waiting for the jobs of d1 to end"), ("w1", "waiting for the tasks of w1 to end")):
        with Cluster(workers=1, central=FAST) as c:
            job = c.submit("--", "sh", "-c", f"until test -e {c.dir}/go; do sleep 0.1; done")
            wait_for("the task to run", lambda: running(c, job))
            with subprocess.Popen([HAWK, "down", whom, "--grace", "1h"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, env={**os.environ, "HAWK_DIST": c.dist_addrs[0]}) as down:
                readable = select.select([down.stderr], [], [], BOUND)[0]
                open(f"{c.dir}/go", "w").close()
                out, err = down.communicate(timeout=BOUND)
            assert readable and err == f"{said}, until --grace (1h) is over\n" and down.returncode == 0, (whom, out, err)


def test_nodes_that_are_not_back_yet_go_down_too():
    with Cluster(workers=2) as c:
        c.workers[0].p.send_signal(signal.SIGSTOP)
        c.central.kill()
        c.start_central(c.central_addr)
        down = subprocess.Popen([HAWK, "down", "--yes", "--grace", "1s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
        said = down.stderr.readline()
        c.workers[0].p.send_signal(signal.SIGCONT)
        out, err = down.communicate(timeout=BOUND)
        assert down.returncode == 0 and "central has just started: its nodes have" in said, (said, out, err)
        for d in c.dists + c.workers + [c.central]:
            assert d.wait() == 0, d.text()


def test_what_may_still_run_waits_and_says_so():
    """Idle after a restart: central cannot know that the worker which is not back does not have the long tasks."""
    with Cluster(workers=2, central=("--short-partition", "0%")) as c:
        task = ("--", "sh", "-c", f"until test -e {c.dir}/go; do sleep 0.1; done")
        first, second = (c.submit("--class", "long", "--array", "1-3", *task) for _ in range(2))
        wait_for("a task to run", lambda: running(c, first))
        c.hawk("down", "--yes", "--grace", "0")
        for d in c.dists + c.workers + [c.central]:
            assert d.wait() == 0 and "told by central to stop" in d.text() or d == c.central, d.text()
        c.dists.clear(), c.workers.clear(), c.dist_addrs.clear()
        c.start_central(c.central_addr)
        said = wait_for("the warning", lambda: [
            line for line in c.central.text().splitlines() if "central.long_lease (1m) is over" in line])
        assert len(said) == 1 and "have not ended" in said[0], c.central.text()
        c.start_worker("w1")
        c.start_dist("d1")
        explained = wait_for("the reason", lambda: re.search(
            r"no worker has reported them since central started.*placed in (\d+)s.*\(3 tasks\)", c.hawk("explain", first).stdout))
        assert 0 < int(explained[1]) <= 60
        # Without a wait for the lease.
        assert c.hawk("cancel", first).stdout == f"{first} cancelled\n"
        ended = wait_for("its end", lambda: c.job(first)["state"] == "cancelled" and c.job(first))
        assert ended["cancelled"] == 3, ended
        assert "already ended" in c.hawk("cancel", first).stdout
        assert c.job(second)["waiting"] == 3


def test_a_backlog_goes_on_when_central_is_killed():
    """Nothing of it waits for the lease of a minute: every worker is back, and says what it has."""
    with Cluster(workers=2, central=("--short-partition", "0%", "--long-lease", "10m")) as c:
        job = c.submit("--class", "long", "--array", "1-60", "--", "sleep", "0.1")
        for killed in range(3):
            wait_for("tasks to end", lambda: c.job(job)["done"] > 5 * killed)
            c.central.kill()
            c.start_central(c.central_addr)
        done = wait_for("all of them", lambda: c.job(job)["state"] == "done" and c.job(job), bound=120)
        assert done["done"] == 60, done


def test_without_central():
    with Cluster(dists=1, workers=1, central=FAST) as c:
        c.central.kill()
        r = c.hawk("down", "--yes", check=3)
        assert c.central_addr in r.stderr and "--grace 0" in r.stderr, r.stderr
        assert "--grace 0" in c.hawk("down", check=3).stderr, "nothing is asked before it says that it cannot"
        assert "no node nosuch" in c.hawk("down", "--grace", "0", "nosuch", check=3).stderr
        keys, terminal = os.openpty()
        os.write(keys, b"\n")
        asked = subprocess.run([HAWK, "down", "--grace", "0"], stdin=terminal, capture_output=True, text=True, timeout=BOUND,
                               env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
        os.close(keys)
        os.close(terminal)
        assert asked.returncode == 2 and "central, which is away: 1 dist and 1 worker? [y/N]" in asked.stderr, asked
        assert "nothing was stopped" in asked.stderr, asked
        r = c.hawk("down", "--yes", "--grace", "0", check=1)
        assert c.central_addr in r.stderr and "worker w1: stopped" in r.stdout, (r.stdout, r.stderr)
        for d in c.dists + c.workers:
            assert d.wait() == 0 and re.search(" audit: .* stop now this process: done", d.text()), d.text()


def test_without_dists():
    """Central is there, and its address is all that is needed."""
    with Cluster(dists=1, workers=1, central=FAST) as c:
        c.hawk("down", "d1")
        said = c.hawk("down", "--yes", check=3).stderr
        assert "start a dist, or name central's address by --dist" in said and "without central" not in said, said
        assert "worker w1: stopped" in c.hawk("down", "--yes", "--dist", c.central_addr).stdout
        for d in [*c.dists, *c.workers, c.central]:
            assert d.wait() == 0, d.text()


def test_hawk_up():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        hawk = functools.partial(run_hawk, env)

        up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", env=env)
        up.ready()
        hawk("drain", "--wait", "w1")
        job = hawk("submit", "--wait", "--array", "1-4", "--", "true").stdout.strip()
        ran = json.loads(hawk("job", job, "--tasks", "9", "--output", "json").stdout)["jobs"][0]["task_list"]
        assert {t["worker_name"] for t in ran} == {"w2"}, ran
        hawk("undrain", "w1")
        hawk("drain", "dist")
        said = hawk("submit", "--", "true", check=3).stderr
        assert ": dist is draining: it takes no new jobs; `hawk undrain dist`" in said, said
        hawk("undrain", "dist")
        hawk("submit", "--wait", "--", "true")
        assert "one process" in hawk("down", "w1", check=2).stderr
        assert "hawk up: stopped" in hawk("down").stdout
        assert up.wait() == 0, up.text()


run_tests(sys.modules[__name__])
