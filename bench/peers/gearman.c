/* gearmand: background jobs, those of one job submitted together; one worker per slot. */
#include "bench/peers/queue.h"

#include <libgearman/gearman.h>
#include <stdlib.h>
#include <string.h>

void *peer_connect(int port)
{
    gearman_client_st *c = gearman_client_create(NULL);

    if (!c || gearman_failed(gearman_client_add_server(c, "127.0.0.1", (in_port_t)port)))
        queue_die("no gearmand there");
    return c;
}

void peer_push(void *connection, const char *text, uint32_t times)
{
    gearman_return_t err;

    gearman_client_task_free_all(connection);
    for (uint32_t i = 0; i < times; i++)
        gearman_client_add_task_background(connection, NULL, NULL, "sleep", NULL, text, strlen(text), &err);
    if (gearman_failed(gearman_client_run_tasks(connection)))
        queue_die("gearmand takes no jobs");
}

static gearman_return_t on_job(gearman_job_st *job, void *context)
{
    void (*work)(const char *text, uint32_t len) = *(void (**)(const char *, uint32_t))context;

    work(gearman_job_workload(job), (uint32_t)gearman_job_workload_size(job));
    return GEARMAN_SUCCESS;
}

void peer_work(int port, void (*work)(const char *text, uint32_t len))
{
    gearman_worker_st *w = gearman_worker_create(NULL);

    if (!w || gearman_failed(gearman_worker_add_server(w, "127.0.0.1", (in_port_t)port)) ||
        gearman_failed(gearman_worker_define_function(w, "sleep", strlen("sleep"),
                                                      gearman_function_create(on_job), 0, &work)))
        queue_die("no gearmand there");
    while (gearman_success(gearman_worker_work(w)))
        ;
    queue_die("gearmand is gone");
}
