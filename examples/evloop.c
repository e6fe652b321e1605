/* Runs a command for each of a list of words on a Hawk cluster, a job for each word, inside libev's loop. The
 * loop tells of tasks as they end, and once a second how far it is:
 *
 *     evloop COMMAND [ARG]... -- WORD...
 *
 * {} in the command stands for the word. libhawk itself needs libev, so this needs nothing more:
 *
 *     cc evloop.c $(pkg-config --cflags --libs hawk) -o evloop
 *     HAWK_DIST=127.0.0.1:7101 ./evloop gzip -9 {} -- *.log */
#include <ev.h>
#include <hawk.h>
#include <stdio.h>
#include <string.h>

#define TICK_S 1.0

struct program {
    struct ev_loop *loop;
    struct hawk_client *client;
    ev_io news;
    ev_timer tick;
    int jobs, ended, failed;
};

/* ---- What libhawk calls, from within hawk_client_poll ---- */

static void on_accepted(void *arg, struct hawk_job *job)
{
    (void)arg;
    printf("%s\tis job %s\n", (const char *)hawk_job_user(job), hawk_job_id(job));
}

static void on_task(void *arg, struct hawk_job *job, uint32_t task)
{
    struct hawk_task t;

    (void)arg;
    hawk_job_task(job, task, &t);
    printf("%s\t%s %d\n", (const char *)hawk_job_user(job), t.outcome, t.code);
}

static void on_ended(void *arg, struct hawk_job *job)
{
    struct program *p = arg;

    if (hawk_job_state(job) != HAWK_JOB_DONE) {
        p->failed++;
        fprintf(stderr, "evloop: %s is not done%s%s\n", (const char *)hawk_job_user(job),
                *hawk_job_error(job) ? ": " : "", hawk_job_error(job));
    }
    hawk_job_free(job);
    if (++p->ended == p->jobs)
        ev_break(p->loop, EVBREAK_ALL);
}

/* ---- What libev calls ---- */

static void on_news(struct ev_loop *loop, ev_io *w, int events)
{
    struct program *p = w->data;

    (void)loop;
    (void)events;
    hawk_client_poll(p->client, 0);
}

static void on_tick(struct ev_loop *loop, ev_timer *w, int events)
{
    const struct program *p = w->data;

    (void)loop;
    (void)events;
    fprintf(stderr, "evloop: %d of %d jobs have ended\n", p->ended, p->jobs);
}

static int run(struct program *p, const char *const *command, char *const *words)
{
    int fd = hawk_client_fd(p->client);

    if (fd < 0) {
        fprintf(stderr, "evloop: %s\n", hawk_client_error(p->client));
        return 1;
    }
    for (; *words; words++) {
        struct hawk_bytes arg = {*words, strlen(*words)};
        struct hawk_spec spec = {
            .name = "evloop", .argv = command, .args = &arg, .lost_retries = 2, .user = *words};

        if (hawk_client_submit(p->client, &spec)) {
            p->jobs++;
        } else {
            p->failed++;
            fprintf(stderr, "evloop: %s: %s\n", *words, hawk_client_error(p->client));
        }
    }
    ev_io_init(&p->news, on_news, fd, EV_READ);
    ev_timer_init(&p->tick, on_tick, TICK_S, TICK_S);
    p->news.data = p->tick.data = p;
    ev_io_start(p->loop, &p->news);
    ev_timer_start(p->loop, &p->tick);
    if (p->jobs)
        ev_run(p->loop, 0);
    ev_io_stop(p->loop, &p->news); /* before the descriptor goes */
    ev_timer_stop(p->loop, &p->tick);
    return p->failed > 0;
}

int main(int argc, char **argv)
{
    struct program p = {.loop = EV_DEFAULT};
    struct hawk_client_options options = {
        .accepted = on_accepted, .task = on_task, .ended = on_ended, .arg = &p};
    int words, status = 1;

    for (words = 1; words < argc && strcmp(argv[words], "--") != 0; words++)
        ;
    if (words < 2 || words >= argc - 1) {
        fprintf(stderr, "usage: evloop COMMAND [ARG]... -- WORD...\n");
        return 2;
    }
    argv[words] = NULL; /* the end of the command */
    if (hawk_client_open(&p.client, &options))
        fprintf(stderr, "evloop: %s\n", hawk_client_error(p.client));
    else
        status = run(&p, (const char *const *)argv + 1, argv + words + 1);
    hawk_client_close(p.client);
    return status;
}
