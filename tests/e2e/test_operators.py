#!/usr/bin/python3
"""What operators ask of a cluster: its history as a trace, workers that end by themselves, files named by a
configuration, what `auto` came to, logs as JSON."""
import calendar
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from hawktest import BOUND, HAWK, Cluster, Daemon, run_tests, wait_for


def hawk(*args, check=0):
    r = subprocess.run([HAWK, *args], capture_output=True, text=True, timeout=BOUND)
    assert r.returncode == check, (args, r)
    return r


def test_history_is_a_trace_that_sim_sweeps():
    with Cluster(workers=1, slots=4) as c, tempfile.TemporaryDirectory() as d:
        for i in range(3):
            c.hawk("submit", "--wait", "--name", "a", "--array", "1-4", "--", "sleep", "0.1")
        c.hawk("submit", "--wait", "--name", "b", "--class", "long", "--", "sleep", "0.3")
        c.hawk("submit", "--wait", "--name", "c", "--", "false", check=1)
        running = c.submit("--", "sleep", "600")
        r = c.hawk("history", "--trace", "--out", f"{d}/ours.tr")
        assert "4 jobs; left out: 1 of which no task is done, and 1 that have not ended" in r.stderr, r.stderr
        line = f"hawk sim --trace {d}/ours.tr --workers 1 --slots 4 --policy harrier --cutoff 10s"
        assert f"\nsimulate it: {line}\n" in r.stderr, r.stderr
        assert hawk(*line.split()[1:]).stdout.startswith("policy harrier, cutoff 10 s (--cutoff)\n4 short and 0 long jobs")
        with open(f"{d}/ours.tr", encoding="utf-8") as f:
            jobs = [[float(x) for x in line.split()] for line in f]
        assert [j[1] for j in jobs] == [4, 4, 4, 1] and jobs == sorted(jobs), jobs
        for j in jobs:
            assert len(j) == 3 + j[1] and min(j[3:]) >= 0.09 and abs(sum(j[3:]) / j[1] - j[2]) < 1e-4, j
        assert 0 <= jobs[0][0] < 1 and jobs[3][0] > jobs[0][0] + 0.3, jobs
        assert c.hawk("history", "--trace", "-n", "b").stdout.count("\n") == 1
        sweep = ["sim", "--trace", f"{d}/ours.tr", "--workers", "1", "--slots", "4", "--policy", "harrier", "--sweep",
                 "cutoff=100ms,1s"]
        swept = hawk(*sweep, "--cutoff", "200ms").stdout
        assert "       0.1 s" in swept and "         1 s" in swept and "auto reserved: " in swept, swept
        swept = hawk(*sweep).stdout
        assert swept.endswith("\nno job is long at the base's cutoff of 90 s: give another --cutoff\n"), swept
        names = {(n["name"], n["class"]): n for n in c.json("history")["names"]}
        assert names["a", "short"]["jobs"] == 3 and names["a", "short"]["tasks"] == 12, names
        assert names["c", "short"]["failed"] == 1 and names["b", "long"]["mean_response_us"] >= 300000, names
        assert len({n["user"] for n in names.values()}) == 1 and names["a", "short"]["user"], names
        assert "MEAN-RESPONSE" in c.hawk("history").stdout
        c.hawk("history", "--out", "x", check=2)
        # How long a job took that was cancelled says nothing.
        c.hawk("cancel", running)
        c.hawk("wait", running, check=1)
        one, = [n for n in c.json("history")["names"] if n["name"].startswith("sleep")]
        assert (one["jobs"], one["failed"], one["cancelled"], one["mean_response_us"]) == (1, 0, 1, None), one


def test_a_worker_without_work_stops():
    with Cluster(workers=1) as c:
        w = c.start_worker("w2", flags=("--idle-exit", "2s"))
        c.wait_nodes(2)
        job = c.submit("--array", "1-2", "--", "sleep", "3")
        wait_for("both workers to work", lambda: c.job(job)["running"] == 2)
        start = time.monotonic()
        c.hawk("wait", job)
        assert w.p.poll() is None and time.monotonic() - start < 10, "it did not stop while it had work"
        assert w.wait() == 0 and "worker.idle_exit" in w.text(), w.text()
        assert c.workers[0].p.poll() is None


def test_a_worker_is_done_at_its_end_time():
    with Cluster(workers=1) as c:
        end = time.time() + 8
        w = c.start_worker("w2", flags=("--end-time", str(int(end)), "--kill-grace", "1s"))
        c.wait_nodes(2)
        job = c.submit("--array", "1-2", "--", "sh", "-c", "test $HAWK_ATTEMPT = 2 && exit; exec sleep 600")
        wait_for("a task on both", lambda: c.job(job)["running"] == 2)
        assert w.wait() == 0 and time.time() <= end + 1, (time.time() - end, w.text())
        assert "worker.end_time" in w.text()
        wait_for("its task to be waiting for another worker", lambda: c.job(job)["waiting"] == 1)
        c.hawk("cancel", job)
        for over in ("3", str(int(end))):
            assert c.start_worker("w3", flags=("--end-time", over), wait=False).wait() == 0, over
    for text in ("soon", "2h3x", "-5"):
        assert "worker.end_time" in hawk("worker", f"--end-time={text}", check=2).stderr


def test_tasks_hear_that_their_worker_stops():
    """By SIGTERM, as of a cancellation: a program that saves its state then can do so."""
    with Cluster(workers=2) as c:
        heard = f"{c.dir}/heard"
        job = c.submit("--array", "1-2", "--", "sh", "-c",
                       f"test $HAWK_ATTEMPT = 2 && exit; trap 'echo bye >> {heard}; exit' TERM; sleep 600 & wait")
        wait_for("a task on both", lambda: c.job(job)["running"] == 2)
        c.workers[0].p.send_signal(signal.SIGTERM)
        assert c.workers[0].wait() == 0, c.workers[0].text()
        assert open(heard, encoding="utf-8").read() == "bye\n"
        c.hawk("cancel", job)


def test_the_signal_for_upgrades_ends_no_scheduler():
    with Cluster(workers=1) as c:
        for daemon in (c.central, c.dists[0]):
            daemon.p.send_signal(signal.SIGUSR2)
            wait_for("its word", lambda d=daemon: "ignored; it upgrades workers in place" in d.text())
        assert c.hawk("exec", "--", "echo", "on").stdout == "on\n"


def test_tasks_go_where_their_estimate_fits():
    """Short ones and long ones; those without an estimate go anywhere."""
    with Cluster(workers=0) as c:
        start = int(time.time())
        c.start_worker("w1", flags=("--end-time", "20m"), slots=2)
        c.wait_nodes(1)
        ends = wait_for("its end", lambda: next((n["ends_at"] for n in c.json("nodes")["nodes"] if n["ends_at"]), None))
        at = calendar.timegm(time.strptime(ends, "%Y-%m-%dT%H:%M:%SZ"))
        assert start + 1195 <= at <= time.time() + 1201, ends
        shown = c.hawk("nodes", env={"COLUMNS": "300"}).stdout
        near = [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at + i)) for i in (-1, 0, 1)]
        assert "ENDS" in shown and any(text in shown for text in near), shown
        c.hawk("submit", "--wait", "--estimate", "5m", "--class", "short", "--", "true")
        c.hawk("submit", "--wait", "--class", "long", "--", "true")
        too_long = [c.submit("--estimate", "1h", "--class", kind, "--", "true") for kind in ("short", "long")]
        for job in too_long:
            wait_for("the reason", lambda j=job: "as much time left as its estimate needs" in c.hawk("explain", j).stdout)
        waits = {j["job"]: j["waits"] for j in c.json("jobs")["jobs"] if j["state"] == "waiting"}
        assert waits == dict.fromkeys(too_long, "time"), waits
        # They hold up nobody.
        for kind in ("short", "long"):
            c.hawk("submit", "--wait", "--estimate", "5m", "--class", kind, "--", "true")
        assert [c.job(job)["waiting"] for job in too_long] == [1, 1]
        c.start_worker("w2")
        c.hawk("wait", *too_long)
        for job in too_long:
            assert c.job(job)["task_list"][0]["worker_name"] == "w2", c.job(job)


def test_config_check_opens_what_the_file_names():
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/file", "w", encoding="utf-8") as f:
            f.write("x\n")
        os.chmod(f"{d}/file", 0o600)
        with open(f"{d}/hawk.yaml", "w", encoding="utf-8") as f:
            f.write(f"cluster:\n  metrics_token_file: {d}/nowhere\nworker:\n  output_dir: {d}/file\n"
                    f"dist:\n  state_dir: {d}/file/below\nlog:\n  audit: {d}/nowhere/audit\n")
        shown = hawk("config", "check", f"{d}/hawk.yaml", check=2).stderr
        assert hawk("config", "check", "--config", f"{d}/hawk.yaml", check=2).stderr == shown
        assert hawk("config", "check", f"--config={d}/hawk.yaml", check=2).stderr == shown
        assert "config check FILE" in hawk("config", "check", f"--conf={d}/hawk.yaml", check=2).stderr
        for wanted in ("cluster.metrics_token_file", f"{d}/nowhere", "worker.output_dir", "dist.state_dir",
                       f"log.audit: {d}/nowhere/audit cannot be opened"):
            assert wanted in shown, shown
        with open(f"{d}/token", "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write("m" * 20 + "\n")
        with open(f"{d}/hawk.yaml", "w", encoding="utf-8") as f:
            f.write(f"cluster:\n  metrics_token_file: {d}/token\nworker:\n  output_dir: {d}/new\n  output_group: nosuchgroup\n")
        r = hawk("config", "check", f"{d}/hawk.yaml")
        assert r.stdout.endswith("ok\n") and "nosuchgroup" in r.stderr, r


def test_config_check_opens_what_one_role_reads():
    with tempfile.TemporaryDirectory() as d:
        def check(text, code):
            with open(f"{d}/hawk.yaml", "w", encoding="utf-8") as f:
                f.write(text)
            return hawk("config", "check", f"{d}/hawk.yaml", check=code)

        # The file may be for every machine: what is missing here is told, and no mistake.
        etcd = "".join(f"  etcd_{name}: {d}/etcd.{name}\n" for name in ("certificate", "key", "roots"))
        text = (f"central:\n  ca: {d}/ca\n  store: etcd\n  etcd: 127.0.0.1:2379\n{etcd}"
                f"dist:\n  join: {d}/d.invitation\n  state_dir: {d}/dist\n"
                f"worker:\n  join: {d}/w.invitation\n  state_dir: {d}/worker\n  run_as_helper: {d}/helper\n")
        r = check(text, 0)
        for key in ("central.ca", "central.etcd_certificate", "central.etcd_key", "central.etcd_roots", "dist.join",
                    "worker.join", "worker.run_as_helper"):
            assert f"hawk: config: {key}: {d}/" in r.stderr, (key, r.stderr)
        assert "cannot start on this machine" in r.stderr and r.stdout.endswith(": ok\n"), r
        # Whom others reach by TLS alone shows no metrics to everybody; how he gets his certificate is one.
        for role, line in (("central", f"ca: {d}/ca"), ("dist", f"join: {d}/d.invitation"), ("worker", f"join: {d}/w.invitation")):
            open_to_all = f"{role}:\n  {line}\n  metrics_listen: 127.0.0.1:9100\n"
            assert "metrics_token_file" in check(open_to_all, 2).stderr
        # What is there is read.
        os.mkdir(f"{d}/ca")
        with open(f"{d}/d.invitation", "w", encoding="utf-8") as f:
            f.write("hello\n")
        os.mkdir(f"{d}/etcd.key")
        r = check(text, 2)
        for key in ("central.ca", "dist.join", "central.etcd_key"):
            assert f"\n{key}: " in "\n" + r.stderr, (key, r.stderr)
        os.rmdir(f"{d}/ca")
        os.rmdir(f"{d}/etcd.key")
        hawk("ca", "init", f"{d}/ca")
        os.rename(f"{d}/ca/nodes/root.crt", f"{d}/root.crt")
        with open(f"{d}/ca/nodes/root.crt", "w", encoding="utf-8") as f:
            f.write("hello\n")
        said = check(text, 2).stderr
        assert f"{d}/ca/nodes/root.crt: it holds no certificate" in said and "ca init" not in said, said
        os.rename(f"{d}/root.crt", f"{d}/ca/nodes/root.crt")
        hawk("ca", "invite", f"{d}/ca", "--role", "dist", "--name", "d1", "--out", d)
        os.rename(f"{d}/d1.invitation", f"{d}/d.invitation")
        r = check(text, 0)
        assert "central.ca" not in r.stderr and "dist.join" not in r.stderr, r.stderr
        os.rename(f"{d}/d.invitation", f"{d}/w.invitation")
        assert f"worker.join: {d}/w.invitation: the invitation is for a dist" in check(text, 2).stderr


def test_config_check_refuses_signatures_without_tls():
    with tempfile.TemporaryDirectory() as d:
        def check(more, code):
            with open(f"{d}/hawk.yaml", "w", encoding="utf-8") as f:
                f.write(f"cluster:\n  require_signatures: yes\nworker:\n  state_dir: {d}/w\ndist:\n  listen: 127.0.0.1:0\n"
                        f"  socket: none\n  state_dir: {d}/d\n{more}")
            return hawk("config", "check", f"{d}/hawk.yaml", check=code).stderr

        said = check("", 2)
        assert f"{d}/hawk.yaml:2: cluster.require_signatures: users sign with the credentials of a cluster with TLS" in said
        told = hawk("dist", "--config", f"{d}/hawk.yaml", check=1).stderr
        assert said.split("hawk.yaml:2: ", 1)[1] in told, (said, told)
        check(f"  join: {d}/d.invitation\n", 0)
        # Who has joined needs to say that no more.
        hawk("ca", "init", f"{d}/ca")
        hawk("ca", "issue", f"{d}/ca", "--role", "dist", "--name", "d1", "--out", d)
        os.makedirs(f"{d}/d/tls")
        os.rename(f"{d}/d1.crt", f"{d}/d/tls/node.crt")
        check("", 0)


def test_stats_say_what_auto_came_to():
    with Cluster(workers=2, central=("--history-min-jobs", "3")) as c:
        before = c.json("stats")
        assert before["cutoff_note"] == "auto: 10s until the history has 3 jobs; it has 0", before
        for _ in range(4):
            c.hawk("submit", "--wait", "--", "true")
        after = wait_for("a computed cutoff", lambda: (s := c.json("stats"))["cutoff_computed"] and s)
        assert after["cutoff_note"].startswith("auto: the 90% percentile of the mean task run times of "), after
        assert "auto: what short jobs kept busy lately" in after["share_note"], after
        shown = c.hawk("stats").stdout
        # The figures of the share follow the load: only its words are the same in the next answer.
        assert "auto: what short jobs kept" in shown and "percentile" in shown, shown
        line = c.hawk("policy", "set", "--cutoff", "30s", "--short-partition", "50%").stdout
        assert line.count("\n") == 1 and "cutoff 30s" in line, line
        after = c.json("stats")
        assert after["cutoff_note"] == after["share_note"] == "", after


def test_the_log_as_json():
    with tempfile.TemporaryDirectory() as d:
        c = Daemon("central", "--listen", "127.0.0.1:0", "--state-dir", f"{d}/s", "--log-format", "json")
        try:
            c.ready()
            wait_for("a line", lambda: len(c.log) > 1)
        finally:
            c.stop()
        for line in c.text().splitlines():
            entry = json.loads(line)
            assert {"time", "level", "role", "message"} <= set(entry) and entry["role"] == "central", entry


run_tests(sys.modules[__name__])
