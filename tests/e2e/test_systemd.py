"""What systemd sees of the daemons: readiness, watchdog, units; and signals and descriptors it may give them."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Cluster, Daemon, bind_free_address, run_tests, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BEAT_US = 400000


class Notified:
    """A socket as systemd's: what daemons say to it."""

    def __init__(self, dir):
        self.path = f"{dir}/notify"
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.s.bind(self.path)
        self.env = {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": str(BEAT_US)}

    def next(self, bound=BOUND):
        """The next datagram, None when none comes."""
        self.s.settimeout(bound)
        try:
            return self.s.recv(4096).decode()
        except socket.timeout:
            return None

    def wait(self, what):
        while True:
            said = self.next()
            assert said is not None, f"no {what}"
            if what in said:
                return said

    def silence(self):
        """Takes what is there, then expects nothing for several beats."""
        while self.next(0.001):
            pass
        return self.next(BEAT_US * 3 / 1e6) is None


def test_ready_and_watchdog():
    with tempfile.TemporaryDirectory() as d:
        n = Notified(d)
        central = Daemon("central", "--listen", "127.0.0.1:0", "--state-dir", f"{d}/c", env=n.env)
        addr = central.ready()
        assert f"STATUS=central at {addr}" in n.wait("READY=1")
        for _ in range(3):
            n.wait("WATCHDOG=1")
        # Alive for the kernel, and yet its loop does not turn: nothing is said for it.
        central.p.send_signal(signal.SIGSTOP)
        assert n.silence(), "a stopped loop sent a sign of life"
        central.p.send_signal(signal.SIGCONT)
        n.wait("WATCHDOG=1")
        central.p.send_signal(signal.SIGTERM)
        n.wait("STOPPING=1")
        assert central.wait() == 0


def test_ready_means_joined_and_tasks_know_nothing_of_it():
    with tempfile.TemporaryDirectory() as d:
        s, addr = bind_free_address()
        n = Notified(d)
        worker = Daemon("worker", "--name", "w1", "--central", addr, "--output-dir", f"{d}/out", "--state-dir",
                        f"{d}/w", env=n.env)
        n.wait("WATCHDOG=1")
        wait_for("a word about central", lambda: addr in worker.text())
        s.close()
        central = Daemon("central", "--listen", addr, "--state-dir", f"{d}/c")
        central.ready()
        assert "w1" in n.wait("READY=1")
        dist = Daemon("dist", "--name", "d1", "--listen", "127.0.0.1:0", "--central", addr, "--state-dir", f"{d}/d")
        env = {k: v for k, v in os.environ.items() if k not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")}
        r = subprocess.run([HAWK, "submit", "--dist", dist.ready(), "--wait", "--env", "A=b", "--stdout", f"{d}/env",
                            "--", "env"], env=env, timeout=BOUND)
        assert r.returncode == 0
        said = open(f"{d}/env").read()
        assert "A=b" in said and "NOTIFY_SOCKET" not in said and "WATCHDOG" not in said, said
        for x in (worker, dist, central):
            assert x.stop() == 0


def test_a_hangup_is_told_and_survived():
    with Cluster(workers=1) as c:
        for d in (c.central, c.dists[0], c.workers[0]):
            d.p.send_signal(signal.SIGHUP)
            wait_for("a line about it", lambda: "Hangup: ignored" in d.text())
        c.hawk("submit", "--wait", "--", "true")


def test_closed_descriptors():
    with tempfile.TemporaryDirectory() as d:
        # Closed from the start: nothing that is opened later may take the log's place.
        p = subprocess.Popen(["/bin/sh", "-c", f'exec "$0" central --listen unix:{d}/s --state-dir {d}/c <&- >&- 2>&-',
                              HAWK])
        wait_for("it to listen", lambda: os.path.exists(f"{d}/s"))
        env = {**os.environ, "HAWK_DIST": f"unix:{d}/s"}
        wait_for("an answer", lambda: subprocess.run([HAWK, "nodes"], env=env, capture_output=True).returncode == 0)
        with open(f"{d}/c/journal.db", "rb") as f:
            assert f.read(15) == b"SQLite format 3"
        for fd in (0, 1, 2): # a library that opens something before main may have 0
            assert fd == 0 or os.readlink(f"/proc/{p.pid}/fd/{fd}") == "/dev/null"
        p.terminate()
        assert p.wait(timeout=BOUND) == 0
        # A log whose reader has gone.
        read, write = os.pipe()
        p = subprocess.Popen([HAWK, "central", "--listen", f"unix:{d}/s", "--state-dir", f"{d}/c"],
                             stdin=subprocess.DEVNULL, stdout=write, stderr=write)
        os.close(write)
        os.close(read)
        wait_for("an answer", lambda: subprocess.run([HAWK, "nodes"], env=env, capture_output=True).returncode == 0)
        p.send_signal(signal.SIGHUP)
        assert subprocess.run([HAWK, "nodes"], env=env, capture_output=True, timeout=BOUND).returncode == 0
        p.terminate()
        assert p.wait(timeout=BOUND) == 0


def test_units():
    """As make install leaves them, in the eyes of systemd itself."""
    if not shutil.which("systemd-analyze"):
        print("systemd-analyze is not there: units are not verified")
        return
    with tempfile.TemporaryDirectory() as d:
        build = os.path.relpath(os.path.dirname(HAWK), ROOT)
        subprocess.run(["make", "-C", ROOT, f"B={build}", "install-files", f"PREFIX={d}", f"SYSCONFDIR={d}/etc"],
                       check=True, timeout=BOUND * 10, stdout=subprocess.DEVNULL)
        units = f"{d}/lib/systemd/system"
        names = sorted(os.listdir(units))
        assert names == ["hawk-central.service", "hawk-dist.service", "hawk-dist@.service", "hawk-login.service",
                         "hawk-worker.service"], names
        os.rename(f"{units}/hawk-dist@.service", f"{units}/hawk-dist@two.service")
        for name in os.listdir(units):
            r = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", f"{units}/{name}"],
                               capture_output=True, text=True, timeout=BOUND)
            assert r.returncode == 0 and name not in r.stderr, (name, r.stdout, r.stderr)
            text = open(f"{units}/{name}").read()
            assert f"ExecStart={d}/bin/hawk" in text and "Type=notify" in text, text
        assert os.access(f"{d}/bin/hawk", os.X_OK) and os.path.exists(f"{d}/share/doc/hawk/hawk.yaml.example")


run_tests(sys.modules[__name__])
