"""Processes that leave their task's process group and session, wipe their environment, and lose their parent."""
import os
import sys

from hawktest import Cluster, run_tests, wait_for

# The task goes on when the process has left its group: before that it would be killed with it.
ESCAPE = ("(env -i setsid sh -c 'echo $$ >{0}.tmp; mv {0}.tmp {0}; sleep 1000; :' &);"
          " until test -e {0}; do sleep 0.1; done; ")


def escaped(path):
    """The pid of the process that escaped, once it has."""
    return int(wait_for(f"an escape that writes {path}", lambda: os.path.exists(path) and open(path).read()))


def gone(pid):
    wait_for(f"the end of the escaped process {pid}", lambda: not os.path.exists(f"/proc/{pid}"))


def test_an_escaped_process_ends_with_its_task():
    with Cluster(workers=1) as c:
        path = f"{c.dir}/pid"
        c.hawk("submit", "--wait", "--", "sh", "-c", ESCAPE.format(path) + "exit 0")
        gone(escaped(path))


def test_an_escaped_process_ends_when_its_job_is_cancelled():
    with Cluster(workers=1) as c:
        path = f"{c.dir}/pid"
        job = c.submit("--", "sh", "-c", ESCAPE.format(path) + "exec sleep 1000")
        pid = escaped(path)
        c.hawk("cancel", job)
        gone(pid)


def test_an_escaped_process_ends_at_the_time_limit():
    with Cluster(workers=1) as c:
        path = f"{c.dir}/pid"
        job = c.submit("--time-limit", "1s", "--", "sh", "-c", ESCAPE.format(path) + "exec sleep 1000")
        c.hawk("wait", job, check=1)
        gone(escaped(path))


def test_of_two_tasks_at_once_the_other_goes_on():
    """It may be of either, so that it lives as long as one of them; the other task is not touched."""
    with Cluster(workers=1, slots=2) as c:
        path, go = f"{c.dir}/pid", f"{c.dir}/go"
        other = c.submit("--", "sh", "-c", f"until test -e {go}; do sleep 0.1; done; exit 7")
        wait_for("the other task running", lambda: c.job(other)["running"] == 1)
        c.hawk("submit", "--wait", "--", "sh", "-c", ESCAPE.format(path) + "exit 0")
        pid = escaped(path)
        for _ in range(3):  # the worker looks for strays when tasks end
            c.hawk("submit", "--wait", "--", "sleep", "0.2")
        assert os.path.exists(f"/proc/{pid}"), "it may be of the task that still runs"
        open(go, "w").close()
        c.hawk("wait", other, check=1)
        assert c.job(other)["task_list"][0]["code"] == 7, c.job(other)
        gone(pid)


def test_a_new_agent_ends_what_escaped_before():
    with Cluster(workers=1) as c:
        path, go = f"{c.dir}/pid", f"{c.dir}/go"
        job = c.submit("--", "sh", "-c", ESCAPE.format(path) + f"until test -e {go}; do sleep 0.1; done")
        pid = escaped(path)
        c.workers[0].kill()
        c.start_worker("w1")
        open(go, "w").close()
        c.hawk("wait", job)
        gone(pid)


run_tests(sys.modules[__name__])
