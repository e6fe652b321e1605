/* Renewing the certificate that a daemon keeps: see enroll.h. */
#include "base/log.h"
#include "base/mem.h"
#include "ca/kept.h"
#include "daemon/enroll.h"
#include "net/api.h"
#include "net/rpc.h"
#include "net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALL_US (10 * US_PER_S)
#define LOOK_MAX_S 3600 /* between two looks: the clock may be set */
#define EXPIRED_S 60    /* the same, where only a new invitation helps, or a clock that is set */
#define AGAIN_PARTS 30  /* tries in what is left of its life after the first one has failed */

struct renewal {
    struct process *process;
    const char *(*central)(void *arg);
    void *arg;
    struct loop_timer timer;
    struct channel *channel;
    struct rpc *call; /* NULL: none is under way */
    bool taken;       /* its reply was good */
    bool failed;      /* the log says so */
    bool expired;     /* the same */
};

static void look_in(struct renewal *r, int64_t s)
{
    struct loop *l = r->process->loop;

    s = s < 1 ? 1 : s > LOOK_MAX_S ? LOOK_MAX_S : s;
    loop_timer_set(l, &r->timer, loop_now(l) + s * US_PER_S);
}

static void say_expired(struct renewal *r)
{
    if (!r->expired)
        log_error(
            "the certificate has expired: nobody lets this node in any more, central renews no such one; "
            "start it with a new invitation (`hawk ca invite`, --join)");
    r->expired = true;
}

/* Sets the timer after an attempt, or after none. */
static void look_again(struct renewal *r, bool tried)
{
    struct identity own;
    int64_t now_s = time(NULL);

    if (!kept_look(r->process->kept, &own)) {
        look_in(r, LOOK_MAX_S);
    } else if (r->central && own.until_s <= now_s) {
        say_expired(r);
        look_in(r, EXPIRED_S);
    } else {
        look_in(r, tried && r->failed ? (own.until_s - now_s) / AGAIN_PARTS : kept_renew_s(&own) - now_s);
    }
}

static void say_failed(struct renewal *r, const char *why)
{
    if (!r->failed)
        log_warn("the certificate cannot be renewed: %s; trying again", why);
    r->failed = true;
}

static void say_renewed(struct renewal *r)
{
    log_info("the certificate was renewed");
    r->failed = r->expired = false;
}

static void on_reply(void *arg, const uint8_t *data, size_t len)
{
    struct renewal *r = arg;
    struct api_join_reply reply;
    char why[PATH_MAX + 512];
    int err = api_decode(&api_join_reply_type, data, len, &reply, why, sizeof why);

    if (!err) {
        err = kept_take(r->process->kept, tls_identity(r->process->tls), reply.certificate, why, sizeof why);
        api_free(&api_join_reply_type, &reply);
    }
    r->taken = !err;
    if (err)
        say_failed(r, why);
}

static void on_done(void *arg, grpc_status_code status, const char *text)
{
    struct renewal *r = arg;

    r->call = NULL;
    if (status != GRPC_STATUS_OK)
        say_failed(r, text);
    else if (r->taken)
        say_renewed(r);
    look_again(r, true);
}

static void ask_central(struct renewal *r)
{
    static const struct rpc_fns fns = {.reply = on_reply, .done = on_done};
    struct process *p = r->process;
    struct api_renew_request request = {0};
    char why[PATH_MAX + 512];
    uint8_t *der = NULL, *data;
    size_t der_len = 0, len;

    if (kept_request(p->kept, &der, &der_len, why, sizeof why)) {
        say_failed(r, why);
        look_again(r, true);
        return;
    }
    request.request = der;
    request.request_n = (uint32_t)der_len;
    api_encode(&api_renew_request_type, &request, &data, &len);
    channel_free(r->channel);
    r->channel = channel_new_tls(p->loop, r->central(r->arg), p->node_token, p->tls, ROLE_CENTRAL);
    r->taken = false;
    r->call = rpc_start(r->channel, API_RENEW_METHOD, data, len, CALL_US, false, &fns, r);
    free(data);
    free(der);
}

static void on_timer(void *arg)
{
    struct renewal *r = arg;
    struct identity own;
    char why[PATH_MAX + 512];

    if (r->call)
        return;
    if (!kept_look(r->process->kept, &own) || kept_renew_s(&own) > time(NULL)) {
        look_again(r, false);
    } else if (r->central) {
        ask_central(r);
    } else {
        if (enroll_central(r->process, why, sizeof why))
            say_failed(r, why);
        else
            say_renewed(r);
        look_again(r, true);
    }
}

struct renewal *renewal_new(struct process *p, const char *(*central)(void *arg), void *arg)
{
    struct renewal *r;

    if (!p->kept || !p->tls)
        return NULL;
    r = xcalloc(1, sizeof *r);
    *r = (struct renewal){.process = p, .central = central, .arg = arg};
    loop_timer_init(&r->timer, on_timer, r);
    look_again(r, false);
    return r;
}

void renewal_free(struct renewal *r)
{
    if (!r)
        return;
    loop_timer_clear(r->process->loop, &r->timer);
    channel_free(r->channel); /* and the call */
    free(r);
}
