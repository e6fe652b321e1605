#!/usr/bin/python3
"""Floods from outside: what strangers do to a daemon's socket must cost bounded memory and delay nobody else.

Ten connections attack; beside them a client asks a question again and again, half of the time on a new connection.
HAWK_FLOOD_SECONDS=60: every attack on every role for so long (make test-flood); otherwise 0.4 s each, or until the
daemon's log has what it must say of it, and on most roles and behind TLS only some of them. HAWK_FLOOD_TABLE=FILE: the
figures as rows of docs/reliability.md's table.
"""
# seconds: 60
# make test-all
import atexit
import json
import multiprocessing
import multiprocessing.connection
import os
import sys
import tempfile
import time

import floodtest as flood
from floodclient import LIST, Client, memory, named, says
from hawktest import BOUND, SLOW, Cluster, Daemon, run_tests, user_environment
from tlstest import TlsCluster, context_of

SECONDS = float(os.environ.get("HAWK_FLOOD_SECONDS", "0.4"))
FULL = SECONDS >= 10
ROLES = os.environ.get("HAWK_FLOOD_ROLES", "dist,central,worker,tls,up").split(",")
CONNECTIONS = 10
SANITIZED = bool(os.environ.get("SANITIZE"))  # what was freed is kept, and address space is reserved in terabytes
GROWTH_MIB = 1 << 20 if SANITIZED else 64
WAIT_S = 1 if FULL else 5 * SLOW  # a busy machine's tests are no measurement
SHORT = ["refused calls on connection after connection", "HEADERS, SETTINGS never acknowledged", "streams opened and reset",
         "streams opened, and stream 0 reset", "CONTINUATION", "empty DATA after a refusal"]
LONGER = {"connections that stay": 3}  # thousands wait in the kernel's queue before the client
FIGURES = []


def attacker(name, address, until):
    os.nice(19)  # real ones have machines of their own: these leave the daemon and the client what they need
    flood.ATTACKS[name](address, until)


def attack(daemon, address, role, name, path):
    """One attack on one daemon, whose figures are checked and noted."""
    start = daemon.start_mib
    end, bound = time.monotonic() + SECONDS, time.monotonic() + SECONDS + BOUND
    client = Client(address, path)
    until = bound if name in LINES else end
    crowd = [multiprocessing.Process(target=attacker, args=(name, address, until)) for _ in range(CONNECTIONS)]
    for p in crowd:
        p.start()
    try:
        while time.monotonic() < end or (time.monotonic() < bound and (
                client.answers < 2 or (name in LINES and not says(daemon, LINES[name])))):
            client.ask_until_answered()
            multiprocessing.connection.wait([p.sentinel for p in crowd if p.is_alive()], timeout=0.02)
    finally:
        for p in crowd:
            p.kill()
            p.join()
        client.close()
    rss, most = memory(daemon.p.pid)
    figures = {"role": role, "attack": name, "rss_mib": rss - start, "most_mib": most - start,
               "longest_s": client.longest, "answers": client.answers, "again": client.again}
    FIGURES.append(figures)
    print(f"{role:8} {name:40} {rss - start:6.1f} MiB above the start, at most {most - start:6.1f}; "
          f"{client.answers:5} answers, the longest wait {client.longest:.3f} s, {client.again} connections again", flush=True)
    assert most - start <= GROWTH_MIB, figures
    assert client.answers >= 2 and client.longest <= WAIT_S * LONGER.get(name, 1), figures
    assert daemon.p.poll() is None


LINES = {  # what the log says of it
    "HEADERS, SETTINGS never acknowledged": "is cut off: it opens streams",
    "streams opened and reset": "is cut off: it opens streams",
    "streams opened, and stream 0 reset": "is cut off: it sent frames in an order HTTP/2 forbids",
    "CONTINUATION": "is cut off: it sent a longer header block than allowed",
    "PING": "is cut off: it sends PING",
    "empty DATA": "is cut off: it sends PING, SETTINGS or other frames that carry nothing too fast",
    "empty DATA after a refusal": "is cut off: it sends PING, SETTINGS or other frames that carry nothing too fast",
    "refused calls on connection after connection": "is cut off: it opens streams while all connections without",
    "messages of a Session that carry nothing": "is cut off: it sends PING, SETTINGS or other frames that carry nothing",
    "messages of a Session that ask for nothing": "is cut off: it sends messages in small pieces too fast",
    "no HTTP/2": "is cut off: it does not speak HTTP/2",
    "frames of 16 MiB": "is cut off: it sent",
}


def attacks_on(daemon, address, role, path=LIST):
    daemon.start_mib = memory(daemon.p.pid)[0]
    for name in flood.ATTACKS if FULL or role == "dist" else SHORT:
        attack(daemon, address, role, name, path)
        if name in LINES:
            named(daemon, LINES[name])
            if not address.startswith("unix:"):
                named(daemon, "127.0.0.1:")


def test_floods():
    with Cluster(dists=1, workers=1) as c:
        worker_addr = next(n["address"] for n in c.json("nodes", dist=c.dist_addrs[0])["nodes"]
                           if n["role"] == "worker")
        if "dist" in ROLES:
            attacks_on(c.dists[0], c.dist_addrs[0], "dist")
        if "central" in ROLES:
            attacks_on(c.central, c.central_addr, "central")
        if "worker" in ROLES:
            attacks_on(c.workers[0], worker_addr, "worker", b"/nobody/Knows")
        c.hawk("run", "true", dist=c.dist_addrs[0])


def test_floods_behind_a_handshake():
    """The attackers hold a user's certificate; so does the client."""
    if "tls" not in ROLES:
        return
    with TlsCluster(dists=1, workers=1) as c:
        flood.TLS = context_of(c.ca, "ann")
        try:
            attacks_on(c.dists[0], c.dist_addrs[0], "dist, TLS")
        finally:
            flood.TLS = None
        c.hawk("run", "true")


def test_flood_up():
    if "up" not in ROLES:
        return
    with tempfile.TemporaryDirectory() as home:
        up = Daemon("up", "--output-dir", f"{home}/out", env=user_environment(home))
        try:
            attacks_on(up, up.ready(), "up")
            assert up.stop() == 0
        finally:
            up.kill()


if FULL and os.environ.get("HAWK_FLOOD_TABLE"):
    atexit.register(lambda: json.dump(FIGURES, open(os.environ["HAWK_FLOOD_TABLE"], "w"), indent=1))
run_tests(sys.modules[__name__])
