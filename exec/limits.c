/* Limits of tasks: see limits.h. */
#include "exec/limits.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *const controllers[LIMIT_KINDS] = {"memory", "pids"};

/* ---- Where the cgroups are ---- */

static bool is_delegated(const char *dir)
{
    char yes[4];

    return getxattr(dir, "trusted.delegate", yes, sizeof yes) > 0 ||
           getxattr(dir, "user.delegate", yes, sizeof yes) > 0;
}

/* Version 2 limits only cgroups below one that has no processes itself. So the agent must have a cgroup of its own
 * inside of the one that was delegated to it. Not in one that was not: it is somebody else's. */
static bool find_base_version2(char base[CGROUP_PATH_MAX])
{
    char own[EXEC_PATH_MAX], *slash;

    if (cgroup_own(2, NULL, own) || !(slash = strrchr(own, '/')))
        return false;
    *slash = '\0';
    snprintf(base, CGROUP_PATH_MAX, "%s", own);
    return is_delegated(base);
}

static bool find_base(int version, enum limit kind, char base[CGROUP_PATH_MAX])
{
    char own[EXEC_PATH_MAX];
    bool found = version == 2 ? find_base_version2(base) : cgroup_own(1, controllers[kind], own) == 0;

    if (version == 1 && found)
        snprintf(base, CGROUP_PATH_MAX, "%s", own);
    return found;
}

/* Tries to make a cgroup there. */
static bool base_works(pid_t owner, const char *base, const char *file)
{
    char path[CGROUP_PATH_MAX];

    cgroup_path(base, owner, 0, path);
    if (cgroup_make(path) < 0)
        return false;
    bool ok = cgroup_has(path, file);
    return cgroup_remove(path) && ok;
}

/* Version 2 freezes below any cgroup; but where it limits tasks, that cgroup is the one to freeze. */
static bool find_freezer_base(int version, char base[CGROUP_PATH_MAX])
{
    char own[EXEC_PATH_MAX];

    if (version == 2 && find_base_version2(base))
        return true;
    if (cgroup_own(version, "freezer", own))
        return false;
    snprintf(base, CGROUP_PATH_MAX, "%s", own);
    return true;
}

static void choose_freezer(struct limits *l)
{
    bool version2 = l->freezer == EXEC_FREEZER_CGROUP2;
    char base[CGROUP_PATH_MAX];

    if (!find_freezer_base(version2 ? 2 : 1, base) ||
        !base_works(l->owner, base, version2 ? "cgroup.freeze" : "freezer.state"))
        return;
    memcpy(l->base[LIMIT_PAUSE], base, sizeof base);
    l->version2[LIMIT_PAUSE] = version2;
}

static void choose(struct limits *l)
{
    static const char *const files[2][LIMIT_KINDS] = {{"memory.limit_in_bytes", "pids.max"},
                                                      {"memory.max", "pids.max"}};

    l->chosen = true;
    if (!l->owner)
        l->owner = getpid();
    limits_leftovers(0);
    for (int version = 1; version <= 2; version++)
        for (int kind = 0; kind < LIMIT_KINDS; kind++) {
            char base[CGROUP_PATH_MAX];

            if (*l->base[kind] || !find_base(version, (enum limit)kind, base))
                continue;
            if (version == 2)
                (void)cgroup_write(base, "cgroup.subtree_control",
                                   kind == LIMIT_MEMORY ? "+memory" : "+pids");
            if (!base_works(l->owner, base, files[version - 1][kind]))
                continue;
            memcpy(l->base[kind], base, sizeof base);
            l->version2[kind] = version == 2;
        }
    if (l->freezer == EXEC_FREEZER_CGROUP1 || l->freezer == EXEC_FREEZER_CGROUP2)
        choose_freezer(l);
}

void limits_leftovers(pid_t owner)
{
    char base[CGROUP_PATH_MAX];

    for (int kind = 0; kind < LIMIT_KINDS; kind++)
        if (find_base(1, (enum limit)kind, base))
            cgroup_kill_all(base, owner);
    if (find_base(2, LIMIT_MEMORY, base))
        cgroup_kill_all(base, owner);
    for (int version = 1; owner && version <= 2; version++)
        if (find_freezer_base(version, base))
            cgroup_kill_all(base, owner);
}

void limits_thaw(pid_t owner)
{
    char base[CGROUP_PATH_MAX];

    for (int version = 1; version <= 2; version++)
        if (find_freezer_base(version, base))
            cgroup_thaw_all(base, owner);
}

/* ---- One task ---- */

/* The path of one of t's cgroups. False: it has none for this. */
static bool path_of(const struct limits *l, const struct limited *t, int kind, char path[CGROUP_PATH_MAX])
{
    if (!t->has[kind])
        return false;
    cgroup_path(l->base[kind], l->owner, t->number, path);
    return true;
}

static int set_memory(const struct limits *l, const char *path, int64_t bytes)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, bytes);
    if (l->version2[LIMIT_MEMORY]) {
        (void)cgroup_write(path, "memory.swap.max", "0"); /* not where the kernel has no swap */
        (void)cgroup_write(path, "memory.oom.group", "1");
        return cgroup_write(path, "memory.max", text);
    }
    int err = cgroup_write(path, "memory.limit_in_bytes", text);
    if (!err)
        (void)cgroup_write(path, "memory.memsw.limit_in_bytes", text); /* memory and swap together */
    return err;
}

static int set_pids(const char *path, uint32_t n)
{
    char text[16];

    snprintf(text, sizeof text, "%" PRIu32, n);
    return cgroup_write(path, "pids.max", text);
}

static int open_entry(const char *path, int access)
{
    char file[CGROUP_PATH_MAX + 16];

    snprintf(file, sizeof file, "%s/cgroup.procs", path);
    return open(file, access | O_CLOEXEC);
}

static int cannot_limit(const struct limits *l, int kind, const char *because, char *why, size_t size)
{
    const char *what = kind == LIMIT_MEMORY ? "memory (--mem)" : "processes (--pids)";

    if (*l->base[kind])
        snprintf(why, size, "cannot limit the task's %s: %s", what, because);
    else
        snprintf(why, size,
                 "this worker cannot limit a task's %s: no cgroup is delegated to it "
                 "(docs/operating.md, \"Limits of tasks\")",
                 what);
    return HAWK_EUNSUPPORTED;
}

int limits_make(struct limits *l, uint64_t number, const struct job_desc *d, struct limited *t, int access,
                int entries[LIMIT_KINDS], char *why, size_t size)
{
    const bool wanted[LIMIT_KINDS] = {d->mem_bytes > 0, d->pids > 0};
    char path[CGROUP_PATH_MAX];

    *t = (struct limited){.number = number};
    if (!l->chosen)
        choose(l);
    for (int kind = 0; kind < LIMIT_KINDS; kind++) {
        if (!wanted[kind])
            continue;
        bool shared = kind > 0 && t->has[0] && l->version2[0] && l->version2[kind];
        cgroup_path(l->base[kind], l->owner, number, path);
        int err = !*l->base[kind] || (!shared && cgroup_make(path) < 0) ? -1 : 0;

        t->has[kind] = !err;
        if (!err)
            err = kind == LIMIT_MEMORY ? set_memory(l, path, d->mem_bytes) : set_pids(path, d->pids);
        if (!err && !shared)
            err = entries[kind] = open_entry(path, access);
        if (err >= 0)
            continue;
        err = cannot_limit(l, kind, strerror(errno), why, size);
        for (int i = 0; i < LIMIT_KINDS; i++) {
            if (entries[i] >= 0)
                close(entries[i]);
            entries[i] = -1;
        }
        limits_end(l, t);
        return err;
    }
    return 0;
}

/* An entry's path is BASE/hawk-task-OWNER-NUMBER/cgroup.procs. */
static bool take_entry(struct limits *l, int entry, int kind, struct limited *t)
{
    char link[64], path[CGROUP_PATH_MAX], again[CGROUP_PATH_MAX];

    snprintf(link, sizeof link, "/proc/self/fd/%d", entry);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    for (int up = 0; up < 2; up++) { /* its file, and the cgroup */
        char *slash = strrchr(path, '/');

        if (!slash)
            return false;
        if (up == 1 && !cgroup_name_parts(slash + 1, &l->owner, &t->number))
            return false;
        *slash = '\0';
    }
    memcpy(l->base[kind], path, sizeof path);
    cgroup_path(path, l->owner, t->number, again);
    l->version2[kind] = cgroup_has(again, "cgroup.events");
    return t->has[kind] = true;
}

int limits_take(struct limits *l, const struct job_desc *d, struct limited *t, const int entries[LIMIT_KINDS],
                char *why, size_t size)
{
    const bool wanted[LIMIT_KINDS] = {d->mem_bytes > 0, d->pids > 0};

    *t = (struct limited){0};
    l->chosen = l->given = true;
    for (int kind = 0; kind < LIMIT_KINDS; kind++) {
        bool shared = kind > 0 && t->has[0] && l->version2[0] && entries[kind] < 0;
        int entry = entries[shared ? 0 : kind];

        if (wanted[kind] && (entry < 0 || !take_entry(l, entry, kind, t))) {
            snprintf(why, size, "the worker did not say where the task's limits are");
            return HAWK_EUNSUPPORTED;
        }
    }
    return 0;
}

/* Version 1 kills nothing that is frozen before it is thawed. */
void limits_kill(const struct limits *l, const struct limited *t)
{
    char path[CGROUP_PATH_MAX];

    for (int kind = 0; kind < LIMIT_CGROUPS; kind++)
        if (path_of(l, t, kind, path)) {
            cgroup_kill(path);
            if (kind == LIMIT_PAUSE)
                (void)cgroup_freeze(path, false);
        }
}

bool limits_gone(const struct limits *l, const struct limited *t)
{
    char path[CGROUP_PATH_MAX];
    bool gone = true;

    for (int kind = 0; kind < LIMIT_CGROUPS; kind++)
        if (path_of(l, t, kind, path)) {
            struct pids p = {0};

            cgroup_processes(path, &p);
            gone = gone && p.n == 0;
            pids_free(&p);
        }
    return gone;
}

bool limits_exceeded(const struct limits *l, const struct limited *t)
{
    char path[CGROUP_PATH_MAX];

    return path_of(l, t, LIMIT_MEMORY, path) &&
           cgroup_number(path, l->version2[LIMIT_MEMORY] ? "memory.events" : "memory.oom_control",
                         "oom_kill ") > 0;
}

/* Version 1 counts CPU time in a hierarchy in which t has no cgroup. */
void limits_usage(const struct limits *l, const struct limited *t, int64_t *cpu_us, int64_t *mem_peak_bytes)
{
    char path[CGROUP_PATH_MAX];

    for (int kind = 0; kind < LIMIT_KINDS; kind++) {
        if (!path_of(l, t, kind, path))
            continue;
        int64_t us = l->version2[kind] ? (int64_t)cgroup_number(path, "cpu.stat", "usage_usec ") : 0;
        int64_t bytes =
            (int64_t)cgroup_number(path, l->version2[kind] ? "memory.peak" : "memory.max_usage_in_bytes", "");

        *cpu_us = us > *cpu_us ? us : *cpu_us;
        *mem_peak_bytes = bytes > 0 ? bytes : *mem_peak_bytes;
    }
}

/* ---- The end of tasks ---- */

static bool take_away(const struct limits *l, const struct limited *t)
{
    char path[CGROUP_PATH_MAX];
    bool gone = true;

    limits_kill(l, t);
    if (l->given)
        return limits_gone(l, t);
    for (int kind = 0; kind < LIMIT_CGROUPS; kind++)
        if (path_of(l, t, kind, path))
            gone = cgroup_remove(path) && gone;
    return gone;
}

static struct limited any_of(const struct limits *l, uint64_t number)
{
    struct limited t = {.number = number};

    for (int kind = 0; kind < LIMIT_CGROUPS; kind++)
        t.has[kind] = *l->base[kind] != '\0';
    return t;
}

/* It is the cgroup of a limit before it. */
static bool is_shared(const struct limits *l, int kind)
{
    bool shared = false;

    for (int i = 0; i < kind; i++)
        shared = shared || (l->version2[i] && l->version2[kind]);
    return shared;
}

/* The kernel moves whatever process has the number, so that is looked at once more: one that has it since, and is
 * somebody else's, is let out, into the agent's cgroup. */
static int enter_if_of(const char *path, int version, const char *controller, pid_t pid, uid_t uid)
{
    char own[EXEC_PATH_MAX];

    if (!procs_is_of(pid, uid)) {
        errno = ESRCH;
        return -1;
    }
    if (cgroup_enter(path, pid) < 0)
        return -1;
    if (procs_is_of(pid, uid))
        return 0;
    if (cgroup_own(version, controller, own) == 0)
        (void)cgroup_enter(own, pid);
    errno = ESRCH;
    return -1;
}

/* As the kernel names it. */
static const char *controller_of(int kind) { return kind < LIMIT_KINDS ? controllers[kind] : "freezer"; }

int limits_enter(const struct limits *l, uint64_t number, pid_t pid, uid_t uid)
{
    struct limited t = any_of(l, number);
    char path[CGROUP_PATH_MAX];

    for (int kind = 0; kind < LIMIT_CGROUPS; kind++)
        if (path_of(l, &t, kind, path) && !is_shared(l, kind) && cgroup_has(path, "cgroup.procs") &&
            enter_if_of(path, l->version2[kind] ? 2 : 1, controller_of(kind), pid, uid) < 0 &&
            kind < LIMIT_KINDS)
            return -1;
    return 0;
}

/* False: no task is frozen here. */
static bool freezer_path(struct limits *l, uint64_t number, char path[CGROUP_PATH_MAX])
{
    if (!l->chosen)
        choose(l);
    cgroup_path(l->base[LIMIT_PAUSE], l->owner, number, path);
    return *l->base[LIMIT_PAUSE] != '\0';
}

bool limits_make_freezer(struct limits *l, uint64_t number)
{
    char path[CGROUP_PATH_MAX];

    return freezer_path(l, number, path) && (cgroup_make(path) == 0 || errno == EEXIST);
}

void limits_unmake_freezer(struct limits *l, uint64_t number)
{
    char path[CGROUP_PATH_MAX];

    if (freezer_path(l, number, path))
        (void)cgroup_remove(path);
}

void limits_in_freezer(struct limits *l, uint64_t number, struct pids *inside)
{
    char path[CGROUP_PATH_MAX];

    if (freezer_path(l, number, path))
        cgroup_processes(path, inside);
}

int limits_move_in(struct limits *l, uint64_t number, pid_t pid, uid_t uid)
{
    char path[CGROUP_PATH_MAX];

    if (!freezer_path(l, number, path))
        return -1;
    return enter_if_of(path, l->version2[LIMIT_PAUSE] ? 2 : 1, controller_of(LIMIT_PAUSE), pid, uid);
}

bool limits_freeze(struct limits *l, uint64_t number, bool frozen)
{
    char path[CGROUP_PATH_MAX];

    return freezer_path(l, number, path) && cgroup_freeze(path, frozen) == 0;
}

bool limits_stands_still(struct limits *l, uint64_t number)
{
    char path[CGROUP_PATH_MAX];

    return freezer_path(l, number, path) &&
           (cgroup_is_frozen(path) || (!l->version2[LIMIT_PAUSE] && cgroup_waits(path)));
}

static bool has_any(const struct limited *t)
{
    bool any = false;

    for (int kind = 0; kind < LIMIT_CGROUPS; kind++)
        any = any || t->has[kind];
    return any;
}

void limits_end(struct limits *l, struct limited *t)
{
    if (has_any(t) && !take_away(l, t)) {
        vec_grow(l->left, l->left_n, l->left_cap);
        l->left[l->left_n++] = t->number;
    }
    *t = (struct limited){0};
}

void limits_end_run(struct limits *l, uint64_t number)
{
    if (!l->chosen)
        choose(l);
    struct limited t = any_of(l, number);
    limits_end(l, &t);
}

bool limits_sweep(struct limits *l)
{
    for (uint32_t i = 0; i < l->left_n;) {
        struct limited t = any_of(l, l->left[i]);

        if (take_away(l, &t))
            l->left[i] = l->left[--l->left_n];
        else
            i++;
    }
    return l->left_n > 0;
}

void limits_free(struct limits *l)
{
    free(l->left);
    *l = (struct limits){0};
}
