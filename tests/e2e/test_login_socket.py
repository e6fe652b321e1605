"""The login socket: whoever connects gets a credential for the uid that the kernel names, and for no other."""
# make test-all
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, alive, dropped, run_tests, wait_for
from tlstest import Roots, TlsCluster
from userstest import ANN, BOB

EVE = 1003
NOBODY = 65534


class Machine:
    """A machine with accounts of its own, where `hawk user serve` runs."""

    def __init__(self, ca, *serve):
        self.tmp = tempfile.TemporaryDirectory(prefix="hawk-login-")
        self.dir = self.tmp.name
        os.chmod(self.dir, 0o755)
        self.ca = ca
        self.socket = f"{self.dir}/login.sock"
        with open(f"{self.dir}/nsswitch", "w", encoding="ascii") as f:
            f.write("passwd: files\n")
        with open(f"{self.dir}/passwd", "w", encoding="ascii") as f:
            f.write("root:x:0:0::/root:/bin/sh\nsystem:x:999:999::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
            for name, uid in (("ann", ANN), ("bob", BOB)):
                f.write(f"{name}:x:{uid}:{uid}:{'long ' * 2000}:{self.dir}/{name}:/bin/sh\n")
        for uid, name in ((ANN, "ann"), (BOB, "bob"), (EVE, "eve"), (999, "system"), (NOBODY, "nobody"), (0, "root")):
            os.mkdir(f"{self.dir}/{name}", 0o700)
            os.chown(f"{self.dir}/{name}", uid, uid)
        self.server = self.start("user", "serve", "--ca", self.ca.dir, "--socket", self.socket, *serve)
        self.ready()

    def ready(self):
        line = self.server.stdout.readline()
        assert line == f"ready {self.socket}\n", (line, self.server.stderr.read() if not line else "")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.server.poll() is None:
            self.server.kill()
        self.server.communicate()
        self.tmp.cleanup()

    def command(self, uid, *args):
        return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0/passwd" /etc/passwd; [ ! -e /etc/nsswitch.conf ] || '
                'mount --bind "$0/nsswitch" /etc/nsswitch.conf; exec "$@"', self.dir,
                *dropped(uid), HAWK, *args]

    def env(self, uid):
        name = {ANN: "ann", BOB: "bob", EVE: "eve", 999: "system", NOBODY: "nobody", 0: "root"}[uid]
        return {**{k: v for k, v in os.environ.items() if not k.startswith(("HAWK_", "XDG_"))}, "HOME": f"{self.dir}/{name}"}

    def start(self, *args):
        return subprocess.Popen(self.command(0, *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
                                env=self.env(0))

    def run(self, uid, *args, check=0):
        r = subprocess.run(self.command(uid, *args), capture_output=True, text=True, timeout=BOUND, cwd="/", env=self.env(uid))
        assert check is None or r.returncode == check, (args, r.returncode, r.stdout, r.stderr)
        return r

    def log_in(self, uid, check=0):
        """`hawk login` at the socket; one that comes a moment after another of this user tries again."""
        def take():
            r = self.run(uid, "login", "--socket", self.socket, check=None)
            return None if "a moment ago" in r.stderr else r
        r = wait_for("an answer", take)
        assert r.returncode == check, (r.returncode, r.stdout, r.stderr)
        return r


def test_a_user_of_this_machine_needs_no_file():
    with TlsCluster(workers=1) as c, Machine(c.ca, "--dist", c.dist_addrs[0]) as m:
        said = m.log_in(ANN).stdout
        assert said.startswith(f"ann (uid {ANN}; scopes read,submit), until ") and f"{m.dir}/ann/.config/hawk" in said, said
        for name in ("user.crt", "user.key"):
            st = os.stat(f"{m.dir}/ann/.config/hawk/{name}")
            assert (st.st_uid, st.st_mode & 0o777) == (ANN, 0o600)
        job = m.run(ANN, "submit", "--wait", "--", "true").stdout.strip()
        assert c.json("job", job)["jobs"][0]["user"] == "ann"
        assert "needs" in m.run(ANN, "drain", "w1", check=3).stderr
        # The list has them, as if the operator had added them.
        m.log_in(BOB)
        listed = m.run(0, "user", "list", "--ca", c.ca.dir).stdout
        assert "ann" in listed and "bob" in listed, listed
        assert m.run(ANN, "login").stdout == said


def test_nobody_gets_what_is_anothers():
    with Machine(Roots()) as m:
        for uid, why in ((EVE, f"no account of this machine has uid {EVE}"), (NOBODY, "uid 65534 is nobody's"),
                         (999, "uid 999 is below 1000"), (0, "uid 0 is below 1000")):
            r = m.log_in(uid, check=1)
            assert why in r.stderr, r.stderr
            assert not os.path.exists(f"{m.dir}/{ {EVE: 'eve', NOBODY: 'nobody', 999: 'system', 0: 'root'}[uid]}/.config")
        # A name whose uid is another's, and a uid whose name is.
        m.run(0, "user", "add", "ann", "--uid", "4711", "--out", f"{m.dir}/a", "--ca", m.ca.dir)
        assert "ann has uid 4711: another person needs another name" in m.log_in(ANN, check=1).stderr
        m.run(0, "user", "add", "robert", "--uid", str(BOB), "--out", f"{m.dir}/b", "--ca", m.ca.dir)
        assert f"uid {BOB} is robert's already" in m.log_in(BOB, check=1).stderr
        assert m.run(0, "user", "list", "--ca", m.ca.dir).stdout.count("\n") == 3


def test_who_is_revoked_stays_out_until_the_operator_adds_him():
    with Machine(Roots(), "--scopes", "read") as m:
        assert "scopes read)" in m.log_in(ANN).stdout
        m.run(0, "user", "revoke", "ann", "--ca", m.ca.dir)
        assert "ann was revoked: the operator lets you in again with `hawk user add ann`" in m.log_in(ANN, check=1).stderr
        # What the operator says of a user goes before what the socket gives others.
        m.run(0, "user", "add", "ann", "--uid", str(ANN), "--scopes", "read,submit", "--out", f"{m.dir}/a", "--ca", m.ca.dir)
        assert "scopes read,submit)" in m.log_in(ANN).stdout
        # Also who has had no credential yet.
        m.run(0, "ca", "revoke", m.ca.dir, "--yes", "--role", "user", "--name", "bob")
        assert "bob was revoked: the operator lets you in again with `hawk user add bob`" in m.log_in(BOB, check=1).stderr
        m.run(0, "user", "add", "bob", "--uid", str(BOB), "--out", f"{m.dir}/b", "--ca", m.ca.dir)
        m.log_in(BOB)
        # As long as the list cannot be read, anybody may be on it.
        m.run(0, "user", "revoke", "ann", "--ca", m.ca.dir)
        os.rename(f"{m.ca.dir}/denied", f"{m.ca.dir}/kept")
        for spoil in (os.mkdir, lambda path: shutil.copy(m.ca.roots, path)):
            spoil(f"{m.ca.dir}/denied")
            assert "no credential can be made: the operator's log says why" in m.log_in(ANN, check=1).stderr
            for command in (("list",), ("add", "ann", "--out", f"{m.dir}/a")):
                r = m.run(0, "user", *command, "--ca", m.ca.dir, check=1)
                assert f"{m.ca.dir}/denied: " in r.stderr and r.stdout == "", (r.stdout, r.stderr)
            subprocess.run(["rm", "-r", f"{m.ca.dir}/denied"], check=True)
        assert "good" in m.run(0, "user", "list", "--ca", m.ca.dir).stdout


def test_an_account_that_cannot_be_looked_up_may_be_there():
    with Machine(Roots()) as m:
        m.server.terminate()
        m.server.communicate(timeout=BOUND)
        os.remove(f"{m.dir}/passwd")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(f"{m.dir}/passwd")  # opening it fails
        m.server = m.start("user", "serve", "--ca", m.ca.dir, "--socket", m.socket)
        m.ready()
        assert f"the account of uid {ANN} could not be looked up: try again" in m.log_in(ANN, check=1).stderr
        for uid in ((), ("--uid", str(ANN))):
            r = m.run(0, "user", "add", "ann", *uid, "--ca", m.ca.dir, check=1)
            assert "ann could not be looked up: try again, or say --uid and --out" in r.stderr, r.stderr
        assert "nobody" in m.run(0, "user", "list", "--ca", m.ca.dir).stdout
        m.run(0, "user", "add", "ann", "--uid", str(ANN), "--out", f"{m.dir}/a", "--ca", m.ca.dir)


def test_short_lives_and_a_second_one_too_soon():
    with Machine(Roots(), "--for", "2s") as m:
        m.log_in(ANN)
        script = """import socket, sys, time
began, given = time.monotonic(), 0
for _ in range(50):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    said = s.makefile().read()
    given += said.startswith("hawk credential 1\\n")
    assert given or "a moment ago" in said, said
print(given, time.monotonic() - began)
"""
        given, took = subprocess.run([*dropped(ANN), sys.executable, "-c", script, m.socket], capture_output=True, text=True,
                                     check=True, timeout=BOUND).stdout.split()
        assert int(given) <= 1 + float(took), (given, took)
        wait_for("it to expire", lambda: m.run(ANN, "login", check=None).returncode == 1)
        m.log_in(ANN)


def test_no_credential_of_a_strangers_socket():
    """Whoever may put a socket anywhere must not send others' jobs to his own cluster."""
    with Machine(Roots()) as m:
        path = f"{m.dir}/bob/login.sock"
        os.chmod(f"{m.dir}/bob", 0o711)
        p = subprocess.Popen([*dropped(BOB), sys.executable, "-c",
                              "import os, socket, sys\ns = socket.socket(socket.AF_UNIX)\nos.umask(0)\ns.bind(sys.argv[1])\n"
                              "s.listen()\nwhile True:\n    s.accept()[0].sendall(b'error: he was here\\n')", path])
        try:
            wait_for("it to listen", lambda: os.path.exists(path))
            r = m.run(ANN, "login", "--socket", path, check=1)
            assert f"user {BOB} listens there, who is neither root nor you" in r.stderr, r.stderr
        finally:
            p.kill()
            p.wait()
        assert "nobody gives credentials there" in m.run(ANN, "login", "--socket", f"{m.dir}/none", check=1).stderr


def test_who_does_not_read_holds_nobody_up():
    with Machine(Roots()) as m:
        held = []
        for _ in range(200):
            s = socket.socket(socket.AF_UNIX)
            s.connect(m.socket)
            held.append(s)
        assert m.log_in(ANN).returncode == 0
        assert b"error: uid 0 is below 1000" in held[0].recv(4096)
        for s in held:
            s.close()
        m.server.send_signal(signal.SIGTERM)
        log = m.server.communicate(timeout=BOUND)[1]
        assert 0 < log.count("gets no credential") < 100, log  # five in ten seconds


def test_it_leaves_no_socket_and_replaces_a_dead_one():
    with Machine(Roots()) as m:
        again = m.start("user", "serve", "--ca", m.ca.dir, "--socket", m.socket)
        out, err = again.communicate(timeout=BOUND)
        assert again.returncode == 1 and out == "" and m.socket in err, err
        m.server.send_signal(signal.SIGKILL)
        m.server.communicate()
        assert os.path.exists(m.socket)
        m.server = m.start("user", "serve", "--ca", m.ca.dir, "--socket", m.socket)
        m.ready()
        m.log_in(ANN)
        m.server.send_signal(signal.SIGTERM)
        m.server.wait(BOUND)
        assert m.server.returncode == 0 and not os.path.exists(m.socket)
        assert not alive(m.server.pid)
        said = m.server.stderr.read()
        assert f"ann (uid {ANN}) took a credential at {m.socket}" in said and "PRIVATE" not in said, said
        r = m.start("user", "serve", "--ca", f"{m.dir}/nowhere", "--socket", m.socket)
        assert f"{m.dir}/nowhere" in r.communicate(timeout=BOUND)[1] and r.returncode == 1


if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
    print("skipped: no machine with accounts of its own can be made here\n# tests 0")
    sys.exit(0)
run_tests(sys.modules[__name__])
