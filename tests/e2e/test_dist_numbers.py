"""An older copy of a dist's journal is put back, or the journal is lost: no job number is given out twice."""
import shutil
import sys

from hawktest import Cluster, Daemon, run_tests, wait_for


class Numbers:
    """The numbers that the only dist of c gives out; each must be new."""

    def __init__(self, c):
        self.c, self.seen = c, set()

    def submit(self, n):
        new = []
        for _ in range(n):
            job = self.c.submit("--", "true")
            assert job not in self.seen, f"{job} is given out twice"
            self.seen.add(job)
            new.append(int(job.split(".")[1]))
        return new


def start(c):
    c.dists.pop()
    c.dist_addrs.clear()
    c.start_dist("d1")
    c.wait_nodes(1)


def copy(c, name):
    shutil.copytree(f"{c.dir}/d1", f"{c.dir}/{name}")


def put_back(c, name):
    shutil.rmtree(f"{c.dir}/d1")
    if name:
        shutil.copytree(f"{c.dir}/{name}", f"{c.dir}/d1")


def restart_central(c, lost=False):
    c.central.kill()
    if lost:
        shutil.rmtree(f"{c.dir}/central")
    c.start_central(c.central_addr)


def test_an_ordinary_restart_passes_over_none():
    with Cluster(workers=1) as c:
        numbers = Numbers(c)
        assert numbers.submit(3) == [1, 2, 3]
        c.dists[0].stop()
        start(c)
        assert numbers.submit(2) == [4, 5]
        restart_central(c)
        wait_for("the dist to tell it", lambda: [n for n in c.json("nodes", dist=c.central_addr)["nodes"]
                                                 if n["role"] == "dist" and n["state"] == "up"])
        assert numbers.submit(1) == [6]
        c.dists[0].stop()
        start(c)
        assert numbers.submit(1) == [7]
        c.dists[0].kill()  # what it had reserved may have been given out
        start(c)
        assert numbers.submit(1) == [1000007]


def test_an_older_copy_is_put_back():
    with Cluster(workers=1) as c:
        numbers = Numbers(c)
        numbers.submit(2)
        c.dists[0].stop()
        copy(c, "copy")
        start(c)
        numbers.submit(3)
        for end in ("stop", "kill"):
            getattr(c.dists[0], end)()
            put_back(c, "copy")
            start(c)
            numbers.submit(3)
        c.dists[0].kill()
        put_back(c, None)
        start(c)
        numbers.submit(3)
        assert len({job.split(".")[0] for job in numbers.seen}) == 1, numbers.seen


def test_central_restarts_in_between():
    with Cluster(workers=1) as c:
        numbers = Numbers(c)
        numbers.submit(2)
        c.dists[0].stop()
        copy(c, "copy")
        start(c)
        numbers.submit(3)
        for kept in ("copy", None, "copy"):
            c.dists[0].kill()
            restart_central(c)
            put_back(c, kept)
            start(c)
            numbers.submit(3)


def test_central_does_not_know():
    """It has lost its state as well: the dist skips ahead of what it may have given out."""
    with Cluster(workers=1, central=("--ids-wait", "20s")) as c:
        numbers = Numbers(c)
        numbers.submit(2)
        c.dists[0].stop()
        copy(c, "copy")
        start(c)
        numbers.submit(3)
        c.dists[0].kill()
        restart_central(c, lost=True)
        put_back(c, "copy")
        start(c)
        first = numbers.submit(3)[0]
        assert first > 10**9, first
        c.dists[0].stop()
        start(c)  # this central knows
        assert numbers.submit(1) == [first + 3]


def test_central_of_an_older_version_does_not_know():
    with Cluster(workers=1) as c:
        numbers = Numbers(c)
        assert numbers.submit(1) == [1]
        c.dists[0].stop()
        c.central.stop()
        c.central = Daemon("central", "--listen", c.central_addr, "--state-dir", f"{c.dir}/central",
                           env={"HAWK_PROTOCOL_VERSION": "2"})
        c.central.ready()
        start(c)
        assert min(numbers.submit(2)) > 10**9


run_tests(sys.modules[__name__])
