/* What one of gRPC's messages costs, both sides' processor time together, by situation: a price that is not
 * the same in any two of them. Two processes on one machine that do nothing but answer each other, by TCP on
 * loopback, with the daemons' own links and calls. Usage: bench_price [FILE.json [ROUNDS]] */
#include "base/mem.h"
#include "base/units.h"
#include "bench/lib/figures.h"
#include "bench/lib/programs.h"
#include "net/link.h"
#include "net/rpc.h"
#include "net/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_US (2 * US_PER_S)
#define COME_US (30 * US_PER_S) /* until all links are up */
#define METHOD "/bench.Price/Echo"
#define REQUEST "as long as a heartbeat is with its seq"

struct situation {
    const char *name;
    uint32_t links; /* 0: calls, one after the other */
    uint32_t in_flight;
    bool each_alone; /* whether an envelope has a message of its own, as is to be shown */
};

static const struct situation situations[] = {
    {"calls, one at a time", 0, 1, true},
    {"one stream, one in flight", 1, 1, true},
    {"100 streams, one in flight on each", 100, 1, true},
    {"400 streams, one in flight on each", 400, 1, true},
    {"one stream, 64 in flight", 1, 64, false},
};

struct bench {
    struct figures *figures;
    struct loop *loop;
    char addr[ADDRESS_MAX];
    pid_t answers;
    struct links *links;
    struct link *v[400];
    uint32_t n;
    struct channel *channel;
    uint64_t answered;
    bool running;
};

static void send_one(struct link *k, uint32_t seq)
{
    struct msg m = {.type = MSG_HEARTBEAT, .heartbeat.seq = seq};

    if (link_send(k, &m))
        bench_die("a message cannot be sent on a link that is up");
}

static void on_up(void *arg, struct link *k)
{
    (void)arg;
    (void)k;
}

/* ---- Who answers ---- */

static void echo(void *arg, struct link *k, const struct msg *m)
{
    (void)arg;
    send_one(k, m->heartbeat.seq);
}

static void gone(void *arg, struct link *k, int err, const char *text)
{
    (void)arg;
    (void)k;
    (void)err;
    (void)text;
}

static void echo_call(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    (void)arg;
    rpc_reply(c, request, len);
}

static void answer(const char *addr)
{
    static const struct link_fns fns = {.up = on_up, .msg = echo, .lost = gone};
    struct loop *l = loop_new(LOOP_NET);
    struct server *s = server_new(l, &(struct server_config){0});
    char why[200];

    if (server_listen(s, addr, why, sizeof why))
        bench_die("%s", why);
    server_set_links(s,
                     links_new(l, &(struct link_config){.role = ROLE_CENTRAL, .name = "price"}, &fns, NULL));
    server_handle(s, METHOD, echo_call, NULL);
    server_start(s);
    loop_run(l);
}

/* ---- Who asks ---- */

static void answered(void *arg, struct link *k, const struct msg *m)
{
    struct bench *b = arg;

    b->answered++;
    if (b->running)
        send_one(k, m->heartbeat.seq + 1);
}

static void lost(void *arg, struct link *k, int err, const char *text)
{
    struct bench *b = arg;

    (void)k;
    (void)err;
    if (b->running)
        bench_die("a link was lost: %s", text);
}

static void call(struct bench *b);

static void call_done(void *arg, grpc_status_code status, const char *text)
{
    struct bench *b = arg;

    if (status != GRPC_STATUS_OK)
        bench_die("a call failed: %s", text);
    b->answered++;
    if (b->running)
        call(b);
}

static void call(struct bench *b)
{
    static const struct rpc_fns fns = {.done = call_done};

    (void)rpc_start(b->channel, METHOD, REQUEST, sizeof REQUEST, TIME_NEVER, true, &fns, b);
}

static void connect_links(struct bench *b, uint32_t n)
{
    static const struct link_fns fns = {.up = on_up, .msg = answered, .lost = lost};
    int64_t end_us = loop_now(b->loop) + COME_US;

    b->links = links_new(b->loop, &(struct link_config){.role = ROLE_WORKER, .name = "price"}, &fns, b);
    for (b->n = 0; b->n < n; b->n++)
        b->v[b->n] = link_dial(b->links, b->addr, "who answers");
    for (uint32_t i = 0; i < n; i++)
        while (!link_is_up(b->v[i])) {
            if (loop_now(b->loop) > end_us)
                bench_die("not all of %u links came up within 30 s", n);
            loop_once(b->loop, end_us);
        }
}

static void begin(struct bench *b, const struct situation *s)
{
    if (s->links)
        connect_links(b, s->links);
    else
        b->channel = channel_new(b->loop, b->addr, NULL);
    b->running = true;
    for (uint32_t i = 0; i < s->links; i++)
        for (uint32_t k = 0; k < s->in_flight; k++)
            send_one(b->v[i], k + 1);
    if (!s->links)
        call(b);
}

static void run_for(struct bench *b, int64_t us)
{
    int64_t end_us = loop_now(b->loop) + us;

    while (loop_now(b->loop) < end_us)
        loop_once(b->loop, end_us);
}

static void end(struct bench *b, const struct situation *s)
{
    uint64_t before;

    b->running = false;
    do { /* what is under way comes home */
        before = b->answered;
        run_for(b, 100 * US_PER_MS);
    } while (b->answered != before);
    for (uint32_t i = 0; i < s->links; i++)
        link_close(b->v[i]);
    if (s->links)
        links_free(b->links, US_PER_S);
    else
        channel_free(b->channel);
}

/* Messages in both directions: a call is two. */
static uint64_t messages(const struct bench *b, const struct situation *s)
{
    const struct link_counters *c = s->links ? links_counters(b->links) : NULL;

    return c ? c->messages_sent + c->messages_received : 2 * b->answered;
}

static void measure(struct bench *b, const struct situation *s)
{
    double cpu, took;
    uint64_t sent, envelopes;
    char name[128];

    begin(b, s);
    run_for(b, 200 * US_PER_MS);
    cpu = cpu_s() + program_cpu_s(b->answers);
    sent = messages(b, s);
    envelopes = b->answered;
    run_for(b, ROUND_US);
    took = (cpu_s() + program_cpu_s(b->answers) - cpu) * 1e6;
    sent = messages(b, s) - sent;
    envelopes = 2 * (b->answered - envelopes);
    if (sent == 0)
        bench_die("%s: nothing was answered", s->name);
    snprintf(name, sizeof name, "%s: a message, both sides", s->name);
    figures_add(b->figures, name, "us", took / (double)sent);
    if (!s->each_alone) {
        snprintf(name, sizeof name, "%s: an envelope, both sides", s->name);
        figures_add(b->figures, name, "us", took / (double)envelopes);
        snprintf(name, sizeof name, "%s: envelopes in a message", s->name);
        figures_add(b->figures, name, "", (double)envelopes / (double)sent);
    }
    end(b, s);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    unsigned long rounds;

    bench_name("bench_price");
    if (argc == 3 && strcmp(argv[1], "--answer") == 0) {
        answer(argv[2]);
        return 1;
    }
    rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 7;
    if (rounds < 1 || rounds > 100)
        bench_die("usage: bench_price [FILE.json [ROUNDS]]");
    b.figures = figures_new("price");
    b.loop = loop_new(LOOP_NET);
    free_address(b.addr, sizeof b.addr);
    b.answers = start_program(argv[0], "--answer", b.addr, NULL);
    for (unsigned long r = 0; r < rounds; r++)
        for (size_t i = 0; i < sizeof situations / sizeof *situations; i++)
            measure(&b, &situations[i]);
    end_program(b.answers, SIGKILL);
    loop_free(b.loop);
    figures_end(b.figures, argc > 1 ? argv[1] : NULL);
    return 0;
}
