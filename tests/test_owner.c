/* The owner's side of a task, as dist and central share it. */
#include "base/mem.h"
#include "owner/jobs.h"
#include "owner/messages.h"
#include "owner/pauses.h"
#include "owner/retries.h"
#include "owner/starts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Messages ---- */

static void the_first_messages_are_kept(void **state)
{
    struct owner_messages messages = {0};
    char text[] = "00";

    for (uint32_t i = 0; i < JOB_MESSAGES_MAX + 3; i++) {
        text[0] = (char)('0' + i / 10);
        text[1] = (char)('0' + i % 10);
        owner_message_say(&messages, i, text);
    }
    owner_message_say(&messages, 2, "another");
    owner_messages_check(&messages, JOB_MESSAGES_MAX);
    assert_string_equal(owner_message_find(&messages, 2)->data, "02");
    assert_string_equal(owner_message_find(&messages, JOB_MESSAGES_MAX - 1)->data, "15");
    assert_null(owner_message_find(&messages, JOB_MESSAGES_MAX));
    owner_messages_free(&messages);
}

static void long_messages_are_cut_and_empty_ones_are_none(void **state)
{
    struct owner_messages messages = {0};
    struct blob *nothing = blob_new(NULL, 0), *text = blob_new(NULL, MESSAGE_BYTES_MAX + 1);

    memset(text->data, 'x', text->len);
    owner_message_keep(&messages, 0, nothing);
    owner_message_keep(&messages, 0, NULL);
    assert_null(owner_message_find(&messages, 0));
    owner_message_keep(&messages, 0, text);
    assert_int_equal(owner_message_find(&messages, 0)->len, MESSAGE_BYTES_MAX);
    owner_messages_check(&messages, 1);
    owner_messages_free(&messages);
    blob_drop(text);
    blob_drop(nothing);
}

/* Whether what comes with such an end is kept as a message (1), or is the task's result (2). */
static int kept(bool for_app, enum outcome outcome, int32_t code)
{
    struct owner_messages messages = {0};
    struct msg_task_finished end = {.outcome = (uint8_t)outcome, .code = code, .result = blob_str("words")};
    bool result = owner_message_of_end(&messages, 7, for_app, &end);
    int what = (owner_message_find(&messages, 7) ? 1 : 0) + (result ? 2 : 0);

    owner_messages_free(&messages);
    blob_drop(end.result);
    return what;
}

static void an_end_says_why_or_brings_a_result(void **state)
{
    assert_int_equal(kept(false, OUTCOME_NOT_STARTED, 127), 1);
    assert_int_equal(kept(true, OUTCOME_NOT_STARTED, 127), 1);
    assert_int_equal(kept(true, OUTCOME_EXITED, 1), 1);
    assert_int_equal(kept(true, OUTCOME_SIGNALED, 9), 1);
    assert_int_equal(kept(false, OUTCOME_EXITED, 1), 0);
    assert_int_equal(kept(false, OUTCOME_TIME_LIMIT, 0), 0);
    assert_int_equal(kept(false, OUTCOME_EXITED, 0), 2);
    assert_int_equal(kept(true, OUTCOME_EXITED, 0), 2);
}

/* ---- Pauses ---- */

#define S US_PER_S

static void told(struct owner_pauses *pauses, uint32_t task, uint16_t attempt, uint32_t times,
                 uint32_t stood_ms, uint32_t paused_ms, int64_t now_us)
{
    struct msg_task_paused m = {.id = {.task = task, .attempt = attempt},
                                .times = times,
                                .stood_ms = stood_ms,
                                .paused_ms = paused_ms,
                                .for_job = job_id_make((node_id_t){3}, times),
                                .for_task = 8};

    owner_pause_note(pauses, task, &m, now_us);
    owner_pauses_check(pauses, 100);
}

static struct task_view view_of(const struct owner_pauses *pauses, uint32_t task, uint16_t attempt,
                                int64_t now_us)
{
    struct task_view v = {.attempt = attempt};

    owner_pause_view(pauses, task, now_us, &v);
    return v;
}

static void pauses_add_up(void **state)
{
    struct owner_pauses pauses = {0};
    struct msg_task_paused m = {0};
    struct job_view job = {0};

    told(&pauses, 5, 1, 2, 1000, 3000, 10 * S);
    told(&pauses, 2, 1, 1, 0, 500, 10 * S);
    told(&pauses, 9, 1, 1, 1, 0, 10 * S);
    assert_int_equal(view_of(&pauses, 5, 1, 14 * S).stood_us, 5 * S);
    assert_int_equal(view_of(&pauses, 5, 1, 14 * S).paused_us, 7 * S);
    assert_int_equal(view_of(&pauses, 5, 1, 14 * S).paused_for.v, job_id_make((node_id_t){3}, 2).v);
    assert_int_equal(view_of(&pauses, 5, 1, 14 * S).paused_for_task, 8);
    assert_int_equal(view_of(&pauses, 2, 1, 14 * S).stood_us, -1);
    assert_int_equal(view_of(&pauses, 3, 1, 14 * S).stood_us, -1);
    assert_int_equal(view_of(&pauses, 3, 1, 14 * S).pauses, 0);
    owner_pauses_view(&pauses, 14 * S, &job);
    assert_int_equal(job.paused, 2);
    assert_int_equal(job.pauses, 4);
    assert_int_equal(job.paused_us, 7 * S + S / 2 + 4 * S + US_PER_MS);
    /* For somebody else. */
    owner_pause_say(owner_pause_find(&pauses, 5), 14 * S, &m);
    assert_int_equal(m.stood_ms, 5000);
    assert_int_equal(m.paused_ms, 7000);
    assert_int_equal(m.times, 2);
    /* A try that ends while it stands still; then the next try, and a worker's next process, which begin at 0. */
    owner_pause_end(&pauses, 5, 15 * S);
    owner_pause_end(&pauses, 5, 16 * S);
    assert_int_equal(view_of(&pauses, 5, 1, 99 * S).paused_us, 8 * S);
    told(&pauses, 5, 2, 3, 0, 100, 20 * S);
    assert_int_equal(view_of(&pauses, 5, 2, 20 * S).paused_us, S / 10);
    told(&pauses, 5, 2, 1, 0, 100, 21 * S);
    assert_int_equal(view_of(&pauses, 5, 2, 21 * S).pauses, 4);
    assert_int_equal(view_of(&pauses, 5, 2, 21 * S).paused_us, 2 * S / 10);
    owner_pause_say(owner_pause_find(&pauses, 5), 21 * S, &m);
    assert_int_equal(m.paused_ms, 200);
    assert_int_equal(m.times, 4);
    assert_int_equal(view_of(&pauses, 5, 3, 21 * S).pauses, 0);
    assert_int_equal(view_of(&pauses, 5, 3, 21 * S).paused_us, 0);
    told(&pauses, 5, 3, 1, 0, 100, 22 * S);
    job = (struct job_view){0};
    owner_pauses_view(&pauses, 22 * S, &job);
    assert_int_equal(job.pauses, 2 + 4 + 1 + 1 + 1);
    assert_int_equal(job.paused_us, 8 * S + 3 * S / 10 + S / 2 + 12 * S + US_PER_MS);
    owner_pauses_free(&pauses);
}

static void so_many_paused_tasks_are_kept(void **state)
{
    struct owner_pauses pauses = {0};
    struct msg_task_paused m = {.id = {.attempt = 1}, .times = 1};

    for (uint32_t i = OWNER_PAUSES_MAX + 5; i-- > 0;)
        owner_pause_note(&pauses, i, &m, S);
    owner_pauses_check(&pauses, OWNER_PAUSES_MAX + 5);
    assert_null(owner_pause_find(&pauses, 4));
    assert_non_null(owner_pause_find(&pauses, 5));
    owner_pauses_free(&pauses);
}

/* ---- Jobs ---- */

static struct task_set *set_of(uint32_t n, const uint32_t *v)
{
    struct task_set *s = task_set_new(n);

    memcpy(s->v, v, n * sizeof *v);
    return s;
}

static bool valid(uint32_t tasks, uint16_t epoch, uint32_t n, const uint32_t *v)
{
    struct job_desc desc = {.tasks = tasks};
    struct task_set *s = set_of(n, v);
    bool ok = owner_job_valid(&desc, epoch, s, 1);

    task_set_drop(s);
    return ok;
}

static void a_job_has_tasks_and_an_epoch(void **state)
{
    struct job_desc desc = {.tasks = 3};

    assert_true(owner_job_valid(&desc, 1, NULL, 1));
    assert_false(owner_job_valid(&desc, 0, NULL, 1));
    assert_false(owner_job_valid(NULL, 1, NULL, 1));
    desc.tasks = 0;
    assert_false(owner_job_valid(&desc, 1, NULL, 1));
    desc.tasks = LIMIT_TASKS_PER_JOB;
    assert_true(owner_job_valid(&desc, 1, NULL, 1));
    desc.tasks++;
    assert_false(owner_job_valid(&desc, 1, NULL, 1));
}

static void a_set_names_tasks_of_its_job_in_order(void **state)
{
    struct job_desc desc = {.tasks = 3};
    struct task_set *none = task_set_new(0);

    assert_true(valid(3, 1, 2, (uint32_t[]){0, 2}));
    assert_false(valid(3, 1, 2, (uint32_t[]){0, 3}));
    assert_false(valid(3, 1, 2, (uint32_t[]){2, 0}));
    assert_false(valid(3, 1, 2, (uint32_t[]){1, 1}));
    assert_true(owner_job_valid(&desc, 1, none, 0));
    assert_false(owner_job_valid(&desc, 1, none, 1));
    task_set_drop(none);
}

static void a_lost_task_is_tried_again_while_it_may_be(void **state)
{
    const struct job_desc twice = {.lost_retries = 2}, never = {.lost_retries = 0};
    const struct job_desc once = {.flags = JOB_AT_MOST_ONCE, .lost_retries = 2};

    assert_true(owner_may_retry(&twice, true, true, 2));
    assert_false(owner_may_retry(&twice, true, true, 3));
    assert_true(owner_may_retry(&twice, true, false, 3)); /* it never started: that costs no retry */
    assert_false(owner_may_retry(&never, true, true, 1));
    assert_true(owner_may_retry(&once, false, false, 1));
    assert_false(owner_may_retry(&once, true, false, 1)); /* it may have run all the same */
    assert_false(owner_may_retry(&once, true, true, 1));
}

static void outcomes_have_states(void **state)
{
    assert_int_equal(owner_final_state(OUTCOME_EXITED, 0), TASK_DONE);
    assert_int_equal(owner_final_state(OUTCOME_EXITED, 3), TASK_FAILED);
    assert_int_equal(owner_final_state(OUTCOME_SIGNALED, 9), TASK_FAILED);
    assert_int_equal(owner_final_state(OUTCOME_TIME_LIMIT, 0), TASK_FAILED);
    assert_int_equal(owner_final_state(OUTCOME_NOT_STARTED, 126), TASK_FAILED);
    assert_int_equal(owner_final_state(OUTCOME_CANCELLED, 0), TASK_CANCELLED);
    assert_int_equal(owner_final_state(OUTCOME_LOST, 0), TASK_LOST);
}

/* ---- Starts ---- */

static node_id_t node(uint32_t v) { return (node_id_t){v}; }

static void a_task_is_tried_at_so_many_workers(void **state)
{
    struct owner_starts starts = {0};
    uint16_t unstarted = 0;

    for (uint32_t v = 1; v < START_WORKERS_MAX; v++)
        assert_true(owner_starts_failed(&starts, node(v), 4, &unstarted));
    assert_false(owner_starts_failed(&starts, node(START_WORKERS_MAX), 4, &unstarted));
    assert_int_equal(unstarted, START_WORKERS_MAX);
    assert_true(owner_starts_avoid(&starts, node(START_WORKERS_MAX)));
    assert_false(owner_starts_avoid(&starts, node(START_WORKERS_MAX + 1)));
    unstarted = 0; /* another task: its first try fails */
    starts.unstartable = true;
    assert_false(owner_starts_failed(&starts, node(1), 5, &unstarted));
    assert_int_equal(starts.n, START_WORKERS_MAX);
    free(starts.v);
}

static void a_job_avoids_no_more_workers_than_it_may(void **state)
{
    struct owner_starts starts = {0};

    for (uint32_t v = 1; v <= START_FAILURES_MAX + 1; v++) {
        uint16_t unstarted = 0;

        assert_true(owner_starts_failed(&starts, node(v), v, &unstarted));
    }
    assert_int_equal(starts.n, START_FAILURES_MAX);
    assert_true(owner_starts_avoid(&starts, node(START_FAILURES_MAX)));
    assert_false(owner_starts_avoid(&starts, node(START_FAILURES_MAX + 1)));
    free(starts.v);
}

static void who_did_not_start_it_is_blamed_once(void **state)
{
    struct owner_starts starts = {0};
    node_id_t blamed = NODE_NONE;

    assert_false(owner_starts_began(&starts));
    owner_starts_failed(&starts, node(1), 0, &(uint16_t){0});
    owner_starts_failed(&starts, node(2), 0, &(uint16_t){0});
    owner_starts_failed(&starts, node(3), 9, &(uint16_t){0});
    owner_starts_failed(&starts, node(4), 0, &(uint16_t){0});
    starts.unstartable = true;
    assert_true(owner_starts_began(&starts));
    /* It started at 2, where it could not before: that is over there. */
    assert_true(owner_starts_blame(&starts, node(2), 0, &blamed));
    assert_int_equal(blamed.v, 4);
    assert_false(starts.unstartable);
    assert_true(owner_starts_blame(&starts, node(2), 0, &blamed));
    assert_int_equal(blamed.v, 1);
    assert_false(owner_starts_blame(&starts, node(2), 0, &blamed));
    assert_false(owner_starts_avoid(&starts, node(2)));
    assert_true(owner_starts_avoid(&starts, node(1)));
    assert_true(owner_starts_avoid(&starts, node(3)));
    /* Another task starts: 1 and 4 have been told. */
    assert_true(owner_starts_blame(&starts, node(5), 9, &blamed));
    assert_int_equal(blamed.v, 3);
    assert_false(owner_starts_blame(&starts, node(5), 9, &blamed));
    assert_int_equal(starts.n, 3);
    free(starts.v);
}

/* ---- Retries ---- */

static bool runs_again(const struct job_desc *d, uint32_t failures, enum outcome outcome, int32_t code)
{
    return owner_retry_on(d, outcome, code) && owner_has_retries(d, failures);
}

static void a_failure_is_retried_as_often_as_the_job_says(void **state)
{
    struct job_desc *d = job_desc_new();

    assert_false(runs_again(d, 0, OUTCOME_EXITED, 1));
    d->failure_retries = 2;
    assert_true(runs_again(d, 1, OUTCOME_EXITED, 1));
    assert_true(runs_again(d, 0, OUTCOME_SIGNALED, 9));
    assert_true(runs_again(d, 0, OUTCOME_TIME_LIMIT, 0));
    assert_false(runs_again(d, 2, OUTCOME_EXITED, 1));
    assert_false(runs_again(d, 0, OUTCOME_EXITED, 0));
    assert_false(runs_again(d, 0, OUTCOME_NOT_STARTED, 127));
    assert_false(runs_again(d, 0, OUTCOME_CANCELLED, 0));
    assert_false(runs_again(d, 0, OUTCOME_LOST, 0));
    d->retry_on = RETRY_ON_EXIT;
    d->retry_codes = blob_new("\xff", 1);
    assert_true(runs_again(d, 0, OUTCOME_EXITED, 255));
    assert_false(runs_again(d, 0, OUTCOME_EXITED, 1));
    assert_false(runs_again(d, 0, OUTCOME_SIGNALED, 255));
    d->flags = JOB_AT_MOST_ONCE;
    assert_false(runs_again(d, 0, OUTCOME_EXITED, 255));
    job_desc_drop(d);
}

static void delays_double_up_to_an_hour(void **state)
{
    struct job_desc *d = job_desc_new();

    assert_int_equal(owner_retry_delay_us(d, 100), 0);
    d->retry_delay_us = 7 * S;
    assert_int_equal(owner_retry_delay_us(d, 1), 7 * S);
    assert_int_equal(owner_retry_delay_us(d, 4), 56 * S);
    assert_int_equal(owner_retry_delay_us(d, 100), 3600 * S);
    d->retry_delay_us = LIMIT_TIME_US;
    assert_int_equal(owner_retry_delay_us(d, 1), 3600 * S);
    job_desc_drop(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_retried_as_often_as_the_job_says),
        cmocka_unit_test(delays_double_up_to_an_hour),
        cmocka_unit_test(the_first_messages_are_kept),
        cmocka_unit_test(a_lost_task_is_tried_again_while_it_may_be),
        cmocka_unit_test(long_messages_are_cut_and_empty_ones_are_none),
        cmocka_unit_test(an_end_says_why_or_brings_a_result),
        cmocka_unit_test(pauses_add_up),
        cmocka_unit_test(so_many_paused_tasks_are_kept),
        cmocka_unit_test(a_job_has_tasks_and_an_epoch),
        cmocka_unit_test(a_set_names_tasks_of_its_job_in_order),
        cmocka_unit_test(outcomes_have_states),
        cmocka_unit_test(a_task_is_tried_at_so_many_workers),
        cmocka_unit_test(a_job_avoids_no_more_workers_than_it_may),
        cmocka_unit_test(who_did_not_start_it_is_blamed_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
