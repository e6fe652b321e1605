"""The soak's users: they submit jobs of every kind, wait for some, cancel some, and keep what they were told.

Every task of a command job writes a line when it starts and when it ends to one file, so that what ran is known
without asking Hawk. Of what may never run twice at a time, each task takes a lock that the kernel frees when the last
of its processes is gone: who does not get it says so.
"""
import asyncio
import json
import os
import random
import time

from cluster import OPERATOR, USERS
from events import Timetable, within

FINAL = ("done", "failed", "cancelled")
ATTENDED_MAX = 40        # clients that wait, at a time
RETRIES = 50             # more than any task's workers can be lost in a run
FOLLOW_S, FOLLOW_TIMEOUT = 2.0, "4s"
DETAILS_AT_ONCE = 50
GAP_S = 0.3              # between two jobs, on average

# kind: weight, tasks at least and at most, seconds of a task at least and at most, flags
KINDS = {
    "short": (60, 1, 4, 0.01, 0.4, ("--class", "short")),
    "plain": (10, 1, 3, 0.01, 0.3, ()),
    "array": (14, 5, 20, 0.02, 0.5, ("--class", "short")),
    "timer": (4, 1, 6, 0.05, 0.5, ("--class", "short")),
    "long": (6, 1, 3, 3, 25, ("--class", "long")),
    "long timer": (2, 1, 3, 3, 12, ("--class", "long")),
}
WAITS = {"short": 0.85, "plain": 0.85, "array": 0.1, "timer": 0.5, "long": 0.4, "long timer": 0.3}
CANCELLED, AT_MOST_ONCE, FAILS = 0.08, 0.1, 0.05  # shares of jobs; of long ones three times as many at most once
CANCEL_AFTER_S = 4

SCRIPT = """#!/bin/sh
uid=$(id -u)
say() {
    read -r at _ </proc/uptime
    echo "$1 $SOAK_KEY $HAWK_TASK_INDEX $HAWK_JOB_ID $HAWK_ATTEMPT $HAWK_WORKER $$ $at $uid" >>"$SOAK_DIR/tasks.log"
}
if [ "$SOAK_ALONE" ]; then
    exec 9>>"$SOAK_DIR/locks/$SOAK_KEY.$HAWK_TASK_INDEX"
    flock -n 9 || say twice
fi
say start
sleep "$1"
say end
case ",$SOAK_FAILS," in *,$HAWK_TASK_INDEX,*) exit 3 ;; esac
"""


def boottime():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Job:
    """What was asked (the same for a seed), and what came of it."""

    def __init__(self, seed, number):
        rng = random.Random(f"{seed} job {number}")
        self.key = f"k{number}"
        self.user = list(USERS)[number % len(USERS)] if number else OPERATOR
        self.kind = rng.choices(list(KINDS), [k[0] for k in KINDS.values()])[0]
        _, fewest, most, least_s, most_s, self.flags = KINDS[self.kind]
        self.tasks, self.seconds = rng.randint(fewest, most), rng.uniform(least_s, most_s)
        self.timer, self.long = "timer" in self.kind, "long" in self.kind
        self.waits = rng.random() < WAITS[self.kind]
        self.at_most_once = rng.random() < AT_MOST_ONCE * (3 if self.long else 1)
        cancelled = not self.waits and rng.random() < CANCELLED
        self.cancel_after = rng.uniform(0, min(CANCEL_AFTER_S, 2 * self.seconds)) if cancelled else None
        fails = rng.random() < FAILS and not self.timer
        self.fails = sorted(rng.sample(range(1, self.tasks + 1), rng.randint(1, self.tasks))) if fails else []
        self.contacts = rng.random()  # which dist is asked first
        self.id = None                # once it is accepted
        self.exit_code = None         # of who waits
        self.client_words = ""
        self.end = None               # the job as its dist shows it, ended
        self.over = asyncio.Event()   # when that is known
        self.task_ends = None         # its tasks, where they were asked for
        self.cancel_acked = None      # CLOCK_BOOTTIME
        self.changed = None           # an end that was not the last

    def alone(self):
        return self.long or self.at_most_once

    def words(self):
        words = ["submit", "--output", "json", "--export", "ALL", "--name", f"soak {self.kind}", "--array", f"1-{self.tasks}", *self.flags,
                 "--stdout", "none", "--stderr", "none"]
        words += ["--at-most-once"] if self.at_most_once else ["--lost-retries", RETRIES]
        words += ["--wait"] if self.waits else []
        return words + (["--timer", "--", f"{self.seconds * 1000:.0f}ms"] if self.timer else
                        ["--", "/bin/sh", "task.sh", f"{self.seconds:.3f}"])

    def __str__(self):
        what = f"{self.kind}, {self.tasks} tasks of {self.seconds:.2f} s"
        what += ", waited for" if self.waits else ", detached"
        what += ", at most once" if self.at_most_once else ""
        what += f", cancelled after {self.cancel_after:.1f} s" if self.cancel_after is not None else ""
        return f"{self.id or self.key} ({self.key}: {what})"


class Load:
    def __init__(self, cluster, seed, seconds, say):
        self.cluster, self.seed, self.seconds, self.say = cluster, seed, seconds, say
        self.jobs, self.by_id = [], {}
        self.unfinished = None  # jobs the cluster listed last, or None when it did not list all
        self.clients = set()
        self.changed = asyncio.Event()  # a client has its answer, or all jobs were looked at
        self.hurry = asyncio.Event()    # whoever comes back to look is to do so now
        self.rng = random.Random(f"{seed} load")
        # Every user's tasks write here, as their users or as root. In a directory with the sticky bit Linux would refuse that.
        os.mkdir(os.path.join(cluster.directory, "locks"))
        os.chmod(os.path.join(cluster.directory, "locks"), 0o777)
        with open(os.path.join(cluster.directory, "task.sh"), "w", encoding="ascii") as f:
            f.write(SCRIPT)
        open(os.path.join(cluster.directory, "tasks.log"), "w", encoding="ascii").close()
        os.chmod(os.path.join(cluster.directory, "tasks.log"), 0o666)

    async def submit_all(self):
        """New jobs until the time is over."""
        with Timetable() as arrivals:
            at = 0.0
            while at < self.seconds:
                arrivals.add(at, self.arrive)
                at += self.rng.expovariate(1 / GAP_S)
            arrivals.add(at, None)
            while arrive := await arrivals.next():
                arrive()

    def arrive(self):
        """A user, unless too many wait."""
        if len(self.clients) < ATTENDED_MAX:
            job = Job(self.seed, len(self.jobs) + 1)
            self.jobs.append(job)
            client = asyncio.ensure_future(self.live(job))
            self.clients.add(client)
            client.add_done_callback(self.leave)

    def leave(self, client):
        self.clients.discard(client)
        self.changed.set()

    async def run(self, job, words):
        dists = self.cluster.dists
        first = int(job.contacts * len(dists))
        contacts = ",".join(self.cluster.reached_at[d] for d in dists[first:] + dists[:first])
        marks = {"SOAK_KEY": job.key, "SOAK_DIR": self.cluster.directory, "SOAK_FAILS": ",".join(map(str, job.fails))}
        if job.alone():
            marks["SOAK_ALONE"] = "1"
        child = await asyncio.create_subprocess_exec(
            *self.cluster.client_argv(*words), cwd=self.cluster.directory, env=self.cluster.client_environment(contacts, job.user, **marks),
            umask=0, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        try:
            out, err = await child.communicate()
        except asyncio.CancelledError:
            child.kill()
            await child.wait()
            raise
        try:
            return child.returncode, json.loads(out), err.decode(errors="replace").strip()
        except ValueError:
            return child.returncode, {}, err.decode(errors="replace").strip()

    async def live(self, job):
        """One user."""
        job.exit_code, told, job.client_words = await self.run(job, job.words())
        shown = told.get("jobs") or []
        job.id = shown[0]["job"] if shown else told.get("job")
        if job.id is None:
            self.say(f"{job}: not accepted: {job.client_words.splitlines()[:1]}")
            return
        self.by_id[job.id] = job
        if job.waits and job.exit_code in (0, 1):
            self.ended(job, shown[0])
        elif job.waits:
            self.say(f"{job}: its client ended with {job.exit_code}: {job.client_words}")
        elif job.cancel_after is not None:
            await within(job.cancel_after, job.over)
            code, _, words = await self.run(job, ["cancel", "--output", "json", job.id])
            if code == 0:
                job.cancel_acked = boottime()
            else:
                self.say(f"{job}: not cancelled: {words}")

    # --- those who come back to look ------------------------------------------------------------------

    def ended(self, job, shown):
        if job.end is None:
            job.end = shown
            job.over.set()
        elif any(job.end[what] != shown[what] for what in ("state", "done", "failed", "cancelled", "lost")):
            job.changed = shown

    async def follow(self):
        """Lists all jobs again and again, and asks once for the tasks of each that has ended."""
        while True:
            await self.look()
            self.changed.set()
            await within(FOLLOW_S, self.hurry)
            self.hurry.clear()

    async def look(self):
        nobody = Job(self.seed, 0)
        code, told, words = await self.run(nobody, ["jobs", "--all", "--output", "json", "--timeout", FOLLOW_TIMEOUT])
        wanted = []
        for shown in told.get("jobs", []):
            job = self.by_id.get(shown["job"])
            # Of a job that moved, an earlier dist may show another end: the client's is the one that counts.
            if job and shown["state"] in FINAL and not (job.waits and job.end):
                self.ended(job, shown)
                if job.task_ends is None and not job.waits:
                    wanted.append(job)
        complete = code == 0 and not words
        self.unfinished = [j["job"] for j in told["jobs"] if j["state"] not in FINAL] if complete else None
        for i in range(0, len(wanted), DETAILS_AT_ONCE):
            ids = [j.id for j in wanted[i:i + DETAILS_AT_ONCE]]
            _, told, _ = await self.run(nobody, ["job", "--output", "json", "--timeout", FOLLOW_TIMEOUT, *ids])
            for shown in told.get("jobs", []):
                self.by_id[shown["job"]].task_ends = shown["task_list"]

    def waiting_for(self):
        return [j for j in self.jobs if j.id and not j.end]
