#!/usr/bin/python3
"""The Debian package: clean, installed, upgraded while jobs run, removed. On a copy of this root that is thrown away.

Usage: tests/packages/test_deb.py BUILD; as root. tests/packages/systemctl stands in for systemd. Ends with 77 where no
such copy can be made.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, f"{ROOT}/tests/e2e")
from hawktest import wait_for  # noqa: E402

BOUND = 60
OLD, NEW = "0.1.0~test1", "0.1.0~test2"


def run(*args, check=True, **more):
    r = subprocess.run(args, capture_output=True, text=True, timeout=300, **more)
    assert not check or r.returncode == 0, (args, r.returncode, r.stdout, r.stderr)
    return r


class Copy:
    """This root as it is, with what is written to it elsewhere."""

    def __init__(self, d):
        self.at = f"{d}/root"
        run("mount", "-t", "tmpfs", "tmpfs", d)
        for name in ("upper", "work", "root"):
            os.mkdir(f"{d}/{name}")
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={d}/upper,workdir={d}/work", self.at)
        for name in ("proc", "dev", "sys"):
            run("mount", "--rbind", f"/{name}", f"{self.at}/{name}")
        run("mount", "-t", "tmpfs", "tmpfs", f"{self.at}/run")
        run("ip", "link", "set", "lo", "up")
        os.makedirs(f"{self.at}/run/systemd/system")
        os.makedirs(f"{self.at}/run/fake", mode=0o755)
        shutil.copy(f"{HERE}/systemctl", f"{self.at}/usr/local/sbin/systemctl")
        if os.path.exists(f"{self.at}/usr/sbin/policy-rc.d"):
            os.remove(f"{self.at}/usr/sbin/policy-rc.d")
        for name in ("etc/hawk", "var/lib/hawk"):
            shutil.rmtree(f"{self.at}/{name}", ignore_errors=True)
        # Images of containers leave manual pages and other documents out.
        for name in glob.glob(f"{self.at}/etc/dpkg/dpkg.cfg.d/*"):
            os.remove(name)

    def run(self, *args, check=True, **env):
        return run("chroot", self.at, "env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                   "DEBIAN_FRONTEND=noninteractive", *[f"{k}={v}" for k, v in env.items()],
                   *args, check=check)

    def as_user(self, *args):
        """As a user of the machine that nothing knows of."""
        return self.run("setpriv", "--reuid=ann", "--regid=ann", "--init-groups", "env", "HOME=/home/ann", *args)

    def has(self, path):
        return os.path.lexists(self.at + path)

    def read(self, path):
        with open(self.at + path, encoding="utf-8") as f:
            return f.read()

    def install(self, package):
        shutil.copy(package, f"{self.at}/run/{os.path.basename(package)}")
        return self.run("dpkg", "-i", f"/run/{os.path.basename(package)}")


def check_installed(c):
    assert c.run("hawk", "version").stdout.startswith("hawk ")
    depends = c.run("dpkg-query", "-W", "-f", "${Depends}", "hawk").stdout
    for loaded_late in ("libmicrohttpd12", "libsystemd0"):
        assert loaded_late in depends, depends
    assert "hawk" in c.run("getent", "passwd", "hawk").stdout
    for path in ("/usr/share/man/man1/hawk-submit.1.gz", "/usr/share/bash-completion/completions/hawk",
                 "/usr/share/zsh/vendor-completions/_hawk", "/usr/share/fish/vendor_completions.d/hawk.fish",
                 "/lib/systemd/system/hawk-worker.service", "/usr/share/doc/hawk/hawk.yaml.example",
                 "/usr/share/hawk/snakemake/status"):
        assert c.has(path), path
    assert c.run("hawk", "config", "check", "/etc/hawk/hawk.yaml").stdout.endswith("ok\n")
    assert "/usr/bin/hawk" in c.read("/lib/systemd/system/hawk-central.service")
    assert " start " not in c.read("/run/fake/log"), "installing starts nothing"


def task_pid(c):
    return c.run("pgrep", "-u", "ann", "-x", "sleep", check=False).stdout.split()


def check_upgrade(c, package):
    c.run("systemctl", "start", "hawk-central", "hawk-dist", "hawk-worker")
    wait_for("the cluster", lambda: c.run("hawk", "nodes", check=False).stdout.count(" up ") == 3, BOUND)
    with open(f"{c.at}/etc/hawk/hawk.yaml", "a", encoding="utf-8") as f:
        f.write("# ours\n")
    c.run("useradd", "-m", "ann")
    long = c.as_user("hawk", "submit", "--class", "long", "--cwd", "/tmp", "--", "sleep", "20").stdout.strip()
    job = c.as_user("hawk", "submit", "--wait", "--cwd", "/tmp", "--", "id", "-un").stdout.strip()
    assert c.as_user("hawk", "cat", job).stdout == "ann\n", "tasks run as who submits them"
    before = wait_for("its process", lambda: task_pid(c), BOUND)
    c.install(package)
    assert "--signal=USR2 hawk-worker" in c.read("/run/fake/log")
    assert task_pid(c) == before, "the task ran on"
    assert c.run("dpkg-query", "-W", "-f", "${Version}", "hawk").stdout == NEW
    assert c.read("/etc/hawk/hawk.yaml").endswith("# ours\n")
    wait_for("the cluster", lambda: c.run("hawk", "nodes", check=False).stdout.count(" up ") == 3, BOUND)
    dist, number = job.split(".")
    last = c.as_user("hawk", "submit", "--wait", "--cwd", "/tmp", "--", "true").stdout
    assert last == f"{dist}.{int(number) + 1}\n", ("job numbers go on", job, last)
    c.as_user("hawk", "wait", long)
    assert '"attempt": 1' in c.as_user("hawk", "job", "-o", "json", long).stdout


def check_python(c, package):
    """A call from Python, in a directory where nothing of ours lies."""
    c.install(package)
    program = "import hawk, os\nwith hawk.Executor() as ex: print(ex.submit(pow, 2, 10).result())"
    r = c.as_user("sh", "-c", "cd /tmp && exec /usr/bin/python3 -c \"$0\"", program)
    assert r.stdout == "1024\n", r
    assert c.has("/usr/lib/python3/dist-packages/hawk/hawk.proto")
    c.run("dpkg", "-r", "python3-hawk")
    assert not c.has("/usr/lib/python3/dist-packages/hawk")


def check_removal(c):
    files = [f for f in c.run("dpkg", "-L", "hawk").stdout.split("\n") if f and os.path.isfile(c.at + f)]
    assert len(files) > 30, files
    c.run("dpkg", "-r", "hawk")
    left = [f for f in files if c.has(f)]
    assert sorted(left) == ["/etc/hawk/hawk.yaml", "/etc/hawk/run-as.conf"], left
    assert c.run("pgrep", "-u", "hawk", check=False).stdout == "", "the daemons have stopped"
    assert c.has("/var/lib/hawk/central/journal.db")
    c.run("dpkg", "-P", "hawk")
    assert not c.has("/etc/hawk") and not c.has("/var/lib/hawk") and not c.has("/var/log/hawk")


def main(build):
    with tempfile.TemporaryDirectory() as d:
        packages = {}
        python = f"{d}/debs/python3-hawk_{NEW}_all.deb"
        for version in (OLD, NEW):
            run(f"{ROOT}/tools/deb", build, f"{d}/debs", version, cwd=ROOT)
            packages[version] = f"{d}/debs/hawk_{version}_{run('dpkg', '--print-architecture').stdout.strip()}.deb"
        for package in sorted(glob.glob(f"{d}/debs/*{OLD}*.deb")):
            found = run("lintian", "--allow-root", package, check=False)
            assert found.returncode == 0 and not found.stdout, found.stdout
            print(f"ok lintian {os.path.basename(package)}")
        os.mkdir(f"{d}/copy")
        c = Copy(f"{d}/copy")
        try:
            c.install(packages[OLD])
            check_installed(c)
            print("ok installed")
            check_upgrade(c, packages[NEW])
            print("ok upgraded with a job running")
            check_python(c, python)
            print("ok Python")
            check_removal(c)
            print("ok removed")
        except BaseException:
            for name in sorted(glob.glob(f"{c.at}/run/fake/*log")):
                with open(name, encoding="utf-8") as f:
                    print(f"--- {os.path.basename(name)}\n{f.read()[-4000:]}", file=sys.stderr)
            raise
        finally:
            for unit in ("worker", "dist", "central"):
                c.run("systemctl", "stop", f"hawk-{unit}", check=False)
            run("umount", "-R", "-l", f"{d}/copy", check=False)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root can make a copy of the root directory")
        sys.exit(77)
    if len(sys.argv) == 2:  # mounts and ports of its own
        sys.exit(subprocess.run(["unshare", "--mount", "--net", sys.executable, *sys.argv, "inside"]).returncode)
    main(os.path.abspath(sys.argv[1]))
