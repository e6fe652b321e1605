/* See signed_spec.h. */
#include "daemon/signed_spec.h"

#include "base/account.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/units.h"
#include "exec/spawner.h"
#include "net/certificate.h"
#include "net/submission.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reader {
    struct signed_reader reader;
    X509_STORE *roots;
    struct verified *verified;
};

struct opened {
    struct signed_spec spec;
    struct submission submission;
    bool mine; /* its user has been looked up: this process is his */
};

/* ---- The user root ---- */

/* A text of at most CERTIFICATE_FILE_MAX bytes. NULL: errno says why. */
static char *read_text(int fd)
{
    char *text = xmalloc(CERTIFICATE_FILE_MAX + 1);
    size_t len = 0;
    ssize_t n;

    while ((n = read(fd, text + len, CERTIFICATE_FILE_MAX + 1 - len)) > 0)
        len += (size_t)n;
    if (n == 0 && len <= CERTIFICATE_FILE_MAX) {
        text[len] = '\0';
        return text;
    }
    if (n == 0)
        errno = EFBIG;
    free(text);
    return NULL;
}

/* ---- Jobs ---- */

static int64_t seconds_now(void) { return clock_us(CLOCK_REALTIME) / US_PER_S; }

/* Whether this process is that user's, by the machine's own accounts. 0, HAWK_EDENIED, HAWK_ECANNOT_START: why says
 * more. */
static int check_mine(const struct signed_head *head, char *why)
{
    struct account a;
    uid_t me = getuid();
    int err = account_of_name(&a, head->user);
    bool is_me = !err && a.uid == me;

    account_free(&a);
    if (err == HAWK_EUNAVAILABLE) {
        snprintf(why, SIGNED_SPEC_WHY, "user %.100s, who signed it, cannot be looked up on this machine",
                 head->user);
        return HAWK_ECANNOT_START;
    }
    if (is_me && (head->uid == IDENTITY_NO_UID || head->uid == me))
        return 0;
    snprintf(why, SIGNED_SPEC_WHY, "user %.100s signed it, who is not uid %u %s", head->user, (unsigned)me,
             is_me ? "in the cluster" : "on this machine");
    return HAWK_EDENIED;
}

static struct signed_spec *open_signed(const struct signed_reader *r, const struct blob *signature,
                                       char why[SIGNED_SPEC_WHY])
{
    const struct reader *reader = container_of(r, struct reader, reader);
    struct signed_checker checker = {
        .roots = reader->roots, .verified = reader->verified, .now_s = seconds_now()};
    struct submission s;
    char text[SUBMISSION_WHY] = "it is no command";
    bool good = submission_open(&s, signature, &checker, text) == 0;

    if (!good || s.desc->kind != PAYLOAD_COMMAND || s.desc->argv.n == 0) {
        snprintf(why, SIGNED_SPEC_WHY, "%s", text);
        good = false;
    }
    int err = good ? check_mine(&s.head, why) : HAWK_EDENIED;
    if (err == HAWK_EDENIED) {
        submission_close(&s);
        return NULL;
    }
    struct opened *o = xcalloc(1, sizeof *o);
    o->mine = err == 0;
    o->submission = s;
    o->spec.d = s.desc;
    return &o->spec;
}

static void close_signed(struct signed_spec *s)
{
    struct opened *o = container_of(s, struct opened, spec);

    submission_close(&o->submission);
    free(o);
}

static int has_signed(struct signed_spec *spec, uint32_t task, const struct blob *arg,
                      const struct blob *proof, char why[SIGNED_SPEC_WHY])
{
    struct opened *o = container_of(spec, struct opened, spec);
    const struct submission *s = &o->submission;
    int err = o->mine ? 0 : check_mine(&s->head, why);

    if (err)
        return err;
    o->mine = true;
    if (seconds_now() > s->until_s) {
        snprintf(why, SIGNED_SPEC_WHY, "its signature or its credential has expired: submit it anew");
        return HAWK_EDENIED;
    }
    if (submission_has(s, task, arg, proof))
        return 0;
    snprintf(why, SIGNED_SPEC_WHY, "user %.100s did not sign this task's input", s->head.user);
    return HAWK_EDENIED;
}

/* ---- */

const struct signed_reader *signed_reader_new(int fd, char why[SIGNED_SPEC_WHY])
{
    struct reader *r = NULL;
    char *text = read_text(fd);
    X509_STORE *roots = X509_STORE_new();

    CHECK(roots);
    if (!text) {
        snprintf(why, SIGNED_SPEC_WHY, "the user root cannot be read: %s", strerror(errno));
    } else if (!certificate_add_roots(roots, text)) {
        snprintf(why, SIGNED_SPEC_WHY, "user_root of hawk-run-as names a file without a certificate");
    } else {
        r = xcalloc(1, sizeof *r);
        *r = (struct reader){{open_signed, close_signed, has_signed}, roots, verified_new()};
    }
    if (!r)
        X509_STORE_free(roots);
    free(text);
    close(fd);
    return r ? &r->reader : NULL;
}

void signed_spawner(void)
{
    char why[SIGNED_SPEC_WHY];
    const struct signed_reader *reader = signed_reader_new(RUNNER_ROOT_FD, why);

    if (reader)
        spawner_of_user(reader);
    fprintf(stderr, "%s\n", why);
    _exit(1);
}
