#!/usr/bin/env python3
"""What an outage of central costs a long job: make bench-outage.

Central, a dist and four workers of two slots on loopback; one long job whose tasks keep every slot busy. Central is killed
(SIGKILL) in the middle and started again later. Every run has a cluster of its own. Under hawk workers have queues of long
tasks; under harrier central keeps these tasks, and a worker that runs out of them waits for central.

    bench/outage.py HAWK OUTPUT.json [RUNS]
"""
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import LocalCluster  # noqa: E402

POLICIES = ("hawk", "harrier")
OUTAGES_S = (None, 0, 1, 4)  # None: central is not killed
WORKERS, SLOTS, TASKS, TASK_S = 4, 2, 64, 1
KILL_S = 2.5


def one_run(hawk, policy, outage_s):
    flags = ["--policy", policy, "--short-partition", "0%"]
    with LocalCluster(hawk, dists=1, workers=WORKERS, slots=SLOTS, central_flags=flags) as cluster:
        begin = time.monotonic()
        job = subprocess.Popen([hawk, "submit", "--wait", "--class", "long", "--array", f"1-{TASKS}", "--", "sleep",
                                str(TASK_S)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env=cluster.environment())
        if outage_s is not None:
            time.sleep(KILL_S)
            cluster.restart_central(outage_s)  # it dies with the thread that starts it
        said = job.communicate()[1]
        took = time.monotonic() - begin
    if job.returncode:
        raise SystemExit(f"the job did not end well: {said}")
    return took


def main():
    hawk, output = sys.argv[1:3]
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    result = {"tasks": TASKS, "task_s": TASK_S, "slots": WORKERS * SLOTS, "runs": n, "policies": {}}
    print(f"{TASKS} long tasks of {TASK_S} s on {WORKERS * SLOTS} slots: {TASKS * TASK_S / WORKERS / SLOTS:.0f} s at least")
    for policy in POLICIES:
        result["policies"][policy] = figures = {}
        for outage_s in OUTAGES_S:
            times = sorted(one_run(hawk, policy, outage_s) for _ in range(n))
            figures[str(outage_s)] = {"median_s": statistics.median(times), "min_s": times[0], "max_s": times[-1]}
            what = "no outage" if outage_s is None else f"back after {outage_s} s"
            print(f"{policy:8} {what:16} {statistics.median(times):6.2f} s ({times[0]:.2f}-{times[-1]:.2f})", flush=True)
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    with open(output, "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


main()
