"""libhawk inside another event loop: its descriptor and its callbacks, with hawk up and with daemons. The programs are
compiled against what `make install` installs."""
# seconds: 33
# make test-all
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

from hawktest import BOUND, Cluster, Daemon, run_hawk, run_tests, user_environment, wait_for
from installed import ROOT, clean, compiled, example

program = compiled(f"{ROOT}/tests/e2e/libhawk_fd.c")


class Up:
    """A `hawk up` in a directory of its own."""

    def __init__(self, d, *flags):
        self.env, self.socket, self.flags = user_environment(d), f"unix:{d}/hawk/up.sock", flags
        self.args = ("up", "--slots", "4", "--output-dir", f"{d}/out", *flags)
        self.start()

    def start(self):
        self.daemon = Daemon(*self.args, env=self.env)
        self.socket = self.daemon.ready()

    def jobs(self):
        return json.loads(run_hawk(self.env, "jobs", "--output", "json").stdout)["jobs"]

    def unfinished(self):
        return [j for j in self.jobs() if j["state"] in ("waiting", "running", "pending")]


class Program:
    """libhawk_fd, which says how far it is, and waits to be told to go on."""

    def __init__(self, up, what):
        self.p = subprocess.Popen([program, up.socket, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self, line):
        said = self.p.stdout.readline().strip()
        assert said == line, (said, self.p.wait(timeout=BOUND))

    def goes_on(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()

    def ends(self):
        assert self.p.wait(timeout=BOUND) == 0


def test_every_call():
    with tempfile.TemporaryDirectory() as d:
        up = Up(d, "--set", "up.client_grace=500ms")
        p = Program(up, "calls")
        p.says("all is so")
        p.ends()
        wait_for("what was left behind is cancelled", lambda: not up.unfinished())
        assert up.daemon.stop() == 0, up.daemon.text()


def test_a_program_that_is_slow_loses_nothing():
    """It calls nothing for longer than a client may be silent. Then it hears everything, in order."""
    with tempfile.TemporaryDirectory() as d:
        up = Up(d, "--set", "up.client_grace=500ms")
        p = Program(up, "slow")
        p.says("submitted")
        wait_for("all have ended", lambda: len(up.jobs()) == 20 and not up.unfinished())
        assert {j["state"] for j in up.jobs()} == {"done"}, up.jobs()  # it was not taken for dead
        p.goes_on()
        p.says("all are done")
        p.ends()
        assert len(up.jobs()) == 20, up.jobs()
        up.daemon.stop()


def test_its_hawk_up_dies_or_hangs_and_comes_back():
    with tempfile.TemporaryDirectory() as d:
        up = Up(d)
        for end, begin in ((up.daemon.kill, up.start), (lambda: up.daemon.p.send_signal(signal.SIGSTOP),
                                                        lambda: up.daemon.p.send_signal(signal.SIGCONT))):
            p = Program(up, "dies")
            p.says("accepted")
            end()
            p.goes_on()
            p.says("refused")
            begin()
            p.goes_on()
            p.says("done")
            p.ends()
        up.daemon.stop()


def evloop(dist, *args):
    return subprocess.run([example("evloop"), *args], capture_output=True, text=True, timeout=BOUND * 2,
                          env={**clean, "HAWK_DIST": dist})


def test_the_example():
    with tempfile.TemporaryDirectory() as d:
        up = Up(d)
        # The tasks wait for what the loop's timer tells.
        told = f"{d}/told"
        r = subprocess.Popen([example("evloop"), "sh", "-c", f"until grep -q 'jobs have ended' {told}; do sleep 0.1; done; test {{}} != b",
                              "--", "a", "b", "c"], stdout=subprocess.PIPE, stderr=open(told, "w", encoding="utf-8"),
                             text=True, env={**clean, "HAWK_DIST": up.socket})
        out, _ = r.communicate(timeout=BOUND)
        assert r.returncode == 1, out
        said = sorted(re.sub("job [0-9.]+", "job ID", x) for x in out.splitlines())
        assert said == sorted(f"{w}\t{what}" for w, code in (("a", 0), ("b", 1), ("c", 0))
                              for what in ("is job ID", f"exited {code}")), said
        with open(told, encoding="utf-8") as f:
            assert "of 3 jobs have ended" in f.read()
        up.daemon.stop()
    r = evloop("127.0.0.1:1", "true", "--", "x")
    assert r.returncode == 1 and "cannot reach" in r.stderr, r


def test_its_dist_dies():
    """Every job ends, each is told once, under the id that it had."""
    with Cluster(workers=2, slots=4, dists=2) as c:
        out = f"{c.dir}/ran"
        words = [str(i) for i in range(60)]
        done = []
        runner = threading.Thread(target=lambda: done.append(
            evloop(",".join(c.dist_addrs), "sh", "-c", f"echo {{}} >> {out}; sleep 0.1", "--", *words)))
        runner.start()
        wait_for("some have run", lambda: os.path.exists(out) and len(open(out).readlines()) > 10)
        c.dists[0].kill()
        runner.join(timeout=BOUND * 2)
        r = done[0]
        assert r.returncode == 0, (r.stdout, r.stderr)
        said = sorted(re.sub("job [0-9.]+", "job ID", x) for x in r.stdout.splitlines())
        assert said == sorted(f"{w}\t{what}" for w in words for what in ("is job ID", "exited 0")), said


run_tests(sys.modules[__name__])
