/* Clients for bench/failover.py: each a process of its own with a libhawk of its own, that submits a job of timer tasks
 * to DIST and watches it. One line per thing that matters on stdout, with CLOCK_MONOTONIC in nanoseconds:
 *
 *     running N            of the N-th client's job RUNNING_ENDS tasks have ended
 *     served N TIME        another dist has the job, and says how it is
 *     ended N TIME         the first task that ended after that
 *     done N STATE TASKS   how the job ended, and the ends that were reported
 *
 *     failover_clients CLIENTS DIST TASKS STEP_MS
 *
 * The i-th task takes i * STEP_MS. */
#include "base/err.h"
#include "libhawk/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Ends after which a job counts as running: what a client does in its first moments is not measured. */
#define RUNNING_ENDS 4

struct client {
    int number;
    uint32_t ends;
    bool running, served, ended;
    enum job_state state;
};

static long long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int on_event(void *arg, const struct api_event *e)
{
    struct client *c = arg;
    uint32_t ends = 0;

    for (uint32_t i = 0; i < e->tasks_n; i++)
        ends += task_state_final(e->tasks[i].state);
    c->ends += ends;
    c->state = e->job.state;
    if (c->served && !c->ended && ends) {
        c->ended = true;
        printf("ended %d %lld\n", c->number, now_ns());
    }
    if (!c->served && e->job.epoch > EPOCH_FIRST) {
        c->served = true;
        printf("served %d %lld\n", c->number, now_ns());
    }
    if (!c->running && c->ends >= RUNNING_ENDS) {
        c->running = true;
        printf("running %d\n", c->number);
    }
    return 0;
}

static int run(int number, const char *dist, uint32_t tasks, uint32_t step_ms)
{
    const struct client_options o = {.dist = dist};
    struct client c = {.number = number};
    struct api_submit_reply reply;
    struct job_desc *d = job_desc_new();
    struct client *client;
    int err;

    d->kind = PAYLOAD_TIMER;
    d->tasks = tasks;
    d->tag = TAG_SHORT;
    d->flags = JOB_EACH_ARG;
    for (uint32_t i = 1; i <= tasks; i++) {
        char text[32];

        task_args_add(&d->args, text, (size_t)snprintf(text, sizeof text, "%ums", i * step_ms));
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    err = client_open(&client, &o);
    if (!err)
        err = client_submit(client, d, &reply);
    if (!err)
        err = client_watch(client, &reply.job, 1, CLIENT_WATCH_TASKS, on_event, NULL, &c);
    if (err)
        fprintf(stderr, "client %d: %s\n", number, client_error(client));
    else
        printf("done %d %s %u\n", number, job_state_text(c.state), c.ends);
    client_close(client);
    job_desc_drop(d);
    return err != 0;
}

int main(int argc, char **argv)
{
    int clients = argc == 5 ? (int)strtol(argv[1], NULL, 10) : 0, status, failed = 0;

    if (clients < 1) {
        fprintf(stderr, "usage: %s CLIENTS DIST TASKS STEP_MS\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < clients; i++)
        if (fork() == 0)
            exit(run(i, argv[2], (uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)strtoul(argv[4], NULL, 10)));
    while (wait(&status) > 0)
        failed += status != 0;
    return failed > 0;
}
