/* Jobs at the times of a list, through a queue whose workers sleep for as long as a task says: one process
 * per slot. A worker tells the client that a task has ended through a pipe, not through the server, which
 * favours the peer. Prints every job's response time. Usage: PROGRAM PORT SLOTS ARRIVALS */
#include "bench/peers/queue.h"

#include "bench/lib/arrivals.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define START_US 1000000 /* until the workers are connected */
#define END_MS 300000    /* for what is unfinished, since the last task that ended */

static int done_fd;

static int work(const char *text, uint32_t len, char result[PEER_RESULT])
{
    char copy[64] = "";
    struct timespec t;
    uint32_t job;
    int64_t us;

    memcpy(copy, text, len < sizeof copy ? len : sizeof copy - 1);
    if (sscanf(copy, "%" SCNu32 " %" SCNd64, &job, &us) != 2) /* NOLINT(cert-err34-c): our own */
        queue_die("a task that is none");
    t = (struct timespec){us / 1000000, us % 1000000 * 1000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    if (write(done_fd, &job, sizeof job) != sizeof job)
        queue_die("the client is gone");
    return 0;
}

static void start_workers(int port, int slots)
{
    for (int i = 0; i < slots; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            peer_work(port, 1, work);
        }
}

/* What ended until then; false when nothing did for END_MS though nothing more will come. */
static int read_ends(struct arrivals *a, int fd, int64_t until_us)
{
    uint32_t jobs[1024];
    int64_t left_us = until_us - arrivals_now_us();
    struct timespec t = {left_us / 1000000, left_us > 0 ? left_us % 1000000 * 1000 : 0};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n;

    if (left_us <= 0)
        return 0;
    if (ppoll(&p, 1, &t, NULL) <= 0)
        return 0;
    n = read(fd, jobs, sizeof jobs);
    for (ssize_t i = 0; i < n / (ssize_t)sizeof *jobs; i++)
        arrivals_ended(a, jobs[i], 1);
    return n > 0;
}

int main(int argc, char **argv)
{
    struct arrivals a;
    void *connection;
    char text[64];
    int fds[2];

    if (argc != 4 || pipe(fds) < 0)
        queue_die("usage: PROGRAM PORT SLOTS ARRIVALS");
    arrivals_read(&a, argv[3]);
    done_fd = fds[1];
    start_workers(atoi(argv[1]), atoi(argv[2])); /* NOLINT(cert-err34-c): poisson.py's */
    connection = peer_connect(atoi(argv[1]));    /* NOLINT(cert-err34-c) */
    a.start_us = arrivals_now_us() + START_US;
    for (uint32_t i = 0; i < a.n; i++) {
        while (arrivals_now_us() < a.start_us + a.v[i].at_us)
            read_ends(&a, fds[0], a.start_us + a.v[i].at_us);
        snprintf(text, sizeof text, "%" PRIu32 " %" PRId64, i, a.v[i].task_us);
        peer_push(connection, text, a.v[i].tasks);
    }
    while (a.ended < a.n)
        if (!read_ends(&a, fds[0], arrivals_now_us() + END_MS * INT64_C(1000)))
            queue_die("tasks did not end");
    arrivals_print(&a);
    signal(SIGTERM, SIG_IGN);
    return 0; /* the workers get SIGKILL */
}
