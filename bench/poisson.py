#!/usr/bin/env python3
"""Response times under Poisson arrivals, beside an ideal scheduler and peers: make bench-poisson, make bench-mixed.

10 workers of 10 slots. At 80 % load come jobs of 10 tasks of 100 ms that only sleep: timer tasks inside Hawk's workers, and sleeps
inside the peers' worker processes (one per slot). All are given the same arrivals, one system after the other, at once in turn
for ROUNDS rounds of other arrivals. The ideal is computed: one FIFO queue for all slots that costs nothing. `mixed`: 20 % of the
task-seconds are jobs of 10 tasks of 10 s; peers know no such thing and are left out. It runs the default policy, the same with
the short jobs alone, and policy hawk with 20 % of the slots reserved; one ideal interrupts nothing, goes short first, and has
the same reserve, the other pauses. Response times are from a job's planned arrival to the client's hearing of its last task's end. The same jobs
are simulated as well (hawk sim): what the policy makes of them.

    bench/poisson.py pure|mixed HAWK BUILD_DIR OUTPUT.json [ROUNDS [SECONDS]]
"""
import csv
import heapq
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import LocalCluster  # noqa: E402

WORKERS, SLOTS_EACH = 10, 10
SLOTS = WORKERS * SLOTS_EACH
LOAD = 0.8
TASKS = 10
SHORT_US, LONG_US = 100_000, 10_000_000
LONG_SHARE = 0.2  # of task-seconds, in the mixed workload
RESERVED = 20     # slots
WARM_UP = 0.05    # of the jobs are not counted: the cluster starts empty
PEER_START_S = 10


def arrivals(seconds, mixed, seed):
    """(at_us, tasks, task_us), by time."""
    rng = random.Random(seed)
    jobs = []
    kinds = [(SHORT_US, LOAD * (1 - LONG_SHARE)), (LONG_US, LOAD * LONG_SHARE)] if mixed else [(SHORT_US, LOAD)]
    for task_us, load in kinds:
        mean_gap = TASKS * task_us / (load * SLOTS)
        at = rng.expovariate(1 / mean_gap)
        while at < seconds * 1e6:
            jobs.append((int(at), TASKS, task_us))
            at += rng.expovariate(1 / mean_gap)
    return sorted(jobs)


def ideal_fifo(jobs):
    """Response times in us with one queue, all slots and no costs."""
    free, responses = [0] * SLOTS, []
    for at, tasks, task_us in jobs:
        end = 0
        for _ in range(tasks):
            start = max(at, heapq.heappop(free))
            heapq.heappush(free, start + task_us)
            end = max(end, start + task_us)
        responses.append(end - at)
    return responses


def ideal_short_first(jobs):
    """The same with RESERVED slots for short tasks only, which go first wherever a slot frees; nothing is interrupted."""
    free = {"reserved": RESERVED, "general": SLOTS - RESERVED}
    waiting = {SHORT_US: [], LONG_US: []}  # job indexes, one per task, first come first
    heads = {SHORT_US: 0, LONG_US: 0}
    left, ends, responses = [j[1] for j in jobs], [], [0] * len(jobs)

    def start_all(now):
        for task_us, places in ((SHORT_US, ("reserved", "general")), (LONG_US, ("general",))):
            queue = waiting[task_us]
            for place in places:
                while free[place] and heads[task_us] < len(queue):
                    free[place] -= 1
                    heapq.heappush(ends, (now + task_us, queue[heads[task_us]], place))
                    heads[task_us] += 1

    i = 0
    while i < len(jobs) or ends:
        if ends and (i == len(jobs) or ends[0][0] <= jobs[i][0]):
            now, job, place = heapq.heappop(ends)
            free[place] += 1
            left[job] -= 1
            if not left[job]:
                responses[job] = now - jobs[job][0]
        else:
            now, tasks, task_us = jobs[i]
            waiting[task_us] += [i] * tasks
            i += 1
        if not (ends and ends[0][0] == now) and not (i < len(jobs) and jobs[i][0] == now):
            start_all(now)
    return responses


def ideal_pausing(jobs):
    """Short tasks take any slot, and pause the youngest long tasks when none is free; a paused task goes on in any slot."""
    now, i, short_ends, waiting = 0, 0, [], []
    long_tasks = []  # [time left, job], eldest first: as many run as there are slots without a short task
    left, responses = [j[1] for j in jobs], [0] * len(jobs)

    def end(job):
        left[job] -= 1
        if not left[job]:
            responses[job] = now - jobs[job][0]

    while i < len(jobs) or short_ends or long_tasks:
        running = long_tasks[:SLOTS - len(short_ends)]
        at = min([jobs[i][0]] if i < len(jobs) else [], default=float("inf"))
        at = min(at, short_ends[0][0] if short_ends else at, now + min((t[0] for t in running), default=float("inf")))
        for task in running:
            task[0] -= at - now
        now = at
        for task in [t for t in running if t[0] <= 0]:
            long_tasks.remove(task)
            end(task[1])
        while short_ends and short_ends[0][0] <= now:
            end(heapq.heappop(short_ends)[1])
        while i < len(jobs) and jobs[i][0] <= now:
            _, tasks, task_us = jobs[i]
            if task_us == SHORT_US:
                waiting += [i] * tasks
            else:
                long_tasks += [[task_us, i] for _ in range(tasks)]
            i += 1
        while waiting and len(short_ends) < SLOTS:
            heapq.heappush(short_ends, (now + SHORT_US, waiting.pop(0)))
    return responses


def run_lines(argv, **kwargs):
    got = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, **kwargs)
    return [int(line) for line in got.stdout.split()]


def run_hawk(hawk, build, path, flags):
    with LocalCluster(hawk, dists=1, workers=WORKERS, slots=SLOTS_EACH, central_flags=[*flags, "--cutoff", "1s"]) as cluster:
        return run_lines([f"{build}/bench/poisson_client", cluster.dists[0].address, path])


def write_arrivals(f, jobs):
    f.write("".join(f"{at} {tasks} {us}\n" for at, tasks, us in jobs))
    f.flush()


def simulate(hawk, jobs, flags):
    """What the policy makes of them, with a network and processors faster than any: the rest is the implementation's."""
    with tempfile.TemporaryDirectory(prefix="hawk-poisson.") as directory:
        with open(f"{directory}/trace", "w") as f:
            for at, tasks, us in jobs:
                f.write(f"{at / 1e6:.6f} {tasks} {us / 1e6}{f' {us / 1e6}' * tasks}\n")
        subprocess.run([hawk, "sim", "--trace", f"{directory}/trace", "--workers", str(WORKERS), "--slots", str(SLOTS_EACH),
                        "--dists", "1", *flags, "--delay", "50us-100us", "--cutoff", "1s", "--tag-class", "--jobs-csv", f"{directory}/jobs", "--output", "json"], stdout=subprocess.DEVNULL, check=True)
        with open(f"{directory}/jobs") as f:
            rows = sorted((int(r["number"]), float(r["response_s"])) for r in csv.DictReader(f))
    return [seconds * 1e6 for _, seconds in rows]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_peer(server, program, path):
    port, directory = free_port(), tempfile.mkdtemp(prefix="hawk-peer.")
    daemon = subprocess.Popen([a.format(port=port, dir=directory) for a in server], cwd=directory,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PEER_START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > deadline or daemon.poll() is not None:
                    raise SystemExit(f"{server[0]} does not start")
                time.sleep(0.05)
        return run_lines([program, str(port), str(SLOTS), path])
    finally:
        daemon.kill()
        daemon.wait()
        shutil.rmtree(directory, ignore_errors=True)


# All probes of a job to one worker are one message: to probe every slot of so small a cluster costs no more of them.
ALL_PROBED = ["--probe-ratio", str(SLOTS // TASKS)]
NO_PARTITION = ["--policy", "hawk-no-partition"]
HAWKS = {"hawk": [*NO_PARTITION, *ALL_PROBED], "hawk, 2 probes a task": NO_PARTITION}
HARRIER = ["--policy", "harrier"]  # the default
MIXED_HAWKS = {"default": HARRIER, "policy hawk": ["--policy", "hawk", "--short-partition", f"{100 * RESERVED // SLOTS}%"]}
ALONE = "default, short jobs alone"
PAUSING = "ideal that pauses"
PEERS = {
    "gearmand": (["gearmand", "--listen=127.0.0.1", "--port={port}", "--log-file=stderr"], "gearman_queue"),
    "redis": (["redis-server", "--bind", "127.0.0.1", "--port", "{port}", "--save", "", "--dir", "{dir}"], "redis_queue"),
}


def installed_peers(build):
    found = {}
    for name, (server, program) in PEERS.items():
        path = f"{build}/bench/{program}"
        if shutil.which(server[0]) and os.path.exists(path):
            found[name] = (server, path)
        else:
            print(f"{name} is not installed (make bench-deps): left out", flush=True)
    return found


def quantiles(responses):
    v = sorted(responses)

    def q(p):
        return v[min(len(v) - 1, int(p * len(v)))] / 1000
    return {"p50": q(0.50), "p95": q(0.95), "p99": q(0.99), "mean": statistics.fmean(v) / 1000}


def figures_of(jobs, responses):
    """In ms, per kind of job; without the beginning."""
    skip = int(len(jobs) * WARM_UP)
    out = {}
    for kind, task_us in (("short", SHORT_US), ("long", LONG_US)):
        mine = [r for (_, _, us), r in list(zip(jobs, responses))[skip:] if us == task_us]
        if mine:
            out[kind] = quantiles(mine)
    return out


def median_of(rounds, pick):
    v = [pick(r) for r in rounds]
    return {"median": statistics.median(v), "min": min(v), "max": max(v)}


def main():
    kind, hawk, build, output = sys.argv[1:5]
    mixed = kind == "mixed"
    n = int(sys.argv[5]) if len(sys.argv) > 5 else 5
    seconds = float(sys.argv[6]) if len(sys.argv) > 6 else (600 if mixed else 120)
    hawks = MIXED_HAWKS if mixed else HAWKS
    systems = {name: lambda path, f=flags: run_hawk(hawk, build, path, f) for name, flags in hawks.items()}
    if not mixed:
        for name, (server, program) in installed_peers(build).items():
            systems[name] = lambda path, s=server, p=program: run_peer(s, p, path)
    rounds, load = [], os.getloadavg()[0]
    for i in range(n):
        jobs = arrivals(seconds, mixed, seed=4711 + i)
        ideal = ideal_short_first(jobs) if mixed else ideal_fifo(jobs)
        one = {"ideal": figures_of(jobs, ideal)}
        if mixed:
            one[PAUSING] = figures_of(jobs, ideal_pausing(jobs))
        for name, flags in hawks.items():
            one[f"simulated, {name}"] = figures_of(jobs, simulate(hawk, jobs, flags))
        # Who comes first changes from round to round: nobody profits from what the machine does besides.
        names = [*systems, *([ALONE] if mixed else [])]
        for name in names[i % len(names):] + names[:i % len(names)]:
            mine = [j for j in jobs if j[2] == SHORT_US] if name == ALONE else jobs
            with tempfile.NamedTemporaryFile("w", suffix=".arrivals") as f:
                write_arrivals(f, mine)
                one[name] = figures_of(mine, systems["default" if name == ALONE else name](f.name))
            print(f"round {i + 1}, {name}: " + "; ".join(
                f"{k} p50 {v['p50']:.1f} p95 {v['p95']:.1f} p99 {v['p99']:.1f} mean {v['mean']:.1f} ms"
                for k, v in one[name].items()), flush=True)
        rounds.append(one)
    result = {"bench": kind, "seconds": seconds, "load_before": load, "rounds": rounds, "summary": {}}
    beside = [("ideal", kind, name) for name in rounds[0] if name != "ideal" for kind in rounds[0][name]]
    if mixed:
        beside += [(ALONE, "short", "default"), ("policy hawk", "long", "default"), (PAUSING, "long", "default")]
    for q in ("p50", "p95", "p99", "mean"):
        for name, kinds in rounds[0].items():
            for k in kinds:
                result["summary"][f"{name} {k} {q}"] = median_of(rounds, lambda r: r[name][k][q])
        for base, k, name in beside:
            result["summary"][f"{name} {k} {q} / {base}"] = median_of(rounds, lambda r: r[name][k][q] / r[base][k][q])
    for key, v in result["summary"].items():
        print(f"{key:48} {v['median']:10.3f}  ({v['min']:.3f} to {v['max']:.3f})")
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    with open(output, "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


main()
