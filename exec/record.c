/* Records and their buffer. */
#include "exec/record.h"

#include "base/check.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 65536
#define KEEP_BYTES (1u << 20) /* an empty buffer that is larger than this frees its memory */
#define ABSENT UINT32_MAX
#define FDS_AT_ONCE 64u /* the kernel takes 253 */

struct head {
    uint32_t len; /* bytes behind the head */
    uint16_t type;
    uint16_t version;
};

/* ---- The buffer ---- */

static void bytes_reserve(struct bytes *b, size_t n)
{
    if (b->off == b->len)
        b->off = b->len = 0;
    if (b->cap - b->len >= n)
        return;
    /* Moves no more bytes than were read, so the cost is amortised. */
    if (b->off > 0 && b->off >= b->cap / 2) {
        memmove(b->data, b->data + b->off, b->len - b->off);
        b->len -= b->off;
        b->off = 0;
    }
    if (b->cap - b->len < n) {
        b->cap = b->cap * 2 > b->len + n ? b->cap * 2 : b->len + n;
        b->data = xrealloc(b->data, b->cap);
    }
}

void bytes_add(struct bytes *b, const void *data, size_t n)
{
    if (n == 0)
        return;
    bytes_reserve(b, n);
    memcpy(b->data + b->len, data, n);
    b->len += n;
}

static void free_data(struct bytes *b)
{
    free(b->data);
    b->data = NULL;
    b->len = b->cap = b->off = 0;
}

void bytes_free(struct bytes *b)
{
    for (uint32_t i = 0; i < b->fds_n; i++)
        close(b->fds[i]);
    free(b->fds);
    free(b->data);
    *b = (struct bytes){.record_max = b->record_max, .takes_fds = b->takes_fds};
}

static void bytes_shrink(struct bytes *b)
{
    if (b->off == b->len && b->cap > KEEP_BYTES)
        free_data(b);
}

/* ---- Descriptors ---- */

void bytes_add_fd(struct bytes *b, int fd)
{
    vec_grow(b->fds, b->fds_n, b->fds_cap);
    b->fds[b->fds_n++] = fd;
}

static void drop_fds(struct bytes *b, uint32_t n)
{
    b->fds_n -= n;
    memmove(b->fds, b->fds + n, b->fds_n * sizeof *b->fds);
}

int bytes_take_fd(struct bytes *b)
{
    if (b->fds_n == 0)
        return -1;
    int fd = b->fds[0];
    drop_fds(b, 1);
    return fd;
}

union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(FDS_AT_ONCE * sizeof(int))];
};

/* Sends descriptors with the next bytes: with one alone, as long as there are more descriptors. */
static ssize_t send_with_fds(struct bytes *b, int fd)
{
    uint32_t n = b->fds_n < FDS_AT_ONCE ? b->fds_n : FDS_AT_ONCE;
    struct iovec v = {b->data + b->off, b->fds_n > n ? 1 : bytes_pending(b)};
    union control c = {
        .head = {.cmsg_len = CMSG_LEN(n * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = CMSG_SPACE(n * sizeof(int))};

    memcpy(CMSG_DATA(&c.head), b->fds, n * sizeof(int));
    ssize_t sent = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent <= 0)
        return sent;
    for (uint32_t i = 0; i < n; i++)
        close(b->fds[i]);
    drop_fds(b, n);
    return sent;
}

/* Keeps the descriptors that came with bytes. False: some were lost. */
static bool keep_fds(struct bytes *b, struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            bytes_add_fd(b, fd);
        }
    }
    return !(m->msg_flags & MSG_CTRUNC);
}

static ssize_t receive_with_fds(struct bytes *b, int fd)
{
    struct iovec v = {b->data + b->len, b->cap - b->len};
    union control c;
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c};
    ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    return n > 0 && !keep_fds(b, &m) ? 0 : n;
}

/* ---- The socket ---- */

int bytes_send(struct bytes *b, int fd)
{
    while (bytes_pending(b)) {
        ssize_t n = b->fds_n ? send_with_fds(b, fd)
                             : send(fd, b->data + b->off, bytes_pending(b), MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS ? 0 : HAWK_EUNAVAILABLE;
        b->off += (size_t)n;
        b->sent += (size_t)n;
    }
    bytes_shrink(b);
    return 0;
}

int bytes_receive(struct bytes *b, int fd)
{
    ssize_t n;

    bytes_shrink(b);
    bytes_reserve(b, READ_BYTES);
    do {
        n = b->takes_fds ? receive_with_fds(b, fd)
                         : recv(fd, b->data + b->len, b->cap - b->len, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? 0 : HAWK_EUNAVAILABLE;
    b->len += (size_t)n;
    return n > 0 ? 1 : HAWK_EUNAVAILABLE;
}

/* ---- Writing ---- */

size_t record_begin(struct bytes *b, enum record_type type)
{
    struct head head = {.type = (uint16_t)type, .version = RECORD_VERSION};

    bytes_reserve(b, sizeof head);
    bytes_add(b, &head, sizeof head);
    return bytes_pending(b); /* an offset from off, which does not move while a record is written */
}

void record_end(struct bytes *b, size_t begun)
{
    uint32_t len = (uint32_t)(bytes_pending(b) - begun);

    CHECK(len <= RECORD_MAX);
    memcpy(b->data + b->off + begun - sizeof(struct head), &len, sizeof len);
}

void put_u32(struct bytes *b, uint32_t v) { bytes_add(b, &v, sizeof v); }
void put_u64(struct bytes *b, uint64_t v) { bytes_add(b, &v, sizeof v); }

void put_lease(struct bytes *b, int64_t until_us)
{
    if (b->lease_at && b->sent <= b->lease_at) {
        memcpy(b->data + b->off + (b->lease_at - b->sent), &until_us, sizeof until_us);
        return;
    }
    size_t begun = record_begin(b, RECORD_LEASE);
    b->lease_at = b->sent + begun;
    put_u64(b, (uint64_t)until_us);
    record_end(b, begun);
}

void put_data(struct bytes *b, const void *data, size_t n)
{
    CHECK(n <= RECORD_MAX);
    put_u32(b, data ? (uint32_t)n : ABSENT);
    if (data)
        bytes_add(b, data, n);
}

/* ---- Reading ---- */

int record_next(struct bytes *b, struct record *r)
{
    struct head head;

    if (bytes_pending(b) < sizeof head)
        return 0;
    memcpy(&head, b->data + b->off, sizeof head);
    if (head.version != RECORD_VERSION || head.len > (b->record_max ? b->record_max : RECORD_MAX))
        return HAWK_EMALFORMED;
    if (bytes_pending(b) < sizeof head + head.len)
        return 0;
    r->type = (enum record_type)head.type;
    r->p = b->data + b->off + sizeof head;
    r->end = r->p + head.len;
    r->bad = false;
    b->off += sizeof head + head.len;
    return 1;
}

static void get(struct record *r, void *v, size_t n)
{
    if ((size_t)(r->end - r->p) < n) {
        r->bad = true;
        r->p = r->end;
        memset(v, 0, n);
        return;
    }
    memcpy(v, r->p, n);
    r->p += n;
}

uint32_t get_u32(struct record *r)
{
    uint32_t v;

    get(r, &v, sizeof v);
    return v;
}

uint64_t get_u64(struct record *r)
{
    uint64_t v;

    get(r, &v, sizeof v);
    return v;
}

const char *get_data(struct record *r, uint32_t *n)
{
    uint32_t len = get_u32(r);

    *n = 0;
    if (r->bad || len == ABSENT)
        return NULL;
    if ((size_t)(r->end - r->p) < len) {
        r->bad = true;
        r->p = r->end;
        return NULL;
    }
    const char *data = r->p;
    r->p += len;
    *n = len;
    return data;
}

struct blob *get_blob(struct record *r)
{
    uint32_t n;
    const char *data = get_data(r, &n);

    return data ? blob_new(data, n) : NULL;
}

struct usage get_usage(struct record *r)
{
    struct usage used = {0};

    if (r->p < r->end) {
        used.cpu_us = figure_of((int64_t)get_u64(r));
        used.mem_peak_bytes = figure_of((int64_t)get_u64(r));
    }
    return used;
}
