"""A cluster that runs tasks as their users (worker.run_as: user), for the tests of that: the daemons are an unprivileged user's."""
import json
import os

from hawktest import HAWK, Daemon, alive, dropped, wait_for
from runastest import HAWK_USER, install_helper, machine_program
from userstest import UserCluster


class RunAsCluster(UserCluster):
    """Its daemons are the user's whose uid `owner` is. Runners are `program`. `before`: what starts a worker, as root."""

    def __init__(self, *args, settings=(), program="hawk-runner", owner=HAWK_USER, before=(), **more):
        self.owner, self.before = owner, before
        super().__init__(*args, **more)
        os.chmod(self.dir, 0o755)
        for part in ("run", "state", "out-w1", "central", "d1"):
            os.mkdir(f"{self.dir}/{part}", 0o755 if part == "run" else 0o700)
            os.chown(f"{self.dir}/{part}", owner, owner)
        self.helper = install_helper(self.dir, machine_program(self.dir, program), *settings)

    def daemon(self, role, name, *flags):
        before = self.before if role == "worker" else ()
        return Daemon(argv=[*before, *dropped(self.owner), HAWK, role, "--local-users", "--listen",
                            f"unix:{self.dir}/run/{name}.sock", *map(str, flags)], env={"HOME": "/nonexistent"})

    def start_central(self, listen):
        self.central = self.daemon("central", "central", "--ids-wait", "0s", "--state-dir", f"{self.dir}/central", *self.central_flags)
        self.central_addr = self.central.ready()

    def start_dist(self, name, wait=True):
        d = self.daemon("dist", name, "--name", name, "--central", self.central_addr, "--state-dir", f"{self.dir}/{name}", *self.dist_flags)
        self.dists.append(d)
        self.dist_addrs.append(d.ready())
        return d

    def start_worker(self, name, wait=True, slots=None, flags=()):
        w = self.daemon("worker", name, "--name", name, "--central", self.central_addr, "--slots", slots or self.slots, "--output-dir",
                        f"{self.dir}/out-{name}", "--state-dir", f"{self.dir}/state", "--agent-grace", "10s", "--kill-grace", "200ms", "--run-as", "user",
                        "--run-as-helper", self.helper, *self.worker_flags, *flags)
        self.workers.append(w)
        if wait:
            w.ready()
        return w

    def tree(self, user):
        """pids of the processes whose real user that is, on this test's machine: keepers are hawk's."""
        found, machine = [], os.readlink("/proc/self/ns/mnt")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                    his = f"\nUid:\t{user}\t" in f.read()
                if his and os.readlink(f"/proc/{pid}/ns/mnt") == machine and alive(int(pid)):
                    found.append(int(pid))
            except OSError:
                continue
        return found

    def runner(self, user):
        """The pid of the user's runner."""
        def look():
            for pid in self.tree(user):
                try:
                    with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                        if f.read() == "hawk-spawner\n":
                            return pid
                except OSError:
                    pass
            return None
        return wait_for(f"a runner of {user}", look)

    def submit_as(self, uid, *args):
        return self.as_user(uid, "submit", *args).stdout.strip()

    def cat(self, uid, job, *more):
        return self.as_user(uid, "cat", job, *more).stdout

    def task(self, uid, job):
        return json.loads(self.as_user(uid, "job", job, "--output", "json").stdout)["jobs"][0]["task_list"][0]

    def up(self, uid, *args):
        """Submits what says that it is up, and waits until it has."""
        job = self.submit_as(uid, *args)

        def is_up():
            task = self.task(uid, job)
            assert task["state"] in ("waiting", "placed", "launched", "running"), task
            return "up\n" in self.as_user(uid, "cat", job, check=None).stdout

        wait_for(f"{job} to be up", is_up)
        return job
