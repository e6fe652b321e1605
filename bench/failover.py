#!/usr/bin/env python3
"""How soon clients are served elsewhere when their dist dies: make bench-failover.

Central, three dists and four workers on loopback; clients with running jobs, all at the first dist. That is killed
(SIGKILL: connections are reset) or stopped (SIGSTOP: beats are missing). Measured from the signal to the moment at which
another dist has told the client how its job is, under the job's next epoch, and to the first task that ended there.
Every run has a cluster of its own; the figure of a run is the median of its clients.

    bench/failover.py HAWK CLIENTS_PROGRAM OUTPUT.json [RUNS]
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import LocalCluster  # noqa: E402

CLIENTS = (5, 30)
TASKS, STEP_MS = 16, 100  # the i-th task of a job takes i * STEP_MS
SLOTS = 256  # of each worker: every task has one, also while orphans of the dead dist still run
RUN_S = 120


def one_run(hawk, program, clients, how):
    with LocalCluster(hawk, dists=3, workers=4, slots=SLOTS) as cluster:
        victim = cluster.dists[0]
        p = subprocess.Popen([program, str(clients), victim.address, str(TASKS), str(STEP_MS)],
                             stdout=subprocess.PIPE, text=True)
        try:
            signalled, times, done = None, {"served": {}, "ended": {}}, {}
            running = set()
            for line in p.stdout:
                what, client, *rest = line.split()
                if what == "running":
                    running.add(client)
                    if len(running) == clients:
                        signalled = time.monotonic_ns()
                        victim.process.send_signal(how)
                elif what == "done":
                    done[client] = rest
                else:
                    times[what][client] = (int(rest[0]) - signalled) / 1e6
            p.wait(timeout=RUN_S)
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()
            if victim.process.poll() is None:
                victim.process.kill()
            victim.process.wait()
    wrong = {c: r for c, r in done.items() if r != ["done", str(TASKS)]}
    if wrong or len(done) != clients:
        raise SystemExit(f"jobs that did not end with every task reported once: {wrong}; {len(done)} of {clients} ended")
    return times


def summary(runs, what):
    medians = [statistics.median(r[what].values()) for r in runs]
    return {"median_ms": round(statistics.median(medians), 1), "min_ms": round(min(medians), 1),
            "max_ms": round(max(medians), 1),
            "slowest_client_ms": round(max(max(r[what].values()) for r in runs), 1)}


def main():
    hawk, program, output = sys.argv[1:4]
    n = int(sys.argv[4]) if len(sys.argv) > 4 else 7
    result = {"tasks_per_job": TASKS, "step_ms": STEP_MS, "runs": n, "load": os.getloadavg()[0], "clients": {}}
    for clients in CLIENTS:
        result["clients"][clients] = figures = {}
        for name, how in (("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)):
            runs = [one_run(hawk, program, clients, how) for _ in range(n)]
            figures[name] = {what: summary(runs, what) for what in ("served", "ended")}
            for what, s in figures[name].items():
                print(f"{clients:3} clients, {name}, {what}: median {s['median_ms']:.1f} ms "
                      f"({s['min_ms']:.1f}-{s['max_ms']:.1f}), slowest client {s['slowest_client_ms']:.1f} ms", flush=True)
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    with open(output, "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


main()
