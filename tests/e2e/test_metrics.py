#!/usr/bin/python3
"""/metrics of every daemon, as its readers see it: parsed by Prometheus' own reader of OpenMetrics."""
import contextlib
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tlstest import Roots, SecureCaller, TlsCluster  # it says what gRPC logs

import grpc

from grpctest import pb, refused
from hawktest import BOUND, HAWK, Cluster, Daemon, run_hawk, run_tests, user_environment, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs/reference/metrics.md")


def address(daemon):
    """Where it says that it serves metrics."""
    return wait_for("the log line with the address", lambda: re.search(r"metrics are served at (\S+)", daemon.text())).group(1)


def get(addr, path="/metrics", token=None, headers=None):
    request = urllib.request.Request(f"http://{addr}{path}", headers=headers or {})
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=BOUND) as r:
        return r.headers["Content-Type"], r.read().decode()


def status(addr, **more):
    try:
        get(addr, **more)
    except urllib.error.HTTPError as e:
        return e.code
    return 200


class Page:
    """One reading: families by name, samples by name and labels."""

    def __init__(self, daemon, **more):
        kind, self.text = get(address(daemon), **more)
        assert kind.startswith("application/openmetrics-text; version=1.0.0"), kind
        self.families = {f.name: f for f in text_string_to_metric_families(self.text)}
        self.samples = {(s.name, tuple(sorted(s.labels.items()))): s.value
                        for f in self.families.values() for s in f.samples}

    def __call__(self, name, **labels):
        return self.samples["hawk_" + name, tuple(sorted(labels.items()))]


def documented():
    """Names in the tables of the reference, of which each has one row."""
    with open(PAGE, encoding="utf-8") as f:
        names = re.findall(r"^\| `(hawk_\w+)`", f.read(), re.M)
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)
    return set(names)


def test_a_cluster_under_load():
    flags = ("--metrics-listen", "127.0.0.1:0")
    with Cluster(workers=1, slots=2, central=flags, dist=flags, worker=flags) as c:
        central, dist, worker = c.central, c.dists[0], c.workers[0]
        before = Page(dist)
        assert before("jobs_accepted_total") == 0
        assert before("job_response_seconds_count", **{"class": "short"}) == 0
        c.hawk("submit", "--wait", "--array", "1-6", "--", "sleep", "0.1")
        c.hawk("submit", "--wait", "--class", "long", "--", "sleep", "0.2")
        c.hawk("submit", "--wait", "--stdout", "/proc/nowhere/x", "--", "true", check=1)
        after = wait_for("the page to follow", lambda: (p := Page(dist))("jobs_finished_total") == 3 and p)
        assert after("jobs_accepted_total") == 3 and after("jobs_long_total") == 1
        for job_class, n in (("short", 2), ("long", 1)):
            assert after("job_response_seconds_count", **{"class": job_class}) == n
        assert 0.3 <= after("job_response_seconds_sum", **{"class": "short"}) < BOUND
        assert after("job_response_seconds_bucket", le="0.1", **{"class": "long"}) == 0
        assert after("job_slowdown_count", **{"class": "short"}) == 1  # that which failed has none
        assert after("job_slowdown_sum", **{"class": "short"}) >= 2  # six tasks on two slots
        assert after("loop_lag_seconds_count") > before("loop_lag_seconds_count")
        assert after("connections_delayed_total") == after("connections_refused_total") == 0  # nodes and clients of loopback
        assert after("dist_central_up") == 1 and after("dist_jobs") == 0
        ran = wait_for("the worker's page", lambda: (p := Page(worker))("tasks_finished_total") >= 8 and p)
        assert ran("worker_starts_failed_total") >= 1
        assert ran("worker_slots", **{"class": "free"}) == 2
        whole = Page(central)
        assert whole("central_active") == 1 and whole("central_slots") == 2 and whole("central_dists") == 1
        families = {n: f for p in (after, ran, whole) for n, f in p.families.items()}
        assert set(families) == documented(), set(families) ^ documented()
        for family in families.values():  # labels that a user could choose would be without end
            for s in family.samples:
                assert set(s.labels) <= {"class", "kind", "state", "partition", "code", "le", "version", "role"}, s


def test_a_journal_that_cannot_be_written_shows():
    flags = ("--metrics-listen", "127.0.0.1:0")
    with Cluster(workers=1, central=flags, dist=flags, piped=True) as c:
        for daemon, job in ((c.dists[0], ("--", "true")), (c.central, ("--class", "long", "--", "true"))):
            assert Page(daemon)("journal_failing") == 0
            resource.prlimit(daemon.p.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))  # as a full disk
            c.hawk("submit", *job, check=None)
            wait_for("the page says so", lambda d=daemon: Page(d)("journal_failing") == 1)
            resource.prlimit(daemon.p.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            wait_for("the page says that it is over", lambda d=daemon: Page(d)("journal_failing") == 0)


def test_who_shows_no_good_certificate_is_counted():
    c, others, token = TlsCluster(workers=0), Roots(), "m" * 20
    others.issue("user", "eve")
    with open(f"{others.dir}/metrics", "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as f:
        f.write(token)
    c.daemon_flags = ("--metrics-listen", "127.0.0.1:0", "--metrics-token-file", f.name)

    def count(what):
        return Page(c.dists[0], token=token)(f"connections_{what}_total")

    with c:
        assert count("untrusted") == 0
        eve = SecureCaller(c.dist_addrs[0], others, "eve", roots=c.ca)
        refused(grpc.StatusCode.UNAVAILABLE, lambda: eve("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply))
        wait_for("it to be counted", lambda: count("untrusted") >= 1)
        assert c.json("nodes")["nodes"] and count("refused") == 0


def test_queues_and_pauses_show():
    flags = ("--metrics-listen", "127.0.0.1:0")
    with Cluster(workers=1, slots=1, worker=flags, dist=flags, central=flags) as c:
        c.hawk("submit", "--class", "long", "--no-pause", "--array", "1-2", "--", "sleep", "600")
        wait_for("a long task in the slot", lambda: Page(c.workers[0])("worker_slots", **{"class": "long"}) == 1)
        c.hawk("submit", "--", "true")
        page = wait_for("a queue", lambda: (p := Page(c.workers[0]))("worker_queue", kind="reservation") and p)
        wait_for("its age to grow", lambda: Page(c.workers[0])("worker_queue_age_seconds") > page("worker_queue_age_seconds"))
        wait_for("the job's age", lambda: Page(c.dists[0])("dist_queue_age_seconds") > 0)
        wait_for("the long job's age", lambda: Page(c.central)("central_queue_age_seconds") > 0)
        assert Page(c.central)("central_long_tasks", state="running") == 1
        c.hawk("cancel", "all")
        wait_for("an empty queue", lambda: Page(c.workers[0])("worker_queue_age_seconds") == 0)
        c.hawk("submit", "--class", "long", "--estimate", "600s", "--", "sleep", "600")
        wait_for("a long task in the slot", lambda: Page(c.workers[0])("worker_slots", **{"class": "long"}) == 1)
        c.hawk("submit", "--wait", "--estimate", "100ms", "--", "sleep", "0.1")
        page = wait_for("the pause", lambda: (p := Page(c.workers[0]))("tasks_paused_total") == 1
                        and p("paused_seconds_total") > 0 and p)
        assert page("paused_seconds_total") < 600
        c.hawk("cancel", "all")


def test_credentials():
    with tempfile.TemporaryDirectory() as d:
        for name, text in (("token", "t" * 20), ("nodes", "n" * 20), ("metrics", "m" * 20)):
            with open(f"{d}/{name}", "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as f:
                f.write(text + "\n")
        base = [HAWK, "central", "--listen", "127.0.0.1:0", "--state-dir", f"{d}/s", "--metrics-listen", "127.0.0.1:0"]
        tokens = ["--token-file", f"{d}/token", "--node-token-file", f"{d}/nodes"]
        for more, why in ((tokens, "central.metrics_listen"), (["--metrics-listen", "0.0.0.0:0"], "could read the metrics")):
            r = subprocess.run(base + more, capture_output=True, text=True, timeout=BOUND)
            assert r.returncode == 2 and why in r.stderr and "metrics_token_file" in r.stderr, r
        c = Daemon(*base[1:], *tokens, "--metrics-token-file", f"{d}/metrics")
        try:
            central = c.ready()
            addr = address(c)
            assert status(addr) == 401 and status(addr, token="t" * 20) == 401 and status(addr, token="m" * 19) == 401
            assert status(addr, token="m" * 20) == 200 and status(addr, path="/", token="m" * 20) == 404
            assert status(addr, headers={"Authorization": "Basic " + "m" * 20}) == 401
            wait_for("wrong tokens on the page", lambda: Page(c, token="m" * 20)(
                "calls_refused_total", code="unauthenticated") == 4)
            refused = Page(c, token="m" * 20)("calls_refused_total", code="unauthenticated")
            env = {**os.environ, "HAWK_DIST": central, "HAWK_TOKEN": "w" * 20}
            assert subprocess.run([HAWK, "nodes"], capture_output=True, timeout=BOUND, env=env).returncode != 0
            wait_for("the refusal on the page", lambda: Page(c, token="m" * 20)(
                "calls_refused_total", code="unauthenticated") > refused)
        finally:
            c.stop()


def test_slow_readers_hold_nobody_up():
    """Connections that send nothing are no reason for the daemon to wait, nor to refuse another address."""
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "2", "--metrics-listen", "127.0.0.1:0",
                    "--output-dir", f"{d}/out", env=env)
        idle = []
        try:
            up.ready()
            host, port = address(up).rsplit(":", 1)
            for _ in range(40):
                idle.append(socket.create_connection((host, int(port)), source_address=("127.0.0.2", 0)))
                with contextlib.suppress(OSError):  # it may be refused already
                    idle[-1].sendall(b"GET /metrics HTTP/1.1\r\n")
            start = time.monotonic()
            run_hawk(env, "submit", "--wait", "--", "true")
            page = wait_for("a job on the page", lambda: (p := Page(up))("jobs_finished_total") == 1 and p)
            assert time.monotonic() - start < 10
            assert page("worker_slots", **{"class": "free"}) == 2 and page("central_slots") == 2
            assert page("page_age_seconds") < 5
        finally:
            for s in idle:
                s.close()
            up.stop()


def test_who_keeps_all_connections_keeps_nobody_out():
    """From as many addresses as it takes, with a byte now and then. Who connects last is served."""
    with tempfile.TemporaryDirectory() as d:
        up = Daemon("up", "--slots", "1", "--metrics-listen", "127.0.0.1:0", "--output-dir", f"{d}/out", env=user_environment(d))
        slow, over = [], threading.Event()

        def drip():
            while not over.wait(0.5):
                for s in list(slow):
                    with contextlib.suppress(OSError):  # the oldest are closed
                        s.sendall(b"X")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            up.ready()
            host, port = address(up).rsplit(":", 1)
            for i in range(60):
                slow.append(socket.create_connection((host, int(port)), source_address=(f"127.0.1.{1 + i // 6}", 0)))
                slow[-1].sendall(b"GET /metrics HTTP/1.1\r\n")
            assert Page(up)("worker_slots", **{"class": "free"}) == 1
            over.set()
            slow[-1].sendall(b": y\r\n\r\n")
            slow[-1].settimeout(BOUND)
            assert slow[-1].recv(12) == b"HTTP/1.1 200", "the youngest of them is served, too"
            slow[0].settimeout(BOUND)
            with contextlib.suppress(ConnectionError):
                assert slow[0].recv(1) == b"", "the oldest is closed"
        finally:
            over.set()
            dripping.join()
            for s in slow:
                s.close()
            up.stop()


def test_a_unix_socket():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "1", "--metrics-listen", f"unix:{d}/metrics.sock", "--output-dir", f"{d}/out",
                    env=env)
        try:
            up.ready()
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(f"{d}/metrics.sock")
                s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
            assert text.startswith("HTTP/1.") and text.endswith("# EOF\n"), text[-300:]
        finally:
            up.stop()
        assert not os.path.exists(f"{d}/metrics.sock")


def test_libraries_that_are_missing():
    """hawk loads them only where it uses them: other commands do not miss them, and a daemon names what it lacks."""
    def without(*args):
        hide = 'for f in /lib/*/libmicrohttpd.so.* /lib/*/libsystemd.so.*; do mount --bind /dev/null "$f"; done; exec "$@"'
        env = {**env_of_user, "NOTIFY_SOCKET": f"{d}/none"}
        return subprocess.run(["unshare", "--mount", "sh", "-ec", hide, "sh", HAWK, *args], env=env, capture_output=True, text=True,
                              timeout=BOUND)

    if os.geteuid() != 0:
        print("skipped: only root can hide libraries")
        return
    with tempfile.TemporaryDirectory() as d:
        env_of_user = user_environment(d)
        r = without("run", "--", "echo", "there")
        assert r.returncode == 0 and r.stdout == "there\n", r
        r = without("central", "--listen", "127.0.0.1:0", "--state-dir", f"{d}/c", "--metrics-listen", "127.0.0.1:0")
        assert r.returncode == 1 and "cannot serve metrics without libmicrohttpd" in r.stderr and r.stdout == "", r


run_tests(sys.modules[__name__])
