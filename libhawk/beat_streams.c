/* See beat_streams.h. */
#include "libhawk/beat_streams.h"

#include "base/mem.h"
#include "base/units.h"
#include "net/api.h"

#include <stdio.h>
#include <stdlib.h>

#define FIRST_BEAT_US (2 * US_PER_S) /* for the connection and the first beat, which tells the interval */
#define STEP_MAX_US (50 * US_PER_MS)
#define SILENT_TEXT "it says nothing any more: it is stopped, busy or cut off"

struct beat_stream {
    struct channel *ch;
    struct rpc *rpc;
    struct dist_beats beats;
    bool ended, deaf;        /* deaf: an older dist that does not know beats */
    grpc_status_code status; /* how it ended */
    char text[300];
};

static void on_beat(void *arg, const uint8_t *data, size_t len)
{
    struct beat_stream *p = arg;
    struct api_event event;
    char why[1];
    dist_beats_heard(&p->beats, 0);
    if (api_decode(&api_event_type, data, len, &event, why, 0))
        return;
    dist_beats_heard(&p->beats, event.beat_us);
    api_free(&api_event_type, &event);
}

static void on_end(void *arg, grpc_status_code status, const char *text)
{
    struct beat_stream *p = arg;
    p->rpc = NULL;
    p->ended = true;
    p->status = status;
    snprintf(p->text, sizeof p->text, "%s", text);
    p->deaf = status == GRPC_STATUS_INVALID_ARGUMENT || status == GRPC_STATUS_NOT_FOUND ||
              status == GRPC_STATUS_UNIMPLEMENTED || status == GRPC_STATUS_RESOURCE_EXHAUSTED ||
              status == GRPC_STATUS_UNAUTHENTICATED;
}

void beat_streams_add(struct beat_streams *all, struct channel *ch)
{
    static const struct rpc_fns fns = {.reply = on_beat, .done = on_end};
    const struct api_watch_request request = {.beats = true};
    uint8_t *data;
    size_t len;
    for (uint32_t i = 0; i < all->n; i++)
        if (all->v[i]->ch == ch)
            return;
    struct beat_stream *p = xcalloc(1, sizeof *p);
    p->ch = ch;
    vec_grow(all->v, all->n, all->cap);
    all->v[all->n++] = p;
    api_encode(&api_watch_request_type, &request, &data, &len);
    p->rpc = rpc_start(ch, api_methods[API_WATCH].path, data, len, TIME_NEVER, false, &fns, p);
    free(data);
}

bool dist_beats_missing(struct dist_beats *b, uint32_t missed, int64_t step_us)
{
    int64_t limit = b->beat_us ? missed * b->beat_us + b->beat_us / 2 : FIRST_BEAT_US;
    b->silent_us += step_us;
    return b->silent_us >= limit;
}

/* A process that was stopped, or got no processor time, did not look: that time does not count. */
int64_t dist_beats_step(int64_t *turn_us, int64_t now_us)
{
    int64_t step = *turn_us && now_us - *turn_us < STEP_MAX_US ? now_us - *turn_us : STEP_MAX_US;
    *turn_us = now_us;
    return step;
}

static bool is_lost(struct beat_stream *p, uint32_t missed, int64_t step_us)
{
    if (p->ended)
        return !p->deaf;
    return dist_beats_missing(&p->beats, missed, step_us);
}

void beat_streams_turn(struct beat_streams *all)
{
    int64_t step = dist_beats_step(&all->turn_us, loop_now(all->loop));
    for (uint32_t i = 0; i < all->n;) {
        struct beat_stream *p = all->v[i];
        struct channel *ch = p->ch;
        if (!is_lost(p, all->missed ? all->missed : DIST_BEATS_MISSED, step)) {
            i++;
            continue;
        }
        if (p->rpc)
            rpc_cancel(p->rpc);
        all->v[i] = all->v[--all->n];
        if (p->ended)
            all->lost(all->arg, ch, p->status, p->text);
        else
            all->lost(all->arg, ch, GRPC_STATUS_UNAVAILABLE, SILENT_TEXT);
        free(p);
    }
}

void beat_streams_free(struct beat_streams *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        if (all->v[i]->rpc)
            rpc_cancel(all->v[i]->rpc);
        free(all->v[i]);
    }
    free(all->v);
    *all = (struct beat_streams){0};
}
