"""The guide's cluster of three machines, from its own text: each machine a network namespace. Needs root and iproute2."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Daemon, run_tests

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEXT = open(f"{ROOT}/docs/guide.md").read().split("\n## A cluster of three machines\n")[1].split("\n## ")[0]
START = TEXT.split("\n### Start\n")[1].split("\n### ")[0]
COMMANDS = r"^(\w+)\$ +hawk (central|dist|worker.*|dist.*)$"
CONFIGURATION = r"^```yaml\n(central:\n.*?)^```$"
INVITATIONS = r"^head#  hawk (ca .*)$"
TOKENS = r"^```yaml\n(cluster:\n.*?)^```$"


class Machine(Daemon):
    """A daemon in a namespace; its host's name is that of the machine."""

    def __init__(self, net, name, command, dir):
        argv = ["ip", "netns", "exec", net, "unshare", "--uts", "sh", "-c",
                f"hostname {name}; exec {HAWK} {command} --state-dir {dir}/{name}-{command.split()[0]}"
                # The guide's machines have hawk-run-as, and a worker that serves everybody.
                + (f" --output-dir {dir}/{name}/out --run-as any" if "worker" in command else "")]
        super().__init__(env={"HAWK_CONFIG": f"{dir}/hawk.yaml"}, argv=argv)


def ip(*args, check=True):
    return subprocess.run(["ip", *args], check=check, capture_output=True, text=True).returncode == 0


def test_three_machines():
    mark = f"hawk{os.getpid()}"
    nets = {}
    daemons = []
    machines = re.findall(r"^\| (\w+) \| (10\.0\.0\.\d) \|", TEXT, re.M)
    commands = re.findall(COMMANDS, START, re.M)
    assert len(machines) == 3 and len(commands) == 5, (machines, commands)
    if os.geteuid() != 0 or not ip("netns", "add", f"{mark}-hub", check=False):
        print("skipped: no network namespaces can be made here")
        return
    try:
        ip("-n", f"{mark}-hub", "link", "add", "name", "br0", "type", "bridge", "forward_delay", "0")
        ip("-n", f"{mark}-hub", "link", "set", "br0", "up")
        for i, (name, addr) in enumerate(machines):
            net = nets[name] = f"{mark}-{name}"
            ip("netns", "add", net)
            ip("-n", net, "link", "set", "lo", "up")
            ip("-n", net, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{i}", "netns", f"{mark}-hub")
            ip("-n", f"{mark}-hub", "link", "set", f"p{i}", "master", "br0", "up")
            ip("-n", net, "addr", "add", f"{addr}/24", "dev", "eth0")
            ip("-n", net, "link", "set", "eth0", "up")
        with tempfile.TemporaryDirectory() as d:
            yaml = re.search(CONFIGURATION, TEXT, re.S | re.M).group(1)
            with open(f"{d}/hawk.yaml", "w") as f:
                f.write(yaml.replace("/etc/hawk", d))
            make = TEXT.split("\n### Configuration\n")[1].split("\n### ")[0]
            for command in re.findall(INVITATIONS, make, re.M):
                subprocess.run([HAWK, *shlex.split(command.replace("/etc/hawk", d))], check=True, stdout=subprocess.DEVNULL)
            for name, command in commands:
                daemons.append(Machine(nets[name], name, command, d))
            for daemon in daemons:
                daemon.ready()
            add = re.search(r"`hawk (user add ann .*?)`", TEXT).group(1).replace("/etc/hawk", d)
            subprocess.run([HAWK, *add.split(), "--uid", "61001", "--out", f"{d}/ann"], check=True, stdout=subprocess.DEVNULL)
            exports = {"HAWK_LOGIN": f"{d}/login"}
            subprocess.run([HAWK, "login", f"{d}/ann"], check=True, env={**os.environ, **exports}, stdout=subprocess.DEVNULL)
            hawk = lambda *args: subprocess.run(
                ["ip", "netns", "exec", nets["node2"], HAWK, *args], capture_output=True, text=True, check=True,
                timeout=BOUND, env={**os.environ, **exports}).stdout
            nodes = hawk("nodes")
            shown = re.search(r"\$ hawk nodes\n(.*?)\n\$", TEXT, re.S).group(1)
            for column in (1, 2):
                cells = lambda text: sorted(line.split()[column] for line in text.splitlines() if not line.startswith("freezer "))
                assert cells(nodes) == cells(shown), (nodes, shown)
            job = hawk("submit", "--array", "1-8", "--cwd", "/tmp", "--wait", "--", "hostname").split()[0]
            assert set(hawk("cat", job).split()) <= {"node1", "node2"}
            for daemon in reversed(daemons):
                daemon.stop()
    finally:
        for daemon in daemons:
            if daemon.p.poll() is None:
                daemon.kill()
        for net in [f"{mark}-hub", *nets.values()]:
            ip("netns", "del", net, check=False)


def test_the_recipe_for_tokens():
    """As root, with an /etc of the test's own; then the daemons as user hawk, as the units say."""
    recipe = re.search(r"^```sh\n(install -d .*?)^```$", TEXT, re.S | re.M).group(1)
    yaml = re.search(TOKENS, TEXT, re.S | re.M).group(1) + "central:\n  listen: 127.0.0.1:0\n"
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        print("skipped: no /etc of its own can be mounted here")
        return
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o711)
        shutil.copy(HAWK, f"{d}/hawk")
        os.chmod(f"{d}/hawk", 0o755)
        os.mkdir(f"{d}/etc", 0o755)
        for name, entry in (("passwd", "hawk:x:64123:64123::/:/bin/false\n"), ("group", "hawk:x:64123:\n")):
            with open(f"/etc/{name}") as old, open(f"{d}/etc/{name}", "w") as new:
                new.write(old.read() + entry)

        def inside(command):
            return ["unshare", "-m", "sh", "-ec", f"mount --bind {d} /mnt; mount --bind /mnt/etc /etc; {command}"]

        def as_hawk(command):
            return inside(f"exec setpriv --reuid=hawk --regid=hawk --clear-groups /mnt/hawk {command}")

        def run(argv, code=0):
            r = subprocess.run(argv, capture_output=True, text=True, timeout=BOUND)
            assert r.returncode == code, (argv, r)
            return r

        run(inside(recipe))
        with open(f"{d}/etc/hawk/hawk.yaml", "w") as f:
            f.write(yaml)
        assert "token_file: /etc/hawk/token  # /etc/hawk/hawk.yaml:2" in run(as_hawk("config show cluster")).stdout
        assert run(as_hawk("config check /etc/hawk/hawk.yaml")).stderr == ""
        os.mkdir(f"{d}/state")
        os.chown(f"{d}/state", 64123, 64123)
        central = Daemon(argv=as_hawk("central --state-dir /mnt/state"))
        central.ready()
        central.stop()
        # What is there and cannot be read is no reason to start with something else.
        for path, mode, command in (("hawk", 0o700, "central"), ("hawk", 0o700, "up"), ("hawk", 0o700, "config show worker"),
                                    ("hawk/hawk.yaml", 0o600, "worker")):
            before = os.stat(f"{d}/etc/{path}").st_mode
            os.chmod(f"{d}/etc/{path}", mode)
            said = run(as_hawk(command), 2).stderr
            assert "/etc/hawk/hawk.yaml: Permission denied" in said and "chmod" in said, said
            os.chmod(f"{d}/etc/{path}", before)
        os.unlink(f"{d}/etc/hawk/hawk.yaml")
        assert "token_file: \"\"  # default" in run(as_hawk("config show cluster")).stdout


run_tests(sys.modules[__name__])
