/* A program with a loop of its own, which waits for libhawk's descriptor and for a timer. Compiled by
 * test_libhawk_fd.py with what `make install` installs.
 * Usage: libhawk_fd DIST calls|slow|dies */
#include "libhawk_must.h"

#include <hawk.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BOUND_TICKS 6000
#define TICK_NS 10000000
#define LOST_US 2000000 /* so long without a dist, and jobs are refused */

static int timer = -1, ticks;

/* What the program has heard of one of its jobs. */
struct heard {
    int accepted, tasks, ended;
    int drop_when_accepted, keep;
    uint32_t follow;              /* when it ends, a job with so many tasks is submitted */
    struct hawk_job *takes_along; /* when it ends, this job is freed as well */
    struct hawk_job *waits_for;   /* when it ends, it waits for this job */
    char task[8];                 /* the times that each task has ended */
    enum hawk_job_state state;
    char error[300];
};

static struct heard after_another;

static struct hawk_job *submit(struct heard *h, const char *sleep, uint32_t tasks)
{
    struct hawk_job *j =
        hawk_client_submit(c, &(struct hawk_spec){.sleep = sleep, .tasks = tasks, .user = h});
    MUST(j);
    return j;
}

static void on_accepted(void *arg, struct hawk_job *j)
{
    struct heard *h = hawk_job_user(j);
    MUST(arg == &c && strchr(hawk_job_id(j), '.'));
    MUST(!h->accepted++ && !h->tasks && !h->ended);
    if (h->drop_when_accepted)
        hawk_job_free(j);
}

static void on_task(void *arg, struct hawk_job *j, uint32_t i)
{
    struct heard *h = hawk_job_user(j);
    struct hawk_task t;
    MUST(arg == &c && h->accepted && !h->ended && !h->drop_when_accepted);
    MUST(i < hawk_job_tasks(j) && hawk_job_task(j, i, &t) && t.state != HAWK_TASK_UNFINISHED);
    MUST(h->task[i]++ == 0);
    h->tasks++;
    MUST(hawk_job_count(j, HAWK_TASK_UNFINISHED) == hawk_job_tasks(j) - (uint32_t)h->tasks);
    MUST(hawk_job_state(j) == HAWK_JOB_UNFINISHED);
}

static void on_ended(void *arg, struct hawk_job *j)
{
    struct heard *h = hawk_job_user(j);
    MUST(arg == &c && !h->ended++ && !h->drop_when_accepted);
    h->state = hawk_job_state(j);
    snprintf(h->error, sizeof h->error, "%s", hawk_job_error(j));
    if (h->state == HAWK_JOB_DONE || h->state == HAWK_JOB_FAILED)
        MUST((uint32_t)h->tasks == hawk_job_tasks(j));
    hawk_job_free(h->takes_along);
    if (h->waits_for)
        MUST(hawk_client_wait(c, h->waits_for, BOUND) == 1);
    if (h->follow)
        submit(&after_another, "0s", h->follow);
    if (!h->keep)
        hawk_job_free(j);
    (void)hawk_client_poll(c, 0); /* may be called here, too */
}

static const struct hawk_client_options told = {
    .accepted = on_accepted, .task = on_task, .ended = on_ended, .arg = &c, .timeout_us = LOST_US};

static struct hawk_client *opened(const char *dist)
{
    struct hawk_client_options o = told;
    o.dist = dist;
    MUST(hawk_client_open(&c, &o) == 0);
    return c;
}

static int readable(int fd) { return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1; }

/* The loop: turns until *n is `least`. */
static void turn_until(const int *n, int least)
{
    struct pollfd p[] = {{.fd = hawk_client_fd(c), .events = POLLIN}, {.fd = timer, .events = POLLIN}};
    MUST(p[0].fd >= 0);
    for (int bound = ticks + BOUND_TICKS; *n < least;) {
        uint64_t times;
        MUST(poll(p, 2, -1) > 0 && ticks < bound);
        MUST(!(p[0].revents & ~POLLIN));
        if (p[0].revents)
            MUST(hawk_client_poll(c, 0) == 0);
        if (p[1].revents && read(timer, &times, sizeof times) == sizeof times)
            ticks++;
    }
}

static void wait_for_line(void)
{
    char line[8];
    MUST(fgets(line, sizeof line, stdin));
}

static void say(const char *what)
{
    puts(what);
    fflush(stdout);
}

/* ---- calls ---- */

static void no_descriptor(const char *dist)
{
    struct rlimit all, none;
    MUST(hawk_client_open(&c, &(struct hawk_client_options){.dist = "127.0.0.1:1", .timeout_us = 1000000}) <
         0);
    MUST(hawk_client_fd(c) < 0 && strstr(hawk_client_error(c), "127.0.0.1:1"));
    hawk_client_close(c);
    opened(dist);
    struct heard h = {0};
    submit(&h, "0s", 1);
    MUST(getrlimit(RLIMIT_NOFILE, &all) == 0);
    none = all;
    none.rlim_cur = 0;
    MUST(setrlimit(RLIMIT_NOFILE, &none) == 0);
    MUST(hawk_client_fd(c) < 0 && strstr(hawk_client_error(c), "Too many open files"));
    MUST(setrlimit(RLIMIT_NOFILE, &all) == 0);
    MUST(hawk_client_wait_all(c, BOUND) == 1 && h.ended == 1); /* it goes on as before */
    hawk_client_close(c);
}

static void without_a_descriptor(const char *dist)
{
    enum { JOBS = 200 };
    static struct heard h[JOBS];
    opened(dist);
    for (uint32_t i = 0; i < JOBS; i++)
        submit(&h[i], "0s", 1 + i % 4);
    MUST(hawk_client_wait_all(c, BOUND) == 1);
    for (int i = 0; i < JOBS; i++)
        MUST(h[i].ended == 1 && h[i].state == HAWK_JOB_DONE);
    hawk_client_close(c);
}

static void one_job(const char *dist)
{
    struct heard h = {0};
    struct hawk_job *j, *any;
    opened(dist);
    int fd = hawk_client_fd(c);
    MUST(fd >= 0 && hawk_client_fd(c) == fd && !readable(fd));
    MUST(!hawk_client_submit(c, &(struct hawk_spec){.tasks = 1}) && strstr(hawk_client_error(c), "one of"));
    j = submit(&h, "0s", 2);
    MUST(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, BOUND / 1000) == 1);
    MUST(!h.accepted && !*hawk_job_id(j)); /* nothing is told before it asks */
    turn_until(&h.ended, 1);
    MUST(h.tasks == 2 && h.state == HAWK_JOB_DONE && !readable(fd));
    /* It may wait as well. */
    h = (struct heard){.keep = 1};
    j = submit(&h, "0s", 2);
    MUST(hawk_client_wait(c, j, BOUND) == 1 && h.ended == 1);
    MUST(hawk_client_wait_any(c, &any, BOUND) == 1 && any == j);
    MUST(hawk_client_wait_any(c, &any, -1) == 0 && hawk_client_wait_all(c, -1) == 1);
    MUST(hawk_client_poll(c, 1000) == 0 && !readable(fd));
    /* Also in a callback, for a job whose end has come with the one that is told. */
    struct heard last = {.keep = 1};
    h = (struct heard){0};
    submit(&h, "0s", 1);
    h.waits_for = j = submit(&last, "0s", 1);
    (void)poll(NULL, 0, 500);
    turn_until(&h.ended, 1);
    MUST(last.ended == 1);
    hawk_job_free(j);
    h = (struct heard){0};
    j = submit(&h, "10m", 1);
    MUST(hawk_client_wait(c, j, 1000) == 0);
    hawk_job_cancel(j);
    MUST(hawk_client_wait_all(c, BOUND) == 1 && h.state == HAWK_JOB_CANCELLED && h.tasks == 1);
    hawk_client_close(c);
}

static void many_jobs(const char *dist)
{
    enum { JOBS = 1000 };
    static struct heard h[JOBS], early, codes, along, dropped[2];
    static const char *const argv[] = {"sh", "-c", "exit {}", NULL};
    static const struct hawk_bytes args[] = {{"0", 1}, {"7", 1}};
    opened(dist);
    submit(&early, "0s", 2); /* before there is a descriptor */
    MUST(hawk_client_fd(c) >= 0);
    MUST(hawk_client_submit(c, &(struct hawk_spec){.tasks = 2, .argv = argv, .args = args, .user = &codes}));
    codes.takes_along = submit(&along, "10m", 1);
    codes.follow = 3;
    for (int i = 0; i < 2; i++) {
        dropped[i].drop_when_accepted = 1;
        submit(&dropped[i], i ? "10m" : "0s", 4);
    }
    for (uint32_t i = 0; i < JOBS; i++)
        submit(&h[i], "0s", 1 + i % 4);
    hawk_job_free(submit(&along, "10m", 1)); /* before it has left, perhaps */
    turn_until(&early.ended, 1);
    turn_until(&after_another.ended, 1);
    turn_until(&dropped[0].accepted, 1);
    turn_until(&dropped[1].accepted, 1);
    for (int i = 0; i < JOBS; i++) {
        turn_until(&h[i].ended, 1);
        MUST(h[i].state == HAWK_JOB_DONE);
    }
    MUST(codes.ended == 1 && codes.state == HAWK_JOB_FAILED && codes.tasks == 2);
    MUST(!along.ended && after_another.tasks == 3 && early.tasks == 2);
    MUST(hawk_client_wait_all(c, -1) == 1); /* what was freed is not waited for */
    hawk_client_close(c);
}

/* Clients are closed with jobs in every state, and with news that nobody has heard. */
static void closing(const char *dist)
{
    static struct heard before[3], heard[3], other;
    opened(dist);
    struct hawk_client *stays = c;
    int fd = hawk_client_fd(c);
    for (int i = 0; i < 3; i++) {
        opened(dist);
        MUST(hawk_client_fd(c) >= 0 && hawk_client_fd(c) != fd);
        submit(&before[i], "0s", 1);
        if (i > 0)
            turn_until(&before[i].ended, 1);
        submit(&heard[i], "10m", 1);
        if (i == 1)
            turn_until(&heard[i].accepted, 1);
        if (i == 2) { /* something has happened, and is not heard */
            MUST(poll(&(struct pollfd){.fd = hawk_client_fd(c), .events = POLLIN}, 1, BOUND / 1000) == 1);
        }
        hawk_client_close(c);
    }
    c = stays;
    submit(&other, "0s", 1);
    turn_until(&other.ended, 1);
    hawk_client_close(c);
}

/* ---- The program is slow ---- */

static void slow(const char *dist)
{
    enum { JOBS = 20 };
    static struct heard h[JOBS];
    opened(dist);
    MUST(hawk_client_fd(c) >= 0);
    for (uint32_t i = 0; i < JOBS; i++)
        submit(&h[i], i ? "0s" : "12s", 1 + i % 4);
    say("submitted");
    wait_for_line();
    for (int i = 0; i < JOBS; i++)
        MUST(!h[i].accepted);
    for (int i = 0; i < JOBS; i++) {
        turn_until(&h[i].ended, 1);
        MUST(h[i].state == HAWK_JOB_DONE && h[i].tasks == 1 + i % 4);
    }
    say("all are done");
    hawk_client_close(c);
}

/* ---- Its dist dies ---- */

static void dies(const char *dist)
{
    enum { JOBS = 5 };
    static struct heard h[JOBS], again;
    opened(dist);
    for (int i = 0; i < JOBS; i++)
        submit(&h[i], i ? "10m" : "0s", 1);
    turn_until(&h[0].ended, 1);
    for (int i = 1; i < JOBS; i++)
        turn_until(&h[i].accepted, 1);
    say("accepted");
    wait_for_line();
    int first = ticks;
    for (int i = 1; i < JOBS; i++) {
        turn_until(&h[i].ended, 1);
        MUST(h[i].state == HAWK_JOB_REFUSED && h[i].tasks == 0 && strstr(h[i].error, dist));
    }
    MUST(ticks > first); /* the program's loop went on */
    MUST(h[0].state == HAWK_JOB_DONE);
    say("refused");
    wait_for_line();
    submit(&again, "0s", 3);
    turn_until(&again.ended, 1);
    MUST(again.state == HAWK_JOB_DONE && again.tasks == 3);
    say("done");
    hawk_client_close(c);
}

int main(int argc, char **argv)
{
    static const struct itimerspec every = {.it_interval.tv_nsec = TICK_NS, .it_value.tv_nsec = TICK_NS};
    if (argc != 3)
        return 2;
    alarm(2 * BOUND / 1000000);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    if (timer < 0 || timerfd_settime(timer, 0, &every, NULL))
        return 2;
    if (strcmp(argv[2], "slow") == 0) {
        slow(argv[1]);
    } else if (strcmp(argv[2], "dies") == 0) {
        dies(argv[1]);
    } else {
        no_descriptor(argv[1]);
        without_a_descriptor(argv[1]);
        one_job(argv[1]);
        many_jobs(argv[1]);
        closing(argv[1]);
        say("all is so");
    }
    return 0;
}
