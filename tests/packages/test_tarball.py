#!/usr/bin/python3
"""The tarball on other root file systems: a bare one with busybox and no C library, an older Debian, whose C library is too
old, and a newer one, whose C library Hawk uses. Unpacked, started from anywhere, upgraded while a task runs.

Usage: tests/packages/test_tarball.py BUILD [ROOT...]; as root. ROOT: busybox bullseye trixie. Debian's are fetched once, to
BUILD/roots. A root that cannot be had is skipped, and said; 77 where none can.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, f"{ROOT}/tests/e2e")
from hawktest import Daemon, alive, wait_for  # noqa: E402

BOUND = 60
VERSION = "0.1.0~tarball"
OWN, MACHINES = "own", "the machine's"
ROOTS = {"busybox": OWN, "bullseye": OWN, "trixie": MACHINES}  # and whose C library Hawk takes there
ANN = 1000


def run(*args, check=True, **more):
    r = subprocess.run(args, capture_output=True, text=True, timeout=300, **more)
    assert not check or r.returncode == 0, (args, r.returncode, r.stdout, r.stderr)
    return r


def make_busybox(at):
    for name in ("bin", "etc", "proc", "dev", "tmp", "usr/bin"):
        os.makedirs(f"{at}/{name}")
    shutil.copy("/bin/busybox", f"{at}/bin/busybox")
    for applet in run("/bin/busybox", "--list").stdout.split():
        if applet != "busybox":
            os.symlink("busybox", f"{at}/bin/{applet}")
    for name in ("passwd", "group"):
        with open(f"{at}/etc/{name}", "w", encoding="ascii") as f:
            f.write("root:x:0:0::/:/bin/sh\n" if name == "passwd" else "root:x:0:\n")


def mirror():
    """Where this machine's packages are from; None: not from a list that we can read."""
    for name in ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"):
        if os.path.exists(name):
            with open(name, encoding="utf-8") as f:
                for word in f.read().split():
                    if word.startswith("http") and word.rstrip("/").endswith("/debian"):
                        return word
    return None


def fetch(name, at):
    """Whether there is such a root now, at `at`."""
    if name == "busybox" or os.path.exists(f"{at}.whole"):
        return True
    shutil.rmtree(at, ignore_errors=True)
    os.makedirs(at)
    source = mirror()
    r = run("debootstrap", "--variant=minbase", name, at, source, check=False) if source else None
    if not r or r.returncode != 0:
        print(f"skipped {name}: it cannot be fetched: {r.stdout[-300:].strip() if r else 'no mirror is known'}", flush=True)
        return False
    open(f"{at}.whole", "w", encoding="ascii").close()
    return True


class Machine:
    """A root as it is, with what is written to it elsewhere. ann is a user there."""

    def __init__(self, lower, d):
        self.at, self.daemons = f"{d}/at", []
        run("mount", "-t", "tmpfs", "tmpfs", d)
        for name in ("upper", "work", "at"):
            os.mkdir(f"{d}/{name}")
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={d}/upper,workdir={d}/work", self.at)
        run("mount", "-t", "proc", "proc", f"{self.at}/proc")
        run("mount", "--rbind", "/dev", f"{self.at}/dev")
        os.chmod(f"{self.at}/tmp", 0o1777)
        with open(f"{self.at}/etc/passwd", "a", encoding="ascii") as f:
            f.write(f"ann:x:{ANN}:{ANN}::/home/ann:/bin/sh\n")
        os.makedirs(f"{self.at}/home/ann", mode=0o700)
        os.chown(f"{self.at}/home/ann", ANN, ANN)

    def command(self, *args):
        return ["chroot", f"--userspec={ANN}:{ANN}", self.at, "/usr/bin/env" if os.path.exists(f"{self.at}/usr/bin/env") else "/bin/env",
                "-i", "PATH=/usr/bin:/bin", "HOME=/home/ann", *args]

    def run(self, *args, check=True):
        return run(*self.command(*args), check=check)

    def hawk(self, *args, check=True):
        return self.run("hawk", *args, check=check).stdout

    def start(self, *args):
        d = Daemon(argv=self.command("hawk", *args))
        self.daemons.append(d)
        d.ready()
        return d

    def end(self):
        for d in self.daemons:
            if d.p.poll() is None:
                d.kill()
        run("umount", "-R", "-l", os.path.dirname(self.at), check=False)


def libc_of(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        return OWN if "/lib/hawk/libc/libc.so.6" in f.read() else MACHINES


def check_unpacked(m, tarball, name):
    """It starts from where it lies, by a link on PATH, and from any directory."""
    shutil.copy(tarball, f"{m.at}/tmp/hawk.tar.gz")
    os.makedirs(f"{m.at}/opt/with a blank")
    run("chroot", m.at, "tar", "-xzf", "/tmp/hawk.tar.gz", "-C", "/opt/with a blank")
    home = f"/opt/with a blank/{name}"
    for path in ("README", "share/man/man1/hawk-submit.1", "share/doc/hawk/protos/hawk.proto", "share/doc/hawk/licences/LIBRARIES",
                 "share/doc/hawk/licences/libssl3", "share/bash-completion/completions/hawk"):
        assert os.path.exists(f"{m.at}{home}/{path}"), path
    said = m.run("sh", "-c", f"cd '{home}' && ./hawk --version && bin/hawk --version && cd / && '{home}/hawk' --version").stdout
    assert said.startswith("hawk ") and said == 3 * f"{said.splitlines()[0]}\n", said
    os.symlink(f"{home}/bin/hawk", f"{m.at}/usr/bin/hawk")
    # Tasks get nothing of it, and have Hawk on their PATH.
    r = m.run("hawk", "run", "-j", "2", "-k", "--array", "1-3", "--", "sh", "-c", "echo {}; env | grep -e ^LD_ -e ^HAWK_LAUNCHER; true")
    assert r.stdout == "1\n2\n3\n", r
    assert m.hawk("run", "--", "hawk", "run", "-l", "/etc/group", "--", "true") == ""
    assert m.run("hawk", "nosuch", check=False).returncode == 2


def check_up(m, libc):
    up = m.start("up", "--slots", "2", "--output-dir", "/tmp/out", "--metrics-listen", "unix:/tmp/metrics.sock")
    with open(f"/proc/{up.p.pid}/comm", encoding="ascii") as f:
        assert f.read() == "hawk\n"
    assert libc_of(up.p.pid) == libc
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(f"{m.at}/tmp/metrics.sock")
        s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert b"".join(iter(lambda: s.recv(65536), b"")).endswith(b"# EOF\n")
    m.hawk("submit", "--wait", "--", "sh", "-c", "echo $((6 * 7))")
    assert m.hawk("cat", "last") == "42\n"
    assert " ann " in m.hawk("jobs")
    assert m.run("hawk", "submit", "--wait", "--", "false", check=False).returncode == 1
    assert up.stop() == 0, up.text()


def check_cluster(m):
    """Hawk starts itself, with TLS; a worker is upgraded while a task runs."""
    up = m.start("up", "--join-dir", "/home/ann/cluster", "--listen", "127.0.0.1", "--worker=no")
    worker = ("worker", "--join-dir", "/home/ann/cluster", "--name", "w1", "--slots", "2", "--state-dir", "/tmp/state",
              "--output-dir", "/tmp/out", "--agent-grace", "20s")
    first = m.start(*worker)
    where = ("--join-dir", "/home/ann/cluster")
    job = m.hawk("submit", *where, "--class", "long", "--", "sh", "-c", "echo $$ >/tmp/pid; while [ ! -e /tmp/go ]; do sleep 0.1; done").strip()

    def task():
        try:
            with open(f"{m.at}/tmp/pid", encoding="ascii") as f:
                return int(f.read() or 0)
        except FileNotFoundError:
            return 0
    pid = wait_for("the task", task, BOUND)
    first.p.send_signal(signal.SIGUSR2)
    assert first.wait(BOUND) == 0, first.text()
    m.start(*worker)
    assert alive(pid), "the task ran on"
    m.hawk("submit", *where, "--wait", "--", "true")
    open(f"{m.at}/tmp/go", "w", encoding="ascii").close()
    m.hawk("wait", *where, job)
    assert json.loads(m.hawk("job", *where, "-o", "json", job))["jobs"][0]["task_list"][0]["attempt"] == 1
    m.hawk("down", "--yes", *where)
    assert up.wait(BOUND) == 0, up.text()


def main(build, names):
    with tempfile.TemporaryDirectory() as d:
        tarball = run(f"{ROOT}/tools/tarball", build, d, VERSION, cwd=ROOT).stdout.strip()
        run("ip", "link", "set", "lo", "up")
        for name in names:
            lower = f"{build}/roots/{name}"
            if name == "busybox":
                lower = f"{d}/{name}"
                make_busybox(lower)
            os.mkdir(f"{d}/machine-{name}")
            m = Machine(lower, f"{d}/machine-{name}")
            try:
                check_unpacked(m, tarball, os.path.basename(tarball)[:-len(".tar.gz")])
                check_up(m, ROOTS[name])
                check_cluster(m)
                print(f"ok {name}: with {ROOTS[name]} C library", flush=True)
            except BaseException:
                for daemon in m.daemons:
                    print(f"--- {' '.join(daemon.args[-4:])}\n{daemon.text()[-3000:]}", file=sys.stderr)
                raise
            finally:
                m.end()


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root can enter other roots")
        sys.exit(77)
    directory = os.path.abspath(sys.argv[1])
    if sys.argv[-1] != "inside":
        there = [name for name in sys.argv[2:] or ROOTS if fetch(name, f"{directory}/roots/{name}")]
        if not there:
            sys.exit(77)
        sys.exit(subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",  # of its own
                                 sys.executable, sys.argv[0], directory, *there, "inside"]).returncode)
    main(directory, sys.argv[2:-1])
