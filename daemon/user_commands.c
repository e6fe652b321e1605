/* The table of user commands. */
#include "cli/commands.h"

#include "cli/session.h"
#include "cli/spec.h"
#include "replay/replay.h"

#define SELECTORS                                                                                            \
    "ID is a job's id (3.17), a range (3.17-20), `last` (your newest job), `all` (your jobs that have not\n" \
    "ended), or a comma-separated list of them.\n"
#define EXIT_CODES                                                                                           \
    "Exit codes: 0 all tasks are done, 1 a task failed or was cancelled, or output could not "               \
    "be written,\n"                                                                                          \
    "2 the command line is wrong, 3 there is no such job, or the cluster cannot be reached, 4 "              \
    "the time of\n"                                                                                          \
    "--for is over, 130 Ctrl-C (jobs without --wait go on).\n"

const struct command client_commands[] = {
    {
        .name = "submit",
        .help = "submit a job, and print its id",
        .synopsis = "[FLAGS] -- COMMAND [ARGUMENT...] | [FLAGS] SCRIPT|- [ARGUMENT...] | --app NAME [FLAGS]",
        .details =
            "The job runs on a cluster that is already there, or on `hawk up` on this machine. Without "
            "--wait the dist\n"
            "journals the job before this command prints the id: the job survives a restart of the "
            "dist (`hawk up`\n"
            "has no journal). With --wait this command keeps the job. If the dist does not answer any "
            "more, the command\n"
            "moves the unfinished tasks to another dist; the job keeps its id. If this command ends, "
            "also by Ctrl-C,\n"
            "and nobody else waits for the job, the dist cancels it after client_grace (10s).\n"
            "\n" SPEC_HELP "Without a PATTERN the worker keeps the output: `hawk cat ID` shows it.\n"
            "With --app the tasks are no commands. Executors run them: programs of that application "
            "that are attached to\n"
            "workers. A task's input is its line of --each-line, else --payload or --payload-file, "
            "else its number.\n"
            "`hawk result ID` shows the results. The job waits while no worker serves the application.\n"
            "A SCRIPT may say in comments above its first command how it is submitted: #HAWK --array 1-9. "
            "Flags given here go\n"
            "before those. A file that begins with #!, and whose name starts no program, is run as a script, "
            "too. "
            "Neither if -- stands before it. With - in its place, or with nothing, the script is read from "
            "standard input, "
            "and kept with the\n"
            "job; the tasks' own standard input is /dev/null then.\n"
            "\n" EXIT_CODES "\nexamples:\n"
            "  hawk submit -- ./report.sh\n"
            "  hawk submit --name again job.sh\n"
            "  hawk submit - ARGUMENT < job.sh\n"
            "  hawk submit --array 1-1000 --wait -- sh -c './step $HAWK_TASK_INDEX'\n"
            "  hawk submit --each-line hosts.txt --time-limit 1m -- ssh {} uptime\n"
            "  hawk submit --class long --estimate 2h --name train -- python3 train.py\n"
            "  hawk submit --app resize --each-line images.txt --wait --results\n",
        .flags = submit_flags,
        .common = common_flags,
        .run = submit_main,
    },
    {
        .name = "exec",
        .help = "run one command on the cluster, as if it ran here",
        .synopsis = "[FLAGS] -- COMMAND [ARG...]",
        .details =
            "Passes the command's output through as it comes, and its standard input, if that is a pipe or a "
            "file of at\n"
            "most 1 MiB: that is read to its end before the command starts. The command runs in this "
            "directory, "
            "which must\n"
            "exist on the worker, with the variables exported here. It runs once at most. Ctrl-C and SIGTERM "
            "cancel it,\n"
            "and so does the end of whoever reads its output (`| head`: exit code 141).\n"
            "\n"
            "Exit codes: the command's; 128 plus the signal that killed it or this; 124 --time-limit is "
            "over, "
            "126 or 127 it\n"
            "could not start; 125 any failure of Hawk's: a wrong command line, no cluster, a worker that was "
            "lost, a\n"
            "cancelled job, output that is not there.\n"
            "\n"
            "examples:\n"
            "  hawk exec -- gcc -c big.c\n"
            "  tar c src | hawk exec -- sha256sum\n"
            "  make -j20 SHELL=hawk .SHELLFLAGS='exec -c'\n",
        .flags = exec_flags,
        .common = common_flags,
        .run = exec_main,
    },
    {
        .name = "wait",
        .help = "wait until jobs have ended",
        .synopsis = "[FLAGS] ID...",
        .details = SELECTORS
        "Without --for it waits as long as the jobs take: --timeout limits a node's answer, not "
        "the wait.\n" EXIT_CODES "\nexamples:\n  hawk wait last && echo all done\n  hawk wait 3.17-20\n"
        "  hawk wait --for 10m last; [ $? = 4 ] && echo still going\n",
        .flags = wait_flags,
        .common = common_flags,
        .run = wait_main,
    },
    {
        .name = "jobs",
        .help = "list jobs, newest first",
        .synopsis = "[FLAGS]",
        .details =
            "examples:\n  hawk jobs --mine --state running,waiting\n  hawk jobs --quiet --state failed\n",
        .flags = jobs_flags,
        .common = common_flags,
        .run = jobs_main,
    },
    {
        .name = "job",
        .help = "show jobs with their tasks",
        .synopsis = "[FLAGS] ID...",
        .details = SELECTORS "\nexamples:\n  hawk job last\n  hawk job --failed 3.17\n",
        .flags = job_flags,
        .common = common_flags,
        .run = job_main,
    },
    {
        .name = "cancel",
        .help = "cancel jobs: end their running tasks, and start no others",
        .synopsis = "[FLAGS] ID...",
        .details = "A task gets SIGTERM, and SIGKILL 2 s later (worker.kill_grace).\n" SELECTORS
                   "\nexamples:\n  hawk cancel last\n  hawk cancel all\n  hawk cancel 3.17 --task 3,7-9\n",
        .flags = cancel_flags,
        .common = common_flags,
        .run = cancel_main,
    },
    {
        .name = "hold",
        .help = "hold jobs: their tasks that have not started do not start",
        .synopsis = "[FLAGS] ID...",
        .details =
            "Tasks that run go on. The job stays held, whatever restarts, until `hawk release`.\n" SELECTORS
            "\nexamples:\n  hawk hold last\n  hawk hold 3.17-20\n",
        .common = common_flags,
        .run = hold_main,
    },
    {
        .name = "release",
        .help = "let held jobs go on",
        .synopsis = "[FLAGS] ID...",
        .details = SELECTORS "\nexamples:\n  hawk release last\n  hawk release all\n",
        .common = common_flags,
        .run = release_main,
    },
    {
        .name = "resubmit",
        .help = "run jobs that failed again: the same command, environment, directory and inputs",
        .synopsis = "[FLAGS] [--failed] ID...",
        .details =
            "Each makes a new job, which nobody waits for, and prints its id. Jobs of your own run again "
            "that failed, or\n"
            "that were cancelled, but not as a whole: task by task (hawk cancel --task), or because of a job "
            "that they\n"
            "waited for. Of others the environment is forgotten when they end. The new job has as many "
            "tasks as the old\n"
            "one, with the same numbers; the output of those that were done is the old job's.\n" SELECTORS
            "\nexamples:\n  hawk resubmit --failed last\n  hawk wait $(hawk resubmit 3.17)\n"
            "  hawk resubmit --after 3.20 3.18\n",
        .flags = resubmit_flags,
        .common = common_flags,
        .run = resubmit_main,
    },
    {
        .name = "cat",
        .help = "show the output of tasks, from the workers that have it",
        .synopsis = "[FLAGS] ID... [TASK] [stdout|stderr]",
        .words = "ID|stdout|stderr",
        .details =
            "ID is a job's id, or `last`. TASK is the task's number, as in HAWK_TASK_INDEX, in each of these "
            "jobs; "
            "without it the output of\n"
            "all tasks comes in order. Tasks of --timer write nothing, and output that --stdout none "
            "discards is gone.\n"
            "If the worker's disk was full when a task ended, its output may be cut short: stderr says "
            "so, the exit\n"
            "code is 1, and JSON has \"truncated\": true.\n"
            "Of a job that an earlier `hawk up` ran it shows what is left in the directory for output.\n"
            "Other exit codes: 0 all output was shown, 2 the command line is wrong, 3 some output is "
            "not there, or the\n"
            "cluster cannot be reached.\n"
            "\n"
            "examples:\n"
            "  hawk cat last\n"
            "  hawk cat 3.17 4 stderr --follow\n",
        .flags = cat_flags,
        .common = common_flags,
        .run = cat_main,
    },
    {
        .name = "result",
        .help = "show the results of a job for attached executors",
        .synopsis = "[FLAGS] ID [TASK]",
        .details = "The job must have been submitted with --app. Each task's result is a line, in the order "
                   "of tasks; in JSON\n"
                   "it is base64. ID is a job's id, or `last`. TASK is the task's number, as in "
                   "HAWK_TASK_INDEX. The dist keeps\n"
                   "results as long as it knows the job, but not beyond its own restart.\n"
                   "Exit codes: 0 every task has a result, 1 some tasks are not done, or output could not be "
                   "written, 2 the\n"
                   "command line is wrong, 3 there is no such job, or the cluster cannot be reached.\n",
        .flags = result_flags,
        .common = common_flags,
        .run = result_main,
    },
    {
        .name = "explain",
        .help = "tell why a job is short or long, where its tasks wait or ran, and what became of its probes",
        .synopsis = "[FLAGS] ID...",
        .details = "A short job's dist sends probes to workers. Each probe becomes a reservation in a "
                   "worker's queue, and\n"
                   "gets a task when its turn comes. The dist cancels reservations that are left over. An "
                   "idle worker may steal\n"
                   "reservations that are stuck behind long tasks. Central places the tasks of long jobs. A "
                   "job is short if its\n"
                   "tasks take less than the cutoff.\n" SELECTORS,
        .common = common_flags,
        .run = explain_main,
    },
    {
        .name = "history",
        .help = "show how the ended jobs fared that dists still know, or write them as a trace",
        .synopsis = "[FLAGS]",
        .details =
            "A trace has a line per job with its time of submission, and the run times of its tasks that are "
            "done. Jobs\n"
            "without such a task are left out. Dists keep ended jobs as dist.finished_kept, finished_tasks,\n"
            "finished_memory and finished_keep say.\n"
            "\n"
            "examples:\n"
            "  hawk history\n"
            "  hawk history --trace --out ours.tr\n"
            "  hawk sim --trace ours.tr --workers 20 --slots 16 --policy harrier --cutoff 10s --sweep "
            "cutoff=5s,30s\n",
        .flags = history_flags,
        .common = common_flags,
        .run = history_main,
    },
    {
        .name = "nodes",
        .help = "list the cluster's members",
        .synopsis = "[FLAGS]",
        .details = "PARTITION     short: reserved for short tasks; general: runs both; -: will be general "
                   "once it has\n"
                   "              acknowledged that\n"
                   "STATE         standby: a central that takes over if the active one is lost\n"
                   "SHORT, LONG   running tasks\n"
                   "PAUSED        long tasks that stand still for short ones\n"
                   "QUEUED        reservations and tasks in the queue\n"
                   "LONG-WAIT     by estimates, the time until a new long task would start there\n"
                   "JOBS          a dist's unfinished jobs\n"
                   "SEEN          how long ago central heard from the node\n"
                   "APPLICATIONS  the applications that attached executors serve\n",
        .common = common_flags,
        .run = nodes_main,
    },
    {
        .name = "stats",
        .help = "show the cluster's counters, cutoff and short partition",
        .synopsis = "[FLAGS]",
        .flags = stats_flags,
        .common = common_flags,
        .run = stats_main,
    },
    {
        .name = "policy",
        .help = "show the scheduling policy, or change it",
        .synopsis = "[FLAGS] [set [NAME]|reset]",
        .words = "set|reset",
        .details = "The policies are harrier (the default: Hawk with pauses, and with long tasks kept at "
                   "central until a worker\n"
                   "asks for one), hawk (as in the paper), sparrow (every job by probes, no partition, no "
                   "stealing), eagle (its\n"
                   "parts that Hawk has), hawk-no-steal, hawk-no-partition, hawk-no-central, split and "
                   "central.\n"
                   "\n"
                   "`set` changes the flags and numbers that it names, while jobs run, and prints the policy "
                   "then in force.\n"
                   "Some settings decide who owns a job and how it is probed for: each job keeps those under "
                   "which it began.\n"
                   "All others change at once. The table tells them apart. Changes outlast restarts of "
                   "central and changes of\n"
                   "its configuration. `reset` puts the configured policy back in force. The flags above, "
                   "except the common\n"
                   "ones, go with `set`.\n"
                   "\n"
                   "examples:\n"
                   "  hawk policy\n"
                   "  hawk policy set sparrow\n"
                   "  hawk policy set --cutoff 30s --off promotion\n"
                   "  hawk policy reset\n",
        .flags = policy_flags,
        .common = common_flags,
        .run = policy_main,
    },
    {
        .name = "drain",
        .help = "take nodes out of service: they get no new work, and finish or hand back their tasks",
        .synopsis = "[FLAGS] NODE...",
        .details = "NODE is a node's name or id (`hawk nodes`). A worker hands back the tasks in its queue, "
                   "and finishes its\n"
                   "running tasks; that costs no task a retry. A dist takes no new jobs, and finishes those "
                   "that it has.\n"
                   "A node stays drained until `hawk undrain`, whatever restarts. With --until-restart it "
                   "stays drained until\n"
                   "its own process, or central's, ends.\n"
                   "Exit codes: 0 done, 2 the command line is wrong, 3 there is no such node, or central "
                   "cannot be reached, 130\n"
                   "Ctrl-C (the nodes go on draining).\n"
                   "\n"
                   "example, an upgrade of one worker under load:\n"
                   "  hawk drain --wait --until-restart w1 && ssh w1 systemctl restart hawk-worker\n",
        .flags = drain_flags,
        .common = common_flags,
        .run = drain_main,
    },
    {
        .name = "undrain",
        .help = "let drained nodes take work again",
        .synopsis = "[FLAGS] NODE...",
        .common = common_flags,
        .run = undrain_main,
    },
    {
        .name = "down",
        .help = "stop the whole cluster, or some nodes, in good order",
        .synopsis = "[FLAGS] [NODE...]",
        .details =
            "Dists are drained first, then workers. Their jobs and tasks may take --grace to end. Then "
            "the nodes stop,\n"
            "central last, and tasks that still run are ended. Long jobs and detached jobs go on when "
            "the cluster starts\n"
            "again; jobs that a client waits for are lost. Unfinished jobs of `hawk up` end with it. "
            "Stopping the whole\n"
            "cluster, or a `hawk up` with unfinished jobs, needs a yes to a question, or --yes. "
            "Stopped daemons exit\n"
            "with 0, so systemd does not restart them.\n"
            "Exit codes: 0 all have stopped, 1 some could not be stopped (the command names them), 2 "
            "the command line is\n"
            "wrong, or the answer was no, 3 there is no such node, or the cluster cannot be reached, "
            "130 Ctrl-C.\n"
            "\n"
            "examples:\n"
            "  hawk down w7 w8\n"
            "  hawk down --yes --grace 10m\n",
        .flags = down_flags,
        .common = common_flags,
        .run = down_main,
    },
    {
        .name = "replay",
        .help = "submit the jobs of a workload trace at their times, and report how they fared",
        .synopsis = "[FLAGS] TRACE",
        .details = replay_details,
        .flags = replay_flags,
        .common = common_flags,
        .run = replay_main,
    },
    {0},
};
