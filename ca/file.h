/* Small files of keys and certificates: written beside their place and then moved there. */
#ifndef HAWK_CA_FILE_H
#define HAWK_CA_FILE_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CA_FILE_MAX (1u << 20) /* bytes of one that is read */

/* Writes "PATH: what" to why, and returns err. */
int ca_complain(char *why, size_t size, int err, const char *path, const char *what);
/* Joins two names. False, with why: they are too long. */
bool ca_path(char path[PATH_MAX], const char *dir, const char *name, char *why, size_t size);
/* Whether the roots, which the path holds, have at most `max` bytes (whole KiB), and so room in what they go into.
 * HAWK_ETOO_LARGE. */
HAWK_MUST_USE int ca_check_roots(const char *path, const char *roots, size_t max, const char *what, char *why,
                                 size_t size);
/* Opens a directory. `lock`: waits until nobody else has it locked, and keeps it locked until *fd is closed. HAWK_EIO:
 * *fd is -1. */
HAWK_MUST_USE int ca_open_dir(int *fd, const char *dir, bool lock, char *why, size_t size);
/* Writes all to a file that is open, durably. 0, or -1 and errno. */
int ca_put(int fd, const void *data, size_t len);
/* Durable when it returns 0. One process at a time writes a file: where several may, they lock the directory. */
HAWK_MUST_USE int ca_write(const char *path, mode_t mode, const void *data, size_t len, char *why,
                           size_t size);
/* Sets *text to what the file holds, the caller's to free. "-": standard input. HAWK_ENOT_FOUND, HAWK_EIO. */
HAWK_MUST_USE int ca_read(const char *path, char **text, char *why, size_t size);

#endif
