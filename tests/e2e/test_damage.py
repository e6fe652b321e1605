"""Journals that are not what they should be: the daemon says what to do, ends with 1, and leaves the file as it was."""
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Cluster, Daemon, run_tests, wait_for


def make_journal(path, name):
    """The journal of a central that ran under that directory."""
    d = Daemon("central", "--listen", "127.0.0.1:0", "--state-dir", f"{path}/{name}")
    d.ready()
    assert d.stop() == 0, d.text()
    return f"{path}/{name}/journal.db"


def content(path):
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as f:
        return f.read()


def refused(role, directory, *says):
    journal = f"{directory}/journal.db"
    before = content(journal)
    more = {"central": (), "dist": ("--name", "d", "--central", "127.0.0.1:1")}[role]
    r = subprocess.run([HAWK, role, "--listen", "127.0.0.1:0", "--state-dir", directory, *more],
                       capture_output=True, text=True, timeout=BOUND)
    assert r.returncode == 1, r
    for text in (journal, *says):
        assert text in r.stderr, (text, r.stderr)
    assert content(journal) == before, "the file was changed"


def damage(path, at, data, cut=None):
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(data)
        if cut is not None:
            f.truncate(cut)


def test_journals_that_are_refused():
    with tempfile.TemporaryDirectory() as d:
        whole = make_journal(d, "whole")

        def case(name, change):
            os.makedirs(f"{d}/{name}")
            shutil.copy(whole, f"{d}/{name}/journal.db")
            change(f"{d}/{name}/journal.db")
            return f"{d}/{name}"

        def foreign(path):
            os.unlink(path)
            with sqlite3.connect(path) as db:
                db.execute("CREATE TABLE others(a)")

        def newer(path):
            with sqlite3.connect(path) as db:
                db.execute("PRAGMA user_version=77")

        empty = case("empty", lambda p: damage(p, 0, b"", 0))
        short = case("short", lambda p: damage(p, 0, b"", os.path.getsize(p) // 8192 * 4096))
        wrong = case("wrong", lambda p: damage(p, 4096, b"\x5a" * 4096))
        text = case("text", lambda p: damage(p, 0, b"notes\n", 6))
        for role in "central", "dist":
            refused(role, empty, "empty", "move it away")
            refused(role, short, "damaged", "an older copy runs again what has ended since")
            refused(role, wrong, "damaged", "an older copy runs again what has ended since")
            refused(role, text, "not a store of Hawk", "give another path")
        refused("central", case("foreign", foreign), "another program", "give another path")
        refused("central", case("newer", newer), "newer Hawk", "use that version")


def test_the_journal_of_another_role_is_refused():
    """Central would run the dist's jobs as its own, beside the dist."""
    with tempfile.TemporaryDirectory() as d:
        central = Daemon("central", "--listen", "127.0.0.1:0", "--state-dir", f"{d}/central")
        address = central.ready()
        dist = Daemon("dist", "--name", "d", "--listen", "127.0.0.1:0", "--central", address, "--state-dir", f"{d}/dist")
        dist.ready()
        assert dist.stop() == 0 and central.stop() == 0, (dist.text(), central.text())
        def refused_as(role, other, *says):
            p = Daemon(role, "--listen", "127.0.0.1:0", "--state-dir", f"{d}/{other}",
                       *(() if role == "central" else ("--name", "d", "--central", address)))
            try:
                assert p.wait() == 1, p.text()
                for text in (f"{d}/{other}/journal.db", *says):
                    assert text in p.text(), p.text()
            finally:
                p.kill()

        refused_as("central", "dist", "it belongs to dist d, and this is central")
        refused_as("dist", "central", "it belongs to central, and this is dist d")
        # Those of an older version do not say whose they are.
        for other in "central", "dist":
            with sqlite3.connect(f"{d}/{other}/journal.db") as db:
                db.execute("DELETE FROM meta WHERE key = 'owner'")
        refused_as("central", "dist", "a dist's journal")
        refused_as("dist", "central", "central's journal")


def test_a_log_of_another_store_is_refused():
    with tempfile.TemporaryDirectory() as d:
        make_journal(d, "mine")
        make_journal(d, "other")
        running = Daemon("central", "--listen", "127.0.0.1:0", "--state-dir", f"{d}/other")
        running.ready()
        shutil.copy(f"{d}/other/journal.db-wal", f"{d}/mine/journal.db-wal")
        running.stop()
        log = content(f"{d}/mine/journal.db-wal")
        assert log
        refused("central", f"{d}/mine", "journal.db-wal", "another file's", "restore both")
        assert content(f"{d}/mine/journal.db-wal") == log
        os.unlink(f"{d}/mine/journal.db-wal")
        make_journal(d, "mine")  # as told: without the log it starts


def test_a_copied_journal_is_refused():
    """The jobs in it would run a second time, at most once ones as well."""
    with Cluster(dists=2, workers=1, central=("--long-lease", "4s", "--suspect", "1s")) as c:
        job = c.submit("--at-most-once", "--class", "short", "--", "sleep", "3600")
        wait_for("the task", lambda: c.job(job)["running"] == 1)
        for d in c.dists:
            d.kill()
        files = [n for n in os.listdir(f"{c.dir}/d1") if n.startswith("journal.db") and not n.endswith(".lock")]
        for name in files:
            shutil.copy(f"{c.dir}/d1/{name}", f"{c.dir}/d2/{name}")
        dist = Daemon(*c.dists[1].args[1:])
        assert dist.wait() == 1
        for text in ("d2/journal.db", "it belongs to dist d1, and this is dist d2", "state_dir of its own"):
            assert text in dist.text(), dist.text()
        # Whose it is goes on with it.
        c.dists[0] = Daemon(*c.dists[0].args[1:])
        c.dist_addrs = [c.dists[0].ready()]
        c.hawk("cancel", job)


def test_a_copy_of_a_running_daemons_file_is_refused():
    """Its log is not with it, and the file alone says whose it is."""
    with Cluster(workers=0) as c:
        for role, owner in ("central", "central"), ("d1", "dist d1"):
            os.mkdir(f"{c.dir}/copy-{role}", 0o700)
            shutil.copy(f"{c.dir}/{role}/journal.db", f"{c.dir}/copy-{role}")
            dist = Daemon("dist", "--name", "d7", "--listen", "127.0.0.1:0", "--central", c.central_addr, "--state-dir",
                          f"{c.dir}/copy-{role}")
            assert dist.wait() == 1, dist.text()
            assert f"it belongs to {owner}, and this is dist d7" in dist.text(), dist.text()


def test_no_regular_file_is_a_journal():
    with tempfile.TemporaryDirectory() as d:
        make_journal(d, "log")
        os.mkfifo(f"{d}/log/journal.db-wal")
        os.mkdir(f"{d}/pipe")
        os.mkfifo(f"{d}/pipe/journal.db")
        for name, file in ("pipe", "journal.db"), ("log", "journal.db-wal"):
            for role in "central", "dist":
                refused(role, f"{d}/{name}", f"{d}/{name}/{file}: not a regular file")


run_tests(sys.modules[__name__])
