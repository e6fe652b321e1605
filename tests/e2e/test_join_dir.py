"""`hawk up --join-dir`: a cluster that a user starts on a home that machines share, and that workers and clients find
there. One test has two machines, each a network namespace."""
# seconds: 30
# make test-all
import contextlib
import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import sys

from hawktest import BOUND, HAWK, Daemon, alive, dropped, run_tests, small_disk, user_environment, wait_for

FILES = ["cluster", "dist", "lock", "roots.crt", "user.crt", "user.key", "worker.invitation"]


class Home:
    """A shared home: what `hawk up` and workers keep lies below it, and each test's processes are ended with it."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="hawk-home-")
        self.dir = f"{self.path}/.hawk"
        self.env = {**user_environment(self.path), "TMPDIR": self.path, "HAWK_LOGIN": "none"}
        self.daemons = []
        return self

    def __exit__(self, kind, value, trace):
        for d in self.daemons:
            if kind:
                print(f"--- {' '.join(d.args[1:4])}\n{d.text()[-4000:]}", file=sys.stderr)
            if d.p.poll() is None:
                d.kill()
        wait_for("spawners of killed workers to end", lambda: not self.processes())
        shutil.rmtree(self.path)

    def processes(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    if self.path.encode() in f.read() and int(pid) != os.getpid() and alive(int(pid)):
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def private(self):
        """What each `hawk up` keeps for itself."""
        return [n for n in os.listdir(self.path) if n.startswith("hawk-up-")]

    def child(self, up, role):
        children = subprocess.run(["ps", "--ppid", str(up.p.pid), "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
        return int(next(line.split()[0] for line in children.splitlines() if f"hawk {role}" in line))

    def daemon(self, *args, argv=(), ready=True):
        d = Daemon(env=self.env, argv=[*argv, HAWK, *map(str, args)])
        self.daemons.append(d)
        if ready:
            d.ready()
        return d

    def up(self, *flags, **more):
        return self.daemon("up", "--join-dir", self.dir, "--listen", "127.0.0.1", "--slots", "1", "--output-dir", f"{self.path}/out",
                           "--set", "worker.agent_grace=1s", *flags, **more)

    def worker(self, name, *flags, **more):
        return self.daemon("worker", "--join-dir", self.dir, "--name", name, "--slots", "1", "--state-dir", f"{self.path}/{name}",
                           "--output-dir", f"{self.path}/out-{name}", "--agent-grace", "1s", *flags, **more)

    def refusal(self, start, *flags):
        """What a daemon says that cannot start."""
        d = start(*flags, ready=False)
        assert d.wait() != 0, d.text()
        return d.text()

    def hawk(self, *args, check=0, argv=(), **env):
        r = subprocess.run([*argv, HAWK, *args], capture_output=True, text=True, timeout=BOUND, env={**self.env, **env})
        assert r.returncode == check, (args, r.returncode, r.stdout, r.stderr)
        return r.stdout if check == 0 else r.stderr


def test_workers_and_clients_find_it_by_the_directory():
    with Home() as h:
        up = h.up()
        assert stat.S_IMODE(os.stat(h.dir).st_mode) == 0o700 and sorted(os.listdir(h.dir)) == FILES
        for name in FILES:
            assert stat.S_IMODE(os.stat(f"{h.dir}/{name}").st_mode) == 0o600, name
        w = h.worker("n2")
        nodes = h.hawk("nodes", "--join-dir", h.dir)
        assert "n2" in nodes and f"up-{os.uname().nodename}"[:20] in nodes, nodes
        # Two tasks that wait for each other run on both workers.
        meet = 'touch $0.$HAWK_TASK_INDEX; until test -e $0.0 -a -e $0.1; do sleep 0.1; done; echo met'
        h.hawk("submit", "--join-dir", h.dir, "--wait", "--array", "0-1", "--", "sh", "-c", meet, f"{h.path}/m")
        assert h.hawk("cat", "last", HAWK_LOGIN=h.dir) == "met\nmet\n"
        # This machine's clients find the socket, as that of any `hawk up`.
        assert "done" in h.hawk("jobs", "--all")
        # What cleans /tmp of old files leaves a directory that is locked.
        private = os.open(f"{h.path}/{h.private()[0]}", os.O_RDONLY)
        try:
            fcntl.flock(private, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert False, "its keys and journals are not locked"
        except BlockingIOError:
            os.close(private)
        # Nobody gets in without what is in the directory.
        with open(f"{h.dir}/dist", encoding="ascii") as f:
            dist = f.read().strip()
        assert dist in h.hawk("jobs", "--dist", dist, check=3)
        assert "say one" in h.hawk("jobs", "--dist", dist, "--join-dir", h.dir, check=2)
        # Its end is everybody's.
        assert up.stop() == 0 and w.wait() == 0, (up.text(), w.text())
        assert os.listdir(h.dir) == [] and not h.private()
        assert not h.processes()


def test_its_daemons_have_the_settings_of_hawk_up():
    with Home() as h:
        h.up("--set", "up.client_grace=7s", "--set", "up.output_keep=2h", "--set", "up.output_max=3GiB")
        private = f"{h.path}/{h.private()[0]}"
        with open(f"{private}/hawk.yaml", encoding="utf-8") as f:
            text = f.read()
        sections = {name: body for name, body in re.findall(r"^(\w+):\n((?:[ #].*\n|\n)*)", text, re.M)}
        for section, setting in (("dist", "client_grace: 7s"), ("worker", "output_keep: 2h"), ("worker", f"output_max: {3 << 30}"),
                                 ("worker", "slots: 1")):
            assert re.search(rf"^ +{setting}", sections[section], re.M), (setting, text)
        # The root of users has made its one credential.
        assert os.path.exists(f"{private}/ca") and not os.path.exists(f"{private}/ca/users")


def test_hawk_down_ends_it():
    with Home() as h:
        up, w = h.up("--worker=no"), h.worker("n2")
        h.hawk("submit", "--join-dir", h.dir, "--wait", "--", "true")
        h.hawk("down", "--yes", "--join-dir", h.dir)
        assert up.wait() == 0 and w.wait() == 0 and os.listdir(h.dir) == [], up.text()
        assert "hawk: down:" not in up.text(), up.text()
        assert "no cluster is up there" in h.hawk("jobs", "--join-dir", h.dir, check=3)


def test_what_is_wrong_with_the_directory_is_said():
    with Home() as h:
        assert "no such directory" in h.refusal(lambda **m: h.worker("n2", **m))
        os.mkdir(h.dir, 0o755)
        assert "chmod go=" in h.refusal(h.up)
        assert "chmod go=" in h.refusal(lambda **m: h.worker("n2", **m))
        os.chmod(h.dir, 0o700)
        assert "no cluster is up there" in h.refusal(lambda **m: h.worker("n2", **m))
        assert "without up.join_dir" in h.refusal(lambda **m: h.daemon("up", "--listen", "127.0.0.1", **m))
        assert "leave it out" in h.refusal(h.up, "--set", "central.listen=127.0.0.1:0")
        assert "leave one out" in h.refusal(lambda **m: h.worker("n2", "--central", "127.0.0.1:1", **m))
        if os.geteuid() == 0:
            os.chown(h.dir, 61001, 61001)
            assert "belongs to uid 61001" in h.refusal(h.up)
            os.chown(h.dir, 0, 0)
        up = h.up()
        refusal = h.refusal(h.up)
        assert "a cluster is up there already (process" in refusal and f"`hawk down --yes --join-dir {h.dir}`" in refusal, refusal
        os.chmod(f"{h.dir}/cluster", 0o644)
        assert "cluster: other users have access" in h.refusal(lambda **m: h.worker("n2", **m))
        os.chmod(f"{h.dir}/cluster", 0o600)
        # Whoever may write above it can swap it after a look at it, for one with an invitation of his own.
        if os.geteuid() == 0:
            os.chown(f"{h.dir}/worker.invitation", 61001, 61001)
            assert "worker.invitation: it belongs to uid 61001" in h.refusal(lambda **m: h.worker("n2", **m))
            os.chown(f"{h.dir}/worker.invitation", 0, 0)
        # A file system may keep no locks.
        os.remove(f"{h.dir}/lock")
        assert "a cluster is up there already (process" in h.refusal(h.up)
        with open(f"{h.dir}/cluster", "r+", encoding="ascii") as f:
            good = f.read()
            f.seek(0)
            f.truncate()
            f.write("hawk cluster 2\n")
            f.flush()
            assert "another version: remove it" in h.refusal(lambda **m: h.worker("n2", **m))
            f.seek(0)
            f.write(good)
        assert up.stop() == 0 and os.listdir(h.dir) == [], (os.listdir(h.dir), up.text())


def test_a_cluster_that_was_killed_leaves_a_directory_that_says_so():
    with Home() as h:
        up = h.up("--set", "central.long_lease=4s", "--set", "central.suspect=1s", "--set", "worker.kill_grace=1s")
        w = h.worker("n2", "--kill-grace", "1s")
        up.kill()
        # Its daemons go with it, and a worker does not wait for ever.
        assert w.wait() == 1 and "the cluster of" in w.text() and "is gone" in w.text(), w.text()
        wait_for("its daemons to end", lambda: not h.processes())
        assert "does not answer (process" in h.refusal(lambda **m: h.worker("n2", **m))
        assert "cannot reach" in h.hawk("jobs", "--join-dir", h.dir, check=3)
        left, = h.private()
        up = h.up()
        wait_for("it to say so", lambda: "replacing a cluster that does not answer any more" in up.text())
        own, = h.private()
        assert own != left and f"{h.path}/{left}: removing" in up.text(), up.text()
        h.worker("n2")  # which was the other cluster's
        h.hawk("submit", "--join-dir", h.dir, "--wait", "--", "true")
        assert up.stop() == 0


def test_only_what_killed_clusters_of_this_machine_left_is_removed():
    with Home() as h:
        for name, host in [("others", "another-machine"), ("theirs", os.uname().nodename)]:
            os.makedirs(f"{h.path}/hawk-up-{name}/ca")
            with open(f"{h.path}/hawk-up-{name}/host", "w", encoding="ascii") as f:
                f.write(f"{host}\n")
        os.chown(f"{h.path}/hawk-up-theirs", *[61001 if os.geteuid() == 0 else -1] * 2)
        os.mkdir(f"{h.path}/hawk-up-begun")
        os.mkdir(f"{h.path}/not-hawk-up")
        os.symlink(f"{h.path}/not-hawk-up", f"{h.path}/hawk-up-link")
        kept = {"hawk-up-others", "hawk-up-begun", "hawk-up-link", *["hawk-up-theirs"] * (os.geteuid() == 0)}
        up = h.up("--worker=no")
        running = set(h.private())
        assert len(running - kept) == 1 and kept < running, up.text()
        second = h.daemon("up", "--join-dir", f"{h.path}/second", "--socket", f"{h.path}/second.sock", "--listen", "127.0.0.1", "--worker=no")
        assert running < set(h.private()) and os.path.isdir(f"{h.path}/hawk-up-others/ca"), second.text()
        assert up.stop() == 0 and second.stop() == 0


def test_a_full_disk_below_tmpdir_is_called_so():
    with Home() as h, small_disk("size=16k") as full:
        if not full:
            return
        with open(f"{full}/filler", "wb", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(bytes(4096))
        h.env["TMPDIR"] = full
        said = h.refusal(h.up)
        assert f"{full}/hawk-up-" in said and "No space left on device: set TMPDIR to a directory with room" in said, said
        assert "up.join_dir" not in said and os.listdir(full) == ["filler"], said


def test_without_central_it_ends():
    with Home() as h:
        up = h.up()
        os.kill(h.child(up, "central"), signal.SIGKILL)
        assert up.wait() == 1 and os.listdir(h.dir) == [] and not h.processes(), up.text()


def test_the_directory_is_left_once():
    """Another `hawk up` may take it while the first one still waits for its worker."""
    with Home() as h:
        up = h.up()
        pid = {role: h.child(up, role) for role in ["central", "worker"]}
        os.kill(pid["worker"], signal.SIGSTOP)
        os.kill(pid["central"], signal.SIGKILL)
        wait_for("the directory to be left", lambda: os.listdir(h.dir) == [])
        for name in ["lock", "worker.invitation"]:
            with open(f"{h.dir}/{name}", "w", encoding="ascii") as f:
                f.write("another's")
        os.kill(pid["worker"], signal.SIGCONT)
        assert up.wait() != 0 and sorted(os.listdir(h.dir)) == ["lock", "worker.invitation"], up.text()


def test_two_clusters_keep_outputs_apart():
    """On a shared home, with the same jobs' ids. Root's directories are the machine's: so it is somebody else's home."""
    with Home() as h:
        own = {"argv": dropped(61001 if os.geteuid() == 0 else 0)}
        if own["argv"]:
            os.chown(h.path, 61001, 61001)
        dirs = {name: f"{h.path}/{name}" for name in "abcd"}
        ups, workers = {}, []
        for name, dir in dirs.items():
            ups[name] = h.daemon("up", "--join-dir", dir, "--socket", f"{dir}.sock", "--listen", "127.0.0.1", "--slots", "1",
                                 f"--worker={'yes' if name in 'cd' else 'no'}", "--set", "worker.agent_grace=1s", **own)
        for name in "ab":
            workers.append(h.daemon("worker", "--join-dir", dirs[name], "--slots", "1", "--name", f"w{name}", "--agent-grace", "1s", **own))
        ids = {h.hawk("submit", "--join-dir", dir, "--cwd", "/", "--wait", "--", "echo", "from", name, **own) for name, dir in dirs.items()}
        assert ids == {"1.1\n"}, ids
        for name, dir in dirs.items():
            assert h.hawk("cat", "--join-dir", dir, "1.1", **own) == f"from {name}\n", name
        for up in ups.values():
            assert up.stop() == 0, up.text()
        assert [w.wait() for w in workers] == [0, 0], workers[0].text()
        # All of them are found to be removed.
        state = f"{h.path}/hawk"
        kept = sorted(n for n in os.listdir(state) if n.startswith("out"))
        os.mkdir(f"{state}/out-of-order")
        os.makedirs(f"{state}/{kept[0]}-old/1.1")
        for n in kept:
            for entry in os.listdir(f"{state}/{n}/1.1"):
                os.utime(f"{state}/{n}/1.1/{entry}", (1, 1))
            os.utime(f"{state}/{n}/1.1", (1, 1))
        listed = h.hawk("prune", "--older", "30d", **own)
        assert len(kept) == 4 and "4 jobs" in listed and all(n in listed for n in kept), (kept, listed)


def test_it_starts_beside_another_hawk_up():
    """Which has the user's socket."""
    with Home() as h:
        first = h.daemon("up", "--slots", "1")
        up = h.up()
        assert "HAWK_LOGIN" in up.text() and " has unix:" in up.text(), up.text()
        assert h.hawk("submit", "--join-dir", h.dir, "--wait", "--", "true") == "1.1\n"
        assert h.hawk("jobs", "-q") == "", "the socket is the first one's"
        first.stop()
        assert up.stop() == 0, up.text()
        taken = f"{h.path}/taken.sock"
        first = h.daemon("up", "--slots", "1", "--socket", taken)
        said = h.refusal(h.up, "--socket", taken)
        assert "up.socket: unix:" in said and "--socket PATH" in said and "dist.socket" not in said, said
        up = h.up("--socket", "none")
        assert h.hawk("submit", "--join-dir", h.dir, "--wait", "--", "true") == "1.1\n"
        assert not os.path.exists("none"), "a socket of that name"
        first.stop(), up.stop()
        said = h.refusal(lambda *flags, **more: h.daemon("up", *flags, **more), "--socket", "none")
        assert "without up.join_dir clients find `hawk up` by its socket" in said, said


def ip(*args, check=True):
    return subprocess.run(["ip", *args], check=check, capture_output=True, text=True).returncode == 0


def test_two_machines():
    """node1 is found by its own address: nobody says one."""
    nets = [f"hawk{os.getpid()}-{i}" for i in (1, 2)]
    if os.geteuid() != 0 or not ip("netns", "add", nets[0], check=False):
        print("skipped: no network namespaces can be made here")
        return
    try:
        ip("netns", "add", nets[1])
        ip("-n", nets[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", nets[1])
        for i, net in enumerate(nets, 1):
            ip("-n", net, "link", "set", "lo", "up")
            ip("-n", net, "addr", "add", f"10.0.0.{i}/24", "dev", "eth0")
            ip("-n", net, "link", "set", "eth0", "up")
        on = lambda i: ["ip", "netns", "exec", nets[i - 1], "unshare", "--uts", "sh", "-c", f'hostname node{i}; exec "$@"', "sh"]
        with Home() as h:
            up = h.daemon("up", "--join-dir", h.dir, "--slots", "1", "--output-dir", f"{h.path}/out", argv=on(1))
            w = h.daemon("worker", "--join-dir", h.dir, "--slots", "1", "--state-dir", f"{h.path}/state", "--output-dir", f"{h.path}/out", argv=on(2))
            wait_for("node1's address", lambda: "central is ready at 10.0.0.1:" in up.text())
            wait_for("node2's address", lambda: "is ready at 10.0.0.2:" in w.text())
            meet = 'touch $0.$HAWK_TASK_INDEX; until test -e $0.0 -a -e $0.1; do sleep 0.1; done; hostname'
            for i in (1, 2):
                h.hawk("submit", "--join-dir", h.dir, "--wait", "--array", "0-1", "--", "sh", "-c", meet, f"{h.path}/m{i}", argv=on(i))
                assert sorted(h.hawk("cat", "last", "--join-dir", h.dir, argv=on(i)).split()) == ["node1", "node2"]
            assert up.stop() == 0 and w.wait() == 0
    finally:
        for net in nets:
            ip("netns", "del", net, check=False)


run_tests(sys.modules[__name__])
