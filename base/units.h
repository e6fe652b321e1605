/* Times and other quantities as people write them: 250ms, 30s, 2h; 17%; 64MiB. Time is int64_t
 * microseconds. */
#ifndef HAWK_BASE_UNITS_H
#define HAWK_BASE_UNITS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define US_PER_MS INT64_C(1000)
#define US_PER_S INT64_C(1000000)
#define TIME_NEVER INT64_MAX
static inline int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* Parses a duration: a nonnegative decimal number and one unit of us, ms, s, m, h, d ("1.5s"), or several of
 * them, each unit smaller than the one before, of which only the last number may have a fraction ("1m 23.5s",
 * "1h30m"). A bare number other than 0 is refused. HAWK_EINVALID when malformed, HAWK_ETOO_LARGE beyond
 * 10,000 days. */
HAWK_MUST_USE int duration_parse(const char *text, int64_t *us);
/* Writes a short form that duration_parse reads: below a minute four digits ("1.25s"), from there on two units, rounded
 * ("1m 23s", "2h", "3d 4h"); returns buf. */
const char *duration_format(char *buf, size_t size, int64_t us);
/* Parses "17%" or "0.17" to parts per million, 0..1,000,000. */
HAWK_MUST_USE int share_parse(const char *text, uint32_t *ppm);
/* Writes a share as share_parse reads it, to a hundredth of a percent ("17%", "33.33%"); returns buf. */
const char *share_format(char *buf, size_t size, uint32_t ppm);
/* Writes thousandths without zeros at the end ("2", "1.05"); returns buf. */
const char *milli_format(char *buf, size_t size, uint32_t milli);
/* Parses a size in bytes: a bare number, or one with KiB to EiB, or kB to TB. */
HAWK_MUST_USE int size_parse(const char *text, uint64_t *bytes);
/* Writes three digits that size_parse reads ("1.25GiB", "640B"); returns buf. */
const char *size_format(char *buf, size_t size, uint64_t bytes);
/* Parses an unsigned decimal integer within [min, max], whole string. */
HAWK_MUST_USE int u64_parse(const char *text, uint64_t min, uint64_t max, uint64_t *value);

#endif
