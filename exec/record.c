/* Records and their buffer. */
#include "exec/record.h"

#include "base/check.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_BYTES 65536
#define KEEP_BYTES (1u << 20) /* an empty buffer that is larger than this frees its memory */
#define ABSENT UINT32_MAX

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

void bytes_free(struct bytes *b)
{
    free(b->data);
    *b = (struct bytes){0};
}

static void bytes_shrink(struct bytes *b)
{
    if (b->off == b->len && b->cap > KEEP_BYTES)
        bytes_free(b);
}

int bytes_send(struct bytes *b, int fd)
{
    while (bytes_pending(b)) {
        ssize_t n = send(fd, b->data + b->off, bytes_pending(b), MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == ENOBUFS ? 0 : HAWK_EUNAVAILABLE;
        b->off += (size_t)n;
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
        n = recv(fd, b->data + b->len, b->cap - b->len, MSG_DONTWAIT);
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
    if (head.version != RECORD_VERSION || head.len > RECORD_MAX)
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
