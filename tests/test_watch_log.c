/* A job's log of changed tasks: whoever reads it, however slowly, hears of each change, and of each task once. */
#include "api/watch_log.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define TASKS 40u
#define READERS 5u

static struct watch_log l;

/* The next task; WATCH_LOG_NONE: all is read. */
static uint32_t next(struct watch_reader *r)
{
    uint32_t task;
    while (watch_log_next(&l, &r->place, &task))
        if (task != WATCH_LOG_NONE)
            return task;
    return WATCH_LOG_NONE;
}

static void expect(struct watch_reader *r, const uint32_t *tasks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(next(r), tasks[i]);
    assert_int_equal(next(r), WATCH_LOG_NONE);
}

#define EXPECT(r, ...)                                                                                       \
    expect(r, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void test_the_job_as_it_is_and_then_changes(void **state)
{
    struct watch_reader a = {0}, b = {0};
    watch_log_init(&l, 3);
    watch_log_add(&l, 1); /* nobody reads */
    watch_log_join(&l, &a);
    EXPECT(&a, 0, 1, 2);
    watch_log_add(&l, 2);
    watch_log_add(&l, 0);
    watch_log_add(&l, 2);
    watch_log_add(&l, 3); /* there is none */
    EXPECT(&a, 0, 2);
    watch_log_join(&l, &b);
    watch_log_add(&l, 1); /* told in the place of its change, and not before */
    EXPECT(&b, 0, 2, 1);
    EXPECT(&a, 1);
    watch_log_add(&l, 1);
    EXPECT(&b, 1);
    EXPECT(&a, 1);
    watch_log_leave(&l, &a);
    watch_log_leave(&l, &b);
    assert_null(l.at);
    assert_null(l.entry);
}

/* What one reader has to hear, as a list in the order of the last changes. */
struct model {
    struct watch_reader reader;
    uint32_t due[2 * TASKS], n;
    bool joined;
};

static void model_change(struct model *m, uint32_t task)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++)
        if (m->due[i] != task)
            m->due[n++] = m->due[i];
    m->due[n++] = task;
    m->n = n;
}

static void model_read(struct model *m, uint32_t n)
{
    for (; n > 0 && m->n > 0; n--) {
        assert_int_equal(next(&m->reader), m->due[0]);
        memmove(m->due, m->due + 1, --m->n * sizeof *m->due);
    }
    if (m->n == 0)
        assert_int_equal(next(&m->reader), WATCH_LOG_NONE);
}

static void model_toggle(struct model *m)
{
    m->joined = !m->joined;
    m->n = 0;
    if (!m->joined) {
        watch_log_leave(&l, &m->reader);
        return;
    }
    watch_log_join(&l, &m->reader);
    for (uint32_t t = 0; t < TASKS; t++)
        m->due[m->n++] = t;
}

static void test_readers_hear_all_and_the_log_stays_small(void **state)
{
    struct model m[READERS] = {0};
    struct rng rng;
    rng_seed(&rng, 4711);
    watch_log_init(&l, TASKS);
    for (int step = 0; step < 200000; step++) {
        struct model *one = &m[rng_below(&rng, READERS)];
        uint32_t task = (uint32_t)rng_below(&rng, TASKS), what = (uint32_t)rng_below(&rng, 1000);
        if (what == 0) {
            model_toggle(one);
        } else if (what < 20) {
            if (one->joined)
                model_read(one, (uint32_t)rng_below(&rng, TASKS));
        } else {
            watch_log_add(&l, task);
            for (uint32_t i = 0; i < READERS; i++)
                if (m[i].joined)
                    model_change(&m[i], task);
        }
        assert_true(l.n <= 2 * TASKS + WATCH_LOG_SPARE);
        assert_true(l.cap <= 2 * TASKS + WATCH_LOG_SPARE);
    }
    for (uint32_t i = 0; i < READERS; i++)
        if (m[i].joined) {
            model_read(&m[i], 2 * TASKS);
            model_toggle(&m[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_job_as_it_is_and_then_changes),
        cmocka_unit_test(test_readers_hear_all_and_the_log_stays_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
