/* A Redis list: RPUSH by the client, with all tasks of a job in one command, BLPOP by the workers. */
#include "bench/peers/queue.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define TASKS_MAX 1000

void *peer_connect(int port)
{
    redisContext *c = redisConnect("127.0.0.1", port);

    if (!c || c->err)
        queue_die("no Redis there");
    return c;
}

void peer_push(void *connection, const char *text, uint32_t times)
{
    const char *argv[TASKS_MAX + 2] = {"RPUSH", "tasks"};
    redisReply *r;

    if (times > TASKS_MAX)
        queue_die("too many tasks");
    for (uint32_t i = 0; i < times; i++)
        argv[i + 2] = text;
    r = redisCommandArgv(connection, (int)times + 2, argv, NULL);
    if (!r || r->type == REDIS_REPLY_ERROR)
        queue_die("RPUSH failed");
    freeReplyObject(r);
}

void peer_work(int port, void (*work)(const char *text, uint32_t len))
{
    redisContext *c = peer_connect(port);

    for (;;) {
        redisReply *r = redisCommand(c, "BLPOP tasks 0");

        if (!r || r->type != REDIS_REPLY_ARRAY || r->elements != 2)
            queue_die("BLPOP failed");
        work(r->element[1]->str, (uint32_t)r->element[1]->len);
        freeReplyObject(r);
    }
}
