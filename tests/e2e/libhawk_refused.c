/* A program that waits, without a bound, for a job whose dist has died. Compiled by test_libhawk.py.
 * Usage: libhawk_refused DIST [TIMEOUT-S]; it goes on when a line comes on stdin */
#include <hawk.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TIMEOUT_US 2000000
#define BOUND_S 60

int main(int argc, char **argv)
{
    struct hawk_client *c;
    int64_t timeout_us = argc == 3 ? atoi(argv[2]) * INT64_C(1000000) : TIMEOUT_US;
    if (argc < 2 || argc > 3 ||
        hawk_client_open(&c, &(struct hawk_client_options){.dist = argv[1], .timeout_us = timeout_us}))
        return 2;
    alarm(BOUND_S);
    struct hawk_job *j = hawk_client_submit(c, &(struct hawk_spec){.sleep = "10m"});
    while (!*hawk_job_id(j))
        hawk_client_poll(c, -1);
    puts("accepted");
    fflush(stdout);
    (void)getchar();
    if (hawk_client_wait(c, j, -1) != 1 || hawk_job_state(j) != HAWK_JOB_REFUSED)
        return 1;
    puts(hawk_job_error(j));
    hawk_client_close(c);
    return 0;
}
