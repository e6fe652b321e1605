/* What a connection that has come in speaks: plain HTTP/2, TLS or a plain stream (plain.h). Its first byte says so
 * where there is a choice. */
#include "net/front_impl.h"

#include "net/guard.h"
#include "net/plain.h"
#include "net/tls.h"

#include <errno.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>

#define TLS_HANDSHAKE 0x16 /* the type of TLS' first record; HTTP/2 begins with 'P' */

static void give_grpc(struct front_conn *c)
{
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();

    grpc_server_add_channel_from_fd(c->front->server, c->fd, creds);
    grpc_server_credentials_release(creds);
}

/* A client that leaves, or is cut, before it goes to gRPC, which finds that out and closes the connection. */
static void on_first(void *arg, unsigned events)
{
    struct front_conn *c = arg;
    struct front *f = c->front;
    uint8_t byte = 0;
    ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (!c->first)
            c->first = loop_fd_add(f->loop, c->fd, LOOP_READ, on_first, c);
        return;
    }
    loop_fd_remove(c->first);
    c->first = NULL;
    if (c->local_socket && n > 0 && byte == PLAIN_HEAD) {
        f->config.plain(f->config.plain_arg, c);
        return;
    }
    if (c->tls && byte != TLS_HANDSHAKE) {
        guard_no_tls(c->guard);
        c->tls = false;
    }
    give_grpc(c);
}

void front_give(struct front_conn *c)
{
    const struct front *f = c->front;

    if (!c->own && (c->tls ? tls_is_optional(f->config.tls) : c->local_socket && f->config.plain))
        on_first(c, LOOP_READ);
    else
        give_grpc(c);
}
