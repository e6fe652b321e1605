/* Waits for nodes that go out of service. */
#include "cli/leaving_nodes.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"
#include "cli/print.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 100
#define NAMES_SHOWN 5

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo) { interrupted = 1; }

void leaving_nodes_add(struct leaving_nodes *r, const struct api_node *nodes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bool dist = strcmp(nodes[i].role, role_text(ROLE_DIST)) == 0;
        if (!dist && strcmp(nodes[i].role, role_text(ROLE_WORKER)) != 0)
            continue;
        vec_grow(r->v, r->n, r->cap);
        r->v[r->n++] = (struct leaving_node){.name = xstrdup(nodes[i].name),
                                             .address = xstrdup(nodes[i].address),
                                             .node = nodes[i].node,
                                             .dist = dist};
    }
}

void leaving_nodes_free(struct leaving_nodes *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        free(r->v[i].name);
        free(r->v[i].address);
        free(r->v[i].problem);
    }
    free(r->v);
    *r = (struct leaving_nodes){0};
}

static int by_node(const void *a, const void *b)
{
    const struct leaving_node *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void compare_with_list(struct leaving_nodes *r, const struct api_list_nodes_reply *reply)
{
    for (uint32_t i = 0; i < r->n; i++) {
        r->v[i].gone = true;
        r->v[i].lost = false;
    }
    qsort(r->v, r->n, sizeof *r->v, by_node);
    for (uint32_t i = 0; i < reply->nodes_n; i++) {
        const struct api_node *n = &reply->nodes[i];
        const struct leaving_node key = {.node = n->node};
        struct leaving_node *v = bsearch(&key, r->v, r->n, sizeof *r->v, by_node);
        if (!v)
            continue;
        v->gone = false;
        v->lost = strcmp(n->state, member_state_text(MEMBER_GONE)) == 0;
        v->drained = n->drained;
        v->left = v->dist ? n->jobs_unfinished : n->queued + n->running_short + n->running_long + n->paused;
    }
}

static bool has_reached(const struct leaving_node *v, enum leaving_until until)
{
    return v->problem || v->gone || v->lost || (until == LEAVING_DRAINED && v->drained);
}

static void print_progress(const struct leaving_nodes *r, enum leaving_who who, enum leaving_until until,
                           int64_t spent_us)
{
    uint32_t waiting = 0, all = 0;
    uint64_t left[2] = {0};
    for (uint32_t i = 0; i < r->n; i++) {
        if (!leaving_node_is(&r->v[i], who))
            continue;
        all++;
        waiting += !has_reached(&r->v[i], until);
        left[r->v[i].dist] += has_reached(&r->v[i], until) ? 0 : r->v[i].left;
    }
    fprintf(stderr, PROGRESS_BEGIN "%u of %u node%s %s", all - waiting, all, PLURAL(all),
            until == LEAVING_DRAINED ? "drained" : "stopped");
    if (left[true])
        fprintf(stderr, ", %llu job%s left", (unsigned long long)left[true], PLURAL(left[true]));
    if (left[false])
        fprintf(stderr, ", %llu task%s left", (unsigned long long)left[false], PLURAL(left[false]));
    fprintf(stderr, "; %lld s" PROGRESS_END, (long long)(spent_us / US_PER_S));
}

static int wait_for(struct session *s, struct leaving_nodes *r, enum leaving_who who,
                    enum leaving_until until, int64_t for_us, bool shown)
{
    int64_t start_us = monotonic_us();
    for (;;) {
        struct api_list_nodes_reply reply;
        bool waiting = false;
        int err = client_list_all_nodes(s->client, &reply);
        if (err)
            return err;
        compare_with_list(r, &reply);
        api_free(&api_list_nodes_reply_type, &reply);
        for (uint32_t i = 0; i < r->n; i++)
            waiting |= leaving_node_is(&r->v[i], who) && !has_reached(&r->v[i], until);
        if (shown)
            print_progress(r, who, until, monotonic_us() - start_us);
        if (!waiting)
            return 0;
        if (interrupted)
            return HAWK_ECANCELLED;
        if (for_us >= 0 && monotonic_us() - start_us >= for_us)
            return HAWK_ETIMEOUT;
        poll(NULL, 0, POLL_MS);
    }
}

int leaving_nodes_wait(struct session *s, struct leaving_nodes *r, enum leaving_who who,
                       enum leaving_until until, int64_t for_us)
{
    struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}, old;
    bool shown = s->mode == OUTPUT_TABLE && stderr_redraws();
    interrupted = 0;
    sigaction(SIGINT, signal_ignored(SIGINT) ? NULL : &act, &old);
    int err = wait_for(s, r, who, until, for_us, shown);
    sigaction(SIGINT, &old, NULL);
    if (shown)
        fputc('\n', stderr);
    return err;
}

const char *leaving_nodes_names(char *buf, size_t size, const struct leaving_nodes *r, enum leaving_who who,
                                enum leaving_until until)
{
    uint32_t shown = 0, n = 0;
    size_t len = 0;
    buf[0] = 0;
    for (uint32_t i = 0; i < r->n; i++)
        n += leaving_node_is(&r->v[i], who) && !has_reached(&r->v[i], until);
    for (uint32_t i = 0; i < r->n && shown < NAMES_SHOWN && len < size; i++) {
        if (!leaving_node_is(&r->v[i], who) || has_reached(&r->v[i], until))
            continue;
        len += (size_t)snprintf(buf + len, size - len, "%s%s", shown++ ? ", " : "", CLEAN(r->v[i].name));
    }
    if (n > shown && len < size)
        snprintf(buf + len, size - len, " and %u more", n - shown);
    return buf;
}
