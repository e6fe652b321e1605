/* Certificates for tests of TLS: roots and certificates in a directory of their own, and other roots beside
 * them that nobody trusts. */
#ifndef HAWK_TESTS_TEST_TLS_H
#define HAWK_TESTS_TEST_TLS_H

#include "ca/ca.h"
#include "net/tls.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DAYS INT64_C(86400000000)

static char dir[64], strange[80]; /* ours, and the strangers' */
static char why[PATH_MAX + 300];

static struct identity somebody(const char *role, const char *name)
{
    struct identity who = {0};

    assert_true(identity_set_role(&who, role));
    snprintf(who.name, sizeof who.name, "%s", name);
    return who;
}

/* DIR/NAME.crt and .key, of the roots in `from`. */
static void issue_of(const char *from, const char *role, const char *name, int64_t life_us)
{
    struct identity who = somebody(role, name);

    assert_int_equal(ca_issue(from, &who, life_us, from, why, sizeof why), 0);
}

static void issue(const char *role, const char *name) { issue_of(dir, role, name, DAYS); }

__attribute__((unused)) static struct tls_files files_of(const char *from, const char *name)
{
    static char path[3][128];

    snprintf(path[0], sizeof path[0], "%s/%s.crt", from, name);
    snprintf(path[1], sizeof path[1], "%s/%s.key", from, name);
    snprintf(path[2], sizeof path[2], "%s/roots.crt", dir);
    return (struct tls_files){.certificate = path[0], .key = path[1], .roots = path[2]};
}

static int make_roots(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/hawk-tls-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(strange, sizeof strange, "%s/strange", dir);
    assert_int_equal(ca_init(dir, why, sizeof why), 0);
    assert_int_equal(ca_init(strange, why, sizeof why), 0);
    issue("central", "c1");
    issue("worker", "w1");
    issue("user", "ann");
    issue_of(strange, "user", "eve", DAYS);
    return 0;
}

static int remove_roots(void **state)
{
    char command[96];

    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command); /* NOLINT: a name of our own */
}

#endif
