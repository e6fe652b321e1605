/* Settings of a simulation; the published simulator's assumptions as settings of the policy. */
#include "base/check.h"
#include "base/units.h"
#include "sim/internal.h"

void sim_config_init(struct sim_config *c)
{
    struct central_config central;
    struct worker_config w;
    int err;

    *c = (struct sim_config){
        .workers = 1,
        .slots = 1,
        .dists = 10,
        .seed = 1,
        .estimates = SIM_ESTIMATE_MEAN,
        .noise_min_milli = 1000,
        .noise_max_milli = 1000,
        .delay_min_us = 500,
        .delay_max_us = 500,
        .scheduler_cost_us = 10,
        .worker_cost_us = 10,
    };
    worker_config_init(&w);
    central_config_init(&central);
    c->long_stretch = central.long_stretch;
    c->pause_after_us = w.pause.after_us;
    c->pause_longest_us = w.pause.longest_us;
    c->pause_share_milli = w.pause.share_milli;
    err = policy_preset("hawk", &c->policy);
    CHECK(err == 0);
}

void sim_compat_policy(struct policy *p)
{
    /* The published simulator does not cancel or repeat probes. Its thieves do not ask again, and get no
     * hints. It has no promotion. */
    p->flags &= ~(uint32_t)(POLICY_CANCEL_PROBES | POLICY_REPROBE | POLICY_STEAL_RETRY | POLICY_STEAL_HINTS |
                            POLICY_STEAL_ADAPT | POLICY_PROMOTE);
    p->flags |= POLICY_DRAW_REPLACE | POLICY_SPLIT_COUNTS | POLICY_TIE_SHORT;
    if (p->flags & POLICY_STEAL)
        p->flags |= POLICY_STEAL_ON_FREE_ONLY | POLICY_STEAL_ALWAYS | POLICY_STEAL_REPLACE;
    p->min_probes = 2;
}

int64_t sim_truncated(const struct sim_config *c, int64_t us) { return c->compat ? us - us % US_PER_S : us; }

uint8_t sim_true_class(const struct sim_config *c, const struct trace_job *t)
{
    int64_t cutoff_us = c->class_cutoff_us ? c->class_cutoff_us : c->policy.cutoff_us;
    int64_t mean_us = sim_truncated(c, t->mean_us);
    bool is_long = policy_has(&c->policy, POLICY_TIE_SHORT) ? mean_us > cutoff_us : mean_us >= cutoff_us;

    if (t->tag)
        return t->tag == TAG_LONG ? CLASS_LONG : CLASS_SHORT;
    return is_long ? CLASS_LONG : CLASS_SHORT;
}

#define REFUSE(cond, ...)                                                                                    \
    do {                                                                                                     \
        if (cond) {                                                                                          \
            snprintf(why, size, __VA_ARGS__);                                                                \
            return HAWK_EINVALID;                                                                            \
        }                                                                                                    \
    } while (0)

int sim_config_check(const struct sim_config *c, char *why, size_t size)
{
    REFUSE(c->workers < 1 || c->workers > SIM_WORKERS_MAX, "workers: 1 to %u", SIM_WORKERS_MAX);
    REFUSE(c->slots < 1 || c->slots > LIMIT_SLOTS, "slots: 1 to %u", LIMIT_SLOTS);
    REFUSE(c->dists < 1 || c->dists > SIM_DISTS_MAX, "dists: 1 to %u", SIM_DISTS_MAX);
    REFUSE(c->policy.cutoff_us < 1, "cutoff: above 0");
    REFUSE(c->policy.short_share_ppm >= 1000000, "short partition: below 100%%");
    REFUSE(c->policy.probe_ratio_milli < 1000, "probe ratio: at least 1");
    REFUSE(c->policy.steal_max < 1, "at most 0 reservations per steal is no stealing: use a policy without");
    REFUSE(c->delay_min_us < 0 || c->delay_max_us < c->delay_min_us,
           "delay: 0 or more, the lower bound first");
    REFUSE(c->scheduler_cost_us < 0 || c->worker_cost_us < 0, "costs: 0 or more");
    REFUSE(c->noise_min_milli < 1 || c->noise_max_milli < c->noise_min_milli,
           "estimate noise: above 0, the lower bound first");
    REFUSE(c->sample_us < 0, "sampling: 0 or more");
    REFUSE(c->trace_job && !c->trace_to, "a job to be followed needs a file to be told to");
    return 0;
}
