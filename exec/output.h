/* Output files of tasks: their names, made from patterns with placeholders, and how they are opened.
 * exec_output_path() (exec/exec.h) makes the names, on both sides of the spawner's socket. */
#ifndef HAWK_EXEC_OUTPUT_H
#define HAWK_EXEC_OUTPUT_H

#include "msg/types.h"

#include <stdbool.h>
#include <sys/types.h>

struct exec_config;

enum output { OUTPUT_STDOUT = 1, OUTPUT_STDERR = 2 };

#define OUTPUT_NONE "/dev/null"

/* Whether the file belongs to this task alone, so that a run truncates it. If its name has neither the task's index nor
 * its whole input, tasks of the job may append to the same file. So may those of a list's other parts. */
bool output_is_own(const struct job_desc *d, enum output which);
/* Whether the job names no file, so that the file is below output_dir. */
bool output_is_default(const struct job_desc *d, enum output which);
/* Bytes of room on dir's disk; UINT64_MAX: unknown. */
uint64_t output_room(const char *dir);
/* Whether dir's disk has so many bytes of room (worker.output_free_min); why: the reason if not. */
bool output_has_room(const char *dir, uint64_t least, char *why, size_t size);
/* The permissions of new files and directories. */
struct output_mode {
    mode_t file, dir;
};

/* For a file below output_dir, or, by the submitter's umask, for a file that the job names. */
struct output_mode output_mode(const struct job_desc *d, enum output which, bool group_reads);

/* Opens path for appending; makes it and its directories if missing; `truncate` empties it. Returns the
 * descriptor (close-on-exec, blocking) or -errno. Does not wait for the reader of a FIFO: -ENXIO. The
 * process's umask must be 0, so that `mode` alone decides. */
int output_open(const char *path, bool truncate, struct output_mode mode);
/* The directory that --cwd named, its places filled (JOB_EACH_CWD). A client writes "/./" between its own directory and
 * a place that begins the pattern: an input that is an absolute path begins the directory there. Points into path. */
const char *output_cwd(const char *path);
/* Notes beside an output file below output_dir whose it is, and the number of the job's first task, before it is
 * opened. 0 or -errno: -EPERM, the job's output there is another user's. */
int output_claim(const char *path, const struct job_desc *d, struct output_mode mode);
/* At the end of a try, for its files below output_dir; the job's own files are the user's to check. If their disk is
 * full it sets EXEC_OUTPUT_CUT on them. Otherwise, with drops_empty, it removes those that are empty, once a note
 * beside them says so. They stay where a process has one open for writing, where the filesystem cannot tell (it has no
 * leases) or the note cannot be written, and of later attempts: without a number people see the last one with a file.
 */
void output_ended(const struct exec_config *c, const struct try_id *id);

#endif
