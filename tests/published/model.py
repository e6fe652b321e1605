#!/usr/bin/python3
"""The Hawk authors' published simulator, once more: small, slow, and nothing in common with hawk sim.

usage: tests/published/model.py --make-trace >tests/published/trace.tr
       tests/published/model.py --make-figures >tests/published/figures.csv
       tests/published/model.py TRACE SLOTS sparrow|hawk CUTOFF_S RESERVED_PERCENT SEED

It follows the description of epfl-labos/eagle, simulation/eagle_simulation.py, for Sparrow and Hawk: whole seconds, probes and
victims drawn with replacement, no cancelled probes, steals only when a slot is freed, central's perfect knowledge. Its
figures of a trace of our own are what tests/test_sim_calibration.c holds `hawk sim --compat` against; with
the traces of the published results its figures are those, which is how it was checked itself (--check DIRECTORY)."""
import csv
import heapq
import os
import random
import statistics
import sys
from collections import deque

NETWORK_DELAY = 0.0005
# Events at the same time: by class, in this order, then as they were put in.
ARRIVAL, NOOP, PROBE, TASK_END = range(4)

# Our own trace: what it is made of, and the clusters it runs on.
JOBS, LONG_EVERY, CUTOFF_S = 400, 10, 300.0
RESERVED = {"sparrow": 0, "hawk": 10}
SLOTS = (70, 85, 110)
FIGURE_SEEDS = 200
FIGURES = ("p50_s", "p90_s", "mean_s")


class Job:
    def __init__(self, number, submit, mean, durations):
        self.number, self.submit, self.durations = number, submit, durations
        self.tasks, self.estimate, self.launched, self.end = len(durations), int(mean), 0, 0.0


class Worker:
    def __init__(self):
        self.queue = deque()  # (job, is it a big one)
        self.busy = self.executing_big = False
        self.since, self.estimate = 0.0, 0  # of the entry that is processed


def read_jobs(path):
    seen = {}
    with open(path, encoding="ascii") as f:
        for number, line in enumerate(f):
            submit, _, mean, *durations = line.split()
            again = seen[submit] = seen.get(submit, -1) + 1
            start = float(submit)
            for _ in range(again):
                start += 0.01
            yield Job(number, start, float(mean), [int(float(d)) for d in durations])


class Simulation:
    def __init__(self, jobs, slots, system, cutoff, reserved_percent, seed):
        self.jobs, self.hawk, self.cutoff = jobs, system == "hawk", cutoff
        self.workers = [Worker() for _ in range(slots)]
        self.big_ids = range(int(reserved_percent * slots / 100), slots)
        self.assigned = [0] * slots  # central's: estimates of big tasks that have not ended
        self.random = random.Random(seed)
        self.events, self.sequence, self.now = [], 0, 0.0

    def put(self, time, kind, *what):
        self.sequence += 1
        heapq.heappush(self.events, (time, kind, self.sequence, what))

    def is_big(self, job):
        return job.estimate > self.cutoff

    def draw(self, ids):
        return ids[int(self.random.random() * len(ids))]

    def run(self):
        arrivals = iter(self.jobs)
        self.put((first := next(arrivals)).submit, ARRIVAL, first)
        while self.events:
            self.now, kind, _, what = heapq.heappop(self.events)
            if kind == ARRIVAL:
                self.arrive(*what)
                following = next(arrivals, None)
                if following:
                    self.put(following.submit, ARRIVAL, following)
            elif kind == PROBE:
                self.probe(*what)
            elif kind == NOOP:
                self.free(*what)
            else:
                self.task_end(*what)
        return self.jobs

    # --- where tasks go -------------------------------------------------------------------------------------

    def arrive(self, job):
        if self.hawk and self.is_big(job):
            for w in self.place(job):
                self.put(self.now + NETWORK_DELAY, PROBE, w, job, True)
            return
        for _ in range(max(2 * job.tasks, 2)):
            ids = self.big_ids if self.is_big(job) else range(len(self.workers))
            self.put(self.now + NETWORK_DELAY, PROBE, self.draw(ids), job, self.is_big(job))

    def waiting(self, w):
        worker, assigned = self.workers[w], self.assigned[w]
        if assigned == 0 or not worker.executing_big:
            return assigned
        return 2 * NETWORK_DELAY + assigned - min(self.now - worker.since, worker.estimate)

    def place(self, job):
        """Where each task goes: to idle workers by their ids, then always to the least waiting time."""
        est = job.estimate
        chosen = [w for w in self.big_ids if self.assigned[w] == 0][:job.tasks]
        if len(chosen) < job.tasks:
            idle = set(chosen)
            heap = [(est if w in idle else self.waiting(w), w) for w in self.big_ids]
            heapq.heapify(heap)
            wait, w = heapq.heappop(heap)
            while len(chosen) < job.tasks:
                if heap and wait > heap[0][0]:  # ties stay where they are
                    wait, w = heapq.heapreplace(heap, (wait, w))
                chosen.append(w)
                wait += est
        for w in chosen:
            self.assigned[w] += est
        return chosen

    # --- workers --------------------------------------------------------------------------------------------

    def probe(self, w, job, big):
        self.workers[w].queue.append((job, big))
        if not self.workers[w].busy:
            self.serve(w)

    def serve(self, w):
        """The slot takes the entry at the head, and asks for its task at the same instant."""
        worker = self.workers[w]
        job, big = worker.queue.popleft()
        worker.busy, worker.executing_big, worker.since, worker.estimate = True, big, self.now, job.estimate
        if job.launched == job.tasks:
            self.put(self.now + 2 * NETWORK_DELAY, NOOP, w)
            return
        end = self.now + 2 * NETWORK_DELAY + job.durations[job.launched]
        job.launched += 1
        job.end = max(job.end, end)
        self.put(end, TASK_END, w, job)

    def task_end(self, w, job):
        if self.hawk and self.is_big(job):
            self.assigned[w] -= job.estimate
        self.free(w)

    def free(self, w):
        worker = self.workers[w]
        worker.busy = worker.executing_big = False
        if not worker.queue and self.hawk:
            for _ in range(10):
                loot = self.loot(self.workers[self.draw(self.big_ids)])
                if loot:
                    worker.queue.extend(loot)
                    break
        if worker.queue:
            self.serve(w)

    @staticmethod
    def loot(victim):
        """The first group of consecutive shorts after a big one, running or queued."""
        entries, i = list(victim.queue), 0
        if not victim.executing_big:
            while i < len(entries) and not entries[i][1]:
                i += 1
        while i < len(entries) and entries[i][1]:
            i += 1
        last = i
        while last < len(entries) and not entries[last][1]:
            last += 1
        victim.queue = deque(entries[:i] + entries[last:])
        return entries[i:last]


# --- figures --------------------------------------------------------------------------------------------------

def percentile(values, share):
    at = share * (len(values) - 1)
    low = int(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def figures(path, slots, system, cutoff, reserved_percent, seed):
    simulation = Simulation(list(read_jobs(path)), slots, system, cutoff, reserved_percent, seed)
    times = {"short": [], "long": []}
    for job in simulation.run():
        times["long" if simulation.is_big(job) else "short"].append(job.end - job.submit)
    return {name: {"p50_s": percentile(sorted(t), 0.5), "p90_s": percentile(sorted(t), 0.9), "mean_s": statistics.mean(t)}
            for name, t in times.items()}


def make_trace():
    """Every tenth job is long; some come at once; 65 slots would be busy all the time."""
    r = random.Random(20261123)
    at = 0
    for number in range(JOBS):
        is_long = number % LONG_EVERY == 7
        tasks = r.randint(3, 25) if is_long else r.randint(1, 12)
        mean = r.uniform(600, 1800) if is_long else r.uniform(5, 120)
        durations = [round(mean * r.uniform(0.3, 1.7), 3) for _ in range(tasks)]
        print(at, tasks, round(statistics.mean(durations), 6), *durations)
        at += r.choice((0, 10, 25, 40, 60, 90))


def make_figures():
    here = os.path.dirname(os.path.abspath(__file__))
    print("slots,system,class,figure,mean,sd")
    for slots in SLOTS:
        for system in ("sparrow", "hawk"):
            runs = [figures(f"{here}/trace.tr", slots, system, CUTOFF_S, RESERVED[system], seed)
                    for seed in range(1, FIGURE_SEEDS + 1)]
            for name in ("short", "long"):
                for figure in FIGURES:
                    v = [run[name][figure] for run in runs]
                    print(f"{slots},{system},{name},{figure},{statistics.mean(v):.3f},{statistics.stdev(v):.3f}", flush=True)


def check(shared):
    """This model against the published program's own results, some of the smaller configurations."""
    with open(f"{shared}/reference/simulator-results.csv", encoding="ascii") as f:
        for row in csv.DictReader(f):
            if row["trace"] == "yahoo-2910" and row["system"] in RESERVED and row["slots"] in ("3583", "4607") and row["seed"] == "1":
                got = figures(f"{shared}/traces/yahoo-2910.tr", int(row["slots"]), row["system"], 90.5811,
                              2 if row["system"] == "hawk" else 0, 1)[row["class"]]
                print(row["slots"], row["system"], row["class"],
                      *(f"{name} {got[name]:.1f} ({100 * (got[name] / float(row[name]) - 1):+.1f} %)" for name in FIGURES), flush=True)


def main(args):
    if args == ["--make-trace"]:
        make_trace()
    elif args == ["--make-figures"]:
        make_figures()
    elif args[:1] == ["--check"] and len(args) == 2:
        check(args[1])
    elif len(args) == 6:
        print(figures(args[0], int(args[1]), args[2], float(args[3]), float(args[4]), int(args[5])))
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
