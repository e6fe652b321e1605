/* A directory by which other machines, and clients, find the cluster that a user has started with `hawk up
 * --join-dir DIR`: on a home that these machines share. Whoever can read it may do everything in the cluster, and
 * whoever can write to it can have clients and workers talk to a cluster of his own. So it is its user's alone: 0700,
 * and its files 0600.
 *
 *   cluster             where the cluster is; the last file to come, and the first to go
 *   worker.invitation   by which workers join (ca/invitation.h)
 *   user.crt, user.key, roots.crt, dist   a credential with all scopes (net/login.h)
 *   lock                held by `hawk up`
 *
 * The file `cluster`:
 *   hawk cluster 1
 *   id: 5f1d0c6a11e29b37
 *   host: node1
 *   pid: 4711
 *   central: 10.0.0.1:40123
 *   dist: 10.0.0.1:40125 */
#ifndef HAWK_NET_JOIN_DIR_H
#define HAWK_NET_JOIN_DIR_H

#include "base/err.h"
#include "net/addr.h"

#include <stdbool.h>
#include <stdint.h>

#define JOIN_DIR_CLUSTER "cluster"
#define JOIN_DIR_INVITATION "worker.invitation"
#define JOIN_DIR_LOCK "lock"
#define JOIN_DIR_TEXT 1024 /* bytes that hold the file `cluster` */
#define JOIN_DIR_WHERE 320 /* and join_dir_where() */

struct join_dir {
    uint64_t id; /* a random number of this cluster */
    char host[256];
    uint32_t pid;
    char central[ADDR_TEXT], dist[ADDR_TEXT];
};

/* Whether the directory is there, and this user's alone. HAWK_ENOT_FOUND, HAWK_EDENIED, HAWK_EIO: why names it, and
 * what to do. */
HAWK_MUST_USE int join_dir_check(const char *dir, char *why, size_t size);
/* The same, then reads its file `cluster`. HAWK_ENOT_FOUND: no cluster is up there; HAWK_ECORRUPT: the file says
 * something else. */
HAWK_MUST_USE int join_dir_read(const char *dir, struct join_dir *j, char *why, size_t size);
/* Reads another file of the directory, at most 1 MiB, for the caller to free. It has to be this user's alone, too:
 * somebody may have put another directory in the place of the one that was looked at. HAWK_ENOT_FOUND, HAWK_EDENIED,
 * HAWK_EIO: as above. */
HAWK_MUST_USE int join_dir_file(const char *path, char **text, char *why, size_t size);
/* Writes the text of the file `cluster`; returns its length. */
size_t join_dir_write(const struct join_dir *j, char text[JOIN_DIR_TEXT]);
/* Writes for people who it is: "process 4711 on node1, central at 10.0.0.1:40123". Returns buf. */
const char *join_dir_where(const struct join_dir *j, char buf[JOIN_DIR_WHERE + ADDR_TEXT]);
/* Writes where the cluster's workers keep tasks' output unless they are told: beside `dir`, which others have, since
 * each cluster gives out the same jobs' ids. False: the path is too long. */
HAWK_MUST_USE bool join_dir_output(uint64_t id, const char *dir, char *path, size_t size);
/* Whether a directory of the former name could be one beside the latter. */
HAWK_MUST_USE bool join_dir_is_output(const char *name, const char *beside);

#endif
