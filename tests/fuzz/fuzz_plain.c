/* What a client of a plain stream sends, in pieces: the head and the messages that come out are those that one reading
 * of all bytes finds; the end comes once and last. The first byte says how long pieces are and when messages are
 * asked for. */
#include "base/check.h"
#include "net/plain.h"
#include "tests/fuzz/lib/input.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE_MAX 1000u
#define TURNS_MAX 10000

static struct taken {
    struct plain *p; /* NULL: it has been freed */
    bool late;       /* messages are asked for between turns */
    unsigned heads, messages, overs, empty;
    uint64_t sum; /* of the messages' bytes and places */
} taken;

static uint64_t add(uint64_t sum, const uint8_t *data, size_t len)
{
    sum = sum * 31 + len;
    for (size_t i = 0; i < len; i++)
        sum = sum * 31 + data[i];
    return sum;
}

static void on_message(void *arg, const uint8_t *data, size_t len)
{
    struct taken *t = arg;

    CHECK(t->heads == 1 && t->overs == 0);
    t->messages++;
    t->sum = add(t->sum, data, len);
    if (!t->late)
        plain_want(t->p);
    (void)plain_send(t->p, data, len);
}

static void on_sent(void *arg) {}

static void on_over(void *arg, bool in_order)
{
    struct taken *t = arg;

    CHECK(t->overs++ == 0);
    plain_free(t->p);
    t->p = NULL;
}

static void on_head(void *arg, struct plain *p, const struct plain_head *h)
{
    struct taken *t = arg;

    CHECK(t->heads++ == 0 && t->overs == 0 && h->path.data);
    if (!t->late)
        plain_want(p);
}

/* What should come out. */
static struct taken expect(const uint8_t *data, size_t size)
{
    struct taken t = {0};
    struct plain_head h;

    while (size >= PLAIN_PREFIX_BYTES) {
        uint32_t len = (uint32_t)data[1] << 24 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 8 | data[4];
        const uint8_t *body = data + PLAIN_PREFIX_BYTES;
        if (data[0] != (t.heads ? PLAIN_MESSAGE : PLAIN_HEAD) || len > size - PLAIN_PREFIX_BYTES ||
            len > MESSAGE_MAX)
            break;
        if (!t.heads && !plain_head_read(&h, body, len))
            break;
        if (t.heads) {
            t.messages++;
            t.empty += len == 0;
            t.sum = add(t.sum, body, len);
        }
        t.heads = 1;
        data += PLAIN_PREFIX_BYTES + len;
        size -= PLAIN_PREFIX_BYTES + len;
    }
    return t;
}

static void turn(struct loop *l)
{
    loop_once(l, 0);
    if (taken.late && taken.p && taken.heads)
        plain_want(taken.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct plain_fns fns = {on_head, on_message, on_sent, on_over};
    static struct loop *l;
    int fds[2], news = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    uint8_t unread[4096];

    if (!l)
        l = loop_new(0);
    CHECK(news >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    struct guards *gs = guards_new(news);
    struct guard *g = guard_add(gs, fds[0], false, NULL, &taken);
    const size_t piece = size ? 1 + (data[0] >> 1) : 1;
    taken = (struct taken){.late = size && data[0] & 1};
    taken.p = plain_new(l, fds[0], g, MESSAGE_MAX, &fns, &taken);
    for (size_t at = 1; at < size && taken.p; at += piece) {
        if (send(fds[1], data + at, piece < size - at ? piece : size - at, MSG_NOSIGNAL) < 0)
            break;
        turn(l);
        while (recv(fds[1], unread, sizeof unread, 0) > 0)
            ;
    }
    for (int i = 0; i < 2 * (int)size && taken.p; i++)
        turn(l);
    struct taken want = expect(data + 1, size ? size - 1 : 0);
    /* Who sends more empty messages at once may be cut off, which depends on the time (frames.h). */
    if (want.empty <= FRAMES_CONTROL_UNPROVEN)
        CHECK(taken.messages == want.messages && taken.sum == want.sum);
    CHECK(taken.heads == want.heads && taken.messages <= want.messages);
    close(fds[1]);
    for (int i = 0; i < TURNS_MAX && taken.p; i++)
        turn(l);
    CHECK(!taken.p && taken.overs == 1);
    guards_free(gs);
    close(news);
    return 0;
}
