/* Jobs of timer tasks at the times of a list, on a running cluster: for bench/poisson.py. Prints every job's
 * response time. What takes a second or longer is tagged long, the rest short. Usage: poisson_client DIST
 * ARRIVALS */
#include "base/log.h"
#include "base/units.h"
#include "bench/lib/arrivals.h"
#include "bench/lib/figures.h"
#include "bench/lib/session.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LONG_US US_PER_S
#define START_US (US_PER_S / 2) /* until the session is there */
#define END_US (300 * US_PER_S) /* for what is unfinished after the last arrival */

static void on_end(void *arg, uint64_t tag)
{
    struct arrivals *a = arg;

    arrivals_ended(a, (uint32_t)tag, a->v[tag].tasks);
}

static void submit(struct session *s, uint32_t i, const struct arrival *j)
{
    struct job_desc *d = job_desc_new();
    char text[32];

    d->tasks = j->tasks;
    d->kind = PAYLOAD_TIMER;
    d->tag = j->task_us < LONG_US ? TAG_SHORT : TAG_LONG;
    d->estimate_us = j->task_us;
    snprintf(text, sizeof text, "%" PRId64 "us", j->task_us);
    strings_add(&d->argv, text);
    session_submit(s, i, d);
    job_desc_drop(d);
}

/* The loop's own timers are a millisecond or two late, which would be the client's and look like the cluster's. */
struct alarm {
    int fd;
    struct loop_fd *watched;
};

static void on_alarm(void *arg, unsigned events)
{
    const struct alarm *at = arg;
    uint64_t times;

    if (read(at->fd, &times, sizeof times) < 0 && errno != EAGAIN) /* set anew by now */
        bench_die("the alarm cannot be read");
}

static void turn_until(struct loop *l, const struct alarm *alarm, int64_t monotonic_us)
{
    const struct itimerspec at = {
        .it_value = {.tv_sec = monotonic_us / US_PER_S, .tv_nsec = monotonic_us % US_PER_S * 1000}};

    if (timerfd_settime(alarm->fd, TFD_TIMER_ABSTIME, &at, NULL) != 0)
        bench_die("the alarm cannot be set");
    while (arrivals_now_us() < monotonic_us)
        loop_once(l, TIME_NEVER);
}

int main(int argc, char **argv)
{
    struct alarm alarm = {.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)};
    struct arrivals a;
    struct session *s;
    struct loop *l;

    bench_name("poisson_client");
    log_init("poisson_client", LOG_ERROR);
    if (argc != 3)
        bench_die("usage: poisson_client DIST ARRIVALS");
    arrivals_read(&a, argv[2]);
    l = loop_new(LOOP_NET);
    alarm.watched = loop_fd_add(l, alarm.fd, LOOP_READ, on_alarm, &alarm);
    s = session_new(l, argv[1], NULL, on_end, &a);
    a.start_us = arrivals_now_us() + START_US;
    for (uint32_t i = 0; i < a.n; i++) {
        turn_until(l, &alarm, a.start_us + a.v[i].at_us);
        submit(s, i, &a.v[i]);
    }
    session_wait(s, 0, END_US);
    arrivals_print(&a);
    loop_fd_remove(alarm.watched);
    close(alarm.fd);
    session_free(s);
    loop_free(l);
    free(a.v);
    return 0;
}
