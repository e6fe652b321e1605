/* Users' runners, honest ones and imitations, for test_runners.c: that program is the runner, too. */
#ifndef HAWK_TESTS_TEST_RUNNERS_IMITATED_H
#define HAWK_TESTS_TEST_RUNNERS_IMITATED_H

#include "exec/spawner.h"
#include "tests/lib/exec_fixture.h"

#include <sys/socket.h>

#define EVE 100 /* her runs have such numbers */
#define HER_JOB 18
/* Cut to what a text may have, these are still more than all texts may. */
#define HOARD_TEXT 12000
#define HOARD_RECORDS 5000

static bool has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void wait_for_a_child(void)
{
    siginfo_t info;

    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
}

static void say(struct bytes *b)
{
    assert_int_equal(bytes_send(b, RUNNER_SOCKET_FD), 0);
    bytes_free(b);
}

static void put_end(struct bytes *b, uint32_t run, enum outcome outcome, int32_t code, const char *place)
{
    size_t begun = record_begin(b, RECORD_EXITED);

    put_u32(b, run);
    put_u32(b, (uint32_t)outcome);
    put_u32(b, (uint32_t)code);
    put_u64(b, 1);
    put_data(b, NULL, 0);
    put_data(b, place, place ? strlen(place) : 0);
    record_end(b, begun);
}

static void put_exit(struct bytes *b, uint32_t run, enum outcome outcome)
{
    put_end(b, run, outcome, 0, NULL);
}

static void put_two(struct bytes *b, enum record_type type, uint32_t first, uint32_t second)
{
    size_t begun = record_begin(b, type);

    put_u32(b, first);
    put_u32(b, second);
    record_end(b, begun);
}

static void put_welcome(struct bytes *b)
{
    size_t begun = record_begin(b, RECORD_WELCOME);

    put_u32(b, 1);
    put_u64(b, 1);
    put_u64(b, 1);
    record_end(b, begun);
}

/* Its run, which has ended, as this try. */
static void put_held(struct bytes *b, struct try_id id)
{
    size_t begun = record_begin(b, RECORD_HELD);

    put_u32(b, EVE);
    put_u32(b, 0);
    put_u64(b, id.job.v);
    put_u32(b, id.task);
    put_u32(b, id.epoch);
    put_u32(b, id.attempt);
    for (int i = 0; i < 2; i++)
        put_u32(b, 0);
    put_u32(b, OUTCOME_EXITED);
    put_u32(b, 0);
    put_u64(b, 1);
    for (int i = 0; i < 3; i++)
        put_data(b, NULL, 0);
    record_end(b, begun);
}

/* Its run starts. The next agent hears of its end: as a task of others, twice, or though the first one has heard of it
 * and forgotten it. */
static void hold_one(const char *how)
{
    struct pollfd p = {.fd = RUNNER_LISTEN_FD, .events = POLLIN};
    struct try_id id = try_of(EVE);
    struct bytes b = {0};

    if (strcmp(how, "holds-anothers") != 0)
        id.job = job_id_make((node_id_t){3}, HER_JOB);
    put_welcome(&b);
    put_two(&b, RECORD_STARTED, EVE, 1);
    if (strcmp(how, "holds-forgotten") == 0)
        put_exit(&b, EVE, OUTCOME_EXITED);
    say(&b);
    poll(&p, 1, -1);
    int fd = accept(RUNNER_LISTEN_FD, NULL, NULL);
    put_held(&b, id);
    if (strcmp(how, "holds-twice") == 0)
        put_held(&b, id);
    put_welcome(&b);
    (void)!bytes_send(&b, fd);
    for (;;)
        pause();
}

/* Until the agent has sent such a record. */
static void await(enum record_type type)
{
    struct pollfd p = {.fd = RUNNER_SOCKET_FD, .events = POLLIN};
    struct bytes in = {.record_max = RECORD_MAX};
    struct record r = {.type = 0};

    while (r.type != type) {
        int got = record_next(&in, &r);

        if (got < 0 || (got == 0 && (poll(&p, 1, -1) < 0 || bytes_receive(&in, RUNNER_SOCKET_FD) < 0)))
            exit(1);
    }
    bytes_free(&in);
}

/* Its run starts, and pauses when it is to, with so many bytes of pids. It does nothing else. */
static void pause_with(const char *mode)
{
    static const char pids[(PAUSE_PROCESSES_MAX + 1) * sizeof(pid_t)];
    struct bytes b = {0};

    put_welcome(&b);
    put_two(&b, RECORD_STARTED, EVE, 1);
    say(&b);
    await(RECORD_PAUSE);
    size_t begun = record_begin(&b, RECORD_PAUSED);
    put_u32(&b, EVE);
    put_u32(&b, 0);
    if (strcmp(mode, "pauses") != 0)
        put_data(&b, pids, strcmp(mode, "pauses-part") == 0 ? 3 : sizeof pids);
    record_end(&b, begun);
    say(&b);
    for (;;)
        pause();
}

/* Tells the agent what no spawner says; mode: what. */
static void imitate(const char *mode)
{
    struct bytes b = {0};

    if (strcmp(mode, "silent") != 0)
        put_welcome(&b);
    if (strcmp(mode, "ends-anothers") == 0)
        put_exit(&b, 1, OUTCOME_EXITED);
    if (strcmp(mode, "starts-anothers") == 0)
        put_two(&b, RECORD_STARTED, 1, 1);
    if (strcmp(mode, "starts-twice") == 0)
        for (int i = 0; i < 2; i++)
            put_two(&b, RECORD_STARTED, EVE, 1);
    if (strcmp(mode, "pauses-unasked") == 0)
        put_two(&b, RECORD_PAUSED, EVE, 0);
    if (strcmp(mode, "bad-outcome") == 0)
        put_exit(&b, EVE, OUTCOME_COUNT);
    if (strcmp(mode, "no-outcome") == 0)
        put_exit(&b, EVE, OUTCOME_NONE);
    if (strcmp(mode, "checks-unasked") == 0)
        record_end(&b, record_begin(&b, RECORD_CHECKED));
    if (strcmp(mode, "welcomes-twice") == 0)
        put_welcome(&b);
    if (strcmp(mode, "garbage") == 0)
        bytes_add(&b, "GET / HTTP/1.0\r\n\r\n", 18);
    if (strcmp(mode, "ends") == 0 || strcmp(mode, "ends-unsent") == 0) {
        put_two(&b, RECORD_STARTED, EVE, 1);
        put_exit(&b, EVE, OUTCOME_EXITED);
    }
    if (strcmp(mode, "blames") == 0)
        put_end(&b, EVE, OUTCOME_LOST, HAWK_ECANNOT_START, "/a/place/of/others");
    if (strcmp(mode, "large") == 0)
        bytes_add(&b, (const uint32_t[]){1u << 20, RECORD_CHECKED | RECORD_VERSION << 16}, 8);
    if (b.len)
        say(&b);
    if (strcmp(mode, "ends") == 0)
        exit(0);
    for (;;)
        pause();
}

/* A runner of a version that knows no limits but its own: it has nothing to say to whoever comes. */
static void be_older(void)
{
    struct pollfd p = {.fd = RUNNER_LISTEN_FD, .events = POLLIN};
    struct bytes b = {0};

    for (int fd = RUNNER_SOCKET_FD; fd >= 0; fd = accept(RUNNER_LISTEN_FD, NULL, NULL)) {
        put_welcome(&b);
        (void)!bytes_send(&b, fd); /* the first agent may have left */
        bytes_free(&b);
        poll(&p, 1, -1);
    }
}

/* A run that ended, with texts that are far too long. */
static void put_long_held(struct bytes *b)
{
    static char text[HOARD_TEXT];
    size_t begun = record_begin(b, RECORD_HELD);

    memset(text, 'x', sizeof text);
    put_u32(b, EVE);
    put_u32(b, 0);
    put_u64(b, job_id_make((node_id_t){3}, HER_JOB).v);
    for (int i = 0; i < 5; i++)
        put_u32(b, 0);
    put_u32(b, OUTCOME_EXITED);
    put_u32(b, 0);
    put_u64(b, 1);
    for (int i = 0; i < 3; i++)
        put_data(b, text, sizeof text);
    record_end(b, begun);
}

/* Greets the first agent, and tells the next one without end of runs that it has. */
static void hoard(void)
{
    struct pollfd p = {.fd = RUNNER_LISTEN_FD, .events = POLLIN};
    struct bytes b = {0};

    put_welcome(&b);
    put_two(&b, RECORD_STARTED, EVE, 1);
    say(&b);
    poll(&p, 1, -1);
    int fd = accept(RUNNER_LISTEN_FD, NULL, NULL);
    p = (struct pollfd){.fd = fd, .events = POLLOUT};
    for (int i = 0; i < HOARD_RECORDS; i++) {
        put_long_held(&b);
        while (bytes_send(&b, fd) == 0 && bytes_pending(&b))
            poll(&p, 1, -1);
        bytes_free(&b);
    }
    put_welcome(&b);
    (void)!bytes_send(&b, fd);
    for (;;)
        pause();
}

/* argv: PROGRAM --runner MODE */
static int be_runner(const char *mode)
{
    if (strcmp(mode, "honest") == 0)
        spawner_of_user(NULL);
    if (strcmp(mode, "older") == 0)
        be_older();
    if (strcmp(mode, "hoards") == 0)
        hoard();
    if (strncmp(mode, "holds", 5) == 0)
        hold_one(mode);
    if (strncmp(mode, "pauses", 6) == 0 && strcmp(mode, "pauses-unasked") != 0)
        pause_with(mode);
    imitate(mode);
    return 1;
}

#endif
