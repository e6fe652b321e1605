/* Many jobs on one stream. */
#include "bench/lib/session.h"

#include "base/mem.h"
#include "bench/lib/figures.h"
#include "net/codec.h"
#include "net/submission.h"
#include "net/tls.h"

#include <stdlib.h>
#include <time.h>

struct session {
    struct loop *loop;
    struct channel *channel;
    struct tls *tls;
    struct rpc *stream;
    struct codec_buf spec, pending; /* one job's description; requests that have not left */
    struct loop_hook hook;
    uint64_t submitted, ended_n;
    void (*ended)(void *arg, uint64_t tag);
    void *arg;
};

static void flush(void *arg)
{
    struct session *s = arg;

    if (s->pending.len == 0 || !rpc_writable(s->stream))
        return;
    rpc_write(s->stream, s->pending.data, s->pending.len);
    s->pending.len = 0;
}

static void on_event(void *arg, const uint8_t *data, size_t len)
{
    struct session *s = arg;
    struct api_session_event e;
    char why[200];

    if (api_decode(&api_session_event_type, data, len, &e, why, sizeof why) != 0)
        bench_die("%s", why);
    if (e.refused_n)
        bench_die("a job was refused: %s", e.refused[0].error);
    for (uint32_t i = 0; i < e.ends_n; i++) {
        if (e.ends[i].state != JOB_DONE)
            bench_die("a job ended as %s", job_state_text(e.ends[i].state));
        s->ended_n++;
        if (s->ended)
            s->ended(s->arg, e.ends[i].tag);
    }
    api_free(&api_session_event_type, &e);
}

static void on_done(void *arg, grpc_status_code status, const char *text)
{
    (void)arg, (void)status;
    bench_die("the dist ended the session: %s", text);
}

static void on_sent(void *arg) { flush(arg); }

struct session *session_new(struct loop *l, const char *addr, struct tls *tls,
                            void (*ended)(void *arg, uint64_t tag), void *arg)
{
    static const struct rpc_fns fns = {.reply = on_event, .done = on_done, .sent = on_sent};
    struct session *s = xcalloc(1, sizeof *s);

    *s = (struct session){.loop = l, .tls = tls, .ended = ended, .arg = arg};
    s->channel = channel_new_tls(l, addr, NULL, tls, ROLE_DIST);
    s->stream = rpc_open(s->channel, api_methods[API_SESSION].path, &fns, s);
    loop_hook_add(l, &s->hook, LOOP_FLUSH, flush, s);
    return s;
}

void session_free(struct session *s)
{
    loop_hook_remove(&s->hook);
    channel_free(s->channel);
    codec_buf_free(&s->spec);
    codec_buf_free(&s->pending);
    free(s);
}

void session_submit(struct session *s, uint64_t tag, struct job_desc *d)
{
    struct api_session_submit submit = {.tag = tag};
    struct api_session_request r = {.submit = &submit, .submit_n = 1};

    if (s->tls && submission_sign(&d, 1, tls_signer(s->tls), (int64_t)time(NULL)))
        bench_die("the credential cannot sign");
    s->spec.len = 0;
    codec_desc_encode(&s->spec, d, true);
    submit.job = s->spec.data;
    submit.job_n = (uint32_t)s->spec.len;
    api_append(&s->pending, &api_session_request_type, &r);
    s->submitted++;
}

uint64_t session_submitted(const struct session *s) { return s->submitted; }
uint64_t session_ended(const struct session *s) { return s->ended_n; }

void session_wait(struct session *s, uint64_t unfinished, int64_t timeout_us)
{
    int64_t end_us = loop_now(s->loop) + timeout_us;

    while (s->submitted - s->ended_n > unfinished) {
        if (loop_now(s->loop) > end_us)
            bench_die("%llu jobs did not end", (unsigned long long)(s->submitted - s->ended_n));
        loop_once(s->loop, end_us);
    }
}
