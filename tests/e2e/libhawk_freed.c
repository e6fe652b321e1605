/* A program that frees one of its two jobs, and waits for the other. Compiled by test_libhawk.py.
 * Usage: libhawk_freed DIST; it frees that of which the number, 1 or 2, comes on stdin */
#include <hawk.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define BOUND_S 60

int main(int argc, char **argv)
{
    struct hawk_client *c;
    struct hawk_job *jobs[2];
    struct pollfd told = {.fd = 0, .events = POLLIN};
    if (argc != 2 || hawk_client_open(&c, &(struct hawk_client_options){.dist = argv[1]}))
        return 2;
    alarm(BOUND_S);
    for (int i = 0; i < 2; i++)
        jobs[i] = hawk_client_submit(c, &(struct hawk_spec){.sleep = "10m"});
    while (poll(&told, 1, 0) == 0)
        hawk_client_poll(c, 10000);
    int i = getchar() == '1' ? 0 : 1;
    hawk_job_free(jobs[i]);
    if (hawk_client_wait(c, jobs[!i], -1) != 1)
        return 1;
    puts(hawk_job_state(jobs[!i]) == HAWK_JOB_DONE ? "done" : hawk_job_error(jobs[!i]));
    hawk_client_close(c);
    return 0;
}
