"""The README's cluster of several users, from its own text: each command as it stands there, on two bare machines, which
are namespaces with an /etc, a /var and a network of their own. Needs root and iproute2."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Daemon, run_tests, wait_for
from runastest import compile_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECTION = open(f"{ROOT}/README.md", encoding="utf-8").read().split("\n## A cluster of several users\n")[1].split("\n## ")[0]
COMMANDS = re.findall(r"^(\w+)[#$] +(hawk .*)$", SECTION, re.M)
MACHINES = {"head": "10.0.0.1", "node1": "10.0.0.2"}
USERS = {"ann": 61001, "bob": 61002}


class Machine:
    """Bare: nothing is there but the system and the accounts of its users. /home is shared."""

    def __init__(self, dir, name, addr):
        self.dir, self.name = f"{dir}/{name}", name
        for part in ("etc", "var", "run", "tmp"):
            os.makedirs(f"{self.dir}/{part}")
        os.chmod(f"{self.dir}/tmp", 0o1777)
        for part in ("passwd", "group", "nsswitch.conf", "ssl", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"):
            if os.path.isdir(f"/etc/{part}"):
                shutil.copytree(f"/etc/{part}", f"{self.dir}/etc/{part}", symlinks=True)
            elif os.path.exists(f"/etc/{part}"):
                shutil.copy(f"/etc/{part}", f"{self.dir}/etc/{part}")
        with open(f"{self.dir}/etc/passwd", "a", encoding="ascii") as f:
            f.writelines(f"{user}:x:{uid}:{uid}::/home/{user}:/bin/sh\n" for user, uid in USERS.items())
        script = (f"hostname {name}; ip link set lo up; mount --bind {dir}/home /home; "
                  + "".join(f"mount --bind {self.dir}/{part} /{part}; " for part in ("etc", "var", "run", "tmp"))
                  + "echo made; exec sleep infinity")
        self.holder = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "sh", "-ec", script], stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"made\n", name
        self.addr = addr
        os.makedirs(f"{self.dir}/etc/hawk")
        with open(f"{self.dir}/etc/hawk/run-as.conf", "w", encoding="ascii") as f:
            f.write(f"hawk {dir}/libexec/hawk-runner\n")

    def wire(self, other):
        """A cable between two."""
        ns = [f"/proc/{m.holder.pid}/ns/net" for m in (self, other)]
        subprocess.run(["nsenter", f"--net={ns[0]}", "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
                        "netns", str(other.holder.pid)], check=True)
        for m in (self, other):
            subprocess.run(["nsenter", f"--net=/proc/{m.holder.pid}/ns/net", "sh", "-ec",
                            f"ip addr add {m.addr}/24 dev eth0; ip link set eth0 up"], check=True)

    def argv(self, command, user=None):
        """What runs a command of the text as it stands there; a user runs it in his home."""
        drop = f"exec setpriv --reuid={USERS[user]} --regid={USERS[user]} --clear-groups env HOME=/home/{user} " if user else "exec "
        return ["nsenter", f"--target={self.holder.pid}", "--net", "--mount", "--uts", "sh", "-ec",
                f"cd /home/{user or 'admin'}; {drop}{command}"]

    def end(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


def clean(dir):
    """The environment of somebody who has set nothing."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HAWK_", "XDG_", "HOME", "TMPDIR"))}
    return {**env, "HOME": "/root", "PATH": f"{dir}/bin:{os.environ['PATH']}"}


def test_ten_plain_commands():
    assert len(COMMANDS) == 10 and not any("&" in c or "|" in c or ";" in c for _, c in COMMANDS), COMMANDS
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "--mount", "--uts", "true"], capture_output=True).returncode:
        print("skipped: no machines can be made here")
        return
    with tempfile.TemporaryDirectory(dir=ROOT if os.environ.get("TMPDIR", "/tmp").startswith("/home") else "/dev/shm") as d:
        run_them(d)


def run_them(d):
    os.chmod(d, 0o711)
    os.makedirs(f"{d}/bin")
    os.makedirs(f"{d}/home/admin", 0o700)
    shutil.copy(HAWK, f"{d}/bin/hawk")
    os.chmod(f"{d}/bin/hawk", 0o755)
    # As `make install` leaves it where there is no group hawk: these workers are root's.
    os.makedirs(f"{d}/libexec")
    compile_helper(f"{d}/libexec/hawk-run-as", "/etc/hawk/run-as.conf")
    os.chmod(f"{d}/libexec/hawk-run-as", 0o750)
    shutil.copy(f"{os.path.dirname(HAWK)}/hawk-runner", f"{d}/libexec/hawk-runner")
    os.chmod(f"{d}/libexec/hawk-runner", 0o755)
    for user, uid in USERS.items():
        os.mkdir(f"{d}/home/{user}", 0o700)
        os.chown(f"{d}/home/{user}", uid, uid)
    machines = {name: Machine(d, name, addr) for name, addr in MACHINES.items()}
    daemons, said = [], {}

    def run(who, command):
        r = subprocess.run(machines["head"].argv(command, who if who in USERS else None), capture_output=True, text=True,
                           timeout=BOUND, env=clean(d))
        said[who] = r.stdout + r.stderr
        return r

    try:
        machines["head"].wire(machines["node1"])
        for who, command in COMMANDS:
            if command.split()[1] in ("central", "dist", "worker"):
                daemons.append(Daemon(argv=machines[who].argv(command), env=clean(d)))
                daemons[-1].ready()
            else:
                r = run(who, command)
                assert r.returncode == 0, (who, command, r)
                if who in USERS:
                    job = r.stdout.split()[0]
                    assert run(who, f"hawk cat {job}").stdout == "node1\n", said
                    job = run(who, "hawk submit --wait -- id -un").stdout.split()[0]
                    assert run(who, f"hawk cat {job}").stdout == f"{who}\n", said
        # Neither may touch the other's.
        jobs = {user: run(user, "hawk submit -- sleep 600").stdout.strip() for user in USERS}
        for user, other in (("ann", "bob"), ("bob", "ann")):
            for what in ("cancel", "cat", "job", "explain"):
                r = run(user, f"hawk {what} {jobs[other]}")
                assert r.returncode != 0 and f"is of user {other}" in r.stderr, (user, what, r)
            assert "needs scope operate" in run(user, "hawk drain node1").stderr
            for place in (f"/home/{other}/.config/hawk/user.key", "/etc/hawk/ca/users/root.key", "/home/admin/node1.invitation"):
                assert run(user, f"cat {place}").returncode != 0, place
        for user, job in jobs.items():
            assert run(user, f"hawk cancel {job}").returncode == 0, said
        wait_for("both to end", lambda: "sleep" not in run("ann", "hawk jobs --state running").stdout)
    finally:
        for daemon in reversed(daemons):
            daemon.stop()
        for machine in machines.values():
            machine.end()


run_tests(sys.modules[__name__])
