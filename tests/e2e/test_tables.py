#!/usr/bin/python3
"""Tables as people see them: within the terminal's width, names cut in the middle, ids whole."""
import fcntl
import json
import os
import pty
import struct
import sys
import tempfile
import termios

from hawktest import HAWK, Daemon, run_hawk, run_tests, user_environment

NAME = "quarterly-report-of-the-northern-region-2026-final"


def shown(env, columns, *args):
    return run_hawk({**env, "COLUMNS": str(columns)}, *args).stdout


def on_a_terminal(env, columns, *args):
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execve(HAWK, [HAWK, *args], {k: v for k, v in env.items() if k != "COLUMNS"})
    text = b""
    try:
        while more := os.read(fd, 65536):
            text += more
    except OSError:  # the terminal's other end is gone
        pass
    os.waitpid(pid, 0)
    os.close(fd)
    return text.decode().replace("\r\n", "\n")


def test_tables_fit():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        env.pop("COLUMNS", None)
        up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", env=env)
        try:
            up.ready()
            run_hawk(env, "submit", "--wait", "--name", NAME, "--array", "1-3", "--", "true")
            run_hawk(env, "submit", "--wait", "--name", "short", "--", "true")
            whole = run_hawk(env, "jobs").stdout
            assert "quarterly-repor...ion-2026-final " in whole and "WAITING" in whole  # no terminal: nothing is cut for its width
            for columns in (80, 60, 40):
                for args in (["jobs"], ["job", "1.1"], ["nodes"], ["stats"], ["policy"],
                             ["explain", "last"], ["history"], ["history", "--usage"]):
                    table = [line for line in shown(env, columns, *args).splitlines()
                             if line.split() and (line.split()[0].isupper() or args[0] in ("jobs", "nodes", "history"))]
                    assert table and max(map(len, table)) <= columns, (columns, args, table)
                assert max(map(len, on_a_terminal(env, columns, "jobs").splitlines())) <= columns
            narrow = shown(env, 60, "jobs")
            assert "1.1 " in narrow and "1.2 " in narrow and "quart...inal " in narrow, narrow
            assert "TASKS" in narrow and "FAILED" in narrow and "CLASS" not in narrow, narrow
            assert shown(env, 60, "history", "--usage").split()[:6] == "NAME JOBS FAILED MEAN-RESPONSE CPU PEAK-MEM".split()
            # A name that was cut can be pasted back.
            for columns in (80, 60):
                cut = [line for line in shown(env, columns, "jobs").splitlines() if line.startswith("1.1 ")][0].split()[1]
                assert "..." in cut and run_hawk(env, "jobs", "-q", "--name", cut).stdout == "1.1\n", cut
                assert NAME in run_hawk(env, "history", "--name", cut).stdout
            assert run_hawk(env, "jobs", "-q", "--name", "quart...report-of").stdout == ""
            jobs = json.loads(shown(env, 60, "jobs", "-o", "json"))["jobs"]
            assert jobs[1]["name"] == NAME and jobs[1]["user"]
            # So can one that was cut twice: its end as well.
            long = "step-" + "x" * 180
            run_hawk(env, "submit", "--wait", "--name", long, "--", "true")
            for columns in (120, 60, 40):
                cut = [line for line in shown(env, columns, "jobs").splitlines() if line.startswith("1.3 ")][0].split()[1]
                assert cut.endswith("..") and run_hawk(env, "jobs", "-q", "--name", cut).stdout == "1.3\n", cut
            for wanted, found in (("st...x...x...", "1.3\n"), ("st...y...x...", ""), ("...p-...p-...", "")):
                assert run_hawk(env, "jobs", "-q", "--name", wanted).stdout == found, wanted
        finally:
            up.stop()


def test_no_colour_where_none_is_wanted():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        try:
            up.ready()
            run_hawk(env, "submit", "--", "false")
            for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
                assert "\x1b" not in on_a_terminal({**env, **more}, 80, "jobs")
        finally:
            up.stop()


run_tests(sys.modules[__name__])
