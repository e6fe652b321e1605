#!/usr/bin/python3
"""Calls from Python: hawk.Executor beside multiprocessing and Dask. Usage: bench/calls.py BUILD OUT.json [ROUNDS]

ITEMS calls of 1 ms of processor time each, one call a task, on as many slots as there are processors. The ideal is that
work divided by the slots. Processes stand ready before the clock starts. Dask is left out where it is not installed.
"""
import concurrent.futures
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
sys.path.insert(0, f"{BUILD}/python")
ITEMS, BUSY_MS = 10000, 1.0
SLOTS = os.cpu_count()
TARGET = 0.6


def busy(item):
    end = time.thread_time() + BUSY_MS / 1000
    while time.thread_time() < end:
        pass
    return item


def check(results):
    assert list(results) == list(range(ITEMS))


def ready(item):
    time.sleep(0.05)
    return os.getpid()


def wait_ready(function):
    while len(set(function(ready, range(SLOTS)))) < SLOTS:
        pass


def with_pool():
    with multiprocessing.get_context("spawn").Pool(SLOTS) as pool:
        wait_ready(lambda f, items: pool.map(f, items, chunksize=1))
        start = time.monotonic()
        check(pool.map(busy, range(ITEMS), chunksize=1))
        return time.monotonic() - start


def with_futures():
    with concurrent.futures.ProcessPoolExecutor(SLOTS) as ex:
        wait_ready(ex.map)
        start = time.monotonic()
        check(ex.map(busy, range(ITEMS)))
        return time.monotonic() - start


def with_hawk():
    import hawk
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(XDG_RUNTIME_DIR=home, XDG_STATE_HOME=home)
        os.environ.pop("HAWK_DIST", None)
        up = subprocess.Popen([f"{BUILD}/hawk", "up", "--slots", str(SLOTS), "--output-dir", f"{home}/out"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            up.stdout.readline()
            with hawk.Executor() as ex:
                wait_ready(ex.map)
                start = time.monotonic()
                check(ex.map(busy, range(ITEMS)))
                return time.monotonic() - start
        finally:
            up.terminate()
            up.wait()


def with_dask():
    from distributed import Client, LocalCluster
    with LocalCluster(n_workers=SLOTS, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        wait_ready(lambda f, items: client.gather(client.map(f, items, pure=False)))
        start = time.monotonic()
        check(client.gather(client.map(busy, range(ITEMS), pure=False)))
        return time.monotonic() - start


SYSTEMS = {"hawk.Executor": with_hawk, "multiprocessing.Pool": with_pool, "ProcessPoolExecutor": with_futures,
           "Dask": with_dask}


def main(out, rounds):
    try:
        import distributed  # noqa: F401
    except ImportError:
        del SYSTEMS["Dask"]
    ideal = ITEMS * BUSY_MS / 1000 / SLOTS
    seconds = {name: [] for name in SYSTEMS}
    for _ in range(rounds):
        for name, run in SYSTEMS.items():
            seconds[name].append(run())
    print(f"{ITEMS} calls of {BUSY_MS:g} ms of processor time on {SLOTS} slots; ideal {ideal:.2f} s; "
          f"load {os.getloadavg()[0]:.1f}")
    result = {"items": ITEMS, "slots": SLOTS, "ideal_s": ideal, "seconds": seconds, "of_ideal": {}}
    for name, all_of in seconds.items():
        share = [ideal / s for s in all_of]
        result["of_ideal"][name] = statistics.median(share)
        verdict = ("; target %d %%: %s" % (100 * TARGET, "met" if statistics.median(share) >= TARGET else "missed")
                   if name == "hawk.Executor" else "")
        print(f"{name:21} {statistics.median(all_of):6.2f} s  {100 * statistics.median(share):3.0f} % of the ideal "
              f"({100 * min(share):.0f}-{100 * max(share):.0f}){verdict}")
    if "Dask" not in seconds:
        print("Dask                  not installed")
    with open(out, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)


if __name__ == "__main__":
    main(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5)
