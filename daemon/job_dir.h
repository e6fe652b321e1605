/* A job's directory, which has the output files of its tasks: in a worker's output_dir, and in that of `hawk run`. */
#ifndef HAWK_DAEMON_JOB_DIR_H
#define HAWK_DAEMON_JOB_DIR_H

#include <dirent.h>

/* Opens the directory of that name in the directory `at`, for the caller to closedir(). NULL, and errno: there is none,
 * it is a symbolic link, or it cannot be read. */
DIR *job_dir_open(int at, const char *name);
/* The next entry but "." and "..", or NULL. */
struct dirent *job_dir_next(DIR *dir);
/* Removes the directory of that name in `at` and the files in it. What cannot be removed stays. */
void job_dir_remove(int at, const char *name);

#endif
