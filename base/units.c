/* Quantities as text. All arithmetic is on integers: policy settings must read the same on every machine. */
#include "base/units.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DURATION_MAX_US (INT64_C(10000) * 86400 * US_PER_S)
#define FRACTION_UNIT UINT64_C(1000000000) /* nine digits after the point count; more are read and ignored */

struct unit {
    const char *name;
    uint64_t factor;
};

/* whole + fraction / FRACTION_UNIT */
struct decimal {
    uint64_t whole;
    uint64_t fraction;
    bool overflow; /* whole did not fit and means "very large" */
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads digits[.digits] and leaves *text behind them. Digits are required on both sides of the point. */
static int decimal_read(const char **text, struct decimal *d)
{
    const char *s = *text;

    *d = (struct decimal){0};
    if (!is_digit(*s))
        return HAWK_EINVALID;
    for (; is_digit(*s); s++) {
        uint64_t digit = (uint64_t)(*s - '0');

        if (d->whole > (UINT64_MAX - digit) / 10)
            d->overflow = true;
        else
            d->whole = d->whole * 10 + digit;
    }
    if (*s == '.') {
        uint64_t weight = FRACTION_UNIT / 10;

        if (!is_digit(*++s))
            return HAWK_EINVALID;
        for (; is_digit(*s); s++, weight /= 10)
            d->fraction += (uint64_t)(*s - '0') * weight;
    }
    *text = s;
    return 0;
}

/* Computes d * factor, rounded down. HAWK_ETOO_LARGE above max. */
static int decimal_scale(const struct decimal *d, uint64_t factor, uint64_t max, uint64_t *value)
{
    unsigned __int128 product =
        (unsigned __int128)d->whole * factor + (unsigned __int128)d->fraction * factor / FRACTION_UNIT;

    if (d->overflow || product > max)
        return HAWK_ETOO_LARGE;
    *value = (uint64_t)product;
    return 0;
}

/* The unit whose name is these len characters, or NULL. */
static const struct unit *unit_find(const struct unit *units, const char *name, size_t len)
{
    for (; units->name; units++)
        if (strlen(units->name) == len && memcmp(units->name, name, len) == 0)
            return units;
    return NULL;
}

static const struct unit duration_units[] = {
    {"us", 1},
    {"ms", US_PER_MS},
    {"s", US_PER_S},
    {"m", 60 * US_PER_S},
    {"h", 3600 * US_PER_S},
    {"d", 86400 * US_PER_S},
    {NULL, 0},
};

int duration_parse(const char *text, int64_t *us)
{
    uint64_t factor = UINT64_MAX, sum = 0;
    struct decimal d;

    do {
        uint64_t value;

        if (decimal_read(&text, &d))
            return HAWK_EINVALID;
        size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz");
        const struct unit *unit = unit_find(duration_units, text, len);
        /* "0" needs no unit. "30" does, since it might mean anything. */
        if (!unit && factor == UINT64_MAX && !*text && !d.whole && !d.fraction && !d.overflow)
            break;
        if (!unit || unit->factor >= factor)
            return HAWK_EINVALID;
        factor = unit->factor;
        int err = decimal_scale(&d, factor, (uint64_t)DURATION_MAX_US - sum, &value);
        if (err)
            return err;
        sum += value;
        text += len;
        if (*text && d.fraction)
            return HAWK_EINVALID;
        text += *text == ' ' && is_digit(text[1]);
    } while (*text);
    *us = (int64_t)sum;
    return 0;
}

/* Below a minute: the largest unit that is at most the value, and four significant digits. */
static void format_decimal(char *buf, size_t size, const char *sign, uint64_t value, const struct unit *unit)
{
    uint64_t whole = value / unit->factor, thousandths;
    uint64_t step = whole >= 1000 ? 1000 : whole >= 100 ? 100 : whole >= 10 ? 10 : 1; /* in thousandths */
    int digits = 3;

    thousandths = (value % unit->factor * 1000 + unit->factor * step / 2) / (unit->factor * step) * step;
    if (thousandths >= 1000) {
        whole++;
        thousandths = 0;
    }
    while (digits > 0 && thousandths % 10 == 0) {
        thousandths /= 10;
        digits--;
    }
    if (digits)
        snprintf(buf, size, "%s%" PRIu64 ".%0*" PRIu64 "%s", sign, whole, digits, thousandths, unit->name);
    else
        snprintf(buf, size, "%s%" PRIu64 "%s", sign, whole, unit->name);
}

/* From a minute on: two units, the second one rounded and left out when it is 0. */
static void format_pair(char *buf, size_t size, const char *sign, uint64_t value, const struct unit *unit)
{
    uint64_t small = unit[-1].factor;

    value = (value + small / 2) / small * small;
    if (unit[1].name && value >= unit[1].factor)
        unit++; /* 59m 59.7s is 1h */
    if (value % unit->factor == 0)
        snprintf(buf, size, "%s%" PRIu64 "%s", sign, value / unit->factor, unit->name);
    else
        snprintf(buf, size, "%s%" PRIu64 "%s %" PRIu64 "%s", sign, value / unit->factor, unit->name,
                 value % unit->factor / unit[-1].factor, unit[-1].name);
}

#define PAIRS_US (60 * US_PER_S - 5 * US_PER_MS) /* what would be written as 60s */

const char *duration_format(char *buf, size_t size, int64_t us)
{
    const char *sign = us < 0 ? "-" : "";
    uint64_t value = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
    const struct unit *unit = duration_units;

    if (us == TIME_NEVER) {
        snprintf(buf, size, "never");
        return buf;
    }
    if (value == 0) {
        snprintf(buf, size, "0s");
        return buf;
    }
    if (value >= PAIRS_US && value < 60 * US_PER_S)
        value = 60 * US_PER_S;
    while (unit[1].name && value >= unit[1].factor)
        unit++;
    if (unit->factor > US_PER_S)
        format_pair(buf, size, sign, value, unit);
    else
        format_decimal(buf, size, sign, value, unit);
    return buf;
}

int share_parse(const char *text, uint32_t *ppm)
{
    struct decimal d;
    uint64_t value, factor;

    if (decimal_read(&text, &d))
        return HAWK_EINVALID;
    if (strcmp(text, "%") == 0)
        factor = 10000;
    else if (*text == '\0')
        factor = 1000000;
    else
        return HAWK_EINVALID;
    if (decimal_scale(&d, factor, 1000000, &value))
        return HAWK_EINVALID; /* a share above the whole makes no sense, however large */
    *ppm = (uint32_t)value;
    return 0;
}

/* number / scale, which is a power of ten, without zeros at the end. Returns what snprintf would. */
static int format_fraction(char *buf, size_t size, uint32_t number, uint32_t scale)
{
    int digits = 0;

    while (scale > 1 && number % 10 == 0) {
        number /= 10;
        scale /= 10;
    }
    for (uint32_t s = scale; s > 1; s /= 10)
        digits++;
    if (digits == 0)
        return snprintf(buf, size, "%" PRIu32, number);
    return snprintf(buf, size, "%" PRIu32 ".%0*" PRIu32, number / scale, digits, number % scale);
}

const char *share_format(char *buf, size_t size, uint32_t ppm)
{
    int n = format_fraction(buf, size, (ppm + 50) / 100, 100);

    if (n >= 0 && (size_t)n < size)
        snprintf(buf + n, size - (size_t)n, "%%");
    return buf;
}

const char *milli_format(char *buf, size_t size, uint32_t milli)
{
    (void)format_fraction(buf, size, milli, 1000);
    return buf;
}

static const struct unit size_units[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"KiB", 1u << 10},
    {"MiB", 1u << 20},
    {"GiB", 1u << 30},
    {"TiB", UINT64_C(1) << 40},
    {"PiB", UINT64_C(1) << 50},
    {"EiB", UINT64_C(1) << 60},
    {NULL, 0},
};

int size_parse(const char *text, uint64_t *bytes)
{
    struct decimal d;

    if (decimal_read(&text, &d))
        return HAWK_EINVALID;
    const struct unit *unit = unit_find(size_units, text, strlen(text));
    if (!unit || (unit->factor == 1 && d.fraction))
        return HAWK_EINVALID;
    return decimal_scale(&d, unit->factor, UINT64_MAX, bytes);
}

int u64_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    uint64_t v = 0;

    if (!is_digit(*text))
        return HAWK_EINVALID;
    for (; is_digit(*text); text++) {
        uint64_t digit = (uint64_t)(*text - '0');

        if (v > (UINT64_MAX - digit) / 10)
            return HAWK_ETOO_LARGE;
        v = v * 10 + digit;
    }
    if (*text)
        return HAWK_EINVALID;
    if (v > max)
        return HAWK_ETOO_LARGE;
    if (v < min)
        return HAWK_EINVALID;
    *value = v;
    return 0;
}

const char *size_format(char *buf, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    uint64_t whole = bytes, rest = 0;
    unsigned unit = 0;

    for (; whole >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++) {
        rest = whole % 1024;
        whole /= 1024;
    }
    rest = rest * 100 / 1024;
    if (!unit || whole >= 100)
        snprintf(buf, size, "%llu%s", (unsigned long long)whole, units[unit]);
    else if (whole >= 10)
        snprintf(buf, size, "%llu.%llu%s", (unsigned long long)whole, (unsigned long long)rest / 10,
                 units[unit]);
    else
        snprintf(buf, size, "%llu.%02llu%s", (unsigned long long)whole, (unsigned long long)rest,
                 units[unit]);
    return buf;
}
