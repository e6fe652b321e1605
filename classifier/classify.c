/* Decides the class of one job. */
#include "classifier/classifier.h"

/* Hawk 3.2: below the cutoff is short. */
static enum job_class by_cutoff(const struct policy *p, int64_t mean_us)
{
    if (mean_us < p->cutoff_us)
        return CLASS_SHORT;
    /* The published simulator calls a tie short: a setting of its compatibility mode. */
    if (mean_us == p->cutoff_us && policy_has(p, POLICY_TIE_SHORT))
        return CLASS_SHORT;
    return CLASS_LONG;
}

enum job_class classify(const struct policy *p, enum class_tag tag, int64_t estimate_us, int64_t history_us,
                        enum class_why *why, int64_t *used_us)
{
    int64_t mean_us = estimate_us > 0 ? estimate_us : history_us > 0 ? history_us : 0;
    enum class_why reason;
    enum job_class class;

    if (tag == TAG_SHORT || tag == TAG_LONG) {
        reason = WHY_TAG;
        class = tag == TAG_SHORT ? CLASS_SHORT : CLASS_LONG;
    } else if (mean_us > 0) {
        reason = estimate_us > 0 ? WHY_ESTIMATE : WHY_HISTORY;
        class = by_cutoff(p, mean_us);
    } else {
        reason = WHY_UNKNOWN;
        class = CLASS_SHORT;
    }
    /* Hawk 4.5's yardstick: one central queue takes everything, whatever a job's estimate. */
    if (policy_has(p, POLICY_ALL_LONG))
        class = CLASS_LONG;
    if (why)
        *why = reason;
    if (used_us)
        *used_us = mean_us;
    return class;
}
