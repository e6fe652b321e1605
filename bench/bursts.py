#!/usr/bin/python3
"""Short jobs beside bursts of long work, simulated (docs/results.md): what each policy makes of them, beside the same short
jobs alone on the same cluster. Usage: bench/bursts.py HAWK [SEEDS]

A workload lasts five minutes at 90 % load of 400 slots. Short tasks take 0.05 to 8 s and come evenly; long ones take 5 to
100 s and come in bursts. Each seed draws another workload. Prints medians and ranges over the seeds, in seconds."""
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

SLOTS, LOAD, SECONDS, CUTOFF = 400, 0.9, 300, 10
# The short jobs' share of the work, and the backlog that a burst makes, in seconds per slot.
WORKLOADS = ((0.28, 40), (0.21, 120), (0.70, 40))


def within(least, value, most):
    return min(most, max(least, value))


def durations(r, tasks, mean, spread, least, most):
    return [within(least, mean * r.lognormvariate(0, spread), most) for _ in range(tasks)]


def short_jobs(r, work):
    while work > 0:
        tasks = max(1, int(r.expovariate(1 / 8)))
        job = durations(r, tasks, within(0.1, r.lognormvariate(-1.2, 0.8), 5), 0.3, 0.05, 8)
        work -= sum(job)
        yield r.uniform(0, SECONDS), job


def bursts(r, work, backlog):
    n = max(2, round(work / (SLOTS * backlog)))
    for at in sorted(r.uniform(0, 0.9 * SECONDS) for _ in range(n)):
        left = work / n
        while left > 0:
            tasks = max(2, int(r.lognormvariate(3, 0.8)))
            job = durations(r, tasks, within(11, r.lognormvariate(3, 0.5), 60), 0.25, 5, 100)
            left -= sum(job)
            yield at + r.uniform(0, 2), job


def write_trace(path, jobs):
    with open(path, "w", encoding="utf-8") as f:
        for at, job in sorted(jobs):
            f.write(f"{at:.6f} {len(job)} {sum(job) / len(job):.6f}  {'  '.join(f'{d:.6f}' for d in job)}\n")


def simulate(hawk, trace, seed, *args):
    d = json.loads(subprocess.run([hawk, "sim", "--trace", trace, "--workers", str(SLOTS), "--cutoff", f"{CUTOFF}s", "--seed",
                                   str(seed), "--output", "json", *args], check=True, capture_output=True).stdout)
    return [d["short"]["p50_s"], d["short"]["p90_s"], d["short"]["p99_s"], d["long"]["mean_s"], d["long"]["p90_s"]]


def cell(values):
    return f"{statistics.median(values):.3g} ({min(values):.3g}–{max(values):.3g})"


def main():
    hawk, seeds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print("| short work, backlog per slot | policy | short p50 | short p90 | short p99 | long mean | long p90 |")
    print("|---|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as d:
        for share, backlog in WORKLOADS:
            reserve = ("--short-partition", f"{share:.0%}")
            runs = {"alone": [], "hawk": ["--policy", "hawk", *reserve],
                    "harrier, pause off": ["--policy", "harrier", "--set", "pause=off", "--short-partition", "auto"],
                    "harrier, pause-share 2, no reserve": [
                        "--policy", "harrier", "--pause-share", "2", "--short-partition", "0"],
                    "harrier, pause-share 0.1": ["--policy", "harrier", "--pause-share", "0.1"],
                    "harrier": ["--policy", "harrier"]}
            rows = {name: [] for name in runs}
            for seed in range(1, seeds + 1):
                r = random.Random(seed)
                jobs = list(short_jobs(r, SLOTS * LOAD * SECONDS * share))
                alone, both = os.path.join(d, "alone"), os.path.join(d, "both")
                write_trace(alone, jobs)
                write_trace(both, jobs + list(bursts(r, SLOTS * LOAD * SECONDS * (1 - share), backlog)))
                for name, args in runs.items():
                    rows[name].append(simulate(hawk, both if args else alone, seed, *args))
            for name, row in rows.items():
                cells = [cell(c) for c in zip(*row)]
                print(f"| {share:.0%}, {backlog} s | {name} | {' | '.join(cells if runs[name] else cells[:3] + ['–', '–'])} |", flush=True)


if __name__ == "__main__":
    main()
