"""Bad input and trouble: each with a message that names the thing, and nothing lost."""
# make test-all
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Cluster, Daemon, bind_free_address, run_tests, small_disk, wait_for

FAST = ("--heartbeat", "100ms", "--suspect", "500ms", "--long-lease", "1s")


def tasks(c, job):
    return c.job(job)["task_list"]


def test_a_worker_that_dies_takes_no_job_with_it():
    with Cluster(workers=3, central=FAST, worker=("--agent-grace", "300ms")) as c:
        script = f"echo $HAWK_WORKER >> {c.dir}/ran; test -e {c.dir}/go || exec sleep 600"
        # The long one first: central does not know where short tasks run, and might queue it behind one.
        long_job = c.submit("--class", "long", "--", "sh", "-c", script)
        wait_for("the long task running", lambda: tasks(c, long_job)[0]["state"] == "running")
        short = c.submit("--class", "short", "--array", "1-2", "--", "sh", "-c", script)
        wait_for("the short tasks running", lambda: all(t["state"] == "running" for t in tasks(c, short)))
        open(f"{c.dir}/go", "w").close()
        # The workers of one short and of the long task die; the third task is ended by hand below.
        dead = {tasks(c, short)[0]["worker_name"], tasks(c, long_job)[0]["worker_name"]}
        for i, w in enumerate(c.workers):
            if f"w{i + 1}" in dead:
                w.kill()
        for pid in sleepers_of(c.workers):
            os.kill(pid, signal.SIGTERM)
        c.hawk("wait", short, check=None)
        c.hawk("wait", long_job)
        j = c.job(short)
        assert j["done"] + j["failed"] == 2 and j["done"] >= 1, j
        assert tasks(c, long_job)[0]["attempt"] == 2, tasks(c, long_job)


def sleepers_of(daemons):
    """Processes `sleep 600` below live daemons."""
    alive = {d.p.pid for d in daemons if d.p.poll() is None}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if open(f"/proc/{pid}/cmdline", "rb").read() != b"sleep\x00600\x00":
                continue
            up = int(pid)
            for _ in range(5):
                up = int(open(f"/proc/{up}/stat").read().rsplit(")", 1)[1].split()[1])
                if up in alive:
                    yield int(pid)
        except (OSError, IndexError):
            continue


def test_a_worker_stops_in_good_order():
    with Cluster(workers=2, central=FAST) as c:
        job = c.submit("--class", "short", "--array", "1-2", "--", "sh", "-c",
                       f"echo $$ >> {c.dir}/pids; test -e {c.dir}/go || exec sleep 600")
        wait_for("both running", lambda: all(t["state"] == "running" for t in tasks(c, job)))
        open(f"{c.dir}/go", "w").close()
        first = open(f"{c.dir}/pids").read().split()
        for w in c.workers:
            assert w.stop() == 0, w.text()
        for pid in first:
            assert not os.path.exists(f"/proc/{pid}"), f"task {pid} outlives its worker"
        c.workers.clear()
        c.start_worker("w3")
        c.hawk("wait", job)


def test_central_is_not_there():
    with tempfile.TemporaryDirectory() as d:
        s, addr = bind_free_address()
        w = Daemon("worker", "--central", addr, "--name", "w1", "--output-dir", f"{d}/out", "--state-dir", f"{d}/w")
        wait_for("a word about central", lambda: addr in w.text())
        s.close()
        central = Daemon("central", "--listen", addr, "--state-dir", f"{d}/central")
        central.ready()
        w.ready()
        assert sum("trying again" in x for x in w.text().splitlines()) == 1, w.text()
        w.stop()
        central.stop()


def test_jobs_go_on_when_central_restarts():
    with Cluster(workers=2, central=FAST + ("--cutoff", "5s")) as c:
        named = c.submit("--name", "known", "--class", "short", "--", "true")
        c.hawk("wait", named)
        wait_for("history", lambda: c.json("stats")["history_jobs"] >= 1)
        policy = c.json("policy")
        c.central.kill()
        assert c.hawk("submit", "--wait", "--class", "short", "--", "true")
        pending = c.submit("--class", "long", "--", "true")
        assert c.job(pending)["state"] == "pending"
        explained = c.hawk("explain", pending).stdout
        waiting = subprocess.Popen([HAWK, "wait", pending], stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
        told = waiting.stderr.readline()
        assert "is pending: long, and central cannot be reached: it is handed over when central is back" in told, told
        assert "schedules central" in explained and "when central is back (1 task)" in explained, explained
        c.start_central(c.central_addr)
        c.hawk("wait", pending)
        assert waiting.wait(timeout=BOUND) == 0
        waiting.stderr.close()
        assert c.json("stats")["history_jobs"] >= 1, "the history did not survive"
        assert c.json("policy")["cutoff_us"] == policy["cutoff_us"]


def test_names_and_ports_are_taken_once():
    with Cluster(workers=1) as c:
        twin = c.start_worker("w1", wait=False, flags=("--state-dir", f"{c.dir}/elsewhere"))
        assert twin.wait() != 0 and "w1" in twin.text() and "name" in twin.text(), twin.text()
        c.workers.remove(twin)
        d = Daemon("central", "--listen", c.central_addr, "--state-dir", f"{c.dir}/other")
        assert d.wait() == 1 and c.central_addr in d.text(), d.text()
        d = Daemon("central", "--listen", "127.0.0.1:0", "--state-dir", f"{c.dir}/central")
        assert d.wait() == 1 and f"{c.dir}/central" in d.text(), d.text()


def test_no_workers_and_no_general_workers():
    with Cluster(workers=0) as c:
        job = c.submit("--class", "short", "--", "true")
        long_job = c.submit("--class", "long", "--", "true")
        assert "no worker" in c.hawk("explain", job).stdout
        wait_for("central to have the long job", lambda: "no " in c.hawk("explain", long_job).stdout)
        c.start_worker("w1")
        c.hawk("wait", job, long_job)


def test_nothing_goes_beyond_loopback_without_tls():
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/token", "w", opener=lambda p, f: os.open(p, f, 0o600), encoding="ascii") as f:
            f.write("a-token-that-nobody-guesses\n")
        far, tokens = "192.0.2.1:7070", ("--token-file", f"{d}/token")
        for role, flags, setting, remedy in (
                ("central", ("--listen", "0.0.0.0:0"), "central.listen", "`hawk ca init`, and set central.ca"),
                ("central", ("--listen", "0.0.0.0:0", *tokens), "central.listen", "`hawk ca init`, and set central.ca"),
                ("dist", ("--listen", "0.0.0.0:0"), "dist.listen", "`hawk ca invite`, and set join (--join FILE)"),
                ("dist", ("--central", far, *tokens), "dist.central", "`hawk ca invite`, and set join (--join FILE)"),
                ("worker", ("--central", f"127.0.0.1:1,{far}"), "worker.central", "`hawk ca invite`, and set join (--join FILE)"),
                ("worker", ("--listen", "[::]:0", *tokens), "worker.listen", "`hawk ca invite`, and set join (--join FILE)")):
            c = Daemon(role, *flags, "--state-dir", f"{d}/c")
            assert c.wait() == 2, (flags, c.text())
            assert all(x in c.text() for x in (setting, remedy, "--insecure", "has no TLS")), (flags, c.text())
        c = Daemon("central", "--listen", "0.0.0.0:0", "--state-dir", f"{d}/c", "--insecure")
        c.ready()
        c.stop()


def test_bad_configuration():
    with tempfile.TemporaryDirectory() as d:
        path = f"{d}/hawk.yaml"
        with open(path, "w") as f:
            f.write("central:\n  listen: 127.0.0.1:0\n  cutof: 90s\n")
        for args in (["config", "check", path], ["central", "--config", path]):
            r = subprocess.run([HAWK, *args], capture_output=True, text=True, timeout=BOUND)
            assert r.returncode == 2 and f"{path}:3: central.cutof" in r.stderr, (r.returncode, r.stderr)
        # The check finds what a daemon would: every mistake, with its line.
        mistakes = {"central": {"heartbeat": "0s", "short_partition_min": "90%", "policy_on": "[stealing, frob]"},
                    "worker": {"name": "\"a b\"", "slots": "9999", "listen": "0.0.0.0:7000", "agent_grace": "60s"}}
        with open(path, "w") as f:
            for section, settings in mistakes.items():
                f.write(f"{section}:\n" + "".join(f"  {name}: {value}\n" for name, value in settings.items()))
        r = subprocess.run([HAWK, "config", "check", path, "--output", "json"], capture_output=True, text=True)
        found = json.loads(r.stdout)
        assert r.returncode == 2 and not found["ok"], r.stdout
        for at, key in enumerate(("central:", "central.heartbeat", "central.short_partition_min", "central.policy_on",
                                  "worker:", "worker.name", "worker.slots", "worker.listen", "worker.agent_grace"), 1):
            hits = [e for e in found["errors"] if e["message"].startswith(f"{path}:{at}: {key}: ")]
            assert len(hits) == (not key.endswith(":")), (key, found["errors"])
        r = subprocess.run([HAWK, "worker", "--config", path], capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 2 and f"{path}:7: worker.slots" in r.stderr, (r.returncode, r.stderr)
        # What no daemon would read is a mistake.
        for text, line in (("central:\n  cutoff: 90s\n---\nworker:\n  slots: 4\n", 3), ("---\n---\nworker:\n  slots: 4\n", 2),
                           ("{central: {cutoff: 90s}} more\n", 1)):
            with open(path, "w") as f:
                f.write(text)
            r = subprocess.run([HAWK, "config", "check", path], capture_output=True, text=True)
            assert r.returncode == 2 and f"{path}:{line}: " in r.stderr, (text, r)
        with open(path, "w") as f:
            f.write("---\ncentral:\n  cutoff: 90s\n...\n")
        r = subprocess.run([HAWK, "config", "check", path], capture_output=True, text=True)
        assert r.returncode == 0, r
        with open(path, "w") as f:
            f.write("central:\n  cutoff: 90s\n")
        r = subprocess.run([HAWK, "config", "show", "central", "--config", path], capture_output=True, text=True)
        assert f"cutoff: 90s  # {path}:2" in r.stdout, r.stdout


def throw(addr, data):
    host, port = addr.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=BOUND) as s:
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
        except OSError:
            pass


def test_garbage_on_every_port():
    rng = random.Random(1)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    with Cluster(workers=1) as c:
        ports = [c.central_addr, c.dist_addrs[0]] + [n["address"] for n in c.json("nodes")["nodes"]
                                                     if n["role"] == "worker"]
        for addr in ports:
            for n in (0, 1, 9, 100, 5000, 200000):
                throw(addr, rng.randbytes(n))
                throw(addr, preface + rng.randbytes(n))
        c.hawk("submit", "--wait", "--", "true")
        c.hawk("submit", "--wait", "--class", "long", "--", "true")


def test_a_client_that_goes_away():
    with Cluster(workers=1) as c:
        for _ in range(20):
            p = subprocess.Popen([HAWK, "submit", "--wait", "--array", "1-50", "--", "true"],
                                 env={**os.environ, "HAWK_DIST": c.dist_addrs[0]},
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            p.kill()
            p.wait()
        c.hawk("submit", "--wait", "--", "true")
        wait_for("every accepted job to end", lambda: all(
            j["state"] == "done" for j in c.json("jobs", "--all")["jobs"]))


def test_a_worker_tells_of_a_full_disk():
    with small_disk("size=256k") as d:
        if not d:
            return
        with Cluster(workers=1, worker=("--output-dir", d, "--output-free-min", "0")) as c:
            # Programs that do not look whether they could write.
            c.hawk("submit", "--wait", "-a", "1-3", "--", "sh", "-c", "yes | head -c 1000000 2>/dev/null; true")
            wait_for("the worker to tell", lambda: f"the disk of {d} is full" in c.workers[0].text())
            assert c.workers[0].text().count("is full") == 1, c.workers[0].text()


def test_a_task_that_cannot_start_names_the_full_disk():
    with small_disk("size=200k") as d:
        if not d:
            return
        with open(f"{d}/filler", "wb", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(bytes(4096))
        r = subprocess.run([HAWK, "run", "--input", "a", "b", "--", "echo", "{}"], env={**os.environ, "TMPDIR": d}, check=False,
                           capture_output=True, text=True, timeout=BOUND)
        assert r.returncode != 0 and "0.out: No space left on device" in r.stderr, (r.returncode, r.stderr)
        assert "Input/output error" not in r.stderr, r.stderr


def test_centrals_disk_is_full():
    with small_disk("size=2m") as d:
        if not d:
            return
        with Cluster(workers=1, central=("--state-dir", f"{d}/central")) as c:
            with open(f"{d}/filler", "wb", buffering=0) as f, contextlib.suppress(OSError):
                while True:
                    f.write(bytes(4096))
            job = c.submit("--class", "long", "--", "true")  # its dist has it on record
            assert [j["state"] for j in c.json("jobs")["jobs"]] == ["pending"]
            assert "its disk may be full" in c.hawk("explain", job).stdout
            for ask in (("policy", "set", "--cutoff", "7s"), ("drain", "w1"), ("undrain", "w1")):
                said = c.hawk(*ask, check=3).stderr
                assert "is in force, but" in said and "look at its disk" in said, said
            os.unlink(f"{d}/filler")
            c.hawk("wait", job)
            wait_for("central to tell", lambda: "the journal can be written again" in c.central.text())


def test_what_has_written_nothing_was_not_removed():
    with small_disk("size=256k") as d:
        if not d:
            return
        with Cluster(workers=1, worker=("--output-dir", d)) as c:
            c.hawk("submit", "--wait", "--", "echo", "hello", check=1)
            said = c.hawk("cat", "last", check=3).stderr
            assert "task 0 has written nothing: it was not started" in said and "removed" not in said, said
            c.hawk("submit", "--wait", "--array", "7-8", "--", "echo", "hello", check=1)
            said = c.hawk("cat", "last", check=3).stderr
            assert "task 7 has written nothing: it was not started" in said, said
            assert "; and so of 1 other task\n" in said, said


def test_output_of_a_dead_worker_is_missed_once():
    with Cluster(workers=2) as c:
        both = f"echo {{}}; touch {c.dir}/up{{}}; until test $(ls {c.dir} | grep -c ^up) -ge 2; do sleep 0.1; done"
        job = c.submit("--array", "1-6", "--", "sh", "-c", both)
        c.hawk("wait", job)
        at = [t["worker_name"] for t in c.job(job)["task_list"]]
        c.workers[0].kill()
        r = c.hawk("cat", job, check=3)
        first, *rest = [i for i, name in enumerate(at, 1) if name == "w1"]
        said = r.stderr.splitlines()
        assert said[0].startswith(f"hawk: cat: task {first}, on w1: "), said
        others = f"hawk: cat: and so of {len(rest)} other task{'s' * (len(rest) > 1)} of workers that did not answer"
        assert said[1:] == [others] * bool(rest), said
        assert r.stdout.split() == [str(i) for i, name in enumerate(at, 1) if name == "w2"], r.stdout


def test_too_few_descriptors_are_said():
    for args in (("run", "--", "true"), ("up",), ("jobs",)):
        r = subprocess.run(["sh", "-c", 'ulimit -n 7; exec "$@"', "sh", HAWK, *args], capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 1 and "may have 7 files open, and needs 16 or more (ulimit -n)" in r.stderr, r
    r = subprocess.run(["sh", "-c", 'ulimit -n 16; exec "$@"', "sh", HAWK, "run", "--", "echo", "hi"], capture_output=True, text=True, timeout=BOUND)
    assert r.returncode == 0 and r.stdout == "hi\n", r


def test_limits_are_errors():
    with Cluster(workers=1, dist=("--jobs-max", "2")) as c:
        for _ in range(2):
            c.submit("--", "sleep", "600")
        r = c.hawk("submit", "--", "true", check=3)
        assert "limit" in r.stderr, r.stderr
        c.hawk("cancel", "all")
        c.hawk("wait", "all", check=None)
        c.hawk("submit", "--wait", "--", "true")
        big = "x" * 3000000
        r = c.hawk("submit", "--each-line", "-", "--", "echo", input=(big + "\n") * 30, check=None)
        assert r.returncode == 2 and "the limit of a job" in r.stderr, r.stderr[:500]
        r = c.hawk("submit", "--stdin", "-", "--", "cat", input=big, check=None)
        assert r.returncode != 0 and "limit" in r.stderr, r.stderr[:500]
        c.hawk("submit", "--wait", "--", "true")


run_tests(sys.modules[__name__])
