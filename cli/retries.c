/* See retries.h. */
#include "cli/retries.h"

#include "base/units.h"
#include "cli/document.h"

#include <stdlib.h>
#include <string.h>

/* Reads a word of --retry-on. Whether it is one. */
static bool read_word(const char *word, size_t len, uint32_t *on, char codes[255], uint32_t *codes_n)
{
    char number[8];
    uint64_t code;
    if (len == 6 && memcmp(word, "signal", len) == 0)
        *on |= RETRY_ON_SIGNAL;
    else if (len == 10 && memcmp(word, "time-limit", len) == 0)
        *on |= RETRY_ON_TIME_LIMIT;
    else if (len > 0 && len < sizeof number && *codes_n < 255) {
        snprintf(number, sizeof number, "%.*s", (int)len, word);
        if (u64_parse(number, 1, 255, &code))
            return false;
        *on |= RETRY_ON_EXIT;
        codes[(*codes_n)++] = (char)code;
    } else
        return false;
    return true;
}

static int read_on(const char *command, const char *text, struct job_desc *d)
{
    char codes[255];
    uint32_t n = 0;
    for (const char *word = text; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL)
        if (!read_word(word, strcspn(word, ","), &d->retry_on, codes, &n))
            return usage_error(
                "%s: --retry-on takes exit codes from 1 to 255, signal and time-limit, separated by "
                "commas, not '%s'",
                command, text);
    if (n > 0)
        d->retry_codes = blob_new(codes, n);
    return 0;
}

int retries_read(const char *command, const struct spec_options *o, struct job_desc *d)
{
    if (o->at_most_once && o->failure_retries > 0)
        return usage_error("%s: --retries and --at-most-once contradict each other", command);
    if (!o->failure_retries && (o->retry_on || o->retry_delay_us))
        return usage_error("%s: --%s goes with --retries, which says how often a task runs again", command,
                           o->retry_on ? "retry-on" : "retry-delay");
    if (o->at_most_once && o->lost_retries != SPEC_RETRIES_NOT_GIVEN && o->lost_retries > 0)
        say_warning(command,
                    "--lost-retries has no effect with --at-most-once: no task is run a second time");
    d->lost_retries =
        o->lost_retries == SPEC_RETRIES_NOT_GIVEN ? SPEC_RETRIES_DEFAULT : (uint16_t)o->lost_retries;
    d->failure_retries = (uint16_t)o->failure_retries;
    d->retry_delay_us = o->retry_delay_us;
    return o->retry_on ? read_on(command, o->retry_on, d) : 0;
}
