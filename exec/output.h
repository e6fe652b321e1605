/* Output files of tasks: their names, from patterns with placeholders, and how they are opened. The names
 * are made by exec_output_path (exec/exec.h), on both sides of the spawner's socket. */
#ifndef HAWK_EXEC_OUTPUT_H
#define HAWK_EXEC_OUTPUT_H

#include "msg/types.h"

#include <stdbool.h>
#include <sys/types.h>

enum output { OUTPUT_STDOUT = 1, OUTPUT_STDERR = 2 };

#define OUTPUT_NONE "/dev/null"

/* Whether the file is this task's alone, so that a run starts it afresh. Without a task index in its name
 * the tasks of a job share one, and all append to it. */
bool output_is_own(const struct job_desc *d, enum output which);
/* Whether the job names no file for it, so that it lies below output_dir. */
bool output_is_default(const struct job_desc *d, enum output which);
/* Bytes that may still be written on dir's disk; UINT64_MAX: nobody knows. */
uint64_t output_room(const char *dir);
/* What others may do with what is made. */
struct output_mode {
    mode_t file, dir;
};

/* Of a file below output_dir, or where the job names one: by the submitter's umask. */
struct output_mode output_mode(const struct job_desc *d, enum output which, bool group_reads);

/* Opens path for appending, made with its directories where missing, emptied when `truncate`. Returns the
 * descriptor (close-on-exec, blocking) or -errno. Does not wait for the reader of a FIFO: -ENXIO. The process's umask must
 * be 0: `mode` says all. */
int output_open(const char *path, bool truncate, struct output_mode mode);
/* Sets EXEC_OUTPUT_CUT; of what is no file, or is not there, nothing. */
void output_mark_cut(const char *path);

#endif
