/* A program that leaves its jobs behind: it frees one whose dist it submits to no more, and closes the client while
 * another one runs. Compiled by test_libhawk.py.
 * Usage: libhawk_left DIST [fd]; it prints each job's id, and goes on when a line comes on stdin */
#include <hawk.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define BOUND_S 120

static struct hawk_job *submit(struct hawk_client *c)
{
    struct hawk_job *j = hawk_client_submit(c, &(struct hawk_spec){.sleep = "10m"});
    while (!*hawk_job_id(j))
        hawk_client_poll(c, -1);
    puts(hawk_job_id(j));
    fflush(stdout);
    return j;
}

static void work_until_told(struct hawk_client *c)
{
    struct pollfd told = {.fd = 0, .events = POLLIN};
    while (poll(&told, 1, 0) == 0)
        hawk_client_poll(c, 10000);
    (void)getchar();
}

int main(int argc, char **argv)
{
    struct hawk_client *c;
    alarm(BOUND_S);
    if (argc < 2 || hawk_client_open(&c, &(struct hawk_client_options){.dist = argv[1]}) ||
        (argc > 2 && hawk_client_fd(c) < 0))
        return 2;
    struct hawk_job *first = submit(c);
    work_until_told(c);
    (void)submit(c);
    hawk_job_free(first);
    work_until_told(c);
    hawk_client_close(c);
    return 0;
}
