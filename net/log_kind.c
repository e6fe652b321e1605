/* See log_kind.h. */
#include "net/log_kind.h"

static void tell_left_out(struct log_kind *k)
{
    if (k->left_out > 0)
        log_warn("%u more lines like this were left out: '%s'", k->left_out, k->what);
    k->shown = k->left_out = 0;
}

bool log_kind_may(struct log_kind *k, const char *what, int64_t now_us)
{
    if (now_us - k->since_us >= LOG_KIND_EVERY_US) {
        tell_left_out(k);
        k->since_us = now_us;
    }
    k->what = what;
    if (k->shown == LOG_KIND_AT_ONCE) {
        k->left_out++;
        return false;
    }
    k->shown++;
    return true;
}

bool log_kind_sweep(struct log_kind *k, int64_t now_us)
{
    if (k->left_out > 0 && now_us - k->since_us >= LOG_KIND_EVERY_US)
        tell_left_out(k);
    return k->left_out > 0;
}
