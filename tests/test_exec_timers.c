/* exec/: timer tasks, by a clock of the test; and the records of the spawner's socket. */
#include "tests/lib/exec_fixture.h"

#include <sys/socket.h>

/* ---- Timers ---- */

static struct job_desc *timer_job(const char *duration)
{
    struct job_desc *d = job_desc_new();

    d->tasks = 1;
    d->kind = PAYLOAD_TIMER;
    if (duration)
        strings_add(&d->argv, duration);
    return d;
}

static void ask_timer(struct fixture *f, int64_t now, uint32_t run, struct job_desc *d, const char *arg)
{
    struct blob *b = arg ? blob_str(arg) : NULL;
    struct try_id id = try_of(run);

    assert_int_equal(
        exec_run(f->e, now, &(struct msg_exec_start){.run = run, .id = id, .desc = d, .arg = b}, NULL), 0);
    blob_drop(b);
}

static void test_timers(void **state)
{
    struct fixture *f = *state;
    struct job_desc *each = timer_job(NULL), *same = timer_job("250ms"), *limited = timer_job("1h");
    struct try_id id = try_of(0);
    struct blob *bad = blob_str("soon"), *cut = blob_new("1s\0s", 4);

    limited->time_limit_us = US_PER_S;
    start(f);
    ask_timer(f, 1000, 0, each, "1s");
    ask_timer(f, 1000, 1, same, NULL);
    ask_timer(f, 1000, 2, limited, NULL);
    ask_timer(f, 1000, 3, each, "0");
    assert_int_equal(exec_run(f->e, 1000, &(struct msg_exec_start){.run = 1, .id = id, .desc = same}, NULL),
                     HAWK_EEXISTS);
    assert_int_equal(
        exec_run(f->e, 1000, &(struct msg_exec_start){.run = 4, .id = id, .desc = each, .arg = bad}, NULL),
        HAWK_EINVALID);
    assert_int_equal(
        exec_run(f->e, 1000, &(struct msg_exec_start){.run = 4, .id = id, .desc = each, .arg = cut}, NULL),
        HAWK_EINVALID);
    assert_int_equal(exec_run(f->e, 1000, &(struct msg_exec_start){.run = 4, .id = id, .desc = each}, NULL),
                     HAWK_EINVALID);
    assert_int_equal(f->events, 0); /* never out of exec_run itself */
    assert_int_equal(exec_next_timeout(f->e), 1000);
    exec_on_timeout(f->e, 1000, on_event, f);
    for (int run = 0; run < 4; run++)
        assert_true(f->v[run].started && f->v[run].pid == 0);
    assert_exited(&f->v[3], 0);
    assert_int_equal(f->v[3].run_us, 0);
    assert_int_equal(exec_next_timeout(f->e), 251000);
    exec_on_timeout(f->e, 250999, on_event, f);
    assert_false(f->v[1].exited);
    exec_on_timeout(f->e, 251000, on_event, f);
    assert_exited(&f->v[1], 0);
    assert_int_equal(f->v[1].run_us, 250000);
    exec_on_timeout(f->e, 1002000, on_event, f);
    assert_exited(&f->v[0], 0);
    assert_int_equal(f->v[2].outcome, OUTCOME_TIME_LIMIT);
    assert_int_equal(exec_next_timeout(f->e), TIME_NEVER);
    assert_int_equal(exec_running(f->e), 0);
    job_desc_drop(each);
    job_desc_drop(same);
    job_desc_drop(limited);
    blob_drop(bad);
    blob_drop(cut);
}

static void test_cancelled_timers(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = timer_job("1h");

    start(f);
    ask_timer(f, 0, 0, d, NULL);
    ask_timer(f, 0, 1, d, NULL);
    exec_kill(f->e, 0, 1, OUTCOME_CANCELLED, false); /* before it was reported as started */
    exec_on_timeout(f->e, 10, on_event, f);
    assert_true(f->v[1].started && f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_CANCELLED);
    assert_false(f->v[0].exited);
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, false);
    assert_int_equal(f->exits, 1);
    assert_true(exec_next_timeout(f->e) <= 10);
    exec_on_timeout(f->e, 500, on_event, f);
    assert_int_equal(f->v[0].outcome, OUTCOME_CANCELLED);
    assert_int_equal(f->v[0].run_us, 500);
    ask_timer(f, 500, 2, d, NULL);
    exec_on_timeout(f->e, 500, on_event, f);
    assert_int_equal(exec_pause(f->e, 600, 2), 0);
    exec_kill(f->e, 600, 2, OUTCOME_CANCELLED, false); /* before it was reported as paused */
    exec_on_timeout(f->e, 600, on_event, f);
    assert_true(f->v[2].exited && !f->v[2].paused);
    job_desc_drop(d);
}

/* Its time stands still with it: neither its end nor its limit comes nearer. */
static void test_paused_timers(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = timer_job("1s"), *limited = timer_job("1h");

    limited->time_limit_us = US_PER_S;
    start(f);
    ask_timer(f, 0, 0, d, NULL);
    ask_timer(f, 0, 1, limited, NULL);
    ask_timer(f, 0, 2, d, NULL);
    assert_int_equal(exec_pause(f->e, 0, 2), 0); /* before it was reported as started */
    exec_on_timeout(f->e, 0, on_event, f);
    assert_true(f->v[2].started && f->v[2].paused);
    for (uint32_t run = 0; run < 2; run++)
        assert_int_equal(exec_pause(f->e, 400000, run), 0);
    assert_false(f->v[0].paused); /* never out of exec_pause itself */
    assert_true(exec_next_timeout(f->e) <= 400000);
    exec_on_timeout(f->e, 400000, on_event, f);
    for (int run = 0; run < 3; run++)
        assert_true(f->v[run].paused && f->v[run].pause_err == 0);
    assert_int_equal(exec_next_timeout(f->e), TIME_NEVER);
    f->v[0].paused = false;
    assert_int_equal(exec_pause(f->e, 3000000, 0), 0); /* again: it stands still since then all the same */
    exec_on_timeout(f->e, 5000000, on_event, f);
    assert_int_equal(f->exits, 0);
    exec_resume(f->e, 5000000, 0);
    exec_resume(f->e, 5000000, 1);
    exec_resume(f->e, 5100000, 1); /* again changes nothing */
    assert_int_equal(exec_next_timeout(f->e), 5600000);
    exec_kill(f->e, 0, 2, OUTCOME_CANCELLED, false); /* paused: it ends all the same */
    exec_on_timeout(f->e, 5200000, on_event, f);
    assert_int_equal(f->v[2].outcome, OUTCOME_CANCELLED);
    assert_int_equal(f->v[2].run_us, 0);
    f->v[0].paused = false;
    assert_int_equal(exec_pause(f->e, 5300000, 0), 0);
    exec_resume(f->e, 5300000, 0);
    exec_on_timeout(f->e, 5300000, on_event, f);
    assert_true(f->v[0].paused &&
                f->v[0].pause_err == HAWK_EBUSY); /* it was resumed before it could say so */
    exec_on_timeout(f->e, 5600000, on_event, f);
    assert_exited(&f->v[0], 0);
    assert_int_equal(f->v[0].run_us, US_PER_S);
    assert_int_equal(f->v[1].outcome, OUTCOME_TIME_LIMIT);
    assert_int_equal(f->v[1].run_us, US_PER_S);
    job_desc_drop(d);
    job_desc_drop(limited);
}

static void count_order(void *arg, const struct msg *m)
{
    uint32_t *last = arg;

    if (m->type != MSG_EXEC_EXITED)
        return;
    assert_int_equal(m->exec_exited.run, *last - 1); /* the later asked for, the sooner it ends */
    *last = m->exec_exited.run;
}

static void test_fifty_thousand_timers(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = timer_job(NULL);
    struct try_id id = try_of(0);
    uint32_t n = 50000, last = n;

    f->config.max_running = n;
    start(f);
    for (uint32_t i = 0; i < n; i++) {
        char text[32];
        struct blob *b;

        snprintf(text, sizeof text, "%uus", 2 * n - i);
        b = blob_str(text);
        assert_int_equal(
            exec_run(f->e, 0, &(struct msg_exec_start){.run = i, .id = id, .desc = d, .arg = b}, NULL), 0);
        blob_drop(b);
    }
    while (exec_next_timeout(f->e) != TIME_NEVER)
        exec_on_timeout(f->e, exec_next_timeout(f->e), count_order, &last);
    assert_int_equal(last, 0);
    job_desc_drop(d);
}

/* ---- Records ---- */

static void test_records(void **state)
{
    struct bytes b = {0};
    struct record r;
    uint32_t n;
    size_t begun;

    for (uint32_t i = 0; i < 3000; i++) { /* enough for the buffer to move while it is read */
        begun = record_begin(&b, RECORD_KILL);
        put_u32(&b, i);
        put_u64(&b, UINT64_MAX - i);
        put_data(&b, NULL, 0);
        put_data(&b, "", 0);
        put_data(&b, "text", 4);
        record_end(&b, begun);
        if (i % 3 == 0)
            continue;
        assert_int_equal(record_next(&b, &r), 1);
        assert_int_equal(r.type, RECORD_KILL);
    }
    while (record_next(&b, &r) == 1) {
        uint32_t i = get_u32(&r);

        assert_true(get_u64(&r) == UINT64_MAX - i);
        assert_null(get_data(&r, &n));
        assert_non_null(get_data(&r, &n));
        assert_int_equal(n, 0);
        assert_memory_equal(get_data(&r, &n), "text", 4);
        assert_int_equal(n, 4);
        assert_false(r.bad);
        assert_int_equal(get_u32(&r), 0); /* beyond its end */
        assert_true(r.bad);
        assert_null(get_data(&r, &n));
    }
    assert_int_equal(bytes_pending(&b), 0);
    bytes_free(&b);
}

static void test_damaged_records(void **state)
{
    struct bytes b = {0};
    struct record r;
    size_t len, begun = record_begin(&b, RECORD_SPEC);
    uint32_t n, lie = 1000;

    put_u32(&b, lie); /* as the length of data that is not there */
    record_end(&b, begun);
    len = b.len;
    for (b.len = 0; b.len < len; b.len++) /* cut short anywhere: not there yet */
        assert_int_equal(record_next(&b, &r), 0);
    assert_int_equal(record_next(&b, &r), 1);
    assert_null(get_data(&r, &n));
    assert_true(r.bad);
    b.off = 0;
    b.data[6] = (char)(RECORD_VERSION + 1);
    assert_int_equal(record_next(&b, &r), HAWK_EMALFORMED);
    b.data[6] = RECORD_VERSION;
    b.data[3] = 0x7f; /* larger than any */
    assert_int_equal(record_next(&b, &r), HAWK_EMALFORMED);
    bytes_free(&b);
}

/* Reads what was sent and what waits. Returns how many leases that are, and the last one. */
static uint32_t count_leases(struct bytes *out, const int fds[2], int64_t *last_us)
{
    struct bytes in = {0};
    struct record r;
    uint32_t n = 0;
    int got;

    do {
        assert_int_equal(bytes_send(out, fds[0]), 0);
        got = bytes_receive(&in, fds[1]);
        while (record_next(&in, &r) == 1)
            if (r.type == RECORD_LEASE) {
                *last_us = (int64_t)get_u64(&r);
                n++;
            }
    } while (got == 1 || bytes_pending(out));
    assert_int_equal(bytes_pending(&in), 0);
    bytes_free(&in);
    return n;
}

static void test_at_most_one_lease_waits(void **state)
{
    struct bytes out = {0};
    int64_t last_us = 0;
    uint32_t n = 0;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (int64_t i = 1; i <= 3; i++) { /* each is sent at once */
        put_lease(&out, i);
        assert_int_equal(bytes_send(&out, fds[0]), 0);
    }
    assert_int_equal(count_leases(&out, fds, &last_us), 3);

    for (; bytes_pending(&out) == 0; n++) { /* until the socket is full, perhaps within a record */
        record_end(&out, record_begin(&out, RECORD_STOP));
        put_lease(&out, 4);
        assert_int_equal(bytes_send(&out, fds[0]), 0);
    }
    size_t waiting = bytes_pending(&out);
    for (int64_t i = 5; i <= 10000; i++) {
        put_lease(&out, i);
        record_end(&out, record_begin(&out, RECORD_STOP));
        assert_int_equal(bytes_send(&out, fds[0]), 0);
    }
    assert_in_range(bytes_pending(&out) - waiting, 9996 * 8, 9996 * 8 + 16);
    assert_in_range(count_leases(&out, fds, &last_us), n, n + 1);
    assert_int_equal(last_us, 10000);
    bytes_free(&out);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_timers),
        TEST(test_cancelled_timers),
        TEST(test_paused_timers),
        TEST(test_fifty_thousand_timers),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_damaged_records),
        cmocka_unit_test(test_at_most_one_lease_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
