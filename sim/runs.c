/* What workers run: each end of a task moves by the time of its pauses (POLICY_PAUSE). Ends at the same moment
 * keep the order in which their tasks started. */
#include "base/check.h"
#include "sim/internal.h"

#define END_US_MAX (INT64_C(1) << 62) /* of a task: times after it must fit into 63 bits, too */

static uint32_t places(const struct sim *s) { return s->config.slots + sim_paused_max(&s->config); }

static struct run *run_in_place(const struct sim *s, uint32_t ep, uint32_t run)
{
    return &s->runs[(size_t)sim_worker_of(s, ep) * places(s) + worker_slot_of(run)];
}

static void go_on(struct sim *s, struct run *r)
{
    r->paused_us = TIME_NEVER;
    CHECK(heap_push(&s->ends, &r->end) == 0);
}

void sim_run_start(struct sim *s, uint32_t ep, uint32_t run, int64_t now_us, int64_t run_us)
{
    struct run *r = run_in_place(s, ep, run);

    if (run_us > END_US_MAX - now_us) {
        sim_error(s, HAWK_ELIMIT,
                  "the jobs take more than 146,000 years: simulate more workers, or fewer jobs");
        return;
    }
    *r = (struct run){.end = {.key = now_us + run_us, .seq = s->started++}, .run = run, .run_us = run_us};
    go_on(s, r);
}

void sim_run_pause(struct sim *s, uint32_t ep, uint32_t run, int64_t now_us)
{
    struct run *r = run_in_place(s, ep, run);
    bool runs = r->run == run && heap_in(&r->end);

    if (runs) {
        heap_remove(&s->ends, &r->end);
        r->paused_us = now_us;
    }
    bus_post(s->bus, ep, now_us,
             &(struct msg){.type = MSG_EXEC_PAUSED,
                           .exec_paused = {.run = run, .err = runs ? 0 : HAWK_ENOT_FOUND}});
}

void sim_run_resume(struct sim *s, uint32_t ep, uint32_t run, int64_t now_us)
{
    struct run *r = run_in_place(s, ep, run);

    if (r->run != run || r->paused_us == TIME_NEVER)
        return;
    r->end.key += now_us - r->paused_us;
    go_on(s, r);
}

static void end_run(struct sim *s, struct run *r, int64_t run_us, enum outcome outcome, int32_t code)
{
    uint32_t worker = (uint32_t)((size_t)(r - s->runs) / places(s));

    heap_remove(&s->ends, &r->end);
    bus_post(s->bus, s->first_worker_ep + worker, bus_now(s->bus),
             &(struct msg){.type = MSG_EXEC_EXITED,
                           .exec_exited = {
                               .run_us = run_us, .run = r->run, .code = code, .outcome = (uint8_t)outcome}});
}

void sim_run_kill(struct sim *s, uint32_t ep, uint32_t run, int64_t now_us)
{
    struct run *r = run_in_place(s, ep, run);

    sim_run_resume(s, ep, run, now_us);
    if (r->run == run && heap_in(&r->end))
        end_run(s, r, r->run_us - (r->end.key - now_us), OUTCOME_SIGNALED, 15);
}

void sim_run_end_first(struct sim *s)
{
    struct heap_node *first = heap_min(&s->ends);
    struct run *r;

    CHECK(first);
    r = container_of(first, struct run, end);
    end_run(s, r, r->run_us, OUTCOME_EXITED, 0);
}
