/* The settings table, for config.c and read.c. */
#ifndef HAWK_CONFIG_TABLE_H
#define HAWK_CONFIG_TABLE_H

#include "config/config.h"

enum setting_kind {
    KIND_TEXT,
    KIND_LIST,
    KIND_CHOICE,
    KIND_DURATION,
    KIND_AUTO_DURATION,
    KIND_SHARE,
    KIND_AUTO_SHARE,
    KIND_BOOL,
    KIND_COUNT,
    KIND_NUMBER,
    KIND_AUTO_COUNT,
    KIND_MILLI,
    KIND_SIZE,
};

struct setting {
    const char *section, *name;
    enum setting_kind kind;
    size_t offset; /* of the field in struct config */
    const char *def, *help;
};

struct config_origin {
    char *text;   /* the value as written */
    char *origin; /* "default", "hawk.yaml:12", "flag --slots" */
};

extern const struct setting settings[];
extern const size_t settings_count;

/* NULL when there is none. */
const struct setting *setting_find(const char *section, size_t section_len, const char *name);
/* As config_set, for a setting that was found. */
int setting_set(struct config *c, const struct setting *s, const char *text, const char *origin, char *why,
                size_t size);

#endif
