/* See dist_search.h. */
#include "libhawk/dist_search.h"

#include "base/backoff.h"

void dist_search_failed(struct dist_search *s, const struct client *client, struct channel *ch, bool full)
{
    if (full)
        s->give_up_us = loop_now(client->loop) + client->timeout_us;
    if (!s->lost)
        s->lost = ch;
    else if (ch != s->lost)
        s->tried++;
}

static void start_clock(struct dist_search *s, const struct client *client)
{
    if (!s->give_up_us)
        s->give_up_us = loop_now(client->loop) + client->timeout_us;
}

bool dist_search_again(struct dist_search *s, struct client *client)
{
    int64_t now = loop_now(client->loop);
    start_clock(s, client);
    if (client_up_has_stopped(client) || now >= s->give_up_us)
        return false;
    s->tried = 0;
    s->retry_us = now + backoff_next(&s->backoff_us, BACKOFF_MAX_US, &client->rng);
    return true;
}

struct channel *dist_search_next(struct dist_search *s, struct client *client)
{
    start_clock(s, client);
    struct channel *ch =
        s->lost ? client_other_dist(client, s->lost, s->seed, s->tried) : client_contact(client);
    if (ch || !dist_search_again(s, client))
        return ch;
    if (client_refresh_nodes(client, DIST_SEARCH_TRY_US))
        client->error[0] = '\0'; /* then it is those that were known */
    return s->lost;
}
