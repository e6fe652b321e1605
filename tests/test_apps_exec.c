/* exec/apps: which executor gets what, what waits, ends, grace and pauses, by a clock of the test. */
#include "exec/apps.h"

#include "base/mem.h"
#include "base/units.h"
#include "exec/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS US_PER_MS
#define GRACE (100 * MS)

/* What was said, a line each. */
static char said[4096];
static struct apps *a;
static struct job_desc *desc;
static uint64_t ids[64], sent = UINT64_MAX; /* by task; tasks below have left */
static int64_t last_run_us;

static void HAWK_PRINTF(1, 2) say(const char *fmt, ...)
{
    size_t n = strlen(said);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said + n, sizeof said - n, fmt, ap);
    va_end(ap);
}

static uint64_t on_task(void *user, const struct app_task *t)
{
    ids[t->try.task] = t->id;
    say("%s gets %u; ", (const char *)user, t->try.task);
    return t->try.task;
}
static bool has_left(void *user, uint64_t message) { return message < sent; }
static void on_cancel(void *user, uint64_t id)
{
    uint32_t i = 0;

    while (ids[i] != id)
        i++;
    say("%s ends %u; ", (const char *)user, i);
}
static void on_pause(void *user, uint64_t id, bool on)
{
    uint32_t i = 0;

    while (ids[i] != id)
        i++;
    say("%s %s %u; ", (const char *)user, on ? "pauses" : "resumes", i);
}
static void on_drained(void *user) { say("%s drained; ", (const char *)user); }
static void on_stuck(void *user, const char *why) { say("%s stuck: %.29s; ", (const char *)user, why); }

static void on_event(void *arg, const struct msg *m)
{
    if (m->type == MSG_EXEC_STARTED)
        say("started %u; ", m->exec_started.run);
    else if (m->type == MSG_EXEC_APP)
        say("%s%s%s %s; ", m->exec_app.name->data, m->exec_app.user ? "@" : "",
            m->exec_app.user ? m->exec_app.user->data : "", m->exec_app.on ? "on" : "off");
    else if (m->type == MSG_EXEC_PAUSED)
        say("paused %u %d; ", m->exec_paused.run, m->exec_paused.err);
    else {
        say("%u %s %d %.*s; ", m->exec_exited.run, outcome_text(m->exec_exited.outcome), m->exec_exited.code,
            m->exec_exited.result ? (int)m->exec_exited.result->len : 0,
            m->exec_exited.result ? m->exec_exited.result->data : "");
        last_run_us = m->exec_exited.run_us;
    }
}

#define SAID(text) (assert_string_equal(said, text), (void)(said[0] = '\0'))

static int setup(void **state)
{
    static const struct apps_fns fns = {on_task,    has_left, on_cancel, on_pause,
                                        on_drained, on_stuck, on_event};

    memset(ids, 0, sizeof ids);
    a = apps_new(GRACE, &fns, NULL);
    said[0] = '\0';
    desc = job_desc_new();
    desc->tasks = 64;
    desc->kind = PAYLOAD_APP;
    desc->app = blob_str("sum");
    return 0;
}

static int teardown(void **state)
{
    apps_free(a);
    assert_int_equal(desc->refs, 1);
    job_desc_drop(desc);
    return 0;
}

static struct executor *attach_as(const struct executor_offer *o)
{
    struct executor *x = NULL;
    char why[200];

    assert_int_equal(apps_attach(a, 0, o, (char *)(uintptr_t)o->name, &x, why, sizeof why), 0);
    return x;
}

static struct executor *attach(const char *app, const char *name, uint32_t slots)
{
    return attach_as(&(struct executor_offer){.app = app, .name = name, .slots = slots});
}

/* One that can pause its tasks. */
static struct executor *attach_pausing(uint32_t slots)
{
    struct executor *x =
        attach_as(&(struct executor_offer){.app = "sum", .name = "x", .slots = slots, .pauses = true});

    said[0] = '\0';
    return x;
}

/* Task i is run number 100 + i. */
static void run(int64_t now_us, uint32_t i)
{
    struct msg_exec_start m = {.run = 100 + i, .desc = desc};

    m.id.task = i;
    apps_run(a, now_us, &m);
}

static void answer(int64_t now_us, struct executor *x, uint32_t i, int32_t code, const char *text)
{
    assert_int_equal(apps_result(a, now_us, x, ids[i], code, text, strlen(text)), 0);
}

/* Two names with one number (FNV-1a has no secret: whoever likes finds such a pair). */
#define TWIN "8yn0iYCKYHlIj4-BwPqk"
#define OTHER_TWIN "GReLUrM4wMqfg9yzV3KQ"

/* Makes the job another user's, or of another application. */
static void job_of(const char *user, const char *app)
{
    blob_drop(desc->user);
    blob_drop(desc->app);
    desc->user = blob_str(user);
    desc->app = blob_str(app);
}

static struct executor *attach_of(const char *user, const char *app, const char *name)
{
    return attach_as(
        &(struct executor_offer){.app = app, .name = name, .serves = user, .slots = 8, .unbounded = true});
}

static void an_executor_gets_its_users_tasks_alone(void **state)
{
    struct executor *ann = attach_of("ann", "sum", "a"), *bob, *all;

    SAID("sum@ann on; ");
    job_of("bob", "sum");
    run(0, 0);
    SAID("100 lost -25 ; ");
    job_of("ann", "sum");
    run(0, 1);
    SAID("a gets 1; started 101; ");
    bob = attach_of("bob", "sum", "b");
    SAID("sum@bob on; ");
    job_of("bob", "sum");
    run(0, 2);
    SAID("b gets 2; started 102; ");
    job_of("", "sum"); /* nobody's job is not everybody's */
    run(0, 3);
    SAID("103 lost -25 ; ");
    /* Those that everybody shares come after the user's own. */
    all = attach_of("", "sum", "x");
    SAID("sum on; ");
    run(0, 4);
    SAID("x gets 4; started 104; ");
    job_of("ann", "sum");
    run(0, 5);
    SAID("a gets 5; started 105; ");
    job_of("carl", "sum");
    run(0, 6);
    SAID("x gets 6; started 106; ");
    apps_detach(a, 0, ann);
    said[0] = '\0';
    job_of("ann", "sum");
    run(0, 7);
    SAID("x gets 7; started 107; ");
    apps_detach(a, 0, bob);
    apps_detach(a, 0, all);
}

static void names_are_compared_in_full(void **state)
{
    struct executor *x = attach_of("bob", TWIN, "x"), *y;
    struct blob *one = blob_str(TWIN), *other = blob_str(OTHER_TWIN);

    assert_true(app_id(one) == app_id(other) && !app_eq(one, NULL, other, NULL));
    blob_drop(one);
    blob_drop(other);
    said[0] = '\0';
    job_of("bob", OTHER_TWIN);
    run(0, 0);
    SAID("100 lost -25 ; ");
    y = attach_of("", OTHER_TWIN, "y");
    said[0] = '\0';
    run(0, 1);
    SAID("y gets 1; started 101; ");
    job_of("bob", TWIN);
    run(0, 2);
    SAID("x gets 2; started 102; ");
    apps_detach(a, 0, x);
    apps_detach(a, 0, y);
}

static void a_user_has_a_share_of_the_places(void **state)
{
    enum { SHARE = LIMIT_WORKER_APPS / APPS_USER_SHARE };
    struct executor *x[SHARE], *more;
    struct executor_offer o = {.name = "x", .serves = "ann", .slots = 1};
    char why[200], app[16];

    for (uint32_t i = 0; i < SHARE; i++) {
        snprintf(app, sizeof app, "app%u", i);
        o.app = app;
        x[i] = attach_as(&o);
    }
    o.app = "one more";
    assert_int_equal(apps_attach(a, 0, &o, NULL, &more, why, sizeof why), HAWK_ELIMIT);
    assert_non_null(strstr(why, "32 applications of user ann"));
    o.serves = "bob";
    apps_detach(a, 0, attach_as(&o));
    o.serves = "ann";
    o.unbounded = true;
    apps_detach(a, 0, attach_as(&o));
    for (uint32_t i = 0; i < SHARE; i++)
        apps_detach(a, 0, x[i]);
}

static void a_user_has_a_share_of_the_executors(void **state)
{
    enum { SHARE = APPS_EXECUTORS_MAX / APPS_USER_SHARE };
    struct executor *x[SHARE], *more;
    struct executor_offer o = {.app = "sum", .name = "x", .serves = "ann", .slots = 1};
    char why[200];

    for (uint32_t i = 0; i < SHARE; i++)
        x[i] = attach_as(&o);
    assert_int_equal(apps_attach(a, 0, &o, NULL, &more, why, sizeof why), HAWK_ELIMIT);
    assert_non_null(strstr(why, "512 executors of user ann"));
    for (uint32_t i = 0; i < SHARE; i++)
        apps_detach(a, 0, x[i]);
}

static void runs_go_to_who_has_room_and_wait_in_order(void **state)
{
    struct executor *x, *y;

    run(0, 0);
    SAID("100 lost -25 ; "); /* nobody serves it: it never ran */
    x = attach("sum", "x", 2);
    y = attach("sum", "y", 1);
    SAID("sum on; ");
    for (uint32_t i = 1; i <= 5; i++)
        run(0, i);
    SAID("x gets 1; started 101; y gets 2; started 102; x gets 3; started 103; ");
    assert_int_equal(apps_running(a), 5);
    answer(10, y, 2, 0, "two");
    SAID("102 exited 0 two; y gets 4; started 104; ");
    answer(10, x, 3, 7, "no");
    SAID("103 exited 7 no; x gets 5; started 105; ");
    assert_int_equal(apps_result(a, 10, x, ids[4], 0, "", 0), HAWK_ENOT_FOUND); /* y has it */
    assert_int_equal(apps_result(a, 10, x, ids[3], 0, "", 0), HAWK_ENOT_FOUND); /* answered */
    assert_int_equal(apps_result(a, 10, x, 999999, 0, "", 0), HAWK_ENOT_FOUND);
    apps_detach(a, 20, x);
    SAID("101 lost 0 its executor x, of application sum, is gone; "
         "105 lost 0 its executor x, of application sum, is gone; ");
    answer(20, y, 4, 0, "");
    SAID("104 exited 0 ; ");
    apps_detach(a, 20, y);
    SAID("sum off; ");
    assert_int_equal(apps_running(a), 0);
}

static void who_leaves_finishes_what_it_has(void **state)
{
    struct executor *x = attach("sum", "x", 1);

    run(0, 0);
    run(0, 1);
    said[0] = '\0';
    apps_drain(a, 0, x);
    SAID("sum off; 101 lost -25 ; "); /* what waited runs elsewhere */
    apps_drain(a, 0, x);
    SAID("");
    answer(5, x, 0, 0, "done");
    SAID("100 exited 0 done; x drained; ");
    apps_detach(a, 5, x);
    x = attach("sum", "x", 1);
    SAID("sum on; ");
    apps_drain(a, 5, x);
    SAID("sum off; x drained; ");
    apps_detach(a, 5, x);
    SAID("");
}

static void what_is_to_end_has_its_grace(void **state)
{
    struct executor *x = attach("sum", "x", 4);

    for (uint32_t i = 0; i < 4; i++)
        run(0, i);
    run(0, 4); /* waits */
    said[0] = '\0';
    assert_false(apps_kill(a, 0, 99, OUTCOME_CANCELLED, false));
    assert_true(apps_kill(a, 0, 104, OUTCOME_CANCELLED, false));
    SAID("104 cancelled 0 ; ");
    apps_kill(a, 0, 100, OUTCOME_CANCELLED, false);
    apps_kill(a, 0, 101, OUTCOME_CANCELLED, false);
    apps_kill(a, 0, 102, OUTCOME_CANCELLED, false);
    apps_kill(a, 0, 102, OUTCOME_LOST, true);
    SAID("x ends 0; x ends 1; x ends 2; 102 cancelled 0 ; ");
    answer(MS, x, 0, 1, "stopped");
    answer(MS, x, 1, 0, "was done already");
    SAID("100 cancelled 0 stopped; 101 exited 0 was done already; ");
    answer(MS, x, 2, 0, "late"); /* dropped, and its place is free */
    SAID("");
    apps_kill(a, MS, 103, OUTCOME_LOST, false);
    assert_int_equal(apps_next_timeout(a), MS + GRACE);
    said[0] = '\0';
    apps_on_timeout(a, MS + GRACE);
    SAID("103 lost 0 ; ");
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
    /* It still has one of the four places. */
    for (uint32_t i = 10; i < 14; i++)
        run(0, i);
    SAID("x gets 10; started 110; x gets 11; started 111; x gets 12; started 112; ");
    apps_detach(a, MS, x);
    said[0] = '\0';
}

static void who_answers_nothing_is_stuck(void **state)
{
    const int64_t second = US_PER_S; /* more than GRACE */
    struct executor *x = attach("sum", "x", 2);

    for (uint32_t i = 0; i < 4; i++)
        run(0, i);
    apps_kill(a, 0, 100, OUTCOME_CANCELLED, true);
    assert_int_equal(apps_next_timeout(a), TIME_NEVER); /* it may answer the other one */
    apps_kill(a, 0, 101, OUTCOME_CANCELLED, false);
    apps_on_timeout(a, GRACE);
    assert_int_equal(apps_next_timeout(a), GRACE + second);
    said[0] = '\0';
    answer(GRACE, x, 0, 0, "late"); /* whichever it answers, it is not stuck */
    SAID("x gets 2; started 102; ");
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
    apps_kill(a, GRACE, 102, OUTCOME_TIME_LIMIT, true);
    said[0] = '\0';
    apps_on_timeout(a, GRACE + second - 1);
    SAID("");
    apps_on_timeout(a, GRACE + second);
    SAID("x stuck: executor x of application sum; ");
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
    apps_detach(a, GRACE + second, x);
    SAID("sum off; 103 lost -25 ; "); /* what waited never ran */
    x = attach("sum", "x", 1);
    run(0, 0);
    apps_kill(a, 0, 100, OUTCOME_CANCELLED, true);
    apps_detach(a, 0, x); /* gone by itself, with its grace going on */
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
}

static void what_waits_and_is_lost_never_ran(void **state)
{
    struct executor *x = attach("sum", "x", 1);

    run(0, 0);
    run(0, 1);
    said[0] = '\0';
    apps_kill(a, 0, 101, OUTCOME_LOST, false);
    SAID("101 lost -25 ; ");
    apps_detach(a, 0, x);
}

static void a_time_limit_counts_from_the_start(void **state)
{
    struct executor *x = attach("sum", "x", 1);

    desc->time_limit_us = 50 * MS;
    run(0, 0);
    run(0, 1);
    said[0] = '\0';
    apps_on_timeout(a, 50 * MS);
    SAID("x ends 0; ");
    answer(60 * MS, x, 0, 0, "nearly");
    SAID("100 time-limit 0 nearly; x gets 1; started 101; ");
    assert_int_equal(apps_next_timeout(a), 110 * MS);
    apps_on_timeout(a, 110 * MS);
    apps_on_timeout(a, 110 * MS + GRACE);
    SAID("x ends 1; 101 time-limit 0 ; ");
    apps_detach(a, 0, x);
    SAID("sum off; ");
}

static void limits_are_errors(void **state)
{
    struct executor *x[LIMIT_WORKER_APPS], *more;
    struct executor_offer o = {.app = "more", .name = "y", .slots = 1};
    char why[300], name[16], *big = xcalloc(1, LIMIT_RESULT_BYTES + 1);

    for (uint32_t i = 0; i < LIMIT_WORKER_APPS; i++) {
        snprintf(name, sizeof name, "app%u", i);
        x[i] = attach(name, "x", 1);
    }
    assert_int_equal(apps_attach(a, 0, &o, NULL, &more, why, sizeof why), HAWK_ELIMIT);
    assert_non_null(strstr(why, "64 applications"));
    o.app = "";
    assert_int_equal(apps_attach(a, 0, &o, NULL, &more, why, sizeof why), HAWK_EINVALID);
    o.app = "app1";
    o.slots = 0;
    assert_int_equal(apps_attach(a, 0, &o, NULL, &more, why, sizeof why), HAWK_EINVALID);
    o.slots = LIMIT_SLOTS + 1;
    assert_int_equal(apps_attach(a, 0, &o, NULL, &more, why, sizeof why), HAWK_EINVALID);
    apps_detach(a, 0, x[0]);
    x[0] = attach("sum", "x", 1);
    run(0, 0);
    said[0] = '\0';
    assert_int_equal(apps_result(a, 0, x[0], ids[0], 0, big, LIMIT_RESULT_BYTES + 1), 0);
    SAID("100 exited 1 it returned 1048577 bytes, the limit is 1048576; ");
    free(big);
    for (uint32_t i = 0; i < LIMIT_WORKER_APPS; i++)
        apps_detach(a, 0, x[i]);
}

/* Ids are used again only after very many runs: what is late never meets another's. */
static void a_late_answer_meets_nobody(void **state)
{
    struct executor *x = attach("sum", "x", 1);
    uint64_t first;

    run(0, 0);
    first = ids[0];
    answer(0, x, 0, 0, "");
    for (int i = 0; i < 1000; i++) {
        run(0, 0);
        assert_true(ids[0] != first);
        assert_int_equal(apps_result(a, 0, x, first, 0, "", 0), HAWK_ENOT_FOUND);
        answer(0, x, 0, 0, "");
        said[0] = '\0';
    }
    apps_detach(a, 0, x);
}

static void nobody_answers_what_has_not_left(void **state)
{
    struct executor *x = attach_pausing(2);

    run(0, 1);
    assert_int_equal(apps_pause(a, 0, 101), 0);
    sent = 1;
    assert_int_equal(apps_paused(a, 0, x, ids[1], false), 0);
    assert_int_equal(apps_result(a, 0, x, ids[1], 0, "", 0), HAWK_ENOT_FOUND);
    SAID("x gets 1; started 101; x pauses 1; ");
    sent = UINT64_MAX;
    answer(0, x, 1, 0, "");
    apps_detach(a, 0, x);
}

/* ---- Pauses ---- */

static void pause_run(int64_t now_us, uint32_t i) { assert_int_equal(apps_pause(a, now_us, 100 + i), 0); }

static void confirm(int64_t now_us, struct executor *x, uint32_t i)
{
    assert_int_equal(apps_paused(a, now_us, x, ids[i], false), 0);
}

static void only_who_offers_it_is_asked_to_pause(void **state)
{
    struct executor *x = attach("sum", "x", 1);

    run(0, 0);
    said[0] = '\0';
    assert_int_equal(apps_pause(a, 0, 100), HAWK_EUNSUPPORTED);
    assert_int_equal(apps_pause(a, 0, 99), HAWK_EUNSUPPORTED);
    assert_int_equal(apps_paused(a, 0, x, ids[0], false), HAWK_EINVALID);
    assert_true(apps_resume(a, 0, 100));
    assert_false(apps_resume(a, 0, 99));
    SAID("");
    apps_detach(a, 0, x);
    said[0] = '\0';
    x = attach_pausing(1);
    run(0, 0);
    run(0, 1);
    SAID("x gets 0; started 100; ");
    assert_int_equal(apps_pause(a, 0, 101), HAWK_EBUSY); /* it waits */
    apps_kill(a, 0, 100, OUTCOME_CANCELLED, false);
    assert_int_equal(apps_pause(a, 0, 100), HAWK_EBUSY);
    SAID("x ends 0; ");
    apps_detach(a, 0, x);
}

static void a_paused_run_makes_room_and_goes_on(void **state)
{
    struct executor *x = attach_pausing(1), *y;

    desc->time_limit_us = 1000 * MS;
    run(0, 0);
    run(0, 1);
    said[0] = '\0';
    pause_run(100 * MS, 0);
    pause_run(100 * MS, 0); /* one answer is on its way */
    SAID("x pauses 0; ");
    confirm(200 * MS, x, 0);
    SAID("x gets 1; started 101; paused 100 0; ");
    assert_int_equal(apps_next_timeout(a), 1200 * MS); /* that of 101 */
    confirm(250 * MS, x, 0);                           /* stray, as the next ones */
    confirm(250 * MS, x, 1);
    assert_int_equal(apps_paused(a, 250 * MS, x, 999999, false), 0);
    y = attach_as(&(struct executor_offer){.app = "other", .name = "y", .slots = 1, .pauses = true});
    SAID("other on; ");
    confirm(250 * MS, y, 0);
    SAID("");
    pause_run(250 * MS, 0);
    SAID("paused 100 0; ");
    answer(300 * MS, x, 1, 0, "short");
    SAID("101 exited 0 short; ");
    apps_resume(a, 700 * MS, 100);
    apps_resume(a, 700 * MS, 100);
    SAID("x resumes 0; ");
    assert_int_equal(apps_next_timeout(a), 1500 * MS); /* it stood still for half a second */
    apps_on_timeout(a, 1500 * MS);
    SAID("x ends 0; ");
    answer(1510 * MS, x, 0, 0, "");
    SAID("100 time-limit 0 ; ");
    assert_int_equal(last_run_us, 1010 * MS);
    apps_detach(a, 0, x);
    apps_detach(a, 0, y);
}

static void who_goes_on_takes_a_place_beyond_the_last(void **state)
{
    struct executor *x = attach_pausing(1);

    run(0, 0);
    pause_run(0, 0);
    confirm(0, x, 0);
    run(0, 1);
    apps_resume(a, 0, 100);
    run(0, 2);
    said[0] = '\0';
    answer(0, x, 1, 0, "");
    SAID("101 exited 0 ; "); /* and 2 waits */
    answer(0, x, 0, 0, "");
    SAID("100 exited 0 ; x gets 2; started 102; ");
    /* The executor is stuck as long as any of such runs fill it. */
    pause_run(0, 2);
    confirm(0, x, 2);
    run(0, 3);
    apps_kill(a, 0, 102, OUTCOME_CANCELLED, true);
    apps_kill(a, 0, 103, OUTCOME_CANCELLED, true);
    assert_int_equal(apps_next_timeout(a), US_PER_S);
    said[0] = '\0';
    answer(MS, x, 2, 0, "late");
    assert_int_equal(apps_next_timeout(a), US_PER_S + MS);
    answer(MS, x, 3, 0, "late");
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
    SAID("");
    apps_detach(a, 0, x);
}

static void a_pause_that_is_refused_or_late_is_undone(void **state)
{
    struct executor *x = attach_pausing(1);

    run(0, 0);
    said[0] = '\0';
    pause_run(0, 0);
    assert_int_equal(apps_paused(a, 0, x, ids[0], true), 0);
    SAID("x pauses 0; paused 100 -23; ");
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
    pause_run(MS, 0);
    apps_on_timeout(a, MS + EXEC_CONFIRM_US - 1);
    SAID("x pauses 0; ");
    apps_on_timeout(a, MS + EXEC_CONFIRM_US);
    SAID("x resumes 0; paused 100 -11; ");
    confirm(MS + EXEC_CONFIRM_US, x, 0); /* late */
    SAID("");
    pause_run(MS, 0);
    apps_resume(a, MS, 100);
    SAID("x pauses 0; x resumes 0; paused 100 -11; ");
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
    pause_run(MS, 0);
    answer(MS, x, 0, 0, "done"); /* its end is the answer */
    SAID("x pauses 0; 100 exited 0 done; ");
    apps_detach(a, 0, x);
}

static void a_time_limit_goes_on_until_the_run_stands_still(void **state)
{
    struct executor *x = attach_pausing(1);

    desc->time_limit_us = 50 * MS;
    run(0, 0);
    said[0] = '\0';
    pause_run(10 * MS, 0);
    apps_on_timeout(a, 50 * MS);
    SAID("x pauses 0; x resumes 0; x ends 0; paused 100 -11; ");
    apps_on_timeout(a, 50 * MS + GRACE);
    SAID("100 time-limit 0 ; ");
    apps_detach(a, 0, x);
}

static void a_paused_run_can_be_ended(void **state)
{
    struct executor *x = attach_pausing(2);

    run(0, 0);
    run(0, 1);
    pause_run(0, 0);
    confirm(0, x, 0);
    pause_run(0, 1);
    said[0] = '\0';
    apps_kill(a, 0, 100, OUTCOME_CANCELLED, false);
    SAID("x resumes 0; x ends 0; ");
    apps_kill(a, 0, 101, OUTCOME_CANCELLED, true);
    SAID("x resumes 1; x ends 1; 101 cancelled 0 ; "); /* its end is the answer */
    answer(0, x, 0, 1, "stopped");
    answer(0, x, 1, 1, "stopped");
    SAID("100 cancelled 0 stopped; ");
    apps_detach(a, 0, x);
}

static void paused_runs_of_who_is_gone_are_lost(void **state)
{
    struct executor *x = attach_pausing(2);

    for (uint32_t i = 0; i < 3; i++)
        run(0, i);
    pause_run(20, 0);
    confirm(20, x, 0);
    pause_run(20, 1);
    apps_drain(a, 20, x); /* it has all three, and is not drained while one stands still */
    answer(30, x, 1, 0, "");
    said[0] = '\0';
    answer(30, x, 2, 0, "");
    SAID("102 exited 0 ; ");
    apps_detach(a, 50, x);
    SAID("100 lost 0 its executor x, of application sum, is gone; ");
    assert_int_equal(last_run_us, 20);
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
    x = attach_pausing(1);
    run(0, 0);
    pause_run(0, 0);
    confirm(0, x, 0);
    apps_drain(a, 0, x);
    said[0] = '\0';
    answer(0, x, 0, 0, "all the same");
    SAID("100 exited 0 all the same; x drained; ");
    apps_detach(a, 0, x);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_executor_gets_its_users_tasks_alone),
        TEST(names_are_compared_in_full),
        TEST(a_user_has_a_share_of_the_places),
        TEST(a_user_has_a_share_of_the_executors),
        TEST(runs_go_to_who_has_room_and_wait_in_order),
        TEST(who_leaves_finishes_what_it_has),
        TEST(what_is_to_end_has_its_grace),
        TEST(who_answers_nothing_is_stuck),
        TEST(what_waits_and_is_lost_never_ran),
        TEST(a_time_limit_counts_from_the_start),
        TEST(limits_are_errors),
        TEST(a_late_answer_meets_nobody),
        TEST(nobody_answers_what_has_not_left),
        TEST(only_who_offers_it_is_asked_to_pause),
        TEST(a_paused_run_makes_room_and_goes_on),
        TEST(who_goes_on_takes_a_place_beyond_the_last),
        TEST(a_pause_that_is_refused_or_late_is_undone),
        TEST(a_time_limit_goes_on_until_the_run_stands_still),
        TEST(a_paused_run_can_be_ended),
        TEST(paused_runs_of_who_is_gone_are_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
