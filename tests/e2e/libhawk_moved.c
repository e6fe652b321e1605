/* A program whose jobs move to another dist, and wait there for room. Compiled by test_libhawk.py.
 * Usage: libhawk_moved DIST JOBS FILE SECONDS: each job ends when there is such a file; the client's timeout */
#include <hawk.h>
#include <stdio.h>
#include <stdlib.h>

#define BOUND_US 120000000
#define JOBS_MAX 64

int main(int argc, char **argv)
{
    struct hawk_client *c;
    struct hawk_job *jobs[JOBS_MAX];
    int n = argc == 5 ? atoi(argv[2]) : 0, done = 0;
    const char *const command[] = {"sh", "-c", "until test -e \"$0\"; do sleep 0.1; done", n ? argv[3] : "",
                                   NULL};
    if (n < 1 || n > JOBS_MAX)
        return 2;
    if (hawk_client_open(
            &c, &(struct hawk_client_options){.dist = argv[1], .timeout_us = atoi(argv[4]) * 1000000LL}))
        return 1;
    for (int i = 0; i < n; i++)
        jobs[i] = hawk_client_submit(c, &(struct hawk_spec){.argv = command});
    for (int i = 0; i < n; i++)
        while (!*hawk_job_id(jobs[i]))
            hawk_client_poll(c, -1);
    puts("accepted");
    fflush(stdout);
    if (hawk_client_wait_all(c, BOUND_US) != 1)
        return 1;
    for (int i = 0; i < n; i++) {
        done += hawk_job_state(jobs[i]) == HAWK_JOB_DONE;
        if (*hawk_job_error(jobs[i]))
            fprintf(stderr, "%s: %s\n", hawk_job_id(jobs[i]), hawk_job_error(jobs[i]));
    }
    printf("%d\n", done);
    hawk_client_close(c);
    return 0;
}
