"""Hawk from Python: calls and commands on a cluster that keeps short ones from queueing behind long ones.

    with hawk.Executor() as ex:                     # concurrent.futures.Executor
        squares = list(ex.map(square, range(10000)))

    hawk.run(["gzip", "-9", "{}"], inputs=paths)    # commands: waits, raises JobFailed
    job = hawk.submit(["./train"], klass="long")    # goes on without this program

Cluster and credentials are those that `hawk submit` would use.
"""
import importlib
import sys

importlib.import_module("hawk._calls")  # both sides of a call have it

# The rest is imported when it is used: the processes that run calls need neither it nor gRPC.
_HOMES = {"HawkError": "_cluster", "Executor": "_executor", "RemoteTraceback": "_executor", "WorkerError": "_executor",
          "Job": "_jobs", "JobFailed": "_jobs", "Task": "_jobs", "job": "_jobs", "run": "_jobs",
          "submit": "_jobs"}

_NEEDED = {"grpc": "grpcio", "google": "protobuf"}  # by the module that is missing

__all__ = ["Executor", "HawkError", "Job", "JobFailed", "RemoteTraceback", "Task", "WorkerError", "job", "run",
           "submit"]


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = importlib.import_module(f"hawk.{_HOMES[name]}")
    except ModuleNotFoundError as e:
        package = _NEEDED.get((e.name or "").split(".")[0])
        if not package:
            raise
        raise ImportError(f"hawk.{name} needs {package}, which {sys.executable} does not have: install it for that "
                          f"interpreter (pip install {package}; Debian: apt install python3-{package})",
                          name=e.name) from e
    value = globals()[name] = getattr(home, name)
    return value


def __dir__():
    return sorted({*globals(), *_HOMES})
