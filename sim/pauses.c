/* Paused tasks (POLICY_PAUSE): each ending moves by the time of its pauses. */
#include "base/check.h"
#include "base/mem.h"
#include "sim/internal.h"

static struct pause *place_of(struct sim *s, uint32_t worker, uint32_t run)
{
    uint32_t places = s->config.slots + sim_paused_max(&s->config);

    return &s->pauses[(size_t)worker * places + worker_slot_of(run)];
}

void sim_pauses_start(struct sim *s, uint32_t worker, uint32_t run)
{
    if (s->pauses)
        *place_of(s, worker, run) = (struct pause){.run = run};
}

void sim_pause(struct sim *s, uint32_t worker, uint32_t run, int64_t now_us)
{
    struct pause *p = place_of(s, worker, run);
    bool runs = p->run == run && !p->paused;

    if (runs) {
        p->paused = true;
        s->running--;
        p->since_us = now_us;
    }
    bus_post(s->bus, s->first_worker_ep + worker, now_us,
             &(struct msg){.type = MSG_EXEC_PAUSED,
                           .exec_paused = {.run = run, .err = runs ? 0 : HAWK_ENOT_FOUND}});
}

void sim_resume(struct sim *s, uint32_t worker, uint32_t run, int64_t now_us)
{
    struct pause *p = place_of(s, worker, run);

    if (p->run != run || !p->paused)
        return;
    p->paused = false;
    s->running++;
    p->stood_us += now_us - p->since_us;
    if (!p->came)
        return;
    endings_add(&s->endings, p->ending.at_us + p->stood_us, p->ending.run_us, worker, run);
    p->came = false;
    p->stood_us = 0;
}

bool sim_pauses_end(struct sim *s, const struct ending *e)
{
    struct pause *p = s->pauses ? place_of(s, e->worker, e->run) : NULL;

    if (!p || (!p->paused && p->stood_us == 0)) {
        if (p)
            p->run = 0;
        return true;
    }
    CHECK(p->run == e->run);
    if (p->paused) {
        p->came = true;
        p->ending = *e;
    } else {
        endings_add(&s->endings, e->at_us + p->stood_us, e->run_us, e->worker, e->run);
        p->stood_us = 0;
    }
    return false;
}
