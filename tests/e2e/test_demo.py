#!/usr/bin/python3
# make demo: what it shows, what it promises, and that nothing of it is left behind, also after Ctrl-C.
# timeout: 240
# make test-all
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

import hawktest
from hawktest import HAWK

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/demo")


def start(directory, *args):
    return subprocess.Popen([DEMO, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env={**os.environ, "HAWK": HAWK, "TMPDIR": directory})


def test_the_demo_shows_what_it_promises():
    with tempfile.TemporaryDirectory() as directory:
        kept = os.path.join(directory, "figures.json")
        demo = start(directory, "--keep", kept)
        out, err = demo.communicate(timeout=200)
        assert demo.returncode == 0, out + err
        assert "Nothing was lost: 152 jobs with 241 tasks, every task done once." in out, out
        for word in ("harrier", "off", "empty", "short", "long", "p50", "p90", "p99", "stolen", "probes", "cancelled"):
            assert word in out.split(), out
        seconds = int(re.search(r"(\d+) s in all", out).group(1))
        assert seconds < 60 * hawktest.SLOW, out
        with open(kept, encoding="utf-8") as f:
            figures = json.load(f)
        p90 = {run: f["classes"]["short"]["response"]["p90_us"] for run, f in figures.items()}
        assert p90["off"] >= 3 * p90["harrier"], p90
        long_us = {run: figures[run]["classes"]["long"]["response"]["max_us"] for run in ("harrier", "off")}
        # 7.5 s of short work are a tenth of the long job's 72, if they are spread evenly.
        assert long_us["harrier"] <= 1.5 * long_us["off"], long_us
        assert os.listdir(directory) == ["figures.json"], os.listdir(directory)


def test_ctrl_c_leaves_nothing_behind():
    with tempfile.TemporaryDirectory() as directory:
        demo = start(directory)
        bound = threading.Timer(hawktest.BOUND, demo.kill)
        bound.start()
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if line.startswith("1/3"):
                break
        demo.send_signal(signal.SIGINT)
        demo.communicate()
        bound.cancel()
        assert demo.returncode == 130, (demo.returncode, lines)
        assert glob.glob(directory + "/*") == [], os.listdir(directory)
        # That no process is left the runner of the tests checks.


def test_a_missing_binary_is_named():
    r = subprocess.run([DEMO], capture_output=True, text=True, env={**os.environ, "HAWK": "/no/such/hawk"}, check=False)
    assert r.returncode == 1 and "there is no program /no/such/hawk: build it with `make`" in r.stderr, r


if __name__ == "__main__":
    hawktest.run_tests(sys.modules[__name__])
