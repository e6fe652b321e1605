/* See signatures.h. */
#include "daemon/signatures.h"

#include "base/account.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/exec.h"
#include "net/submission.h"
#include "store/nonces.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uthash.h>

#define OPENED_MAX 256u /* jobs that stay opened; the oldest is opened anew when another of its tasks comes */

_Static_assert(NONCE_BYTES == SIGNED_NONCE, "a nonce is a nonce");

struct opened {
    UT_hash_handle hh;
    struct list age;
    job_id_t job;
    struct submission submission; /* its desc has the signature; under another one the job is opened anew */
    bool noted;                   /* its nonce is this job's */
};

struct signatures {
    const struct tls *tls;
    struct nonces *nonces;
    bool any_user;
    uint64_t denials;      /* the lists of revoked names, and ... */
    uint32_t roots;        /* ... the roots by which these were opened */
    struct opened *opened; /* by job */
    struct list by_age;
};

int signatures_open(struct signatures **out, const struct tls *tls, const char *state_dir, bool any_user)
{
    struct signatures *s;
    struct nonces *nonces;
    char path[PATH_MAX], why[PATH_MAX + 200];

    if (snprintf(path, sizeof path, "%s/nonces.db", state_dir) >= (int)sizeof path) {
        log_error("%s: the path is too long", state_dir);
        return HAWK_EIO;
    }
    int err = store_nonces_open(&nonces, path, why, sizeof why);
    if (err) {
        log_error("%s", why);
        return err;
    }
    s = *out = xcalloc(1, sizeof *s);
    s->tls = tls;
    s->nonces = nonces;
    s->any_user = any_user;
    list_init(&s->by_age);
    return 0;
}

static void forget(struct signatures *s, struct opened *o)
{
    HASH_DEL(s->opened, o); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    list_remove(&o->age);
    submission_close(&o->submission);
    free(o);
}

static void forget_all(struct signatures *s)
{
    while (!list_empty(&s->by_age))
        forget(s, container_of(s->by_age.next, struct opened, age));
}

void signatures_free(struct signatures *s)
{
    if (!s)
        return;
    forget_all(s);
    store_nonces_free(s->nonces);
    free(s);
}

/* The machine should know the user by the uid that his credential names. For an executor's tasks it need not know him,
 * and for commands that run as the worker's user it does not matter. Errors: as signatures_admit(). */
static int check_uid(const struct signatures *s, const struct submission *job, char *why)
{
    const struct signed_head *head = &job->head;
    bool command = job->desc->kind == PAYLOAD_COMMAND;
    const struct passwd *pw;

    if (head->uid == IDENTITY_NO_UID || (command && s->any_user))
        return 0;
    errno = 0;
    pw = getpwnam(head->user);
    if (!pw && !account_is_none(errno)) {
        snprintf(why, EXEC_WHY_MAX, "user %.100s cannot be looked up on this machine: %s", head->user,
                 strerror(errno));
        return HAWK_ECANNOT_START;
    }
    if (pw ? pw->pw_uid == head->uid : !command)
        return 0;
    snprintf(why, EXEC_WHY_MAX, "user %.100s signed the job with uid %u, and %s", head->user, head->uid,
             pw ? "has another on this machine" : "is unknown on this machine");
    return HAWK_EDENIED;
}

static void say_cannot_note(char *why)
{
    snprintf(why, EXEC_WHY_MAX,
             "this worker cannot note which signed jobs it runs: its disk is full, or damaged");
}

/* One submission is one job. */
static int note_use(struct signatures *s, const struct signed_head *head, job_id_t job, int64_t now_s,
                    char *why)
{
    char id[JOB_ID_TEXT];
    job_id_t other = {0};
    int err =
        store_nonces_use(s->nonces, head->nonce, job, head->not_after_s + SIGNED_CLOCKS_S, now_s, &other);

    if (!err)
        return 0;
    if (err != HAWK_EEXISTS) {
        say_cannot_note(why);
        return HAWK_ECANNOT_START;
    }
    snprintf(why, EXEC_WHY_MAX, "its user signed this job as %s: submit it anew", job_id_format(id, other));
    return HAWK_EDENIED;
}

static int open_job(struct signatures *s, const struct msg_exec_start *m,
                    const struct signed_checker *checker, struct opened **out, char *why)
{
    struct opened *o = xcalloc(1, sizeof *o);
    char text[SUBMISSION_WHY];
    int err = submission_open(&o->submission, m->desc->signature, checker, text);

    if (err)
        snprintf(why, EXEC_WHY_MAX, "this worker runs signed jobs alone: %s", text);
    else
        err = check_uid(s, &o->submission, why);
    if (err) {
        submission_close(&o->submission);
        free(o);
        return err;
    }
    if (HASH_COUNT(s->opened) >= OPENED_MAX)
        forget(s, container_of(s->by_age.next, struct opened, age));
    o->job = m->id.job;
    o->submission.desc->signature = blob_ref(m->desc->signature); /* for its user's runner */
    HASH_ADD(hh, s->opened, job, sizeof o->job, o);
    list_push_tail(&s->by_age, &o->age);
    *out = o;
    return 0;
}

/* What was opened by an older list of revoked names, or other roots, is opened anew. */
static void follow_tls(struct signatures *s)
{
    if (s->denials == tls_denials(s->tls) && s->roots == tls_material(s->tls))
        return;
    s->denials = tls_denials(s->tls);
    s->roots = tls_material(s->tls);
    forget_all(s);
}

/* The job, if it is opened, and what opened it still holds. */
static struct opened *find_opened(struct signatures *s, const struct msg_exec_start *m, int64_t now_s)
{
    struct opened *o;

    HASH_FIND(hh, s->opened, &m->id.job, sizeof m->id.job, o);
    if (!o)
        return NULL;
    if (m->desc->signature && blob_eq(o->submission.desc->signature, m->desc->signature) &&
        now_s <= o->submission.until_s)
        return o;
    forget(s, o);
    return NULL;
}

int signatures_admit(struct signatures *s, const struct msg_exec_start *m, const struct blob *proof,
                     struct job_desc **desc, char *why)
{
    struct signed_checker checker;
    struct opened *o;
    int err;

    follow_tls(s);
    tls_checker(s->tls, &checker);
    o = find_opened(s, m, checker.now_s);
    if (!o && (err = open_job(s, m, &checker, &o, why)) != 0)
        return err;
    *desc = o->submission.desc;
    if ((*desc)->kind != m->desc->kind || !submission_has(&o->submission, m->id.task, m->arg, proof)) {
        snprintf(why, EXEC_WHY_MAX,
                 "this worker runs signed jobs alone: user %.100s did not sign this task's %s",
                 o->submission.head.user, (*desc)->kind != m->desc->kind ? "kind of payload" : "input");
        return HAWK_EDENIED;
    }
    if (!o->noted && (err = note_use(s, &o->submission.head, m->id.job, checker.now_s, why)) != 0)
        return err;
    o->noted = true;
    return 0;
}

bool signatures_work(struct signatures *s, char *why)
{
    if (store_nonces_check(s->nonces) == 0)
        return true;
    say_cannot_note(why);
    return false;
}
