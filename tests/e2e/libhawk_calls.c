/* Every call of hawk.h against a cluster, from outside: compiled by test_libhawk.py with what `make install` installs.
 * Usage: libhawk_calls DIST */
#include "libhawk_must.h"

#include <hawk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hawk_job *sleeper(const char *how_long)
{
    struct hawk_job *j = hawk_client_submit(c, &(struct hawk_spec){.sleep = how_long});
    MUST(j);
    return j;
}

static void wrong_specs(void)
{
    static const char *const argv[] = {"true", NULL};
    struct hawk_job *any;
    MUST(!hawk_client_submit(c, &(struct hawk_spec){.tasks = 1}));
    MUST(strstr(hawk_client_error(c), "one of"));
    MUST(!hawk_client_submit(c, &(struct hawk_spec){.argv = argv, .sleep = "1s"}));
    MUST(!hawk_client_submit(c, &(struct hawk_spec){.argv = argv, .tasks = 1000001}));
    MUST(strstr(hawk_client_error(c), "1000000") || strstr(hawk_client_error(c), "1,000,000"));
    MUST(!hawk_client_submit(c, &(struct hawk_spec){.argv = argv, .tag = 17}));
    MUST(hawk_client_wait_any(c, &any, -1) == 0 && !any); /* nothing is there to wait for */
    MUST(hawk_client_wait_all(c, -1) == 1);
}

static void one_job(void)
{
    static const char *const argv[] = {"sh", "-c", "exit {}", NULL};
    static const struct hawk_bytes args[] = {{"0", 1}, {"7", 1}, {"0", 1}};
    static const struct hawk_spec spec = {
        .name = "codes", .tasks = 3, .argv = argv, .args = args, .tag = HAWK_TAG_SHORT, .user = &c};
    struct hawk_job *j = hawk_client_submit(c, &spec);
    struct hawk_task t;
    MUST(j && hawk_job_state(j) == HAWK_JOB_UNFINISHED);
    MUST(hawk_job_tasks(j) == 3 && hawk_job_count(j, HAWK_TASK_UNFINISHED) == 3);
    MUST(!hawk_job_task(j, 0, &t) && t.state == HAWK_TASK_UNFINISHED);
    MUST(hawk_client_wait(c, j, BOUND) == 1);
    MUST(hawk_job_state(j) == HAWK_JOB_FAILED && hawk_job_user(j) == &c);
    MUST(strchr(hawk_job_id(j), '.') && !*hawk_job_error(j));
    MUST(hawk_job_count(j, HAWK_TASK_DONE) == 2 && hawk_job_count(j, HAWK_TASK_FAILED) == 1);
    MUST(hawk_job_task(j, 1, &t) && t.state == HAWK_TASK_FAILED && t.code == 7);
    MUST(strcmp(t.outcome, "exited") == 0 && t.wait_us >= 0 && t.run_us >= 0);
    MUST(hawk_job_task(j, 2, &t) && t.state == HAWK_TASK_DONE && t.code == 0);
    MUST(!hawk_job_task(j, 3, &t));
    hawk_job_free(j);
}

static void many_jobs(void)
{
    enum { JOBS = 3000 };
    static char seen[JOBS];
    struct hawk_job *j;
    int n = 0;
    for (long i = 0; i < JOBS; i++)
        MUST(hawk_client_submit(
            c, &(struct hawk_spec){.tasks = 1 + (uint32_t)(i % 4), .sleep = "0s", .user = seen + i}));
    for (; hawk_client_wait_any(c, &j, BOUND) == 1; n++) {
        MUST(hawk_job_state(j) == HAWK_JOB_DONE);
        MUST(hawk_job_count(j, HAWK_TASK_DONE) == hawk_job_tasks(j));
        ++*(char *)hawk_job_user(j);
        hawk_job_free(j);
    }
    MUST(n == JOBS);
    for (int i = 0; i < JOBS; i++)
        MUST(seen[i] == 1);
}

static void cancelling(void)
{
    struct hawk_job *early = sleeper("10m"), *late = sleeper("10m"), *dropped = sleeper("10m");
    hawk_job_cancel(early); /* before it was sent */
    MUST(hawk_client_wait(c, late, 1000) == 0);
    for (int i = 0; !*hawk_job_id(dropped) && i < 60000; i++)
        MUST(hawk_client_poll(c, 1000) == 0);
    hawk_job_cancel(late);
    hawk_job_free(dropped);
    MUST(hawk_client_wait_all(c, BOUND) == 1);
    MUST(hawk_job_state(early) == HAWK_JOB_CANCELLED && hawk_job_state(late) == HAWK_JOB_CANCELLED);
    MUST(hawk_job_count(late, HAWK_TASK_CANCELLED) == 1);
    hawk_job_free(early);
    hawk_job_free(late);
}

static void free_ended(void *arg, struct hawk_job *j)
{
    MUST(arg == &c);
    hawk_job_free(j);
}

/* Nobody is left to wait for once a callback has freed the last job. */
static void freed_by_callback(const char *dist)
{
    struct hawk_job *any;
    MUST(hawk_client_open(&c, &(struct hawk_client_options){.dist = dist, .ended = free_ended, .arg = &c}) == 0);
    sleeper("0s");
    MUST(hawk_client_wait_any(c, &any, -1) == 0 && !any);
    hawk_client_close(c);
}

int main(int argc, char **argv)
{
    MUST(argc == 2);
    MUST(hawk_client_open(&c, &(struct hawk_client_options){.dist = "127.0.0.1:1", .timeout_us = 1000000}) < 0);
    MUST(strstr(hawk_client_error(c), "127.0.0.1:1"));
    hawk_client_close(c);
    MUST(hawk_client_open(&c, &(struct hawk_client_options){.dist = "no address"}) < 0);
    hawk_client_close(c);
    freed_by_callback(argv[1]);
    MUST(hawk_client_open(&c, &(struct hawk_client_options){.dist = argv[1]}) == 0);
    wrong_specs();
    one_job();
    many_jobs();
    cancelling();
    sleeper("10m"); /* closed with the client */
    MUST(hawk_client_poll(c, 0) == 0);
    hawk_client_close(c);
    return 0;
}
