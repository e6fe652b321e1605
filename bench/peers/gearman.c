/* gearmand: jobs of one call submitted together; a worker takes one at a time. Nobody waits for peer_push's,
 * which are background jobs; peer_run's return their results. */
#include "bench/peers/queue.h"

#include <libgearman/gearman.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION "task"

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
        gearman_client_add_task_background(connection, NULL, NULL, FUNCTION, NULL, text, strlen(text), &err);
    if (gearman_failed(gearman_client_run_tasks(connection)))
        queue_die("gearmand takes no jobs");
}

static gearman_return_t on_complete(gearman_task_st *task)
{
    void (**result)(const char *) = gearman_task_context(task);

    if (gearman_task_data_size(task) != PEER_RESULT)
        queue_die("a result that is none");
    (*result)(gearman_task_data(task));
    return GEARMAN_SUCCESS;
}

void peer_run(void *connection, const char *text, uint64_t tasks, uint32_t window, uint32_t batch,
              void (*result)(const char result[PEER_RESULT]))
{
    gearman_return_t err;

    gearman_client_set_complete_fn(connection, on_complete);
    for (uint64_t n; tasks > 0; tasks -= n) {
        n = tasks < window ? tasks : window;
        gearman_client_task_free_all(connection);
        for (uint64_t i = 0; i < n; i++)
            gearman_client_add_task(connection, NULL, &result, FUNCTION, NULL, text, strlen(text), &err);
        if (gearman_failed(gearman_client_run_tasks(connection)))
            queue_die("gearmand does not run tasks");
    }
}

static void *on_job(gearman_job_st *job, void *context, size_t *size, gearman_return_t *err)
{
    const peer_work_fn *work = context;
    char *result = malloc(PEER_RESULT); /* gearman frees it */

    *err = GEARMAN_SUCCESS;
    if (result && (*work)(gearman_job_workload(job), (uint32_t)gearman_job_workload_size(job), result))
        *size = PEER_RESULT;
    return result;
}

void peer_work(int port, uint32_t batch, peer_work_fn work)
{
    gearman_worker_st *w = gearman_worker_create(NULL);

    if (!w || gearman_failed(gearman_worker_add_server(w, "127.0.0.1", (in_port_t)port)) ||
        gearman_failed(gearman_worker_add_function(w, FUNCTION, 0, on_job, &work)))
        queue_die("no gearmand there");
    while (gearman_success(gearman_worker_work(w)))
        ;
    queue_die("gearmand is gone");
}
