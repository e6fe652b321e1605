/* Bytes as a file, for what reads files only: one without a name, in memory. */
#ifndef HAWK_TESTS_FUZZ_FILE_H
#define HAWK_TESTS_FUZZ_FILE_H

#include "base/check.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct fuzz_file {
    int fd;
    char path[32];
};

static inline struct fuzz_file file_of(const uint8_t *data, size_t size)
{
    struct fuzz_file f = {.fd = memfd_create("fuzz", MFD_CLOEXEC)};

    CHECK(f.fd >= 0);
    CHECK(write(f.fd, data, size) == (ssize_t)size);
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    return f;
}

static inline void file_end(struct fuzz_file *f) { close(f->fd); }

#endif
