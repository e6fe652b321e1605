/* TLS between the socket and gRPC (net/tls_conn.c, net/guard.c). This test is gRPC: it calls recvmsg and sendmsg
 * on a guarded socket. At the other end OpenSSL is the client; its bytes travel by hand, as slowly as wanted. */
#include "tests/test_tls.h"

#include "net/guard.h"
#include "net/tls_conn.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define PREFACE_N (sizeof PREFACE - 1)
#define LARGE (1u << 20)

static struct guards *guards;
static struct guard *guard;
static struct tls *ours;       /* central's */
static int news_fd, sock, far; /* gRPC's end, the client's */
static int owner;
static unsigned drained_n; /* reads that said so */

/* The client. */
static SSL_CTX *client_ctx;
static SSL *client;
static BIO *arriving, *leaving; /* the client's bytes */

static int begin(void **state)
{
    struct tls_files f = files_of(dir, "c1");
    int ends[2];

    ours = tls_new(&f, why);
    assert_non_null(ours);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    sock = ends[0];
    far = ends[1];
    /* A byte that waits alone takes a unix socket the room of many; TCP packs them. */
    assert_int_equal(setsockopt(far, SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int)), 0);
    news_fd = eventfd(0, EFD_NONBLOCK);
    guards = guards_new(news_fd);
    guard = guard_add(guards, sock, false, tls_accepting(ours), &owner);
    assert_non_null(guard);
    return 0;
}

static int end(void **state)
{
    SSL_free(client);
    SSL_CTX_free(client_ctx);
    client = NULL;
    client_ctx = NULL;
    if (sock >= 0)
        close(sock);
    close(far);
    guards_free(guards);
    close(news_fd);
    tls_free(ours);
    return 0;
}

static void client_connect(void)
{
    client = SSL_new(client_ctx);
    arriving = BIO_new(BIO_s_mem());
    leaving = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(arriving, -1);
    SSL_set_bio(client, arriving, leaving);
    SSL_set_connect_state(client);
}

/* name NULL: without a certificate. */
static void client_new(const char *from, const char *name, bool http2)
{
    struct tls_files f = files_of(from, name ? name : "ann");

    client_ctx = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_load_verify_file(client_ctx, f.roots), 1);
    SSL_CTX_set_verify(client_ctx, SSL_VERIFY_PEER, NULL);
    if (name) {
        assert_int_equal(SSL_CTX_use_certificate_chain_file(client_ctx, f.certificate), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(client_ctx, f.key, SSL_FILETYPE_PEM), 1);
    }
    if (http2)
        assert_int_equal(SSL_CTX_set_alpn_protos(client_ctx, (const unsigned char *)"\2h2", 3), 0);
    client_connect();
    assert_int_equal(SSL_set1_host(client, "central.hawk"), 1);
}

/* What has come from the server goes to the client; *closed: it has ended. */
static void carry_back(bool *closed)
{
    char buf[4096];
    ssize_t n;

    while ((n = recv(far, buf, sizeof buf, MSG_DONTWAIT)) > 0)
        assert_int_equal(BIO_write(arriving, buf, (int)n), n);
    *closed = n == 0;
}

/* At most `most` bytes of the client's leave. */
static size_t carry_forth(size_t most)
{
    char buf[4096];
    size_t all = 0;

    while (most > 0) {
        int n = BIO_read(leaving, buf, most < sizeof buf ? (int)most : (int)sizeof buf);
        if (n <= 0)
            break;
        assert_int_equal(send(far, buf, (size_t)n, MSG_NOSIGNAL), n);
        all += (size_t)n;
        most -= (size_t)n;
    }
    return all;
}

static ssize_t take(void *buf, size_t size)
{
    _Alignas(struct cmsghdr) char control[64];
    struct iovec v[2] = {{buf, size / 3}, {(char *)buf + size / 3, size - size / 3}};
    struct msghdr m = {
        .msg_iov = v, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(sock, &m, 0);
    int err = errno, unread = -1;

    if (n <= 0) /* gRPC's own TLS on this thread would take it for its own */
        assert_int_equal(ERR_peek_error(), 0);

    struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (h) { /* the kernel's way to say that there is no more, and so gRPC does not ask again before there is */
        assert_int_equal(h->cmsg_level, SOL_TCP);
        assert_int_equal(h->cmsg_type, TCP_CM_INQ);
        assert_int_equal(h->cmsg_len, CMSG_LEN(sizeof(int)));
        assert_memory_equal(CMSG_DATA(h), "\0\0\0", sizeof(int));
        assert_true((size_t)n < size);
        assert_int_equal(ioctl(sock, FIONREAD, &unread), 0);
        assert_int_equal(unread, 0);
        drained_n++;
    }
    errno = err;
    return n;
}

/* In some pieces. */
static ssize_t give(const void *data, size_t size)
{
    char *p = (char *)(uintptr_t)data;
    struct iovec v[3] = {
        {p, size / 4}, {p + size / 4, size / 2}, {p + size / 4 + size / 2, size - size / 4 - size / 2}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};

    return sendmsg(sock, &m, MSG_NOSIGNAL);
}

static void expect_nothing(void)
{
    char buf[256];

    assert_int_equal(take(buf, sizeof buf), -1);
    assert_int_equal(errno, EAGAIN);
}

/* Both sides shake hands; gRPC reads what the client has to say: the preface. */
static void shake(void)
{
    char buf[256];
    bool closed;
    ssize_t n = -1;

    for (int i = 0; i < 10 && n < 0; i++) {
        if (SSL_do_handshake(client) == 1 && i > 0)
            assert_int_equal(SSL_write(client, PREFACE, PREFACE_N), PREFACE_N);
        carry_forth(SIZE_MAX);
        n = take(buf, sizeof buf);
        assert_true(n > 0 || errno == EAGAIN);
        carry_back(&closed);
    }
    assert_int_equal(n, PREFACE_N);
    assert_memory_equal(buf, PREFACE, PREFACE_N);
}

static void begin_shaken(void)
{
    client_new(dir, "ann", true);
    shake();
}

static enum guard_news news(struct guard_state *s)
{
    void *whose = NULL;
    enum guard_news n = guard_next(guards, &whose, s);

    if (n != GUARD_NOTHING)
        assert_ptr_equal(whose, &owner);
    return n;
}

/* ---- Good clients ---- */

static void the_handshake_comes_byte_by_byte(void **state)
{
    char buf[256];
    bool closed;

    client_new(dir, "ann", true);
    expect_nothing();
    for (int i = 0; i < 4; i++) {
        if (SSL_do_handshake(client) == 1 && i > 0)
            break;
        while (carry_forth(1) > 0)
            expect_nothing();
        carry_back(&closed);
    }
    assert_int_equal(SSL_is_init_finished(client), 1);
    assert_string_equal(SSL_get_cipher(client), "TLS_AES_128_GCM_SHA256");
    while (carry_forth(1) > 0) /* the client's own certificate */
        expect_nothing();
    struct identity who = guard_peer(guard);
    assert_string_equal(who.name, "ann");
    assert_int_equal(who.role, ROLE_NONE);
    assert_int_equal(SSL_write(client, PREFACE, PREFACE_N), PREFACE_N);
    for (size_t n = BIO_ctrl_pending(leaving); n > 1; n--) {
        assert_int_equal(carry_forth(1), 1);
        expect_nothing();
    }
    assert_int_equal(carry_forth(1), 1);
    assert_int_equal(take(buf, sizeof buf), PREFACE_N);
    assert_true(guard_look(guard).settings);
}

/* Otherwise whoever opens connections and says little would cost much. */
static void half_a_hello_costs_nothing(void **state)
{
    client_new(dir, "ann", true);
    assert_int_equal(SSL_do_handshake(client), -1);
    carry_forth(BIO_ctrl_pending(leaving) - 1);
    size_t before = mallinfo2().uordblks;
    expect_nothing();
    size_t half = mallinfo2().uordblks - before;
    carry_forth(1);
    expect_nothing();
    size_t whole = mallinfo2().uordblks - before;
    if (before == 0) /* a sanitizer's allocator does not tell */
        return;
    assert_in_range(half, 0, 100);
    assert_true(whole > 5000);
}

static void what_grpc_writes_first_leaves_after_the_handshake(void **state)
{
    static const char first[] = "\0\0\0\4\0\0\0\0\0", second[] = "\0\0\10\6\0\0\0\0\0pingping";
    char buf[64];
    bool closed;

    client_new(dir, "ann", true);
    assert_int_equal(give(first, 9), 9); /* before a byte of the client's has come */
    assert_int_equal(SSL_do_handshake(client), -1);
    carry_forth(SIZE_MAX);
    expect_nothing();
    assert_int_equal(give(second, 17), 17);
    shake();
    carry_back(&closed);
    assert_int_equal(SSL_read(client, buf, sizeof buf), 26);
    assert_memory_equal(buf, first, 9);
    assert_memory_equal(buf + 9, second, 17);
    assert_int_equal(guard_look(guard).frames_out, 2);
}

static void only_so_much_is_kept_before_the_handshake(void **state)
{
    static const char zero[TLS_EARLY_MAX];
    struct guard_state s;

    assert_int_equal(give(zero, sizeof zero - 1), sizeof zero - 1);
    assert_int_equal(give(zero, 1), 1);
    assert_int_equal(news(&s), GUARD_NOTHING);
    assert_int_equal(give(zero, 1), -1);
    assert_int_equal(news(&s), GUARD_REFUSED);
    assert_string_equal(s.refused, "it takes too long to begin");
    assert_int_equal(news(&s), GUARD_NOTHING);
}

/* A frame of HTTP/2 with a payload that differs from place to place. */
static size_t frame(uint8_t *at, uint8_t type, uint8_t flags, uint32_t stream, uint32_t len, uint32_t seed)
{
    const uint8_t head[9] = {(uint8_t)(len >> 16),   (uint8_t)(len >> 8), (uint8_t)len, type, flags, 0, 0,
                             (uint8_t)(stream >> 8), (uint8_t)stream};

    memcpy(at, head, 9);
    for (uint32_t i = 0; i < len; i++)
        at[9 + i] = (uint8_t)(i * 7 + seed);
    return 9 + len;
}

/* HEADERS, and a message in DATA of 16 KiB each, `size` bytes at most; returns how many. */
static size_t stream_of(uint8_t *buf, size_t size)
{
    size_t n = frame(buf, 1, 4, 1, 20, 0);

    for (uint32_t i = 0; n + 9 + 16384 <= size; i++)
        n += frame(buf + n, 0, 0, 1, 16384, i);
    memcpy(buf + 29 + 9, "\0\1\0\0", 5); /* its prefix: 16 MiB */
    return n;
}

static void large_messages_pass(void **state)
{
    static uint8_t sent[LARGE], got[LARGE];
    size_t size = stream_of(sent, LARGE), at = 0;
    ssize_t n;

    begin_shaken();
    assert_int_equal(SSL_write(client, sent, (int)size), size);
    while (at < size) {
        size_t some = carry_forth(10000);
        while (at < size && (n = take(got + at, size - at < 5000 ? size - at : 5000)) > 0)
            at += (size_t)n;
        assert_true(at == size || errno == EAGAIN);
        assert_true(some > 0 || at == size);
    }
    assert_memory_equal(got, sent, size);
    assert_true(drained_n > 0);
    assert_int_equal(guard_look(guard).frames_in, 2 + (size - 29) / (9 + 16384));
}

static void a_full_socket_says_so_and_loses_nothing(void **state)
{
    static uint8_t sent[LARGE], got[LARGE];
    size_t size = stream_of(sent, LARGE), given = 0, at = 0;
    unsigned full = 0;
    bool closed;

    begin_shaken();
    while (at < size) {
        ssize_t n = given < size ? give(sent + given, size - given) : 0;
        if (n > 0) {
            assert_true((size_t)n <= TLS_RECORD_MAX);
            given += (size_t)n;
        }
        if (n > 0 && given < size)
            continue;
        if (n < 0) { /* once more, as gRPC would not: still full */
            assert_int_equal(errno, EAGAIN);
            assert_int_equal(give(sent + given, size - given), -1);
            assert_int_equal(errno, EAGAIN);
            full++;
        }
        carry_back(&closed);
        while (at < size && (n = SSL_read(client, got + at, (int)(size - at))) > 0)
            at += (size_t)n;
    }
    assert_true(full > 0);
    assert_memory_equal(got, sent, size);
    assert_int_equal(guard_look(guard).frames_out, 1 + (size - 29) / (9 + 16384));
}

/* ---- Ends ---- */

static void an_end_without_notice_is_an_end(void **state)
{
    char buf[64];

    begin_shaken();
    assert_int_equal(SSL_write(client, "\0\0\0\4\1\0\0\0\0", 9), 9);
    carry_forth(SIZE_MAX);
    shutdown(far, SHUT_WR);
    drained_n = 0;
    assert_int_equal(take(buf, sizeof buf), 9);
    assert_int_equal(drained_n, 0); /* or gRPC would wait for what has come already */
    assert_int_equal(take(buf, sizeof buf), 0);
    assert_int_equal(take(buf, sizeof buf), 0);
}

static void a_record_that_is_cut_is_an_end(void **state)
{
    char buf[64];

    begin_shaken();
    assert_int_equal(SSL_write(client, "\0\0\0\4\1\0\0\0\0", 9), 9);
    carry_forth(BIO_ctrl_pending(leaving) / 2);
    shutdown(far, SHUT_WR);
    assert_int_equal(take(buf, sizeof buf), 0);
}

static void a_handshake_that_is_cut_is_an_end(void **state)
{
    struct guard_state s;
    char buf[64];

    client_new(dir, "ann", true);
    assert_int_equal(SSL_do_handshake(client), -1);
    carry_forth(100);
    expect_nothing();
    shutdown(far, SHUT_WR);
    assert_int_equal(take(buf, sizeof buf), 0);
    assert_int_equal(news(&s), GUARD_NOTHING);
}

static void closing_is_news(void **state)
{
    struct guard_state s;

    begin_shaken();
    close(sock);
    assert_int_equal(news(&s), GUARD_CLOSED);
    assert_string_equal(s.refused, "");
    guard_free(guard);
    sock = -1;
}

/* ---- Others ---- */

/* The server refuses this client, and says why; the client hears it. */
static void expect_refusal(const char *reason)
{
    struct guard_state s;
    char buf[256];
    bool closed = false;
    ssize_t n = -1;

    for (int i = 0; i < 10; i++) {
        ERR_clear_error();
        (void)SSL_do_handshake(client);
        carry_forth(SIZE_MAX);
        n = take(buf, sizeof buf);
        carry_back(&closed);
        if (n == 0 || errno == ECONNRESET)
            break;
        assert_int_equal(errno, EAGAIN);
    }
    assert_int_equal(n, -1);
    assert_int_equal(errno, ECONNRESET);
    assert_true(closed);
    assert_int_equal(news(&s), GUARD_REFUSED);
    if (!strstr(s.refused, reason))
        fail_msg("'%s' does not say '%s'", s.refused, reason);
    assert_int_equal(news(&s), GUARD_NOTHING);
    assert_int_equal(take(buf, sizeof buf), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(give("x", 1), -1);
    assert_false(identity_is_set(&(struct identity[]){guard_peer(guard)}[0]));
    /* An alert is what the client reads last. */
    assert_true(SSL_read(client, buf, sizeof buf) <= 0);
    assert_int_equal(SSL_get_error(client, -1), SSL_ERROR_SSL);
    ERR_clear_error();
    close(sock);
    assert_int_equal(news(&s), GUARD_CLOSED);
    guard_free(guard);
    sock = -1;
}

static void nobody_comes_without_a_certificate(void **state)
{
    client_new(dir, NULL, true);
    expect_refusal("it shows no certificate");
}

static void nobody_comes_with_a_strange_certificate(void **state)
{
    client_new(strange, "eve", true);
    expect_refusal("its certificate is not good: ");
}

static void nobody_comes_with_an_old_certificate(void **state)
{
    issue_of(dir, "user", "bob", 0);
    client_new(dir, "bob", true);
    expect_refusal("its certificate is not good: certificate has expired");
}

/* Whoever has the node root's key can make nodes, and no users. */
static void no_root_makes_what_is_the_others(void **state)
{
    char command[400];

    snprintf(command, sizeof command,
             "mkdir %s/thief && cp -r %s/nodes %s/thief/users && cp -r %s/users %s/thief/nodes", dir, dir,
             dir, dir, dir);
    assert_int_equal(system(command), 0); /* NOLINT: names of our own */
    snprintf(command, sizeof command, "%s/thief", dir);
    issue_of(command, "user", "mallory", DAYS);
    client_new(command, "mallory", true);
    expect_refusal("its certificate is not good: permitted subtree violation");
}

static void no_user_is_a_node(void **state)
{
    char thief[80];

    snprintf(thief, sizeof thief, "%s/thief", dir);
    issue_of(thief, "worker", "w7", DAYS);
    client_new(thief, "w7", true);
    expect_refusal("its certificate is not good: permitted subtree violation");
}

static void a_client_may_refuse_us(void **state)
{
    struct guard_state s;
    char buf[64], roots[96];
    bool closed;

    client_new(dir, "ann", true);
    SSL_free(client);
    snprintf(roots, sizeof roots, "%s/roots.crt", strange);
    SSL_CTX_set_cert_store(client_ctx, X509_STORE_new());
    assert_int_equal(SSL_CTX_load_verify_file(client_ctx, roots), 1);
    client_connect();
    for (int i = 0; i < 3; i++) {
        (void)SSL_do_handshake(client);
        carry_forth(SIZE_MAX);
        assert_int_equal(take(buf, sizeof buf), -1);
        carry_back(&closed);
    }
    ERR_clear_error();
    assert_int_equal(news(&s), GUARD_REFUSED);
    assert_string_equal(s.refused, "it does not take this daemon's certificate: tlsv1 alert unknown ca");
}

static void a_client_of_another_protocol_is_refused(void **state)
{
    client_new(dir, "ann", false);
    /* Without ALPN the handshake itself is good; gRPC's clients refuse such a server, and this one speaks HTTP/2 or
     * nothing. */
    assert_int_equal(SSL_CTX_set_alpn_protos(client_ctx, (const unsigned char *)"\3foo", 4), 0);
    assert_int_equal(SSL_set_alpn_protos(client, (const unsigned char *)"\3foo", 4), 0);
    expect_refusal("TLS failed: ");
}

static void a_client_without_tls_is_refused(void **state)
{
    struct guard_state s;
    char buf[256];

    assert_int_equal(send(far, PREFACE, PREFACE_N, 0), PREFACE_N);
    assert_int_equal(take(buf, sizeof buf), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(news(&s), GUARD_REFUSED);
    assert_string_equal(s.refused, "it does not speak TLS");
    assert_int_equal(recv(far, buf, sizeof buf, 0), 0);
}

static void frames_are_counted_behind_tls(void **state)
{
    static const char good[] = "\0\0\10\6\0\0\0\0\0pingping";
    struct guard_state s;
    char buf[256];
    int i;

    begin_shaken();
    for (i = 0; i < (int)FRAMES_CONTROL_BURST; i++) {
        assert_int_equal(SSL_write(client, good, 17), 17);
        carry_forth(SIZE_MAX);
        if (take(buf, sizeof buf) < 0)
            break;
    }
    assert_true(i >= (int)FRAMES_CONTROL_UNPROVEN / 2 && i < (int)FRAMES_CONTROL_BURST);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(news(&s), GUARD_BROKEN);
    assert_int_equal(s.broken, BROKEN_CONTROL);
}

/* Whether the server answers each change with one of its own, or not. */
static void keys_change_only_so_often(int kind)
{
    struct guard_state s;
    char buf[256];
    unsigned i;
    bool closed;

    begin_shaken();
    for (i = 0; i < 10 * TLS_KEY_UPDATES_MAX; i++) {
        assert_int_equal(SSL_key_update(client, kind), 1);
        assert_int_equal(SSL_do_handshake(client), 1);
        carry_forth(SIZE_MAX);
        assert_int_equal(take(buf, sizeof buf), -1);
        if (errno != EAGAIN)
            break;
        if (kind == SSL_KEY_UPDATE_REQUESTED)
            assert_int_equal(give("pong", 4), 4);
        carry_back(&closed);
    }
    assert_int_equal(i, TLS_KEY_UPDATES_MAX);
    assert_int_equal(news(&s), GUARD_REFUSED);
    assert_string_equal(s.refused, "it changes its keys too often");
}

static void keys_do_not_change_all_the_time(void **state)
{
    keys_change_only_so_often(SSL_KEY_UPDATE_NOT_REQUESTED);
}

static void own_changes_of_keys_do_not_count(void **state)
{
    keys_change_only_so_often(SSL_KEY_UPDATE_REQUESTED);
}

/* A read ends however many come at once: it would go on as long as they do. */
static void many_changes_of_keys_hold_nobody_up(void **state)
{
    struct guard_state s;
    char buf[256];
    int unread = 0;

    begin_shaken();
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(SSL_key_update(client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(client), 1);
    }
    carry_forth(SIZE_MAX);
    assert_int_equal(take(buf, sizeof buf), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(ioctl(sock, FIONREAD, &unread), 0);
    assert_true(unread > 0);
    assert_int_equal(news(&s), GUARD_REFUSED);
    assert_string_equal(s.refused, "it changes its keys too often");
}

int main(void)
{
#define each(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        each(the_handshake_comes_byte_by_byte),
        each(half_a_hello_costs_nothing),
        each(what_grpc_writes_first_leaves_after_the_handshake),
        each(only_so_much_is_kept_before_the_handshake),
        each(large_messages_pass),
        each(a_full_socket_says_so_and_loses_nothing),
        each(an_end_without_notice_is_an_end),
        each(a_record_that_is_cut_is_an_end),
        each(a_handshake_that_is_cut_is_an_end),
        each(closing_is_news),
        each(nobody_comes_without_a_certificate),
        each(nobody_comes_with_a_strange_certificate),
        each(nobody_comes_with_an_old_certificate),
        each(no_root_makes_what_is_the_others),
        each(no_user_is_a_node),
        each(a_client_may_refuse_us),
        each(a_client_of_another_protocol_is_refused),
        each(a_client_without_tls_is_refused),
        each(frames_are_counted_behind_tls),
        each(keys_do_not_change_all_the_time),
        each(own_changes_of_keys_do_not_count),
        each(many_changes_of_keys_hold_nobody_up),
    };

    return cmocka_run_group_tests(tests, make_roots, remove_roots);
}
