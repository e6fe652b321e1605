/* Tasks that do nothing, through a queue: 8 bytes there, and back the time at which the worker began
 * (CLOCK_MONOTONIC, which is one clock for all processes of a machine). Prints tasks per second; with a
 * WINDOW of 1, which is one task at a time, instead each one's times since its submission: until it began,
 * and until its result was there, in microseconds. Usage: PROGRAM PORT WORKERS WINDOW PUSH POP TASKS: see
 * peer_run and peer_work, of which PUSH and POP are the batches */
#include "bench/peers/queue.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD "8 bytes."

enum { PORT = 1, WORKERS, WINDOW, PUSH, POP, TASKS, ARGUMENTS };

static int64_t began_ns; /* of the last result */

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int work(const char *text, uint32_t len, char result[PEER_RESULT])
{
    int64_t now = now_ns();

    memcpy(result, &now, PEER_RESULT);
    return 1;
}

static void on_result(const char result[PEER_RESULT]) { memcpy(&began_ns, result, PEER_RESULT); }

static void one_at_a_time(void *connection, uint64_t tasks)
{
    for (uint64_t i = 0; i < tasks; i++) {
        int64_t submitted_ns = now_ns();

        peer_run(connection, PAYLOAD, 1, 1, 1, on_result);
        int64_t ended_ns = now_ns();

        printf("%.1f %.1f\n", (double)(began_ns - submitted_ns) / 1e3,
               (double)(ended_ns - submitted_ns) / 1e3);
    }
}

int main(int argc, char **argv)
{
    uint32_t v[ARGUMENTS] = {0};
    void *connection;

    if (argc != ARGUMENTS)
        queue_die("usage: PROGRAM PORT WORKERS WINDOW PUSH POP TASKS");
    for (int i = 1; i < ARGUMENTS; i++)
        v[i] = (uint32_t)strtoul(argv[i], NULL, 10);
    for (uint32_t i = 0; i < v[WORKERS]; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            peer_work((int)v[PORT], v[POP], work);
        }
    connection = peer_connect((int)v[PORT]);
    peer_run(connection, PAYLOAD, v[TASKS] / 10 + 1, v[WINDOW], v[PUSH], on_result);
    if (v[WINDOW] == 1) {
        one_at_a_time(connection, v[TASKS]);
        return 0; /* the workers get SIGKILL */
    }
    int64_t start_ns = now_ns();

    peer_run(connection, PAYLOAD, v[TASKS], v[WINDOW], v[PUSH], on_result);
    printf("%.1f\n", v[TASKS] * 1e9 / (double)(now_ns() - start_ns));
    return 0;
}
