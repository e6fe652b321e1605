/* A program that has a job at a dist, and submits another one. Compiled by test_libhawk.py.
 * Usage: libhawk_drained DIST; it goes on when a line comes on stdin, and prints why the second was refused */
#include <hawk.h>
#include <stdio.h>
#include <unistd.h>

#define TIMEOUT_US 2000000
#define BOUND_S 60

int main(int argc, char **argv)
{
    struct hawk_client *c;
    const struct hawk_spec spec = {.sleep = "10m"};
    if (argc != 2 ||
        hawk_client_open(&c, &(struct hawk_client_options){.dist = argv[1], .timeout_us = TIMEOUT_US}))
        return 2;
    alarm(BOUND_S);
    struct hawk_job *j = hawk_client_submit(c, &spec);
    while (!*hawk_job_id(j))
        hawk_client_poll(c, -1);
    puts("accepted");
    fflush(stdout);
    (void)getchar();
    j = hawk_client_submit(c, &spec);
    if (hawk_client_wait(c, j, -1) != 1 || hawk_job_state(j) != HAWK_JOB_REFUSED)
        return 1;
    puts(hawk_job_error(j));
    hawk_client_close(c);
    return 0;
}
