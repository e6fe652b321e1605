/* TLS of one accepted connection, between the socket and gRPC, which calls recvmsg and sendmsg. The guard calls
 * this in place of the system's functions, under its lock, on gRPC's threads. No function waits.
 *
 * gRPC waits for the next change of the socket only after it has heard EAGAIN. So EAGAIN means that the kernel
 * has no more bytes, or takes no more. Reading first advances the handshake, once the client's hello is whole:
 * half of one costs nothing. Until the handshake is finished, written bytes gather, since the socket is writable
 * all the while, and gRPC would never try again. */
#ifndef HAWK_NET_TLS_CONN_H
#define HAWK_NET_TLS_CONN_H

#include "net/identity.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Bytes that may be written before the handshake is finished: gRPC writes its SETTINGS, and pings. */
#define TLS_EARLY_MAX (4u << 10)
/* The biggest write; one record. */
#define TLS_RECORD_MAX (16u << 10)
/* Changes of keys that a client may ask for. gRPC's clients never do. */
#define TLS_KEY_UPDATES_MAX 16u
#define TLS_CONN_WHY 160

struct tls_conn;

/* ctx becomes the connection's. */
struct tls_conn *tls_conn_new(SSL_CTX *ctx, int fd);
void tls_conn_free(struct tls_conn *c); /* NULL is fine; the socket stays the caller's */

/* As recvmsg and sendmsg, with decrypted bytes. A connection on which TLS has failed gives ECONNRESET. */
ssize_t tls_conn_read(struct tls_conn *c, struct msghdr *m);
ssize_t tls_conn_write(struct tls_conn *c, const struct msghdr *m);

/* Why TLS failed, in words for the log; "": it has not. Stays valid until tls_conn_free. */
const char *tls_conn_why(const struct tls_conn *c);
/* Whom the client's certificate is for; nobody before the handshake is finished. */
const struct identity *tls_conn_peer(const struct tls_conn *c);

#endif
