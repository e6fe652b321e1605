/* Counts the frames of a server's connections where gRPC reads and writes them (frames.h), and cuts a
 * connection that breaks a rule. Ends TLS.
 *
 * gRPC calls recvmsg, sendmsg and close through the dynamic linker. The binary defines all three
 * (guard_calls.c), so gRPC's calls come here. Calls for descriptors without a guard pass through. So no
 * byte is copied twice and no extra thread is needed. A relay would cost every message two changes of
 * threads and a copy, and every connection three descriptors. If another version of gRPC reads in another
 * way, the server's first probe of itself fails (front.h), and the daemon refuses to run.
 *
 * TLS ends here (tls_conn.h): gRPC's calls of a guarded socket with TLS read decrypted bytes, and write bytes
 * to encrypt. Frames are counted on those.
 *
 * Threads: the loop's thread calls guard_add, guard_free, guard_next and the like. The three calls come
 * from any of gRPC's threads. */
#ifndef HAWK_NET_GUARD_H
#define HAWK_NET_GUARD_H

#include "net/frames.h"
#include "net/identity.h"

#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/types.h>

struct guard; /* one connection */

struct guards;
/* fd: an eventfd that is written to when guard_next has something. */
struct guards *guards_new(int fd);
/* Frees every guard. Connections that gRPC still has go on without one. */
void guards_free(struct guards *gs);

/* Guards a connected socket from now on. strict: see frames_strict. tls: the client must speak TLS, and show a
 * certificate; it becomes the guard's (SSL_CTX_free), also if there is no guard. NULL: the client speaks plain HTTP/2.
 * Returns NULL if the socket's number is beyond GUARD_FDS_MAX. */
#define GUARD_FDS_MAX (1 << 20)
struct guard *guard_add(struct guards *gs, int fd, bool strict, SSL_CTX *tls, void *owner);
/* For whom the unfinished messages of the connection count (FRAMES_HELD_MAX), also those that it has: a hash of his
 * name. Before: for nobody known. */
void guard_user(struct guard *g, uint64_t user);
/* The connection speaks no TLS after all. Before gRPC has the descriptor. */
void guard_no_tls(struct guard *g);
/* Call it only after GUARD_CLOSED. Before that gRPC still has the descriptor, and its number is not used
 * again. */
void guard_free(struct guard *g);

/* REFUSED: TLS failed. */
enum guard_news { GUARD_NOTHING, GUARD_BROKEN, GUARD_REFUSED, GUARD_CLOSED };
struct guard_state {
    bool settings; /* the client's preface and first frame have come */
    uint64_t frames_in, frames_out;
    uint32_t streams;    /* the newest stream's number; 0: it opened none */
    uint32_t unanswered; /* requests */
    enum frames_rule broken;
    uint32_t limit;
    const char *refused; /* why TLS failed, in words; "": it has not. Valid until guard_free */
};
/* Returns the next guard that has news. Each news is told once. */
enum guard_news guard_next(struct guards *gs, void **owner, struct guard_state *state);
struct guard_state guard_look(struct guard *g);
/* Whom the client's certificate is for; nobody if it has shown none. */
struct identity guard_peer(struct guard *g);
/* ---- A plain stream (plain.h), whose bytes do not pass through gRPC's calls: as frames_plain_* ---- */
void guard_plain_began(struct guard *g);
/* False: the message breaks a rule. The connection is cut, and GUARD_BROKEN follows. */
bool guard_plain_in(struct guard *g, size_t len);
/* False: so many bytes of an unfinished message are too many. The same follows. */
bool guard_plain_holds(struct guard *g, size_t bytes);
void guard_plain_out(struct guard *g);
void guard_plain_broke(struct guard *g, enum frames_rule rule, uint32_t limit);
/* A call was accepted. */
void guard_prove(struct guard *g);
/* Ends the connection. gRPC reads its end, and GUARD_CLOSED follows. */
void guard_cut(struct guard *g);

/* For guard_calls.c: the three calls' work. real: the system's call. */
ssize_t guard_recvmsg(int fd, struct msghdr *m, int flags, ssize_t (*real)(int, struct msghdr *, int));
ssize_t guard_sendmsg(int fd, const struct msghdr *m, int flags,
                      ssize_t (*real)(int, const struct msghdr *, int));
int guard_close(int fd, int (*real)(int));

#endif
