"""Hawk from Python: calls and commands on a cluster that keeps short ones from queueing behind long ones.

    with hawk.Executor() as ex:                     # concurrent.futures.Executor
        squares = list(ex.map(square, range(10000)))

    hawk.run(["gzip", "-9", "{}"], inputs=paths)    # commands: waits, raises JobFailed
    job = hawk.submit(["./train"], klass="long")    # goes on without this program

The cluster is the one that `hawk submit` would use: HAWK_DIST, else this user's `hawk up`; HAWK_TOKEN_FILE and
HAWK_TLS_* are credentials.
"""
from hawk._cluster import HawkError
from hawk._executor import Executor, RemoteTraceback, WorkerError
from hawk._jobs import Job, JobFailed, Task, run, submit

__all__ = ["Executor", "HawkError", "Job", "JobFailed", "RemoteTraceback", "Task", "WorkerError", "run", "submit"]
