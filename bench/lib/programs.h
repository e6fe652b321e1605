/* Daemons that a benchmark starts, and what they take: memory and processor time. */
#ifndef HAWK_BENCH_LIB_PROGRAMS_H
#define HAWK_BENCH_LIB_PROGRAMS_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

#define ADDRESS_MAX 128

/* hawk's own path: ../hawk from this program's. */
const char *hawk_path(char buf[PATH_MAX]);
/* Makes an empty directory in $TMPDIR (/tmp), whose name begins with what. It goes with this process at the latest. */
void make_dir(char *buf, size_t size, const char *what);
void remove_dir(const char *dir);
/* "127.0.0.1:PORT" of a port that was free a moment ago. */
void free_address(char *addr, size_t size);

/* Starts program with these arguments (NULL at the end), its stdout to /dev/null; it gets SIGKILL when we die. */
pid_t start_program(const char *program, ...) __attribute__((sentinel));
/* The same for a hawk daemon; returns when it says that it is ready, and where it listens. */
pid_t start_daemon(const char *hawk, char addr[ADDRESS_MAX], ...) __attribute__((sentinel));
pid_t start_daemon_argv(const char *const *argv, char addr[ADDRESS_MAX]);
/* Ends it with this signal and waits for that. */
void end_program(pid_t pid, int signo);

double program_cpu_s(pid_t pid); /* all threads, since it began */
/* The same, and what the children took that it has waited for; to 10 ms. */
double program_tree_cpu_s(pid_t pid);
/* A line of its /proc/PID/status, as bytes: "VmRSS", "VmHWM". */
double program_memory(pid_t pid, const char *field);

#endif
