/* See denial.h. */
#include "daemon/denial.h"

#include "base/log.h"
#include "base/mem.h"
#include "ca/file.h"
#include "net/denied.h"
#include "net/tls.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_US (2 * US_PER_S) /* an open connection of a peer that is denied ends within this */
#define FILE_NAME "denied"

struct denial {
    struct process *process;
    struct links *links;
    void (*changed)(void *arg);
    void *arg;
    struct loop_timer timer;
    char path[2][PATH_MAX]; /* where it is kept, and where it is made; "": nowhere */
    struct timespec seen[2];
    char *text; /* NULL: no list is in force */
};

const char *denial_text(const struct denial *d) { return d ? d->text : NULL; }

/* Whether a list of the text is newer than that of its root in force, which it replaces then. `from` is for the log. */
static bool put_in_force(struct denial *d, const char *text, const char *from)
{
    char why[200];
    uint64_t version = 0;
    bool newer = false;

    for (; text; text = denied_next(text)) {
        int got = tls_deny(d->process->tls, text, &version, why, sizeof why);

        if (got == HAWK_ESTALE)
            log_warn("%s: version %llu of a list of revoked names counts for nothing: a later one of the "
                     "same root "
                     "is in force; revoke with the newest `" FILE_NAME "` beside the root",
                     from, (unsigned long long)version);
        else if (got < 0)
            log_error("%s: %s; what was denied before stays denied", from, why);
        else if (got > 0)
            log_info("certificates that are good no more: version %llu of the list is in force, from %s",
                     (unsigned long long)version, from);
        newer |= got > 0;
    }
    if (newer) {
        free(d->text);
        d->text = denied_text(tls_denied(d->process->tls));
    }
    return newer;
}

static void keep(const struct denial *d)
{
    char why[PATH_MAX + 200];

    if (strlen(d->text) >= CA_FILE_MAX)
        log_error("the lists of certificates that are good no more are larger than 1 MiB together and are "
                  "not kept");
    else if (*d->path[0] && ca_write(d->path[0], 0644, d->text, strlen(d->text), why, sizeof why))
        log_error("the list of certificates that are good no more cannot be kept: %s", why);
}

void denial_take(struct denial *d, const char *text)
{
    if (d && put_in_force(d, text, "central"))
        keep(d);
}

static void look_at_files(struct denial *d)
{
    bool newer = false;

    for (int i = 0; i < 2; i++) {
        struct stat st;
        char why[PATH_MAX + 200], *text;
        if (!*d->path[i] || stat(d->path[i], &st) != 0 ||
            (st.st_mtim.tv_sec == d->seen[i].tv_sec && st.st_mtim.tv_nsec == d->seen[i].tv_nsec))
            continue;
        d->seen[i] = st.st_mtim;
        if (ca_read(d->path[i], &text, why, sizeof why)) {
            log_error("%s", why);
            continue;
        }
        bool taken = put_in_force(d, text, d->path[i]);
        newer |= taken;
        if (i == 0 ? d->text && strcmp(text, d->text) != 0 : taken) /* all lists in force are kept */
            keep(d);
        free(text);
    }
    if (newer && d->changed)
        d->changed(d->arg);
}

static void on_timer(void *arg)
{
    struct denial *d = arg;

    look_at_files(d);
    if (d->links)
        links_show_certificate(d->links);
    server_check_peers(d->process->server);
    if (d->links)
        links_check_peers(d->links);
    loop_timer_set(d->process->loop, &d->timer, loop_now(d->process->loop) + LOOK_US);
}

struct denial *denial_new(struct process *p, const char *dir, const char *ca, void (*changed)(void *arg),
                          void *arg)
{
    struct denial *d;
    char why[PATH_MAX + 100];

    if (!p->tls)
        return NULL;
    d = xcalloc(1, sizeof *d);
    d->process = p;
    if (!ca_path(d->path[0], dir, FILE_NAME, why, sizeof why) ||
        (ca && *ca && !ca_path(d->path[1], ca, FILE_NAME, why, sizeof why)))
        log_error("%s", why);
    loop_timer_init(&d->timer, on_timer, d);
    on_timer(d);
    d->changed = changed; /* what was there from the start is no change */
    d->arg = arg;
    return d;
}

void denial_set_links(struct denial *d, struct links *ls)
{
    if (d)
        d->links = ls;
}

void denial_free(struct denial *d)
{
    if (!d)
        return;
    loop_timer_clear(d->process->loop, &d->timer);
    free(d->text);
    free(d);
}
