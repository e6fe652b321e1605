#!/usr/bin/python3
"""hawk sim as its users meet it: what it cannot simulate, it says."""
import json
import os
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, run_tests

TRACE = "0 2 1 1 1\n1 1 60 60\n"


def own_trace(d, text=TRACE):
    path = os.path.join(d, "own.tr")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    return path


def sim(trace, *args, code=0):
    r = subprocess.run([HAWK, "sim", "--workers", "4", "--cutoff", "10s", "--trace", trace, *args], capture_output=True,
                       text=True, timeout=BOUND)
    assert r.returncode == code, r
    return r


def refused(trace, *args):
    r = sim(trace, *args, code=1)
    assert r.stdout == "" and r.stderr.count("\n") == 1, r
    return r.stderr


def test_help_tells_how_a_trace_is_written():
    for command in ("sim", "replay"):
        said = subprocess.run([HAWK, command, "--help"], capture_output=True, text=True, timeout=BOUND, check=True).stdout
        assert "SUBMIT_S TASKS MEAN_S DURATION_S..., sorted by SUBMIT_S, no comments" in " ".join(said.split()), said


def test_a_sweep_wants_a_trace_that_each_run_can_read():
    with tempfile.TemporaryDirectory() as d:
        trace = own_trace(d)
        assert "keep cutoff 10 s" in sim(trace, "--sweep", "cutoff=20s").stdout
        r = subprocess.run(["bash", "-c", '"$0" sim --workers 4 --trace <(cat "$1") --sweep cutoff=20s', HAWK, trace],
                           capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 1 and r.stdout == "", r
        assert "no regular file: each run of a sweep reads the trace anew" in r.stderr, r.stderr
        r = subprocess.run(["bash", "-c", '"$0" sim --workers 4 --cutoff 10s --trace <(cat "$1")', HAWK, trace],
                           capture_output=True, text=True, timeout=BOUND)
        assert "1 short and 1 long jobs" in r.stdout, r


def test_policy_and_cutoff_are_told_and_where_the_cutoff_is_from():
    with tempfile.TemporaryDirectory() as d:
        for args, cutoff, where, said in ((("--trace", own_trace(d)), "90", "default", "default: set --cutoff"),
                                          (("--trace", own_trace(d), "--cutoff", "20s"), "20", "flag", "--cutoff"),
                                          (("--workload", "cloudera", "--jobs", "20"), "272.783", "workload", "the workload's")):
            def run(*more, args=args):
                return subprocess.run([HAWK, "sim", "-n", "4", *args, *more], capture_output=True, text=True, timeout=BOUND, check=True).stdout
            assert run("-p", "sparrow").startswith(f"policy sparrow, cutoff {cutoff} s ({said})\n"), (args, run()[:80])
            assert run("--sweep", "workers=8").startswith(f"policy hawk, cutoff {cutoff} s ({said})\n"), args
            shown = json.loads(run("-o", "json"))
            assert (shown["policy"], shown["cutoff_from"]) == ("hawk", where) and shown["cutoff_us"] >= 20_000_000, shown


def test_a_trace_without_a_job_is_an_error():
    with tempfile.TemporaryDirectory() as d:
        empty = own_trace(d, "")
        assert f"{empty}: holds no job" in refused(empty)
        assert f"{empty}: holds no job" in refused(empty, "--sweep", "cutoff=20s")
        assert "/dev/null: holds no job" in refused("/dev/null")
        assert "/dev/null: holds no job" in refused("/dev/null", "--policy", "omniscient")


def test_numbers_that_would_round_to_none_are_refused():
    for args in (["--load", "0.0004", "--workload", "yahoo"], ["--pause-share", "0.0004", "--trace", "-"],
                 ["--noise", "0.0004-1", "--trace", "-"], ["--steal-cap", "0", "--trace", "-"]):
        r = subprocess.run([HAWK, "sim", "--workers", "4", "--jobs" if "--load" in args else "--seed", "1", *args], input=TRACE,
                           capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 2 and args[0] in r.stderr and r.stderr.count("\n") == 1 and r.stdout == "", (args, r)
    with tempfile.TemporaryDirectory() as d:
        assert "short" in sim(own_trace(d), "--noise", "0.001-1", "--pause-share", "0.001", "--steal-cap", "1").stdout


def figures(*args):
    """Of a run of 300 jobs under load, but for what the run itself cost."""
    r = subprocess.run([HAWK, "sim", "--workload", "yahoo", "--jobs", "300", "--load", "0.9", "-o", "json", *args], capture_output=True,
                       text=True, timeout=BOUND, check=True)
    return {k: v for k, v in json.loads(r.stdout).items() if k not in ("cpu_s", "peak_rss_bytes", "policy", "cutoff_from")}


def test_each_flag_reaches_the_run():
    plain = ("-n", "40")
    for flags, same in ((("--set", "stealing=off"), ("-p", "hawk-no-steal")),
                        (("--delay", "500us-500us"), ("--delay", "500us")), (("--cutoff", "90.5811s"), ()),
                        (("-p", "harrier"), ("-p", "harrier", "--short-partition", "auto"))):
        assert figures(*plain, *flags) == figures(*plain, *same), flags
    for flags, other in ((("--delay", "500us-5s"), ("--delay", "500us")), (("--delay", "500us-5s"), ("--delay", "5s")),
                         (("--noise", "0.1-1.9"), ("--noise", "0.1-0.1")), (("--noise", "0.1-1.9"), ("--noise", "1.9-1.9")),
                         (("--short-first", "5"), ()), (("--set", "stealing=off"), ()),
                         (("-p", "harrier", "--pause-longest", "1s"), ("-p", "harrier")),
                         (("-p", "harrier", "--pause-longest", "1s"), ("-p", "harrier", "--pause-after", "1s"))):
        assert figures(*plain, *flags) != figures(*plain, *other), flags
    assert figures(*plain, "--cutoff", "5s")["cutoff_us"] == 5_000_000, "--cutoff goes before the workload's"
    with tempfile.TemporaryDirectory() as d:
        texts = []
        for i, cluster in enumerate((("-n", "40"), ("-n", "20", "-s", "2"), ("-n", "20"))):  # load is that of all slots
            subprocess.run([HAWK, "sim", "--workload", "yahoo", "--jobs", "50", "--load", "0.9", *cluster, "--write-trace", f"{d}/{i}"],
                           timeout=BOUND, check=True)
            with open(f"{d}/{i}", encoding="ascii") as f:
                texts.append(f.read())
        assert texts[0] == texts[1] != texts[2]
        r = subprocess.run([HAWK, "sim", "--workload", "yahoo", "--load", "0.9", "--write-trace", f"{d}/x"], capture_output=True, text=True,
                           timeout=BOUND)
        assert r.returncode == 2 and "--write-trace needs --workers with --load" in r.stderr, r
        r = subprocess.run([HAWK, "sim", "--trace", own_trace(d), "--sweep", "workers=4,8"], capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 0, r  # the first of them is the base


def test_flags_that_would_change_nothing_are_refused():
    for args, said in [(["--faults", "--seed", "1", "--workers", "5"], "--workers: not with --faults, which makes"),
                       (["--faults", "--trace", "x.tr"], "--trace: not with --faults, which makes"),
                       (["--faults", "--policy", "sparrow"], "--policy: not with --faults"),
                       (["--faults", "--set", "pause=on"], "--set: not with --faults"),
                       (["--faults", "--load", "0.5"], "--load: not with --faults"),
                       (["--faults", "--seeds", "1-3", "--seed", "7"], "--seed: not with --seeds"),
                       (["--trace", "x.tr", "-n", "4", "--kinds", "none"], "--kinds needs --faults"),
                       (["--trace", "x.tr", "-n", "4", "--log"], "--log needs --faults"),
                       (["--trace", "x.tr", "-n", "4", "--jobs", "7"], "--jobs needs --workload"),
                       (["--trace", "x.tr", "-n", "4", "--load", "0.7"], "--load needs --workload"),
                       (["--trace", "x.tr", "--write-trace", "y.tr"], "--trace: not with --write-trace, which writes the jobs of --workload"),
                       (["--write-trace", "y.tr"], "--write-trace needs --workload"),
                       (["--workload", "yahoo", "--write-trace", "y.tr", "-p", "sparrow"], "-p: not with --write-trace"),
                       (["--workload", "yahoo", "--write-trace", "y.tr", "--cutoff", "9s"], "--cutoff: not with --write-trace"),
                       (["--workload", "yahoo", "--write-trace", "y.tr", "--sweep", "workers=4"], "--sweep: not with --write-trace"),
                       (["--trace", "x.tr", "-n", "4", "--compat", "--delay", "1ms"], "--delay: not with --compat, which has"),
                       (["--trace", "x.tr", "-n", "4", "--compat", "--worker-cost", "1ms"], "--worker-cost: not with --compat"),
                       (["--trace", "x.tr", "-n", "4", "--noise", "0.1-1.9", "--estimates", "exact"], "--estimates: not with --noise, which"),
                       (["--trace", "x.tr", "-n", "4", "--sweep", "workers=4", "--only-job", "1"], "--only-job: not with --sweep")]:
        r = subprocess.run([HAWK, "sim", *args], capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 2 and f"hawk: sim: {said}" in r.stderr and r.stderr.count("\n") == 1 and r.stdout == "", (args, r)
    assert not os.path.exists("y.tr")


def test_what_a_run_is_compared_with_is_read_before_the_run():
    r, w = os.pipe()  # a trace of which nothing comes: no run can begin
    try:
        done = subprocess.run([HAWK, "sim", "--workers", "4", "--trace", "-", "--against", "/no/such.csv"], stdin=r,
                              capture_output=True, text=True, timeout=BOUND)
        assert done.returncode == 1 and "--against: /no/such.csv: No such file" in done.stderr, done
    finally:
        os.close(r)
        os.close(w)
    with tempfile.TemporaryDirectory() as d:
        trace = own_trace(d)
        sim(trace, "--jobs-csv", f"{d}/a.csv")
        assert "job by job, against the other run" in sim(trace, "--against", f"{d}/a.csv").stdout


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
