/* A peer that is a queue with workers: the same harness for each (queue.c). */
#ifndef HAWK_BENCH_PEERS_QUEUE_H
#define HAWK_BENCH_PEERS_QUEUE_H

#include <stdint.h>

/* Ends the program with this message. */
void queue_die(const char *what) __attribute__((noreturn));

/* For the client: a connection to the server at 127.0.0.1:port. */
void *peer_connect(int port);
/* Puts this text into the queue so many times, without waiting for more than the server's reply. */
void peer_push(void *connection, const char *text, uint32_t times);
/* A worker process: takes one text after the other and calls work with it; never returns. */
void peer_work(int port, void (*work)(const char *text, uint32_t len)) __attribute__((noreturn));

#endif
