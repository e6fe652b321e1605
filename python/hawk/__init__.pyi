from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Optional, TypeVar, Union

_T = TypeVar("_T")
_Path = Union[str, os.PathLike[str]]
_Word = Union[str, bytes, int, float, os.PathLike[str]]
_Class = Optional[Literal["short", "long"]]

__all__ = ["Executor", "HawkError", "Job", "JobFailed", "RemoteTraceback", "Task", "WorkerError", "job", "run",
           "submit"]

class HawkError(RuntimeError): ...
class WorkerError(concurrent.futures.BrokenExecutor): ...

class RemoteTraceback(Exception):
    text: str
    def __init__(self, text: str) -> None: ...

class JobFailed(HawkError):
    job: Job
    def __init__(self, job: Job) -> None: ...

class Executor(concurrent.futures.Executor):
    def __init__(self, max_workers: Optional[int] = None, *, dist: Optional[str] = None,
                 token_file: Optional[_Path] = None, python: Optional[_Path] = None, directory: Optional[_Path] = None,
                 env: Optional[Mapping[str, str]] = None, estimate: Optional[float] = None, klass: _Class = None,
                 lost_retries: int = 2, idle: float = 60.0) -> None: ...
    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[_T]: ...
    def map(self, fn: Callable[..., _T], *iterables: Iterable[Any], timeout: Optional[float] = None,
            chunksize: int = 1, buffersize: Optional[int] = None) -> Iterator[_T]: ...
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...
    def kill(self) -> None: ...

class _Usage(NamedTuple):
    cpu_seconds: Optional[float]
    mem_peak_bytes: Optional[int]

class Task:
    job: Job
    index: int
    state: str
    worker: str
    text: str
    returncode: Optional[int]
    seconds: Optional[float]
    used: _Usage
    def output(self, stderr: bool = False) -> bytes: ...

class Job:
    id: str
    @property
    def state(self) -> str: ...
    def used(self) -> _Usage: ...
    def tasks(self) -> list[Task]: ...
    def wait(self, timeout: Optional[float] = None) -> str: ...
    def cancel(self, tasks: Optional[Iterable[int]] = None) -> bool: ...
    def hold(self) -> bool: ...
    def release(self) -> bool: ...
    def resubmit(self, failed: bool = False, after: Optional[Iterable[Union[Job, str]]] = None) -> Job: ...
    def check(self) -> Job: ...

def submit(command: Sequence[_Word], *, inputs: Optional[Iterable[_Word]] = None, count: Optional[int] = None,
           name: Optional[str] = None, env: Optional[Mapping[str, _Word]] = None, cwd: Union[_Path, bytes, None] = None,
           stdout: Union[_Path, bytes, None] = None, stderr: Union[_Path, bytes, None] = None,
           stdin: Optional[bytes] = None,
           klass: _Class = None, estimate: Optional[float] = None, time_limit: Optional[float] = None,
           retries: int = 0, retry_on: Optional[Iterable[Union[int, Literal["signal", "time-limit"]]]] = None,
           retry_delay: Optional[float] = None, lost_retries: int = 2, max_fails: Optional[int] = None,
           max_running: Optional[int] = None, after: Optional[Iterable[Union[Job, str]]] = None,
           after_whole: bool = False, hold: bool = False, mem: Optional[int] = None, pids: Optional[int] = None,
           dist: Optional[str] = None, token_file: Optional[_Path] = None) -> Job: ...
def job(text: str, *, dist: Optional[str] = None, token_file: Optional[_Path] = None) -> Job: ...
def run(command: Sequence[_Word], *, check: bool = True, **more: Any) -> Job: ...
