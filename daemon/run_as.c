/* Whose commands a worker runs: see run_as.h. */
#include "daemon/run_as.h"

#include "daemon/self.h"

#include "base/log.h"
#include "exec/keeper.h"
#include "exec/note.h"
#include "net/loopback.h"

#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REMEDY "set cluster.local_users and listen on unix:PATH, or use TLS (`hawk ca invite`)"

static const char *const names[] = {"unknown", "own", "any", "user"};
static const char *const texts[] = {
    "",
    "commands of this worker's own user alone run here",
    "everybody's commands run here, as this worker's user",
    "everybody's commands run here, each as its user",
};

const char *run_as_name(enum run_as mode) { return names[mode]; }
const char *run_as_text(enum run_as mode) { return texts[mode]; }
const char *run_as_serves(const struct run_as_mode *m) { return m->mode == RUN_AS_OWN ? m->own.name : NULL; }

/* As `make install` puts it: PREFIX/bin/hawk, and PREFIX/libexec/hawk-run-as. */
static int find_helper(const struct config *c, char helper[PATH_MAX])
{
    char self[PATH_MAX];

    if (*c->worker.run_as_helper)
        return snprintf(helper, PATH_MAX, "%s", c->worker.run_as_helper) < PATH_MAX ? 0 : HAWK_ETOO_LARGE;
    snprintf(self, sizeof self, "%s", self_path());
    const char *dir = dirname(self);
    return snprintf(helper, PATH_MAX, "%s/../libexec/hawk-run-as", dir) < PATH_MAX ? 0 : HAWK_ETOO_LARGE;
}

static bool helper_works(const struct config *c, struct run_as_mode *m, char why[EXEC_WHY_MAX])
{
    if (find_helper(c, m->helper) == 0)
        return keeper_check(m->helper, why);
    snprintf(why, EXEC_WHY_MAX, "its path is too long");
    return false;
}

static bool listens_on_tcp(const char *list)
{
    char addr[ADDR_TEXT];

    while (*list) {
        list = addr_first(list, addr);
        if (!addr_is_unix(addr))
            return true;
    }
    return false;
}

/* Everybody's commands are to run as this user: who can that be, and what does it give him? */
static int check_any(const struct process *p, struct run_as_mode *m)
{
    const struct config *c = &p->config;
    bool open = !process_knows_users(p) && !*c->cluster.token_file && listens_on_tcp(c->worker.listen) &&
                (c->cluster.insecure || !loopback_tells());
    char why[EXEC_WHY_MAX];

    if (open && geteuid() == 0)
        log_warn("every user of this machine can run commands as root here: " REMEDY);
    if (!helper_works(c, m, why))
        return 0;
    if (open)
        log_error("worker.run_as: every user of this machine could run commands as %s, and so, by %s, as any "
                  "other: " REMEDY ", or take setuid from that file (chmod u-s)",
                  m->own.name, m->helper);
    else
        log_warn("worker.run_as is any: users who run commands as %s can run them as any user, by %s: take "
                 "setuid from that file (chmod u-s)",
                 m->own.name, m->helper);
    return open ? HAWK_EINVALID : 0;
}

int run_as_choose(const struct process *p, bool runners, struct run_as_mode *m)
{
    const struct config *c = &p->config;
    const char *told = c->worker.run_as;
    bool automatic = strcmp(told, "auto") == 0, user = strcmp(told, "user") == 0;
    bool known = process_knows_users(p);
    char why[EXEC_WHY_MAX] = "";

    *m = (struct run_as_mode){.mode =
                                  strcmp(told, "any") == 0 || (automatic && !known) ? RUN_AS_ANY : RUN_AS_OWN,
                              .own = caller_of_uid(geteuid())};
    if (m->mode == RUN_AS_OWN && m->own.nameless) {
        log_error("worker.run_as: the name of uid %u, this process's, could not be looked up", m->own.uid);
        return HAWK_EUNAVAILABLE;
    }
    if (user && (!known || !runners)) {
        log_error("worker.run_as: user: %s",
                  runners ? "nobody knows whose a job is without cluster.local_users or TLS"
                          : "`hawk up` runs commands as its own user alone");
        return HAWK_EINVALID;
    }
    if (runners && m->mode == RUN_AS_ANY)
        return check_any(p, m);
    if (!runners || (!user && !(automatic && known)))
        return 0;
    if (helper_works(c, m, why)) {
        m->mode = RUN_AS_USER;
        return 0;
    }
    if (user)
        log_error("worker.run_as: user: %s", why);
    else if (access(m->helper, F_OK) == 0)
        log_warn("commands cannot run as their users here: %s", why);
    else
        log_info("commands run as their users only with hawk-run-as, which is not at %s", m->helper);
    return user ? HAWK_EINVALID : 0;
}

/* ---- What is in force, for other processes ---- */

void run_as_note(const char *state_dir, enum run_as mode)
{
    (void)!note_write(state_dir, "run_as", names[mode]);
}

enum run_as run_as_noted(const char *state_dir)
{
    char name[NOTE_MAX];
    bool noted = note_read(state_dir, "run_as", name);

    for (int i = RUN_AS_OWN; noted && i <= RUN_AS_USER; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum run_as)i;
    return RUN_AS_UNKNOWN;
}
