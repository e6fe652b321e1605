/* A program that does not call libhawk while its tasks run, until it is told to on stdin. Compiled by test_libhawk.py.
 * Usage: libhawk_slow DIST JOBS TASKS */
#include <hawk.h>
#include <stdio.h>
#include <stdlib.h>

#define BOUND 60000000 /* us */
#define JOBS_MAX 16
#define POLLS_MAX 100000

static void die(const char *what, struct hawk_client *c)
{
    fprintf(stderr, "%s: %s\n", what, hawk_client_error(c));
    exit(1);
}

int main(int argc, char **argv)
{
    struct hawk_client *c;
    struct hawk_job *jobs[JOBS_MAX];
    int n = argc == 4 ? atoi(argv[2]) : 0, ended = 0, lost = 0;
    size_t bytes = 0;
    if (n < 1 || n > JOBS_MAX)
        return 2;
    if (hawk_client_open(&c, &(struct hawk_client_options){.dist = argv[1]}))
        die("open", c);
    for (int i = 0; i < n; i++) {
        jobs[i] = hawk_client_submit(c, &(struct hawk_spec){.tasks = (uint32_t)atoi(argv[3]), .app = "slow"});
        if (!jobs[i])
            die("submit", c);
    }
    for (int i = 0; !*hawk_job_id(jobs[n - 1]) && i < POLLS_MAX; i++)
        hawk_client_poll(c, 1000);
    puts(hawk_job_id(jobs[n - 1]));
    fflush(stdout);
    (void)getchar();
    if (hawk_client_wait_all(c, BOUND) != 1)
        die("wait", c);
    for (int i = 0; i < n; i++)
        for (uint32_t k = 0; k < hawk_job_tasks(jobs[i]); k++) {
            struct hawk_task t;
            if (!hawk_job_task(jobs[i], k, &t) || t.state != HAWK_TASK_DONE)
                continue;
            ended++;
            lost += t.result_lost != 0;
            bytes += t.result.len;
        }
    printf("%d %d %zu\n", ended, lost, bytes);
    hawk_client_close(c);
    return 0;
}
