/* See account.h. */
#include "base/account.h"

#include "base/mem.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>

#define PASSWD_BYTES 4096u /* large enough for most entries */
#define PASSWD_BYTES_MAX (1u << 20)

bool account_is_none(int err)
{
    return err == 0 || err == ENOENT || err == ESRCH || err == EBADF || err == EPERM;
}

/* By name, or by uid where that is NULL. */
static int look_up(struct account *a, const char *name, uint32_t uid)
{
    struct passwd entry, *found = NULL;
    int err = ERANGE;

    *a = (struct account){0};
    for (size_t size = PASSWD_BYTES; err == ERANGE && size <= PASSWD_BYTES_MAX; size *= 2) {
        a->bytes = xrealloc(a->bytes, size);
        err = name ? getpwnam_r(name, &entry, a->bytes, size, &found)
                   : getpwuid_r(uid, &entry, a->bytes, size, &found);
    }
    if (!found)
        return account_is_none(err) ? HAWK_ENOT_FOUND : HAWK_EUNAVAILABLE;
    a->name = entry.pw_name;
    a->home = entry.pw_dir;
    a->uid = entry.pw_uid;
    a->gid = entry.pw_gid;
    return 0;
}

int account_of_uid(struct account *a, uint32_t uid) { return look_up(a, NULL, uid); }

int account_of_name(struct account *a, const char *name) { return look_up(a, name, 0); }

void account_free(struct account *a)
{
    free(a->bytes);
    *a = (struct account){0};
}
