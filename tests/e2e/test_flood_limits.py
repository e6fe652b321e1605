"""What bounds a stranger's connections and calls, one bound after the other; test_flood.py has the attacks."""
# seconds: 45
# make test-all
import contextlib
import multiprocessing
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
import zlib

import floodtest as flood
import hawktest
from floodclient import LIST, Client, memory, named
from hawktest import BOUND, SLOW, Cluster, Daemon, run_tests, user_environment, wait_for
from tlstest import TlsCluster, context_of

SANITIZED = bool(os.environ.get("SANITIZE"))  # what was freed is kept, and address space is reserved in terabytes
GROWTH_MIB = 1 << 20 if SANITIZED else 64
FLOODS = 2000 // SLOW  # connections with refused calls, before the daemon is stopped among more of them


def idle_crowd(address, n):
    """n connections that say nothing; those that are refused or cut off stay in the list as well."""
    crowd = []
    for _ in range(n):
        with contextlib.suppress(OSError):
            crowd.append(flood.connect(address))
    return crowd


def test_messages_that_never_end():
    """gRPC keeps a message until all of it has come: what it may keep is bounded, for one message and for all together."""
    with tempfile.TemporaryDirectory() as home:
        up = Daemon("up", "--output-dir", f"{home}/out", env=user_environment(home))
        try:
            address = up.ready()
            before = memory(up.p.pid)[0]
            with contextlib.suppress(flood.Cut):
                flood.Filler(address, LIST, 0xffffffff).fill(256 << 20)
                raise AssertionError("a message of 4 GiB is taken")
            named(up, "is cut off: it sends a larger message than allowed; limit in bytes: 104857600")
            assert memory(up.p.pid)[1] - before <= GROWTH_MIB, memory(up.p.pid)
            fillers = [flood.Filler(address, LIST, 100 << 20) for _ in range(4)]
            with contextlib.suppress(flood.Cut):
                for filler in fillers:
                    filler.fill(90 << 20)
                raise AssertionError("one user's messages take all the room")
            assert sum(f.sent for f in fillers) <= 204 << 20, [f.sent for f in fillers]
            named(up, "is cut off: it has sent unfinished messages that leave others too little room")
            client = Client(address, LIST)
            for _ in range(4):
                client.ask()
            client.close()
            assert memory(up.p.pid)[1] - before <= 200 + GROWTH_MIB, memory(up.p.pid)
            assert up.stop() == 0
        finally:
            up.kill()


def test_messages_that_never_end_of_two_users():
    """What one holds leaves room for the other, of the same address, and for nodes."""
    with TlsCluster(dists=1, workers=1) as c:
        c.ca.issue("user", "eve")
        flood.TLS = context_of(c.ca, "ann")
        try:
            fillers = [flood.Filler(c.dist_addrs[0], LIST, 100 << 20) for _ in range(3)]
            with contextlib.suppress(flood.Cut):
                for filler in fillers:
                    filler.fill(90 << 20)
                raise AssertionError("one user's messages take all the room")
            flood.TLS = context_of(c.ca, "eve")
            flood.Filler(c.dist_addrs[0], LIST, 100 << 20).fill(90 << 20)
        finally:
            flood.TLS = None
        named(c.dists[0], "is cut off: it has sent unfinished messages that leave others too little room")
        c.hawk("run", "true")


def test_no_descriptor_left():
    """A daemon that cannot accept for a moment accepts again afterwards, and says so once."""
    with Cluster(dists=1, workers=1) as c:
        worker_addr = next(n["address"] for n in c.json("nodes", dist=c.dist_addrs[0])["nodes"]
                           if n["role"] == "worker")
        for daemon, address, path in ((c.central, c.central_addr, LIST), (c.dists[0], c.dist_addrs[0], LIST),
                                      (c.workers[0], worker_addr, b"/nobody/Knows")):
            before = resource.prlimit(daemon.p.pid, resource.RLIMIT_NOFILE)
            most = max(map(int, os.listdir(f"/proc/{daemon.p.pid}/fd"))) + 10
            resource.prlimit(daemon.p.pid, resource.RLIMIT_NOFILE, (most, before[1]))
            crowd = idle_crowd(address, 100)
            named(daemon, "accepts nobody for now: Too many open files")
            for s in crowd:
                s.close()
            client = Client(address, path)
            for _ in range(4):
                client.ask()
            client.close()
            resource.prlimit(daemon.p.pid, resource.RLIMIT_NOFILE, before)
        c.hawk("run", "true", dist=c.dist_addrs[0])


def test_few_descriptors():
    """ulimit -n 64: a crowd takes nobody's place who is being served, and nobody is deaf afterwards."""
    with tempfile.TemporaryDirectory() as home:
        wrapper = f"{home}/limited"
        with open(wrapper, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nulimit -n 64\nexec {hawktest.HAWK} "$@"\n')
        os.chmod(wrapper, 0o755)
        with contextlib.ExitStack() as stack:
            stack.callback(setattr, hawktest, "HAWK", hawktest.HAWK)
            hawktest.HAWK = wrapper
            up = Daemon("up", "--output-dir", f"{home}/out", env=user_environment(home))
            stack.callback(up.kill)
            address = up.ready()
            for _ in range(3):
                crowd = idle_crowd(address, 200)
                client = Client(address, LIST)
                for _ in range(10):
                    client.ask()
                for s in crowd:
                    s.close()
                client.ask()
                client.close()
            named(up, "is cut off to make room")
            assert up.stop() == 0


def test_connections_max():
    """At the limit the oldest connection without a call goes; those with one stay, and new ones are refused."""
    with Cluster(dists=1, workers=1, dist=["--connections-max", "20"]) as c:
        address = c.dist_addrs[0]
        served = []
        while not any("is refused: there are as many as cluster.connections_max allows" in x for x in c.dists[0].log):
            assert len(served) <= 20, c.dists[0].text()
            served.append(Client(address, LIST))
            if not answers(served[-1]):
                served.pop()
        assert len(served) >= 10
        for client in served:
            client.keep = True
            client.ask()
        said = c.hawk("submit", "--", "true", check=3).stderr
        assert "cluster.connections_max" in said, said
        served.pop().close()
        other = Client(address, LIST)
        wait_for("a place that has become free", lambda: answers(other))
        for client in served + [other]:
            client.close()


def answers(client):
    try:
        client.ask()
        return True
    except OSError:
        client.close()
        return False


def test_wrong_tokens():
    """Guesses are logged with their number, and end the connection."""
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/token", "w", opener=lambda p, f: os.open(p, f, 0o600), encoding="utf-8") as f:
            f.write("a-token-that-nobody-guesses\n")
        with Cluster(dists=0, workers=0, central=["--token-file", f"{d}/token"]) as c:
            client = Client(c.central_addr, LIST)
            client.keep = True
            for _ in range(10):
                client.ask()
            named(c.central, "was refused: its token is missing or wrong, the 10th call of it; the connection is closed")
            named(c.central, "was refused: its token is missing or wrong")
            wait_for("the connection to end", lambda: not answers(client))
            ask_all(c.central_addr, 30)
            named(c.central, "more lines like this were left out: 'a call with a wrong token'")


def test_other_addresses():
    """An address that is not this machine's loopback has limits, but not because of one wrong token among right ones."""
    if not os.environ.get("HAWK_FLOOD_NAMESPACE"):
        alone = ["unshare", "--user", "--map-root-user", "--net"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode:
            print("skipped: no network namespace can be made here")
            return
        script = 'ip link set lo up && ip addr add 10.77.0.1/24 dev lo && exec "$@"'
        subprocess.run([*alone, "sh", "-c", script, "sh", sys.executable, __file__, "test_other_addresses"], check=True,
                       env={**os.environ, "HAWK_FLOOD_NAMESPACE": "1", "HAWK": hawktest.HAWK}, timeout=4 * BOUND)
        return
    with tempfile.TemporaryDirectory() as d:
        tokens = {"token": "a-token-that-nobody-guesses", "node-token": "another-that-nobody-guesses"}
        for name, text in tokens.items():
            with open(f"{d}/{name}", "w", opener=lambda p, f: os.open(p, f, 0o600), encoding="utf-8") as f:
                f.write(text + "\n")
        central = Daemon("central", "--listen", "10.77.0.1:0", "--state-dir", f"{d}/central",
                         "--token-file", f"{d}/token", "--node-token-file", f"{d}/node-token",
                         "--unproven-per-address", "5", "--insecure")
        try:
            address = central.ready()
            assert address.startswith("10.77.0.1:")
            crowd = idle_crowd(address, 20)
            named(central, "its address has 5 such connections, the limit (cluster.unproven_per_address)")
            ask_all(address, 3)  # the crowd makes room
            for s in crowd:
                s.close()
            refused = "calls from its address had wrong tokens too often"
            wait_for("a refusal", lambda: guess(address) or any(refused in x for x in central.log))
        finally:
            central.kill()


def guess(address):
    client = Client(address, LIST)
    answers(client)
    client.close()


def test_deaf():
    """A daemon that nobody can reach says so and ends, so that its supervisor starts it again."""
    with tempfile.TemporaryDirectory() as d:
        central = Daemon("central", "--listen", f"unix:{d}/socket", "--state-dir", f"{d}/central")
        try:
            central.ready()
            os.unlink(f"{d}/socket")
            assert central.wait(2 * BOUND) == 1, central.text()
            named(central, "does not answer this process itself, 3 times in a row")
        finally:
            central.kill()


def refused_calls(address, until, floods):
    """As many calls of nobody's method as a connection may make at once, on one connection after the other."""
    os.nice(19)

    def calls(a):
        a.write(b"".join(a.open(b"/nobody/Knows", flood.END_HEADERS | flood.END_STREAM) for _ in range(1000)))
        floods.value += 1
        raise flood.Cut
    flood.repeat(address, until, calls, read=False)


def test_stopped_in_a_flood():
    """Calls that are accepted as the daemon stops do it no harm: it ends in good order."""
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/token", "w", opener=lambda p, f: os.open(p, f, 0o600), encoding="utf-8") as f:
            f.write("a-token-that-nobody-guesses\n")
        common = ["--listen", "127.0.0.1:0", "--token-file", f"{d}/token"]
        for i in range(4):
            central = Daemon("central", "--state-dir", f"{d}/central{i}", *common)
            dist = crowd = None
            try:
                dist = Daemon("dist", "--name", "d", "--central", central.ready(), "--state-dir", f"{d}/dist{i}", *common)
                until, floods = time.monotonic() + BOUND, multiprocessing.Value("i", 0)
                crowd = multiprocessing.Process(target=refused_calls, args=(dist.ready(), until, floods))
                crowd.start()
                wait_for("the flood", lambda: floods.value >= FLOODS)  # noqa: B023
                assert dist.stop() == 0, dist.text()
            finally:
                for p in filter(None, (crowd, dist, central)):
                    p.kill()


def ask_all(address, n):
    for _ in range(n):
        client = Client(address, LIST)
        client.ask()
        client.close()


def squeezed_gibibyte():
    """A gRPC message of 1 GiB of zeros, as gzip: 1 MB."""
    squeeze = zlib.compressobj(wbits=31)
    zeros = bytes(1 << 20)
    body = b"".join(squeeze.compress(zeros) for _ in range(1024)) + squeeze.flush()
    return b"\1" + struct.pack(">I", len(body)) + body


def ends_with(s, buffer=b""):
    """The type of the frame that ends the first stream, and its bytes."""
    while True:
        while len(buffer) < 9 or len(buffer) < 9 + int.from_bytes(buffer[:3], "big"):
            data = s.recv(1 << 16)
            assert data, "the connection was closed"
            buffer += data
        size = int.from_bytes(buffer[:3], "big")
        if buffer[3] == flood.HEADERS and buffer[4] & flood.END_STREAM:
            return buffer[9:9 + size]
        buffer = buffer[9 + size:]


def test_compressed_messages():
    """One is refused as it is, whatever it would become."""
    message = squeezed_gibibyte()
    with Cluster(dists=1, workers=1) as c:
        dist = c.dists[0]
        if not SANITIZED:
            resource.prlimit(dist.p.pid, resource.RLIMIT_AS, (2 << 30, 2 << 30))
        start = memory(dist.p.pid)[0]
        for path in (b"/hawk.v1.Hawk/ListNodes", b"/hawk.v1.Hawk/Session"):
            with flood.connect(c.dist_addrs[0], timeout=BOUND) as s:
                s.sendall(flood.PREFACE + flood.frame(flood.SETTINGS, 0, 0) + flood.frame(flood.SETTINGS, 1, 0) +
                          flood.frame(flood.HEADERS, flood.END_HEADERS, 1, flood.compressed_block(path)))
                parts = [message[at:at + 16384] for at in range(0, len(message), 16384)]
                try:
                    for i, part in enumerate(parts):
                        last = flood.END_STREAM if i == len(parts) - 1 else 0
                        s.sendall(flood.frame(flood.DATA, last, 1, part))
                except OSError:
                    pass  # the answer came before its end
                end = ends_with(s)
                assert b"grpc-status" in end and b"gzip" in end, end
        most = memory(dist.p.pid)[1]
        assert most - start <= GROWTH_MIB, (start, most)
        c.hawk("run", "true", dist=c.dist_addrs[0])


run_tests(sys.modules[__name__])
