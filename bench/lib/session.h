/* A client of one dist that keeps many jobs going on one stream (the API's Session), for benchmarks. */
#ifndef HAWK_BENCH_LIB_SESSION_H
#define HAWK_BENCH_LIB_SESSION_H

#include "net/api.h"
#include "net/rpc.h"

struct session;

/* Jobs are submitted at the dist at addr, each signed with the credential that `tls` shows; NULL: without TLS.
 * ended: called for each job's end; NULL: nobody wants to know. A job that is refused or ends otherwise than done,
 * and a stream that ends, is the benchmark's end. */
struct session *session_new(struct loop *l, const char *addr, struct tls *tls,
                            void (*ended)(void *arg, uint64_t tag), void *arg);
void session_free(struct session *s);
/* Leaves with the present turn of the loop, or when what left before has. The tag is the caller's: each once. */
void session_submit(struct session *s, uint64_t tag, struct job_desc *d);
uint64_t session_submitted(const struct session *s);
uint64_t session_ended(const struct session *s);
/* Turns the loop until at most so many are unfinished; dies when that takes longer than timeout_us. */
void session_wait(struct session *s, uint64_t unfinished, int64_t timeout_us);

#endif
