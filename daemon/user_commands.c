/* The table of user commands. */
#include "cli/commands.h"

#include "cli/session.h"
#include "cli/spec.h"
#include "replay/replay.h"

#define SELECTORS                                                                                            \
    "ID is a job's id (3.17), a range (3.17-20), `last` (your newest job), `all` (your jobs that have not\n" \
    "ended), or a comma-separated list of them.\n"
#define EXIT_CODES                                                                                           \
    "Exit codes: 0 all tasks done, 1 a task failed or was cancelled, or output could not be written, 2 "     \
    "the\n"                                                                                                  \
    "command line is wrong, 3 no such job or the cluster cannot be reached, 4 the time of --for is over, "   \
    "130\n"                                                                                                  \
    "Ctrl-C (jobs without --wait go on).\n"

const struct command client_commands[] = {
    {
        .name = "submit",
        .help = "hand in a job, and print its id",
        .synopsis = "[FLAGS] -- COMMAND [ARGUMENT...] | --app NAME [FLAGS]",
        .details =
            "The job runs on a cluster: one that others started, or `hawk up` on this machine. Without "
            "--wait "
            "its dist\n"
            "journals the job before the id is printed, and goes on with it when it is restarted (`hawk up` "
            "has "
            "no journal).\n"
            "With --wait this command keeps the job: when its dist does not answer any more, it\n"
            "moves what is unfinished to another one, under the same id; and when this command "
            "is gone (Ctrl-C\n"
            "as well) and nobody waits for the job, it is cancelled after the dist's client_grace (10s)."
            "\n\n" SPEC_HELP "Without a PATTERN the worker keeps the output: `hawk cat ID` shows it.\n"
            "With --app tasks are no commands: programs that are attached to workers as executors of that "
            "application "
            "run\n"
            "them. Each is given a line of --each-line, else --payload or --payload-file, else its number; "
            "what it "
            "returns\n"
            "`hawk result ID` shows. While no worker serves the application the job waits.\n\n" EXIT_CODES
            "\nexamples:\n"
            "  hawk submit -- ./report.sh\n"
            "  hawk submit --array 1-1000 --wait -- sh -c './step $HAWK_TASK_INDEX'\n"
            "  hawk submit --each-line hosts.txt --time-limit 1m -- ssh {} uptime\n"
            "  hawk submit --class long --estimate 2h --name train -- python3 train.py\n"
            "  hawk submit --app resize --each-line images.txt --wait --results\n",
        .flags = submit_flags,
        .common = common_flags,
        .run = submit_main,
    },
    {
        .name = "wait",
        .help = "wait until jobs have ended",
        .synopsis = "[FLAGS] ID...",
        .details = SELECTORS "Without --for it waits as long as the jobs take: --timeout bounds a node's "
                             "answer, not the wait.\n" EXIT_CODES
                             "\nexamples:\n  hawk wait last && echo all done\n  hawk wait 3.17-20\n"
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
        .help = "cancel jobs: tasks that run are ended, those that wait are not started",
        .synopsis = "[FLAGS] ID...",
        .details = "A task gets SIGTERM, and SIGKILL 2 s later (worker.kill_grace).\n" SELECTORS
                   "\nexamples:\n  hawk cancel last\n  hawk cancel all\n",
        .common = common_flags,
        .run = cancel_main,
    },
    {
        .name = "cat",
        .help = "show what tasks wrote, from whichever worker has it",
        .synopsis = "[FLAGS] ID [TASK] [stdout|stderr]",
        .details =
            "Without TASK (the task's number, as in HAWK_TASK_INDEX) all tasks' output follows in order.\n"
            "ID is a job's id, or `last`. Tasks of --timer write nothing, and what --stdout none discards is "
            "gone.\n"
            "Where a worker's disk was full when a task ended, its output may be cut short: stderr says so, "
            "and the exit\n"
            "code is 1; JSON has \"truncated\": true. Other exit codes: 0 all was shown, 2 the command line "
            "is wrong, 3 some\n"
            "output is not there, or the cluster cannot be reached.\n\n"
            "examples:\n  hawk cat last\n  hawk cat 3.17 4 stderr --follow\n",
        .flags = cat_flags,
        .common = common_flags,
        .run = cat_main,
    },
    {
        .name = "result",
        .help = "show what tasks of a job for attached executors returned",
        .synopsis = "[FLAGS] ID [TASK]",
        .details = "Of a job submitted with --app. Each task's result is a line, in the tasks' order; in "
                   "JSON it is base64. "
                   "TASK is the\n"
                   "task's number, as in HAWK_TASK_INDEX. The dist keeps results as long as it knows the "
                   "job, but not beyond "
                   "its own restart.\n"
                   "ID is a job's id, or `last`.\n"
                   "Exit codes: 0 every task has one, 1 some are not done, or output could not be written, 2 "
                   "the command line "
                   "is\n"
                   "wrong, 3 no such job or the cluster cannot be reached.\n",
        .flags = result_flags,
        .common = common_flags,
        .run = result_main,
    },
    {
        .name = "explain",
        .help = "why a job is short or long, where its tasks wait or ran, what its probes did",
        .synopsis = "[FLAGS] ID...",
        .details = "A short job's dist sends probes to workers. Each becomes a reservation in a worker's "
                   "queue, and takes a\n"
                   "task when its turn comes; those left over are cancelled. An idle worker may steal "
                   "reservations that\n"
                   "are stuck behind long tasks. A long job is placed by central. What takes less than the "
                   "cutoff is short.\n" SELECTORS,
        .common = common_flags,
        .run = explain_main,
    },
    {
        .name = "nodes",
        .help = "list the cluster's members",
        .synopsis = "[FLAGS]",
        .details =
            "PARTITION short: reserved for short tasks; general: runs both; -: it is to be general, and "
            "has not\nacknowledged that yet. "
            "STATE standby: a central that takes over when the active one is lost. SHORT, LONG: tasks that "
            "run. QUEUED:\n"
            "reservations and tasks in its queue. LONG-WAIT: when a long task placed there now would "
            "start, by the\n"
            "estimates. JOBS: a dist's unfinished ones. SEEN: how long ago central heard from it.\n"
            "APPLICATIONS: what executors attached to a worker serve, where any is.\n",
        .common = common_flags,
        .run = nodes_main,
    },
    {
        .name = "stats",
        .help = "counters of the cluster, its cutoff and short partition",
        .synopsis = "[FLAGS]",
        .flags = stats_flags,
        .common = common_flags,
        .run = stats_main,
    },
    {
        .name = "policy",
        .help = "show the scheduling policy, or change it",
        .synopsis = "[FLAGS] [set [NAME]|reset]",
        .details =
            "The policies are harrier (Hawk, with long tasks kept at central until a worker asks for one), "
            "hawk (as "
            "the\npaper has it), sparrow (every job by probes, no partition, no stealing),\n"
            "eagle (as far as its parts are here), hawk-no-steal, hawk-no-partition, hawk-no-central, "
            "split\nand central.\n\n"
            "`set` changes what it names, whatever runs, and prints what is in force then. Each job keeps "
            "what it\n"
            "began under of what decides who owns it and how it is probed for; the rest changes at once "
            "(the\n"
            "table says which is which). What is set lasts, also when central restarts or its configuration\n"
            "changes, until `reset`: then all is as configured. The flags other than the common ones go "
            "with\n"
            "`set`.\n\n"
            "examples:\n  hawk policy\n  hawk policy set sparrow\n"
            "  hawk policy set --cutoff 30s --off promotion\n  hawk policy reset\n",
        .flags = policy_flags,
        .common = common_flags,
        .run = policy_main,
    },
    {
        .name = "drain",
        .help = "take nodes out of service: they take no new work, and finish or hand back what they have",
        .synopsis = "[FLAGS] NODE...",
        .details =
            "NODE is a node's name or id (`hawk nodes`). A worker gives back what waits in its queue, and "
            "finishes what\n"
            "runs; no task loses a try by it. A dist takes no new jobs, and finishes those it has. A node "
            "stays drained,\n"
            "whatever restarts, until `hawk undrain`; with --until-restart until its own process (or "
            "central's) ends.\n"
            "Exit codes: 0 done, 2 the command line is wrong, 3 no such node, or central cannot be reached, "
            "130 Ctrl-C\n"
            "(they go on draining).\n\n"
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
            "First dists, then workers are drained, and what they have may take --grace to end. Then they "
            "are "
            "stopped,\n"
            "and central last. What still runs is ended: long jobs go on when the cluster starts again, and "
            "so "
            "do\n"
            "detached ones; those that a client waits for are its loss. `hawk up` is stopped as it "
            "is: after a question, or with\n"
            "--yes, when it has unfinished jobs, which end with it. "
            "Stopped daemons\n"
            "exit with 0, so that systemd leaves them stopped. The whole cluster is stopped only after a "
            "question, or\n"
            "with --yes.\n"
            "Exit codes: 0 all have stopped, 1 some could not be stopped (each is named), 2 the command line "
            "is wrong or\n"
            "the answer was no, 3 no such node, or the cluster cannot be reached, 130 Ctrl-C.\n\n"
            "examples:\n  hawk down w7 w8\n  hawk down --yes --grace 10m\n",
        .flags = down_flags,
        .common = common_flags,
        .run = down_main,
    },
    {
        .name = "replay",
        .help = "submit a workload trace's jobs at their times, and tell how they fared",
        .synopsis = "[FLAGS] TRACE",
        .details = replay_details,
        .flags = replay_flags,
        .common = common_flags,
        .run = replay_main,
    },
    {0},
};
