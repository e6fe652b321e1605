"""Load on a cluster whose nodes are restarted meanwhile."""
import threading


def lines(path):
    with open(path) as f:
        return f.read().split()


class Load:
    """Short jobs, submitted by several clients one after the other until stopped, each client with flags of its own; every
    task that runs says so in a file."""

    def __init__(self, c, *clients):
        self.c, self.stopped, self.jobs, self.failed = c, threading.Event(), 0, []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i, flags)) for i, flags in enumerate(clients)]
        for t in self.threads:
            t.start()

    def run(self, who, flags):
        i = 0
        while not self.stopped.is_set():
            i += 1
            r = self.c.hawk("submit", *flags, "--class", "short", "--array", "1-4", "--", "sh", "-c",
                            f"echo {who}.{i}.{{}} >> {self.c.dir}/ran; echo {who}.{i} $HAWK_JOB_ID >> {self.c.dir}/jobs",
                            check=None)
            with self.lock:
                self.jobs += 1
                if r.returncode:
                    self.failed.append(r.stderr)

    def stop(self):
        self.stopped.set()
        for t in self.threads:
            t.join()
