"""hawk.run and hawk.submit: commands as jobs of a cluster, from Python."""
import collections
import os
import re
import time

import grpc

from hawk import hawk_pb2 as pb
from hawk._cluster import (AGAIN_SECONDS, ELSEWHERE, TAGS, TIMEOUT, Cluster, HawkError, ancestors, bytes_of,
                           check_not_forked, check_numbers, new_key, umask)
from hawk._session import text_of

STATES = {pb.JOB_PENDING: "pending", pb.JOB_WAITING: "waiting", pb.JOB_RUNNING: "running", pb.JOB_DONE: "done",
          pb.JOB_FAILED: "failed", pb.JOB_CANCELLED: "cancelled", pb.JOB_BLOCKED: "blocked",
          pb.JOB_HELD: "held"}
FINAL = ("done", "failed", "cancelled")
KILLED = (pb.OUTCOME_SIGNALED, pb.OUTCOME_OUT_OF_MEMORY, pb.OUTCOME_TIME_LIMIT)
TASK_STATES = {number: name[len("TASK_"):].lower() for name, number in pb.TaskState.items()}
RETRY_ON_EXIT, RETRY_ON = 1, {"signal": 2, "time-limit": 4}
NAME_MAX = 255  # bytes
MEM_MIN = 1 << 20  # no program starts in less
PAGE = 10000
SHOWN = 20  # failed tasks that an error names
GONE_SECONDS = 30.0
CANCEL_SECONDS = 5.0  # for all dists together, in each of the two calls with which run() cancels its job


class JobFailed(HawkError):
    """Some tasks of a job that was to succeed did not. `job` is the job."""

    def __init__(self, job):
        bad = [task for task in job.tasks() if task.state != "done"]
        shown = "; ".join(f"task {task.index}: {task.text}" for task in bad[:SHOWN])
        more = f"; and {len(bad) - SHOWN} others" if len(bad) > SHOWN else ""
        cause = job._get().job.cause
        more += f"; job {cause} did not end as `after` asks" if cause else ""
        super().__init__(f"job {job.id}: {len(bad)} task{'s' * (len(bad) != 1)} did not succeed: {shown}{more}")
        self.job = job


# What a task used, or all ended ones of a job: CPU time together, memory of the one that used most. None: not known.
Usage = collections.namedtuple("Usage", "cpu_seconds mem_peak_bytes")


def used_by(what):
    return Usage(what.cpu_us / 1e6 if what.cpu_us > 0 else None, what.mem_peak_bytes or None)


class Task:
    """index counts from the job's first index on. returncode is as in subprocess: negative for a signal, and None until
    the task has ended, or where it has no exit status: it was cancelled, lost or not started."""

    def __init__(self, job, task, first):
        self.job, self.index, self._number, self._worker = job, first + task.task, task.task, task.worker
        self.state, self.worker, self.text = TASK_STATES[task.state], task.worker_name, text_of(task)
        exited = task.outcome == pb.OUTCOME_EXITED
        self.returncode = task.code if exited else -task.code if task.outcome in KILLED else None
        self.seconds = task.run_us / 1e6 if task.run_us >= 0 else None
        self.used = used_by(task)
        started = task.worker and task.outcome != pb.OUTCOME_NOT_STARTED
        self._never_ran = not started and self.state != "done"  # one that an earlier job did has its output there

    def output(self, stderr=False):
        """What it wrote, as bytes, from the worker that keeps it: b"" where it never ran."""
        if self._never_ran:
            return b""
        return self.job._cluster.output(self.job.id, self._number, self._worker, stderr)

    def __repr__(self):
        return f"<Task {self.index} of {self.job.id}: {self.state}>"


class Job:
    """A job that was submitted. It goes on without this object."""

    def __init__(self, cluster, job):
        self._cluster, self.id = cluster, job
        self._ended = None

    def _get(self, **more):
        return self._cluster.call_owner(self.id, "GetJob", pb.GetJobRequest(job=self.id, **more), pb.GetJobReply)

    @property
    def state(self):
        """pending, blocked, held, waiting, running, done, failed or cancelled."""
        if self._ended is None:
            state = STATES[self._get().job.state]
            if state not in FINAL:
                return state
            self._ended = state
        return self._ended

    def used(self):
        """What its ended tasks used."""
        return used_by(self._get().job)

    def tasks(self):
        """All tasks as they are now."""
        found, first = [], self._get(spec=True).spec.first_index
        while True:
            page = self._get(first_task=len(found), max_tasks=PAGE)
            found += [Task(self, task, first) for task in page.tasks]
            if not page.tasks or len(found) >= page.job.tasks:
                return found

    def wait(self, timeout=None):
        """Until it has ended: its state. TimeoutError: it goes on."""
        check_not_forked()
        end, gone = None if timeout is None else time.monotonic() + timeout, None
        while self._ended is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"job {self.id} has not ended within {timeout} s, and goes on")
            try:
                self._watch(left)
                gone = None
            except grpc.RpcError as e:
                if e.code() == grpc.StatusCode.DEADLINE_EXCEEDED and left is not None:
                    continue
                gone = gone or time.monotonic()
                if e.code() not in ELSEWHERE or self._is_given_up(gone):
                    raise HawkError(f"job {self.id}: {e.details()}") from None
                time.sleep(AGAIN_SECONDS)
            except HawkError:
                gone = gone or time.monotonic()
                if self._is_given_up(gone):
                    raise
                time.sleep(AGAIN_SECONDS)
        return self._ended

    def _is_given_up(self, gone):
        return time.monotonic() - gone > GONE_SECONDS or self._cluster.up_has_stopped()

    def _watch(self, timeout):
        channel = self._cluster.channel(self._cluster.dist_of(self.id))
        watch = channel.unary_stream("/hawk.v1.Hawk/Watch", request_serializer=pb.WatchRequest.SerializeToString,
                                     response_deserializer=pb.Event.FromString)
        for event in watch(pb.WatchRequest(job=self.id), timeout=timeout, metadata=self._cluster.metadata):
            if event.HasField("job") and STATES[event.job.state] in FINAL:
                self._ended = STATES[event.job.state]

    def cancel(self, tasks=None):
        """Ends what runs, and starts nothing more. tasks: only these, by their numbers; the others go on. False: it had
        ended, or they had."""
        if tasks is None:
            return self._cancel(TIMEOUT)
        request = pb.CancelTasksRequest(job=self.id, tasks=[pb.TaskRange(first=i, last=i) for i in sorted(set(tasks))])
        return not self._cluster.call_owner(self.id, "CancelTasks", request, pb.CancelReply, TIMEOUT).already_ended

    def _cancel(self, timeout):
        request = pb.CancelRequest(job=self.id)
        return not self._cluster.call_owner(self.id, "Cancel", request, pb.CancelReply, timeout).already_ended

    def hold(self):
        """Starts nothing more of it until release(); what runs goes on. False: it had ended."""
        return self._hold(False)

    def release(self):
        """Starts what hold() held, or submit(hold=True). False: it had ended."""
        return self._hold(True)

    def _hold(self, release):
        request = pb.HoldRequest(job=self.id, release=release)
        return not self._cluster.call_owner(self.id, "Hold", request, pb.HoldReply).already_ended

    def resubmit(self, failed=False, after=None):
        """The Job that runs again what this one ran, which has ended. failed: only tasks that are not done; the others
        count as done in the new job as well. after: as for submit(); without it the new job waits for no other."""
        after = after_of(after)
        signature = self._cluster.sign_again(self._get(signature=True).signature)
        request = pb.RerunRequest(job=self.id, failed=failed, signature=signature, after=after, key=new_key())
        return Job(self._cluster, self._cluster.rerun(request))

    def check(self):
        """Waits; JobFailed unless every task has succeeded. Returns the job."""
        if self.wait() != "done":
            raise JobFailed(self)
        return self

    def __repr__(self):
        return f"<Job {self.id}>"


def job(text, *, dist=None, token_file=None):
    """The Job of an id as "1.17". Its first use says if the cluster knows none."""
    if not re.fullmatch(r"[1-9][0-9]*\.[0-9]+", text):
        raise ValueError(f"a job's id is as 3.17, not {text!r}")
    return Job(Cluster(dist, token_file).shared(), text)


def name_of(command):
    """As `hawk submit` names a job: its command line, which then has a history of its own."""
    line = b" ".join([os.path.basename(command[0]), *command[1:]])[:NAME_MAX]
    return "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in line)


def after_of(jobs):
    """JobSpec.after of jobs and ids."""
    if isinstance(jobs, (str, Job)):
        raise TypeError("after is a list of jobs")
    ids = [job.id if isinstance(job, Job) else job for job in jobs or ()]
    for text in ids:
        if not re.fullmatch(r"[0-9]+\.[0-9]+(:(ok|any|failed))?", text):
            raise ValueError(f"after takes jobs and ids: 3.17, 3.17:ok, 3.17:any, 3.17:failed, not {text!r}")
    return ids


def retry_on_of(failures):
    """JobSpec.retry_on and retry_codes."""
    on, codes = 0, []
    for failure in failures or ():
        if failure in RETRY_ON:
            on |= RETRY_ON[failure]
        elif isinstance(failure, int) and 1 <= failure <= 255:
            on |= RETRY_ON_EXIT
            codes.append(failure)
        else:
            raise ValueError(f'retry_on takes exit codes from 1 to 255, "signal" and "time-limit", not {failure!r}')
    return {"retry_on": on, "retry_codes": bytes(codes)}


def submit(command, *, inputs=None, count=None, name=None, env=None, cwd=None, stdout=None, stderr=None, stdin=None,
           klass=None, estimate=None, time_limit=None, retries=0, retry_on=None, retry_delay=None, lost_retries=2,
           max_fails=None, max_running=None, after=None, after_whole=False, hold=False, mem=None, pids=None, dist=None,
           token_file=None):
    """Submits a command as a job, which goes on without this program, as `hawk submit` does. Returns a Job.

    command: a list of words; they, paths and variables are str or bytes. inputs: a task for each of these, which
    replaces {} in the command or is its last word. count: so many tasks, numbered by HAWK_TASK_INDEX. name: whose
    history the job shares; without it the command line. env: more variables. stdout, stderr: files, with places as in
    `hawk submit --stdout`. stdin: bytes, which every task reads. klass: "short" or "long". estimate, time_limit:
    seconds of one task. retries: of a task that failed; retry_on: in one of these ways, a list of exit codes, "signal"
    and "time-limit"; retry_delay: seconds before the first one, then twice as long each time. lost_retries: of a task
    whose worker died. max_fails: the rest is cancelled after so many failed tasks. max_running: at most so many of its
    tasks run at a time. after: jobs, and ids as "3.17", "3.17:any", "3.17:failed", that end first; in two jobs of as
    many tasks, task by task, unless after_whole. hold: nothing of it starts before `hawk release`. mem: bytes that a
    task may use, at least 1 MiB; pids: processes that it may have.
    """
    if isinstance(command, (str, bytes)):
        raise TypeError("the command is a list of words; a shell's text is [\"sh\", \"-c\", text]")
    if not isinstance(stdin, (bytes, type(None))):
        raise TypeError(f"stdin is bytes, which every task reads, not {stdin!r:.100}")
    if klass not in TAGS:
        raise ValueError('klass is "short", "long" or None')
    if not command:
        raise ValueError("the job has no command")
    if isinstance(inputs, (str, bytes)):
        raise TypeError("inputs is a list, with a task for each of its values")
    if inputs is not None and count is not None:
        raise ValueError("inputs and count exclude one another: there is a task for each input")
    check_numbers(1, count=count)
    check_numbers(0, estimate=estimate, time_limit=time_limit, retries=retries, lost_retries=lost_retries,
                  retry_delay=retry_delay, max_fails=max_fails, max_running=max_running, pids=pids)
    check_numbers(MEM_MIN, mem=mem)
    if not retries and (retry_on or retry_delay):
        raise ValueError("retry_on and retry_delay go with retries, which says how often a task runs again")
    after, retry = after_of(after), retry_on_of(retry_on)
    cluster = Cluster(dist, token_file).shared()
    inputs = None if inputs is None else [bytes_of(value) for value in inputs]
    tasks = len(inputs) if inputs is not None else count or 1
    if tasks == 0:
        raise ValueError("inputs is empty: a job has at least one task")
    argv = [bytes_of(word) for word in command]
    spec = pb.JobSpec(
        name=name or name_of(argv), tasks=tasks, kind=pb.PAYLOAD_COMMAND, detached=True, argv=argv,
        env=cluster.environment(env), cwd=os.path.abspath(bytes_of(cwd or os.getcwdb())),
        stdout=bytes_of(stdout or b""), stderr=bytes_of(stderr or b""), stdin=stdin or b"", tag=TAGS[klass],
        estimate_us=int((estimate or 0) * 1e6), time_limit_us=int((time_limit or 0) * 1e6), lost_retries=lost_retries,
        failure_retries=retries, retry_delay_us=int((retry_delay or 0) * 1e6), max_fails=max_fails or 0,
        max_running=max_running or 0, after=after, after_whole=after_whole, submit_held=hold, umask=umask(),
        ancestors=ancestors(), user=cluster.user, task_args=inputs or [],
        each_arg=inputs is not None, mem_bytes=mem or 0, pids=pids or 0, **retry)
    at = cluster.dist_of(after[0]) if after else None  # jobs of one dist alone know of one another
    return Job(cluster, cluster.submit(spec, at))


def run(command, *, check=True, **more):
    """Submits a command and waits until it has ended, as subprocess.run does; arguments as submit(). Returns the Job.
    check: JobFailed unless every task has succeeded. KeyboardInterrupt cancels the job."""
    job = submit(command, **more)
    try:
        job.wait()
    except BaseException as e:
        try:
            job._cancel(CANCEL_SECONDS / len(job._cluster.contacts))
        except HawkError as why:
            raise e from HawkError(f"it goes on, since it could not be cancelled: {why}")
        raise
    return job.check() if check else job
