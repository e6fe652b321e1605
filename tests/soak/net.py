"""A network of its own for every node: a namespace each, joined by a bridge in one more, nothing in the machine's own.

A namespace lives as long as a process in it: each has a holder that dies with this one, so that nothing stays behind
however this process ends, and several runs at a time never meet.
"""
import ctypes
import os
import signal
import subprocess

SUBNET = "10.77.0"
# An address no card has: what is sent there is lost on the way.
NOWHERE = "02:00:00:00:de:ad"
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


class NetworkError(Exception):
    pass


def die_with_parent():
    """For preexec_fn. Only for what the main thread starts: the signal comes when the thread ends."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def impossible():
    """Why there can be no such network here, or None."""
    if os.geteuid() != 0:
        return "it makes network namespaces: run it as root"
    for words in (["unshare", "--net", "true"],
                  ["unshare", "--net", "sh", "-c", "ip link add name br0 type bridge && ip link add name v0 type veth peer name v1 && "
                   "tc qdisc add dev v0 root blackhole"]):
        try:
            got = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True, check=False)
        except OSError as e:
            return f"{words[0]}: {e.strerror}"
        if got.returncode:
            return f"network namespaces, bridges or tc are not permitted here: {got.stderr.strip()}"
    return None


class Space:
    """One namespace: `enter` is what stands before a command that runs in it."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo made && exec sleep infinity"],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
                                       preexec_fn=die_with_parent)
        if self.holder.stdout.readline() != b"made\n":
            raise NetworkError("cannot make a network namespace")
        self.path = f"/proc/{self.holder.pid}/ns/net"
        self.identity = os.readlink(self.path)
        self.enter = ["nsenter", f"--net={self.path}", "--"]

    def run(self, *words, check=True):
        got = subprocess.run([*self.enter, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, check=False)
        if check and got.returncode:
            raise NetworkError(f"{' '.join(words)}: {got.stdout.strip()}")

    def processes(self):
        """The pids of those who live here, but for the holder."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/net") == self.identity and int(pid) != self.holder.pid:
                    found.append(int(pid))
            except OSError:
                continue
        return found

    def close(self):
        """Ends whoever is left, by pid, and the namespace with them."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class Network:
    """add() makes a node with an address; cut() and mend() break and repair, and count, so that cuts may overlap."""

    def __init__(self):
        self.hub = Space()
        self.spaces, self.addresses, self.ports = {}, {}, {}
        self.cuts = {}
        try:
            # Without a delay a repaired link carries at once, as a switch's would.
            self.hub.run("ip", "link", "add", "name", "br0", "type", "bridge", "forward_delay", "0")
            self.hub.run("ip", "link", "set", "br0", "up")
        except BaseException:
            self.close()
            raise

    def add(self, name):
        number = len(self.spaces) + 1
        space = self.spaces[name] = Space()
        self.addresses[name] = f"{SUBNET}.{number}"
        port = self.ports[name] = f"p{number}"
        self.hub.run("ip", "link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", str(space.holder.pid))
        self.hub.run("ip", "link", "set", port, "master", "br0", "up")
        space.run("ip", "addr", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
        space.run("ip", "link", "set", "eth0", "up")

    def close(self):
        for space in [*self.spaces.values(), self.hub]:
            space.close()

    # --- cuts: what is one of "both", "in", "out" of a node's link, or the name of another node -------

    def cut(self, name, what):
        self.cuts[name, what] = self.cuts.get((name, what), 0) + 1
        if self.cuts[name, what] == 1:
            self._set(name, what, True)

    def mend(self, name, what):
        self.cuts[name, what] -= 1
        if self.cuts[name, what] == 0:
            self._set(name, what, False)

    def mend_all(self):
        for (name, what), n in self.cuts.items():
            if n > 0:
                self._set(name, what, False)
        self.cuts.clear()

    def _set(self, name, what, broken):
        port, space = self.ports[name], self.spaces[name]
        if what == "both":
            self.hub.run("ip", "link", "set", port, "down" if broken else "up")
        elif what in ("in", "out"):
            # Everything that leaves by this end of the veth is dropped, without a word to the sender.
            where, device = (self.hub, port) if what == "in" else (space, "eth0")
            where.run("tc", "qdisc", "add" if broken else "del", "dev", device, "root", *(["blackhole"] if broken else []))
        elif broken:
            space.run("ip", "neigh", "replace", self.addresses[what], "lladdr", NOWHERE, "dev", "eth0", "nud", "permanent")
        else:
            space.run("ip", "neigh", "del", self.addresses[what], "dev", "eth0")
