/* A Redis list: RPUSH by the client, with all tasks of a job in one command, BLMPOP by the workers; results
 * go the same way in another list. Commands that do not need each other's replies are sent together. */
#include "bench/peers/queue.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define TASKS "tasks"
#define RESULTS "results"

void *peer_connect(int port)
{
    redisContext *c = redisConnect("127.0.0.1", port);

    if (!c || c->err)
        queue_die("no Redis there");
    return c;
}

/* Values of one length, one after the other, or, with a stride of 0, the same one. */
static void append_push(redisContext *c, const char *list, const char *values, size_t len, size_t stride,
                        uint32_t n)
{
    static const char *argv[PEER_BATCH_MAX + 2] = {"RPUSH"};
    static size_t lens[PEER_BATCH_MAX + 2] = {5};

    if (n > PEER_BATCH_MAX)
        queue_die("too many tasks");
    argv[1] = list;
    lens[1] = strlen(list);
    for (uint32_t i = 0; i < n; i++) {
        argv[i + 2] = values + i * stride;
        lens[i + 2] = len;
    }
    redisAppendCommandArgv(c, (int)n + 2, argv, lens);
}

static void append_pop(redisContext *c, const char *list, uint32_t most)
{
    redisAppendCommand(c, "BLMPOP 0 1 %s LEFT COUNT %u", list, most);
}

static void end_push(redisContext *c)
{
    redisReply *r;

    if (redisGetReply(c, (void **)&r) || r->type != REDIS_REPLY_INTEGER)
        queue_die("RPUSH failed");
    freeReplyObject(r);
}

/* *values is what was popped; free the reply. */
static redisReply *end_pop(redisContext *c, const redisReply **values)
{
    redisReply *r;

    if (redisGetReply(c, (void **)&r) || r->type != REDIS_REPLY_ARRAY || r->elements != 2)
        queue_die("BLMPOP failed");
    *values = r->element[1];
    return r;
}

void peer_push(void *connection, const char *text, uint32_t times)
{
    append_push(connection, TASKS, text, strlen(text), 0, times);
    end_push(connection);
}

void peer_run(void *connection, const char *text, uint64_t tasks, uint32_t window, uint32_t batch,
              void (*result)(const char result[PEER_RESULT]))
{
    const redisReply *values;
    uint64_t pushed = 0, ended = 0;

    while (ended < tasks) {
        uint32_t pushes = 0;

        for (uint64_t n; pushed < tasks && pushed - ended + batch <= window; pushed += n, pushes++) {
            n = tasks - pushed < batch ? tasks - pushed : batch;
            append_push(connection, TASKS, text, strlen(text), 0, (uint32_t)n);
        }
        append_pop(connection, RESULTS, PEER_BATCH_MAX);
        while (pushes-- > 0)
            end_push(connection);
        redisReply *r = end_pop(connection, &values);

        ended += values->elements;
        for (size_t i = 0; i < values->elements; i++) {
            if (values->element[i]->len != PEER_RESULT)
                queue_die("a result that is none");
            result(values->element[i]->str);
        }
        freeReplyObject(r);
    }
}

void peer_work(int port, uint32_t batch, peer_work_fn work)
{
    static char results[PEER_BATCH_MAX][PEER_RESULT];
    redisContext *c = peer_connect(port);
    const redisReply *tasks;

    append_pop(c, TASKS, batch);
    for (uint32_t n;;) {
        redisReply *r = end_pop(c, &tasks);

        n = 0;
        for (size_t i = 0; i < tasks->elements; i++)
            n += work(tasks->element[i]->str, (uint32_t)tasks->element[i]->len, results[n]) ? 1 : 0;
        freeReplyObject(r);
        if (n > 0)
            append_push(c, RESULTS, results[0], PEER_RESULT, PEER_RESULT, n);
        append_pop(c, TASKS, batch);
        if (n > 0)
            end_push(c);
    }
}
