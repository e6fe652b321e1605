"""What goes wrong, and when: drawn from the seed alone before the run, so that a seed is the same plan every time."""
import asyncio
import random
import signal

QUIET_S = 3  # at the beginning and before the end
GAP_S = 2.0  # between two faults, on average
UNDRAIN_S = 30
LEAVING = {"kill": None, "leave": signal.SIGTERM, "upgrade": signal.SIGUSR2}  # what ends in a new start

# kind: weight, which nodes, shortest and longest in seconds (for a kill: until it is started again). leave: SIGTERM, and a
# new start; upgrade: SIGUSR2, and a new start that takes the tasks over; drain: by `hawk drain`, until `hawk undrain`.
KINDS = {
    "kill": (10, "worker", 0.1, 7), "kill dist": (4, "dist", 0.1, 5), "kill central": (2, "central", 0.2, 6),
    "stop": (7, "worker", 0.2, 14), "stop dist": (3, "dist", 0.2, 8), "stop central": (2, "central", 0.2, 8),
    "cut both": (5, "worker", 0.5, 25), "cut in": (3, "worker", 0.5, 25), "cut out": (3, "worker", 0.5, 25),
    "cut dist": (3, "dist", 0.5, 15), "cut central": (2, "central", 0.5, 15), "cut pair": (5, "pair", 0.5, 15),
    "leave": (3, "worker", 1, 8), "leave dist": (2, "dist", 1, 8), "upgrade": (3, "worker", 0.1, 4), "drain": (3, "worker", 1, 10),
    "delay": (4, "relayed", 1, 8), "throttle": (3, "relayed", 1, 8), "reset": (6, "relayed", 1, 3),
}


class Fault:
    def __init__(self, at, kind, target, other, how, seconds):
        self.at, self.kind, self.target, self.other, self.how, self.seconds = at, kind, target, other, how, seconds

    def __str__(self):
        between = f" {self.other}" if self.other else ""
        how = f" {self.how}" if self.how else ""
        return f"{self.kind} {self.target}{between}{how} for {self.seconds:.2f} s"


class Plan:
    """Faults in the order of their times. At least one dist, at any time, is left alone."""

    def __init__(self, seed, seconds, dists, workers, relayed):
        self.rng = random.Random(f"{seed} faults")
        self.dists, self.workers, self.relayed = dists, workers, relayed
        self.dist_busy = {}
        self.faults = []
        kinds, weights = list(KINDS), [k[0] for k in KINDS.values()]
        at = QUIET_S + self.rng.expovariate(1 / GAP_S)
        while at < seconds - QUIET_S:
            self._draw(at, self.rng.choices(kinds, weights)[0])
            at += self.rng.expovariate(1 / GAP_S)

    def _draw(self, at, kind):
        _, whom, least, most = KINDS[kind]
        rng, other, how = self.rng, None, None
        seconds = rng.uniform(least, most)
        target = rng.choice({"worker": self.workers, "dist": self.dists, "central": ["central"], "relayed": self.relayed,
                             "pair": self.workers}[whom])
        if kind == "cut pair":
            other = rng.choice([n for n in ["central", *self.dists, *self.workers] if n != target])
            how = rng.choice(["both", "there", "back"])
        elif kind in ("cut dist", "cut central"):
            how = rng.choice(["both", "in", "out"])
        elif kind == "delay":
            how = rng.randint(5, 400)
        elif kind == "throttle":
            how = rng.randint(500, 20000)
        if target in self.dists and not self._may(target, at, seconds):
            return
        self.faults.append(Fault(at, kind, target, other, how, seconds))

    def _may(self, dist, at, seconds):
        """Whether another dist is then still untouched; a node killed or cut needs a moment to be itself again."""
        busy = {d for d, until in self.dist_busy.items() if until > at} | {dist}
        if len(busy) == len(self.dists):
            return False
        self.dist_busy[dist] = max(self.dist_busy.get(dist, 0), at + seconds + 3)
        return True


class Breaker:
    """Carries the faults out on a cluster; begin() and end() are called at their times."""

    def __init__(self, cluster, say):
        self.cluster, self.say = cluster, say
        self.done = {}      # kind: how often
        self.broken = 0     # connections reset mid-message
        self.skipped = 0
        self.impatient = 0  # who had to be killed because he did not leave in time
        self.drained = set()
        self.commands = set()

    def begin(self, fault):
        node = self.cluster.nodes.get(fault.target)
        word = fault.kind.split()[0]
        if node is not None and word in ("stop", *LEAVING) and (not node.alive() or node.leaving):
            self.skipped += 1
            self.say(f"{fault}: skipped, it is down")
            return False
        self.say(str(fault))
        self.done[fault.kind] = self.done.get(fault.kind, 0) + 1
        if word == "kill":
            node.kill()
        elif word in LEAVING:
            node.leave(LEAVING[word])
        elif word == "drain":
            self._command("drain", fault.target)
        elif word == "stop":
            fault.process = node.process
            node.signal(signal.SIGSTOP)
        elif word == "cut":
            for name, what in self._links(fault):
                self.cluster.net.cut(name, what)
        else:
            connections = self.cluster.relay.tell(word, fault.target, *([fault.how] if fault.how else []))
            self.broken += connections if word == "reset" else 0
        return True

    def end(self, fault):
        node = self.cluster.nodes.get(fault.target)
        word = fault.kind.split()[0]
        if word in LEAVING:
            if node.alive():
                self.say(f"{node.name} has not left: killed")
                self.impatient += 1
                node.kill()
            node.start()
        elif word == "drain":
            self._command("undrain", fault.target)
        elif word == "stop":
            if node.process is fault.process:
                node.signal(signal.SIGCONT)
        elif word == "cut":
            for name, what in self._links(fault):
                self.cluster.net.mend(name, what)
        else:
            self.cluster.relay.tell("heal", fault.target)

    def _command(self, word, target):
        """An operator's; central may be away, so that it takes a while, or fails."""
        async def run():
            got = await asyncio.to_thread(self.cluster.client, word, "--timeout", "5s", target)
            if got.returncode:
                self.say(f"{word} {target}: {got.stderr.strip()}")
            elif word == "undrain":
                self.drained.discard(target)

        self.drained.add(target)
        task = asyncio.ensure_future(run())
        self.commands.add(task)
        task.add_done_callback(self.commands.discard)

    async def restore(self):
        """When all is repaired: takes every node into service again. Returns those that could not be."""
        end = self.cluster.clock() + UNDRAIN_S
        while self.commands or (self.drained and self.cluster.clock() < end):
            await asyncio.gather(*self.commands)
            for target in self.drained:
                self._command("undrain", target)
        return self.drained

    @staticmethod
    def _links(fault):
        if fault.kind == "cut pair":
            there, back = (fault.target, fault.other), (fault.other, fault.target)
            return {"both": [there, back], "there": [there], "back": [back]}[fault.how]
        return [(fault.target, fault.how or fault.kind.split()[1])]
