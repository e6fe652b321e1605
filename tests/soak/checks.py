"""What must hold when all is over: what the users were told, against what ran and against itself."""
import os

import cluster as daemons
import load as users

# After an acknowledged cancel a task may still start where the word has not arrived: as long as the longest cut or stop.
CANCEL_BOUND_S = 25 + daemons.LEASE_S


class Ran:
    """What the tasks themselves wrote."""

    def __init__(self, directory):
        self.starts, self.ends, self.twice, self.strange = {}, {}, [], []
        with open(os.path.join(directory, "tasks.log"), encoding="ascii", errors="replace") as f:
            for line in f:
                words = line.split()
                if len(words) != 9:
                    self.strange.append(line.strip())
                    continue
                what, key, task = words[0], words[1], int(words[2])
                entry = {"job": words[3], "attempt": words[4], "worker": words[5], "pid": words[6], "at": float(words[7]),
                         "uid": int(words[8])}
                if what == "twice":
                    self.twice.append((key, task, entry))
                else:
                    (self.starts if what == "start" else self.ends).setdefault(key, {}).setdefault(task, []).append(entry)

    def count(self, of):
        return sum(len(entries) for tasks in of.values() for entries in tasks.values())

    def repeated(self, of):
        return sum(len(entries) > 1 for tasks in of.values() for entries in tasks.values())


class Verdict:
    def __init__(self, cluster, load, breaker):
        self.cluster, self.load, self.breaker = cluster, load, breaker
        self.broken = []  # (invariant, what)
        self.lost = self.twice = self.in_doubt_lost = 0
        self.ran = Ran(cluster.directory)
        self.latest_start_after_cancel = 0.0

    def violate(self, invariant, what):
        self.broken.append((invariant, str(what)))

    def check(self):
        keys = {j.key: j for j in self.load.jobs}
        for line in self.ran.strange:
            self.violate("task log", f"a line that no task writes: {line}")
        for key, task, entry in self.ran.twice:
            other = [e for e in self.ran.starts[key][task] if e["at"] <= entry["at"]][-2:]
            self.violate("one copy", f"task {task} of {keys[key]} started as {entry} while it ran elsewhere: {other}")
        for job in self.load.jobs:
            self._ran_as_told(job)
            if job.id is None:
                continue
            if job.end is None:
                self.lost += job.tasks
                self.violate("known end", f"{job} has none: {job.client_words or 'it was accepted'}")
            else:
                self._books(job)
                self._tasks(job)
        return not self.broken

    # --- one job ------------------------------------------------------------------------------------

    def _ran_as_told(self, job):
        starts = self.ran.starts.get(job.key, {})
        for task, entries in starts.items():
            if job.at_most_once and len(entries) > 1:
                self.violate("at most once", f"task {task} of {job} started {len(entries)} times: {entries}")
            for e in entries:
                if e["uid"] != self.cluster.uid_of(job.user, e["worker"]):
                    self.violate("its user", f"task {task} of {job}, a job of {job.user}'s, ran as uid {e['uid']}: {e}")
            if job.cancel_acked is None:
                continue
            late = max(e["at"] for e in entries) - job.cancel_acked
            self.latest_start_after_cancel = max(self.latest_start_after_cancel, late)
            if late > CANCEL_BOUND_S:
                self.violate("cancelled", f"task {task} of {job} started {late:.1f} s after its cancellation was acknowledged")

    def _books(self, job):
        e = job.end
        ended = e["done"] + e["failed"] + e["cancelled"] + e["lost"]
        if e["tasks"] != job.tasks or ended != job.tasks:
            self.twice += max(0, ended - job.tasks)
            self.lost += max(0, job.tasks - ended)
            self.violate("books", f"{job} ended with {ended} ends of {job.tasks} tasks: {e}")
        if job.changed:
            self.twice += 1
            self.violate("one end", f"{job} ended as {e}, and later as {job.changed}")
        if e["lost"] and job.at_most_once:
            self.in_doubt_lost += e["lost"]
        elif e["lost"]:
            self.lost += e["lost"]
            self.violate("lost", f"{job}: {e['lost']} tasks ended as lost, with {users.RETRIES} retries")
        if e["cancelled"] and job.cancel_after is None:
            self.violate("cancelled", f"{job}: {e['cancelled']} tasks were cancelled, which nobody asked for")
        if job.waits and job.exit_code in (0, 1) and (job.exit_code == 0) != (e["done"] == job.tasks):
            self.violate("exit code", f"{job}: its client ended with {job.exit_code}, after {e}")

    def _tasks(self, job):
        """What Hawk calls done or failed has run to its end, and failed only where the command did."""
        ends = set(self.ran.ends.get(job.key, {}))
        good, bad = ends - set(job.fails), ends & set(job.fails)
        e = job.end
        if e["failed"] > len(job.fails):
            self.violate("failed", f"{job}: {e['failed']} tasks failed, of {len(job.fails)} meant to: {self._odd(job)}")
        if not job.timer and e["done"] > len(good):
            self.violate("done", f"{job}: {e['done']} tasks are done, but only {sorted(good)} have run to the end")
        if not job.timer and e["failed"] > len(bad):
            self.violate("done", f"{job}: {e['failed']} tasks have failed, but only {sorted(bad)} have run to the end")
        for t in job.task_ends or []:
            index = t.get("index", t["task"] + 1)
            if not job.timer and t["state"] in ("done", "failed") and index not in (good if t["state"] == "done" else bad):
                self.violate("done", f"task {index} of {job} is {t['state']}, but has not run to that end: {t}")

    @staticmethod
    def _odd(job):
        return [t for t in job.task_ends or [] if t["state"] == "failed"][:3]
