"""Cgroups that tests make and delegate to a worker."""
import contextlib
import glob
import os

from hawktest import wait_for

TOP = "/sys/fs/cgroup" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "/sys/fs/cgroup/unified"


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read()


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


CONTROLLERS = read(f"{TOP}/cgroup.controllers").split() if os.path.exists(f"{TOP}/cgroup.controllers") else []


def keeper_of(c, user):
    with open(f"/proc/{c.runner(user)}/stat", encoding="ascii") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def cgroups(keeper):
    return glob.glob(f"/sys/fs/cgroup/**/hawk-task-{keeper}-*", recursive=True)


def is_removed(top):
    """Removes what has no processes any more."""
    for path in sorted(glob.glob(f"{top}/**/", recursive=True), reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(path)
    return not os.path.exists(top)


@contextlib.contextmanager
def delegated(owner):
    """As a unit of that user has it with Delegate=yes and DelegateSubgroup=agent: the command that puts a program there."""
    top = f"{TOP}/hawk-test-{os.getpid()}"
    for controller in {"pids", "memory"} & set(CONTROLLERS):
        write(f"{TOP}/cgroup.subtree_control", f"+{controller}")
    os.makedirs(f"{top}/agent")
    os.setxattr(top, "user.delegate", b"1")
    for path in (top, f"{top}/agent"):
        for file in ("", "/cgroup.procs", "/cgroup.threads", "/cgroup.subtree_control"):
            os.chown(path + file, owner, owner)
    try:
        yield top, ["sh", "-c", f'echo $$ >{top}/agent/cgroup.procs && exec "$@"', "sh"]
    finally:
        wait_for("the cgroups to be removed", lambda: is_removed(top))
