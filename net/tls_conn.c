/* See tls_conn.h. OpenSSL reads and writes the socket through a BIO of ours, which raises no SIGPIPE and never
 * waits. */
#include "net/tls_conn.h"

#include "base/check.h"
#include "base/mem.h"
#include "net/certificate.h"
#include "net/tls.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define TLS_HANDSHAKE_RECORD 0x16 /* the first byte of every TLS client */
#define DRAIN_MAX 16              /* reads of what a refused client has sent */

struct tls_conn {
    SSL_CTX *ctx; /* until the client's hello has come; then NULL, and ssl has it */
    SSL *ssl;
    int fd;
    bool ready; /* the handshake is finished */
    bool ended; /* the client has ended its side */
    struct identity peer;
    uint8_t *early; /* written before the handshake was finished */
    size_t early_n;
    size_t begun; /* length of the record that is on its way; 0: none. Its bytes must be offered again */
    unsigned key_updates;
    char why[TLS_CONN_WHY];
};

/* ---- The socket, as OpenSSL sees it ---- */

static int bio_read(BIO *b, char *buf, int size)
{
    struct tls_conn *c = BIO_get_data(b);
    ssize_t n;

    BIO_clear_retry_flags(b);
    if (c->key_updates > TLS_KEY_UPDATES_MAX) { /* OpenSSL reads on as long as they come */
        errno = ECONNRESET;
        return -1;
    }
    n = recv(c->fd, buf, (size_t)size, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_read(b);
    c->ended = n == 0;
    return (int)n;
}

static int bio_write(BIO *b, const char *buf, int size)
{
    const struct tls_conn *c = BIO_get_data(b);
    ssize_t n = send(c->fd, buf, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);

    BIO_clear_retry_flags(b);
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
        BIO_set_retry_write(b);
    return (int)n;
}

static long bio_ctrl(BIO *b, int what, long number, void *arg)
{
    const struct tls_conn *c = BIO_get_data(b);

    return what == BIO_CTRL_FLUSH || (what == BIO_CTRL_EOF && c->ended);
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "guarded socket");
    CHECK(method && BIO_meth_set_read(method, bio_read) && BIO_meth_set_write(method, bio_write) &&
          BIO_meth_set_ctrl(method, bio_ctrl));
}

/* ---- Failing ---- */

static ssize_t give_errno(int err)
{
    errno = err;
    return -1;
}

/* Reads what the client has sent, and ends the connection. Otherwise the kernel would drop our last words along
 * with those. */
static ssize_t conn_fail(struct tls_conn *c, const char *why)
{
    char unread[4096];

    if (!*c->why)
        snprintf(c->why, sizeof c->why, "%s", why);
    for (int i = 0; i < DRAIN_MAX && recv(c->fd, unread, sizeof unread, MSG_DONTWAIT) > 0; i++)
        ;
    shutdown(c->fd, SHUT_RDWR);
    return give_errno(ECONNRESET);
}

/* What OpenSSL's last error means for whoever reads the log. */
static ssize_t conn_fail_openssl(struct tls_conn *c)
{
    unsigned long e = ERR_peek_error();
    long verified = SSL_get_verify_result(c->ssl);
    char why[TLS_CONN_WHY];
    const char *reason = ERR_reason_error_string(e);

    if (ERR_GET_REASON(e) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        snprintf(why, sizeof why, "it shows no certificate");
    else if (verified != X509_V_OK)
        snprintf(why, sizeof why, "its certificate is not good: %s", X509_verify_cert_error_string(verified));
    else if (!c->ready && ERR_GET_REASON(e) >= SSL_AD_REASON_OFFSET)
        snprintf(why, sizeof why, "it does not take this daemon's certificate: %s",
                 reason ? reason : "no reason");
    else
        snprintf(why, sizeof why, "TLS failed: %s", reason ? reason : "the connection was lost");
    ERR_clear_error();
    return conn_fail(c, why);
}

/* ---- The handshake ---- */

static void on_message(int written, int version, int type, const void *buf, size_t len, SSL *ssl, void *arg)
{
    struct tls_conn *c = arg;

    if (c->ready && !written && type == SSL3_RT_HANDSHAKE)
        c->key_updates++;
}

/* Whether the client's first record, all of its hello, lies with the kernel. 1: it does; otherwise as recvmsg. */
static ssize_t hello_came(struct tls_conn *c)
{
    uint8_t head[5]; /* the record's: type, version, length */
    ssize_t n = recv(c->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);

    if (n <= 0)
        return n;
    if (head[0] != TLS_HANDSHAKE_RECORD)
        return conn_fail(c, "it does not speak TLS");
    int unread = 0, whole = (int)sizeof head + (head[3] << 8 | head[4]);
    if (n == sizeof head && ioctl(c->fd, FIONREAD, &unread) == 0 &&
        (unread >= whole || whole > (int)(sizeof head + TLS_RECORD_MAX)))
        return 1;
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 ? 0 : give_errno(EAGAIN);
}

/* OpenSSL begins when the client's hello is whole. A client that sends less costs no more than one without TLS. */
static ssize_t conn_begin(struct tls_conn *c)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    ssize_t came = hello_came(c);
    BIO *b;

    if (came <= 0)
        return came;
    pthread_once(&once, make_method);
    c->ssl = SSL_new(c->ctx);
    CHECK(c->ssl);
    SSL_CTX_free(c->ctx);
    c->ctx = NULL;
    b = BIO_new(method);
    CHECK(b);
    BIO_set_data(b, c);
    BIO_set_init(b, 1);
    SSL_set_bio(c->ssl, b, b);
    SSL_set_accept_state(c->ssl);
    SSL_set_msg_callback(c->ssl, on_message);
    SSL_set_msg_callback_arg(c->ssl, c);
    return 1;
}

/* What was written meanwhile leaves. A new connection's socket has room for it. */
static ssize_t conn_ready(struct tls_conn *c)
{
    X509 *certificate = SSL_get0_peer_certificate(c->ssl);
    size_t n = 0;

    if (!certificate) /* which the handshake has allowed */
        c->peer = identity_guest();
    else if (!certificate_names(certificate, &c->peer))
        return conn_fail(
            c, "its certificate is for nobody: none of its names (DNS) has the form NAME.ROLE.hawk, "
               "or several have");
    c->ready = true;
    if (c->early_n > 0 && (SSL_write_ex(c->ssl, c->early, c->early_n, &n) != 1 || n != c->early_n))
        return conn_fail_openssl(c);
    free(c->early);
    c->early = NULL;
    c->early_n = 0;
    return 1;
}

/* 1: finished; otherwise as recvmsg. */
static ssize_t conn_shake(struct tls_conn *c)
{
    int got;

    ERR_clear_error();
    got = SSL_do_handshake(c->ssl);
    if (got == 1)
        return conn_ready(c);
    switch (SSL_get_error(c->ssl, got)) {
    case SSL_ERROR_WANT_READ:
        return give_errno(EAGAIN);
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        if (c->ended)
            return 0;
        return give_errno(errno ? errno : ECONNRESET);
    default: /* with a socket that takes not even a handshake (WANT_WRITE), there is nobody to talk to */
        return conn_fail_openssl(c);
    }
}

/* ---- Reading ---- */

/* Fills one part. *more: the kernel may have more. */
static size_t read_part(struct tls_conn *c, const struct iovec *to, bool *more)
{
    size_t at = 0, n;

    while (at < to->iov_len) {
        if (SSL_read_ex(c->ssl, (uint8_t *)to->iov_base + at, to->iov_len - at, &n) != 1) {
            *more = false;
            break;
        }
        at += n;
    }
    return at;
}

/* What the end of reading means to gRPC, after `n` bytes. */
static ssize_t read_result(struct tls_conn *c, ssize_t n)
{
    int err = errno;

    if (c->key_updates > TLS_KEY_UPDATES_MAX)
        return conn_fail(c, "it changes its keys too often");
    switch (SSL_get_error(c->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
        return n > 0 ? n : give_errno(EAGAIN);
    case SSL_ERROR_ZERO_RETURN:
        c->ended = true;
        return n;
    case SSL_ERROR_SYSCALL:
        if (n > 0 || c->ended)
            return n;
        return give_errno(err ? err : ECONNRESET);
    default:
        conn_fail_openssl(c);
        return n > 0 ? n : give_errno(ECONNRESET);
    }
}

/* Answers in the kernel's place that there are no more bytes (TCP_CM_INQ). It has just said so to us: what comes
 * from now on wakes gRPC. This saves gRPC two reads, and a no-op task a twentieth of its processor time. */
static void say_drained(struct msghdr *m, size_t room)
{
    if (!m->msg_control || room < CMSG_SPACE(sizeof(int)))
        return;
    m->msg_controllen = CMSG_SPACE(sizeof(int));
    struct cmsghdr *h = CMSG_FIRSTHDR(m);
    *h = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_TCP, .cmsg_type = TCP_CM_INQ};
    memset(CMSG_DATA(h), 0, sizeof(int));
}

static ssize_t conn_read(struct tls_conn *c, struct msghdr *m)
{
    size_t room = m->msg_controllen;
    ssize_t n = 0, got;
    bool more = true;

    /* gRPC asks the kernel how many bytes it still has (TCP_CM_INQ), but those are encrypted. Without an answer
     * gRPC reads until EAGAIN. */
    m->msg_controllen = 0;
    m->msg_flags = 0;
    if (*c->why)
        return give_errno(ECONNRESET);
    if (!c->ssl && (got = conn_begin(c)) <= 0)
        return got;
    if (!c->ready && (got = conn_shake(c)) <= 0)
        return got;
    ERR_clear_error();
    errno = 0;
    for (size_t i = 0; i < m->msg_iovlen && more; i++)
        n += (ssize_t)read_part(c, &m->msg_iov[i], &more);
    if (more)
        return n;
    bool drained = n > 0 && SSL_get_error(c->ssl, 0) == SSL_ERROR_WANT_READ;
    n = read_result(c, n);
    if (drained && n > 0)
        say_drained(m, room);
    return n;
}

/* ---- Writing ---- */

static size_t bytes_of(const struct msghdr *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->msg_iovlen; i++)
        n += m->msg_iov[i].iov_len;
    return n;
}

/* The message's first n bytes in one piece, in buf unless they are so already. */
static const uint8_t *first_bytes(const struct msghdr *m, uint8_t *buf, size_t n)
{
    size_t at = 0, i = 0;

    while (i < m->msg_iovlen && m->msg_iov[i].iov_len == 0)
        i++;
    if (i < m->msg_iovlen && m->msg_iov[i].iov_len >= n)
        return m->msg_iov[i].iov_base;
    for (; at < n; i++) {
        size_t len = m->msg_iov[i].iov_len < n - at ? m->msg_iov[i].iov_len : n - at;
        if (len > 0)
            memcpy(buf + at, m->msg_iov[i].iov_base, len);
        at += len;
    }
    return buf;
}

static ssize_t write_early(struct tls_conn *c, const struct msghdr *m, size_t n)
{
    uint8_t buf[TLS_EARLY_MAX];

    if (n > TLS_EARLY_MAX - c->early_n)
        return conn_fail(c, "it takes too long to begin");
    if (n > 0) {
        c->early = xrealloc(c->early, c->early_n + n);
        memcpy(c->early + c->early_n, first_bytes(m, buf, n), n);
    }
    c->early_n += n;
    return (ssize_t)n;
}

static ssize_t conn_write(struct tls_conn *c, const struct msghdr *m)
{
    uint8_t buf[TLS_RECORD_MAX];
    size_t len = bytes_of(m), n = 0;
    int err;

    if (*c->why)
        return give_errno(ECONNRESET);
    if (!c->ready)
        return write_early(c, m, len);
    if (len == 0)
        return 0;
    if (len > TLS_RECORD_MAX)
        len = TLS_RECORD_MAX;
    if (c->begun > len)
        return conn_fail(c, "TLS failed: a record was not offered again");
    if (c->begun > 0)
        len = c->begun;
    ERR_clear_error();
    errno = 0;
    if (SSL_write_ex(c->ssl, first_bytes(m, buf, len), len, &n) == 1) {
        c->begun = 0;
        return (ssize_t)n;
    }
    err = errno;
    switch (SSL_get_error(c->ssl, 0)) {
    case SSL_ERROR_WANT_WRITE:
        c->begun = len;
        return give_errno(EAGAIN);
    case SSL_ERROR_SYSCALL:
        return give_errno(err ? err : EPIPE);
    default:
        return conn_fail_openssl(c);
    }
}

/* ---- What gRPC's calls become ---- */

/* OpenSSL's errors are the thread's, and gRPC's own TLS, which dials, looks at them as well: none stays behind. */
static ssize_t leave_no_error(ssize_t n)
{
    int err = errno;

    if (n <= 0)
        ERR_clear_error();
    errno = err;
    return n;
}

ssize_t tls_conn_read(struct tls_conn *c, struct msghdr *m) { return leave_no_error(conn_read(c, m)); }

ssize_t tls_conn_write(struct tls_conn *c, const struct msghdr *m)
{
    return leave_no_error(conn_write(c, m));
}

/* ---- Beginning and end ---- */

struct tls_conn *tls_conn_new(SSL_CTX *ctx, int fd)
{
    struct tls_conn *c = xcalloc(1, sizeof *c);

    c->ctx = ctx;
    c->fd = fd;
    return c;
}

void tls_conn_free(struct tls_conn *c)
{
    if (!c)
        return;
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    free(c->early);
    free(c);
}

const char *tls_conn_why(const struct tls_conn *c) { return c->why; }

const struct identity *tls_conn_peer(const struct tls_conn *c)
{
    static const struct identity nobody;

    return c->ready ? &c->peer : &nobody;
}
