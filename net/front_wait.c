/* How fast an address may open connections: see front.h. What comes faster waits here, as a descriptor alone, and is
 * taken in at the address' rate. */
#include "net/front_impl.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

bool front_has_left(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0;
}

static bool may_connect(struct front *f, struct address *a)
{
    return address_may_connect(a, f->config.connect_rate, loop_now(f->loop));
}

bool front_must_wait(struct front_conn *c)
{
    struct front *f = c->front;
    struct address *a = c->own || c->exempt ? NULL : addresses_get(&f->addresses, c->net);

    if (!a || (a->waiting_n == 0 && may_connect(f, a)))
        return false;
    front_tick_on(f);
    if (a->waiting_n >= f->config.per_address || f->waiting_n >= f->unproven_max) {
        front_refuse(
            c, "its address connects faster than cluster.connect_rate, and too many already wait for that");
        return true;
    }
    say(f, &f->hasty, "a connection that waits",
        "a connection from %s waits: its address connects more than %u times a second (cluster.connect_rate)",
        c->peer, f->config.connect_rate);
    a->waiting_n++;
    f->waiting_n++;
    f->counts.delayed++;
    list_push_tail(&f->waiting, &c->node);
    return true;
}

void front_take_waiting(struct front *f)
{
    const bool room = !list_empty(&f->waiting) && front_has_room(f);

    list_foreach(&f->waiting, n, next) {
        struct front_conn *c = container_of(n, struct front_conn, node);
        struct address *a = addresses_get(&f->addresses, c->net);
        bool left = front_has_left(c->fd);
        if (!left && (!room || front_is_full(f) || !may_connect(f, a)))
            continue;
        list_remove(&c->node);
        list_init(&c->node);
        a->waiting_n--;
        f->waiting_n--;
        if (left) {
            close(c->fd);
            free(c);
        } else {
            front_take_in(c);
        }
    }
}

struct front_counts front_counts(const struct front *f) { return f->counts; }
