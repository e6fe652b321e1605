/* A peer that is a queue with workers: the same two harnesses for each, queue.c for jobs at given times and
 * noop.c for tasks that do nothing. */
#ifndef HAWK_BENCH_PEERS_QUEUE_H
#define HAWK_BENCH_PEERS_QUEUE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PEER_RESULT 8u /* bytes of a result */
#define PEER_BATCH_MAX 1000u

/* Ends the program with this message. */
static inline void __attribute__((noreturn)) queue_die(const char *what)
{
    fprintf(stderr, "peer: %s\n", what);
    exit(1);
}

/* Does a task; whether it has a result, which must be read by a client of peer_run. */
typedef int (*peer_work_fn)(const char *text, uint32_t len, char result[PEER_RESULT]);

/* For the client: a connection to the server at 127.0.0.1:port. */
void *peer_connect(int port);
/* Puts this text into the queue so many times, without waiting for more than the server's reply. */
void peer_push(void *connection, const char *text, uint32_t times);
/* Has so many tasks of this text run and calls result with what each returned. At most `window` of them are
 * on their way, and up to `batch` go in one command, where the peer has such a thing. */
void peer_run(void *connection, const char *text, uint64_t tasks, uint32_t window, uint32_t batch,
              void (*result)(const char result[PEER_RESULT]));
/* A worker process: takes tasks, up to `batch` at once where the peer has such a thing, and does one after
 * the other; never returns. */
void peer_work(int port, uint32_t batch, peer_work_fn work) __attribute__((noreturn));

#endif
