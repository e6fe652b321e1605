/* One call on a unix socket without HTTP/2: a plain stream, for clients that cannot afford gRPC
 * (docs/protocol-access.md, "Plain streams"). It is what HTTP/2 would carry: gRPC's length-prefixed messages, between
 * a head and an end in the form that gRPC-Web gives trailers.
 *
 * frame = flag (1 byte), length (4 bytes, big endian), that many bytes
 *
 * The client's first frame is its head: PLAIN_HEAD, with lines "name: value\r\n", ":path" and "authorization". After it
 * come messages, PLAIN_MESSAGE. The server answers with messages, and with one PLAIN_HEAD frame at the end of the call:
 * "grpc-status" and "grpc-message". A client that closes its side has gone.
 *
 * This file reads and writes frames. Who may call what is up to the server, as for calls over HTTP/2; how often and how
 * much is counted by the connection's guard. All of it belongs to the loop's thread. Private to net/. */
#ifndef HAWK_NET_PLAIN_H
#define HAWK_NET_PLAIN_H

#include "net/codec.h"
#include "net/guard.h"
#include "net/loop.h"

#include <grpc/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIN_MESSAGE 0x00u
#define PLAIN_HEAD 0x80u
#define PLAIN_PREFIX_BYTES 5u
#define PLAIN_HEAD_MAX (8u << 10)  /* gRPC's limit for the headers of a call */
#define PLAIN_AHEAD_MAX (1u << 20) /* bytes that are read before anybody asks for them; gRPC's window */

/* A head, as it came; borrowed. */
struct plain_head {
    struct span path, authorization; /* data NULL: it is missing */
};
/* False: it is malformed. */
bool plain_head_read(struct plain_head *h, const uint8_t *data, size_t len);

struct plain;
struct plain_fns {
    /* The head has come. Once, and before all others. */
    void (*head)(void *arg, struct plain *p, const struct plain_head *h);
    /* A message that plain_want asked for; borrowed. */
    void (*message)(void *arg, const uint8_t *data, size_t len);
    /* What waited has been sent. */
    void (*sent)(void *arg);
    /* The client has gone, or what it sent broke a rule; or the end that plain_end sent has left (in order). Once, and
     * the last. */
    void (*over)(void *arg, bool in_order);
};

/* Takes the descriptor over. The first fns are for the head and for an end before it. */
struct plain *plain_new(struct loop *l, int fd, struct guard *g, uint32_t max_message_bytes,
                        const struct plain_fns *fns, void *arg);
/* Closes the connection. It may be called from within a callback. */
void plain_free(struct plain *p);
/* Whom the callbacks are for from now on. */
void plain_bind(struct plain *p, const struct plain_fns *fns, void *arg);
/* Gives the next message to `message`, once per call of this. Not from here: later, or when the present one returns. */
void plain_want(struct plain *p);
/* Sends a message. False: a part of it waits for the client, and `sent` will come. */
bool plain_send(struct plain *p, const void *data, size_t len);
/* Sends the end of the call; `over` follows once it has left. */
bool plain_end(struct plain *p, grpc_status_code status, const char *text, size_t len);

#endif
