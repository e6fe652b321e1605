/* A program that has no job while its only dist is away, for longer than the client's timeout, or frees one that looked
 * for a dist. Compiled by test_libhawk.py. Usage: libhawk_idle DIST [free]; it goes on when a line comes on stdin */
#include <hawk.h>
#include <stdio.h>
#include <unistd.h>

#define TIMEOUT_US 5000000
#define TURN_US 100000
#define TURNS 52 /* more than the timeout */
#define SEARCH_TURNS 5
#define BOUND_S 60

int main(int argc, char **argv)
{
    const struct hawk_spec short_job = {.sleep = "0s"};
    struct hawk_client *c;
    if (argc < 2 ||
        hawk_client_open(&c, &(struct hawk_client_options){.dist = argv[1], .timeout_us = TIMEOUT_US}))
        return 2;
    alarm(BOUND_S);
    if (hawk_client_wait(c, hawk_client_submit(c, &short_job), -1) != 1)
        return 1;
    puts("done");
    fflush(stdout);
    (void)getchar();
    if (argc > 2) {
        struct hawk_job *unwanted = hawk_client_submit(c, &short_job);
        for (int i = 0; i < SEARCH_TURNS; i++)
            hawk_client_poll(c, TURN_US);
        hawk_job_free(unwanted);
    }
    for (int i = 0; i < TURNS; i++)
        hawk_client_poll(c, TURN_US);
    puts("idle");
    fflush(stdout);
    (void)getchar();
    struct hawk_job *j = hawk_client_submit(c, &short_job);
    if (hawk_client_wait(c, j, -1) != 1)
        return 1;
    puts(hawk_job_state(j) == HAWK_JOB_DONE ? "done" : hawk_job_error(j));
    hawk_client_close(c);
    return 0;
}
