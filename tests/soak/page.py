"""The page a soak ends in, for the terminal and as Markdown."""
import statistics

SAMPLE_S = 10
WINDOW_S = 600          # the last ten minutes against the ten before them
GROWTH_MAX = 1.02
ROLES = ("central", "dist", "worker")


class Memory:
    """Resident memory of every daemon, sampled."""

    def __init__(self):
        self.samples = []  # (clock, role, KiB)

    def sample(self, cluster):
        now = cluster.clock()
        for node in cluster.nodes.values():
            kib = node.rss_kib() if node.alive() else None
            if kib:
                self.samples.append((now, node.role, kib))

    def medians(self, role, start, end):
        values = [kib for at, r, kib in self.samples if r == role and start <= at < end]
        return statistics.median(values) if values else None

    def growth(self, began, seconds):
        """(role, median of the middle, median of the last window): of minutes 10-20 and 20-30, or of thirds."""
        window = WINDOW_S if seconds >= 3 * WINDOW_S else seconds / 3
        end = began + seconds
        return [(role, self.medians(role, end - 2 * window, end - window), self.medians(role, end - window, end))
                for role in ROLES]


def rows(verdict, memory, seconds, began, seed, commit):
    load, breaker, ran = verdict.load, verdict.breaker, verdict.ran
    accepted = [j for j in load.jobs if j.id]
    ended = [j for j in accepted if j.end]

    def total(what):
        return sum(j.end[what] for j in ended)

    def broken(*kinds):
        return sum(n for kind, n in breaker.done.items() if kind.split()[0] in kinds)

    cluster = verdict.cluster
    out = [("run", f"{seconds} s, seed {seed}, commit {commit}"),
           ("cluster", f"1 central, {len(cluster.dists)} dists, {len(cluster.workers)} workers, {len(cluster.nodes)} namespaces"),
           ("jobs", f"{len(accepted)} accepted ({sum(j.waits for j in accepted)} waited for, {sum(j.long for j in accepted)} long, "
                    f"{sum(j.at_most_once for j in accepted)} at most once, {sum(j.cancel_acked is not None for j in accepted)} "
                    f"cancelled); {len(load.jobs) - len(accepted)} refused"),
           ("tasks", f"{sum(j.tasks for j in accepted)}: {total('done')} done, {total('failed')} failed as they were meant to, "
                     f"{total('cancelled')} cancelled, {verdict.in_doubt_lost} lost that must not run twice"),
           ("kill -9", detail(breaker, "kill")), ("stops", detail(breaker, "stop")), ("cuts", detail(breaker, "cut")),
           ("leaving", f"{broken('leave')} times SIGTERM, {broken('upgrade')} upgrades (SIGUSR2), {broken('drain')} drained"),
           ("relay", f"{broken('delay')} delays, {broken('throttle')} throttled, {broken('reset')} times reset mid-message "
                     f"({breaker.broken} connections)"),
           ("re-run", f"{ran.repeated(ran.starts)} tasks started more than once, {ran.repeated(ran.ends)} ran to the end more than once "
                      f"({ran.count(ran.starts)} starts, {ran.count(ran.ends)} ends)"),
           ("lost", str(verdict.lost)), ("counted twice", str(verdict.twice))]
    for role, before, after in memory.growth(began, seconds):
        if before and after:
            out.append((f"RSS {role}", f"{before / 1024:.1f} MiB, then {after / 1024:.1f} MiB ({100 * (after / before - 1):+.1f} %)"))
    return out


def detail(breaker, word):
    parts = {k: n for k, n in breaker.done.items() if k.split()[0] == word}
    if word == "cut":
        return f"{sum(parts.values())}: " + ", ".join(f"{n} {k[4:]}" for k, n in sorted(parts.items()))
    return f"{sum(parts.values())}: " + ", ".join(f"{n} {(k.split() + ['worker'])[1]}" for k, n in sorted(parts.items()))


def as_text(table):
    width = max(len(k) for k, _ in table)
    return "\n".join(f"{k.ljust(width)}  {v}" for k, v in table)


def as_markdown(table):
    return "| | |\n|---|---|\n" + "\n".join(f"| {k} | {v} |" for k, v in table) + "\n"
