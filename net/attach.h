/* The messages between workers and attached executors (protos/executor.proto), for both sides. What a side
 * sends gathers in a buffer, which is one message. A received message is taken apart with one call per
 * part. */
#ifndef HAWK_NET_ATTACH_H
#define HAWK_NET_ATTACH_H

#include "base/err.h"
#include "base/ids.h"
#include "msg/types.h"
#include "net/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ATTACH_METHOD "/hawk.v1.Executors/Attach"
/* A message is closed at this size, so that only a single larger part makes it larger. The reader gets the
 * first parts without waiting for all that follow. */
#define ATTACH_BATCH_BYTES (128u << 10)

struct attach_hello {
    char app[LIMIT_NAME_BYTES + 2],
        name[LIMIT_NAME_BYTES + 2]; /* what is longer is cut, and still too long */
    uint32_t slots;
    bool pauses;
    char task_of[JOB_ID_TEXT]; /* of a resident: its job's id; "": it is none */
    uint32_t task;
    char resident_of[JOB_ID_TEXT]; /* of a further executor of a resident: its job's id; "": it is none */
};
struct attach_paused {
    uint64_t id;
    uint8_t refused;
};
struct attach_pause {
    uint64_t id;
    uint8_t on;
};
struct attach_result {
    uint64_t id;
    int32_t code;
    struct span result, error;
};
struct attach_task {
    uint64_t id;
    struct span job, name, payload; /* job: its id as text */
    uint32_t index, count, attempt;
    int64_t time_limit_us;
};

/* ---- Sending ---- */

/* Messages to send, the first one next; only the last one grows. It starts zeroed. A worker's are no more than its
 * executor's slots allow: no task that has not left gives back its place. */
struct attach_batches {
    struct codec_buf *v;
    uint32_t n, cap;
    uint64_t dropped; /* so many were before the first one: its number */
};
/* The message that gets the next len bytes, until the next call. A large part has a message of its own, so that small
 * ones before it do not wait for it. */
struct codec_buf *attach_batch(struct attach_batches *b, size_t len);
struct span attach_first(const struct attach_batches *b); /* empty: there is none */
void attach_drop_first(struct attach_batches *b);
void attach_batches_free(struct attach_batches *b); /* what is in b, which is empty then */

/* Each appends to the message in b. */

void attach_put_hello(struct codec_buf *b, const struct attach_hello *h);
void attach_put_result(struct codec_buf *b, const struct attach_result *r);
void attach_put_drain(struct codec_buf *b);
void attach_put_paused(struct codec_buf *b, const struct attach_paused *p);
void attach_put_attached(struct codec_buf *b, const char *worker, uint32_t slots);
void attach_put_task(struct codec_buf *b, const struct attach_task *t);
void attach_put_cancel(struct codec_buf *b, uint64_t id);
void attach_put_pause(struct codec_buf *b, const struct attach_pause *p);

/* ---- Receiving. What is handed over is borrowed; an error of a callback ends the reading and is returned. ---- */

struct attach_fns {
    /* from an executor */
    int (*hello)(void *arg, const struct attach_hello *h);
    int (*result)(void *arg, const struct attach_result *r);
    int (*drain)(void *arg);
    int (*paused)(void *arg, const struct attach_paused *p);
    /* from a worker */
    int (*attached)(void *arg, struct span worker);
    int (*task)(void *arg, const struct attach_task *t);
    int (*cancel)(void *arg, uint64_t id);
    int (*pause)(void *arg, const struct attach_pause *p);
};

/* HAWK_EMALFORMED, with a text in why (size bytes); or a callback's error, which has written why itself. */
HAWK_MUST_USE int attach_from_executor(const void *data, size_t len, const struct attach_fns *fns, void *arg,
                                       char *why, size_t size);
HAWK_MUST_USE int attach_from_worker(const void *data, size_t len, const struct attach_fns *fns, void *arg,
                                     char *why, size_t size);

#endif
