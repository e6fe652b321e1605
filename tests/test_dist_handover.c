/* How far central has a job: the table of moves, as the code and the page have it, a central that says anything at any
 * time, and a part of a job that a restarted dist reports. The conversations are in test_dist_long.c, test_dist_move.c
 * and test_dist_restart.c. */
#include "tests/test_dist_restart.h"

#include "base/rng.h"
#include "dist/internal.h"

/* docs/architecture.md has a row for each state: "| `NONE` | `READY` `ASKED` … |". */
static void the_page_has_the_same_moves(void **state)
{
#define X(name) #name,
    static const char *const names[] = {HAND_OVERS(X)};
#undef X
    static char line[4096];
    unsigned rows = 0;
    FILE *f = fopen("docs/architecture.md", "re");

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        for (unsigned from = 0; from < HAND_OVER_COUNT; from++) {
            char head[64], name[64];
            const char *moves;

            snprintf(head, sizeof head, "| `%s` | ", names[from]);
            if (strncmp(line, head, strlen(head)) != 0)
                continue;
            rows++;
            moves = line + strlen(head);
            for (unsigned to = 0; to < HAND_OVER_COUNT; to++) {
                snprintf(name, sizeof name, "`%s`", names[to]);
                if ((strstr(moves, name) != NULL) != dist_handover_may_move(from, to))
                    fail_msg("%s to %s: the code says %d", names[from], names[to],
                             dist_handover_may_move(from, to));
            }
        }
    fclose(f);
    assert_int_equal(rows, HAND_OVER_COUNT);
}

/* ---- A central and a journal without manners ---- */

#define CHAOS_JOBS 4u
#define CHAOS_STEPS 2000
#define CHAOS_SEEDS 300

struct chaos {
    struct talk *t;
    struct rng rng;
    bool up;
    uint32_t seen; /* states that some job was in */
};

static uint64_t draw(struct chaos *c, uint64_t n) { return rng_below(&c->rng, n); }

/* An id that some job has, or had, or will have. */
static job_id_t any_job(struct chaos *c) { return J(1 + draw(c, c->t->d.next_seq)); }

/* The epoch that central has it under; seldom another one. */
static uint16_t epoch_of(struct chaos *c, job_id_t id)
{
    const struct dist_job *job = dist_find(&c->t->d, id);

    return job && draw(c, 20) ? job->epoch : (uint16_t)draw(c, 5);
}

static void any_submission(struct chaos *c)
{
    struct talk *t = c->t;
    const uint32_t flags[] = {0, JOB_AT_MOST_ONCE, JOB_DETACHED, JOB_DETACHED | JOB_AT_MOST_ONCE};
    struct job_desc *desc = desc_new(1 + (uint32_t)draw(c, 3), "any");
    struct resubmit *r = NULL;

    desc->flags = flags[draw(c, 4)];
    desc->estimate_us = draw(c, 2) ? 100 * US_PER_S : 0;
    if (draw(c, 4) == 0) {
        r = resubmit_new(0);
        r->job = any_job(c);
        r->epoch = (uint16_t)(3 + 2 * draw(c, 3));
        r->class = desc->estimate_us ? CLASS_LONG : CLASS_SHORT;
        r->long_epoch = draw(c, 2) ? (uint16_t)(r->epoch - 1) : 0;
        desc->flags &= ~JOB_DETACHED;
    }
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .resubmit = r, .client = 9, .key = 5);
    ignore(t);
    resubmit_drop(r);
    job_desc_drop(desc);
}

static void any_word_of_central(struct chaos *c)
{
    static const int32_t errs[] = {0, HAWK_ENOT_FOUND, HAWK_ELIMIT, HAWK_EIO, HAWK_EINVALID};
    struct talk *t = c->t;
    job_id_t id = any_job(c);
    uint16_t epoch = epoch_of(c, id);

    switch (draw(c, 4)) {
    case 0:
        HEAR(t, CENTRAL, LONG_ACCEPTED, long_accepted, .job = id, .epoch = epoch);
        break;
    case 1:
        HEAR(t, CENTRAL, LONG_REFUSED, long_refused, .job = id, .epoch = epoch, .err = errs[1 + draw(c, 4)]);
        break;
    case 2:
        HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = id, .epoch = epoch, .err = errs[draw(c, 2)]);
        break;
    default:
        HEAR(t, CENTRAL, LONG_TASK, long_task, .id = {id, (uint32_t)draw(c, 3), epoch, 1}, .worker = {101},
             .state = (uint8_t)draw(c, TASK_STATE_COUNT));
    }
}

static void any_time(struct chaos *c)
{
    struct talk *t = c->t;
    int64_t at = dist_next_timeout(&t->d);

    t->now = at != TIME_NEVER && at > t->now && draw(c, 2) ? at : t->now + 1;
    HEAR(t, 0, TIMER, timer, 0);
}

static void anything(struct chaos *c)
{
    struct talk *t = c->t;

    switch (draw(c, 12)) {
    case 0:
        if (t->d.jobs_unfinished < CHAOS_JOBS)
            any_submission(c);
        break;
    case 1:
        HEAR(t, 0, CANCEL, cancel, .job = any_job(c), .client = 9);
        break;
    case 2:
        HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
        ignore(t);
        if (draw(c, 2))
            central_joins(t);
        break;
    case 3:
        HEAR(t, 0, JOURNAL_DONE, journal_done, .token = t->d.token - draw(c, t->d.token + 1),
             .err = draw(c, 3) ? 0 : HAWK_EIO);
        break;
    case 4:
        any_time(c);
        break;
    case 5:
        HEAR(t, 101, TASK_REQUEST, task_request, .job = any_job(c), .request = t->d.token + t->now);
        break;
    case 6:
        HEAR(t, 101, TASK_OVERRUN, task_overrun, .id = {any_job(c), 0, 1, 1}, .run_us = US_PER_S);
        break;
    default:
        any_word_of_central(c);
    }
    ignore(t);
    for (uint64_t seq = 1; seq < t->d.next_seq; seq++) {
        const struct dist_job *job = dist_find(&t->d, J(seq));

        if (job)
            c->seen |= 1u << job->hand;
    }
}

/* Whatever comes when: no move is made that is not in the table (the dist would abort), and its invariants
 * hold (HEAR checks them). Every state is met, so that this says something. */
static void central_and_the_journal_may_say_anything(void **state)
{
    uint32_t seen = 0;

    for (uint64_t seed = 1; seed <= CHAOS_SEEDS; seed++) {
        struct chaos c = {.t = talk_new(seed % 2 ? "hawk" : "hawk-no-central")};
        struct job_desc *desc = desc_new(2, "back");

        rng_seed(&c.rng, seed);
        c.t->cfg.life = 2;
        c.t->cfg.node = (node_id_t){ME};
        c.t->cfg.first_seq = 2;
        talk_begin(c.t);
        desc->flags = JOB_DETACHED | (seed % 3 ? JOB_AT_MOST_ONCE : 0);
        HEAR(c.t, 0, JOURNAL_JOB, journal_job, .job = J(1), .desc = desc, .epoch = 1, .life = 1, .handed = 1,
             .class = CLASS_LONG);
        HEAR(c.t, 0, RECOVERED, recovered, 0);
        job_desc_drop(desc);
        central_joins(c.t);
        ignore(c.t);
        worker_up(c.t, 101, 2, true);
        ignore(c.t);
        for (int i = 0; i < CHAOS_STEPS; i++)
            anything(&c);
        seen |= c.seen;
        talk_end(c.t);
    }
    assert_int_equal(seen, (1u << HAND_OVER_COUNT) - 1);
}

/* Central has some tasks of the job alone, and writes no history of it. */
static void a_dist_that_restarts_reports_a_job_of_which_central_has_a_part(void **state)
{
    struct talk *t = talk_again();
    struct job_desc *d = tagged(3);
    struct task_set *set = task_set_new(2);
    uint32_t reports = 0;

    d->tag = TAG_LONG;
    set->v[0] = 1;
    set->v[1] = 2;
    journal_job(t, 1, d, 1, 1, set);
    task_set_drop(set);
    journal_task(t, 1, 0, TASK_DONE);
    HEAR(t, 0, RECOVERED, recovered, 0);
    ignore(t);
    central_joins(t);
    ignore(t);
    for (uint32_t task = 1; task <= 2; task++)
        HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, task, 1, 0), .state = TASK_WAITING), ignore(t);
    HEAR(t, CENTRAL, LONG_WATCHED, long_watched, .job = J(1), .epoch = 1);
    for (uint32_t task = 1; task <= 2; task++) {
        ignore(t);
        HEAR(t, CENTRAL, LONG_TASK, long_task, .id = try_of(1, task, 1, 1), .worker = {101},
             .state = TASK_DONE, .outcome = OUTCOME_EXITED, .run_us = 1000);
    }
    for (uint32_t i = 0; i < t->out.n; i++)
        reports += t->out.v[i].type == MSG_JOB_REPORT;
    assert_int_equal(reports, 1);
    ignore(t);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_the_same_moves),
        cmocka_unit_test(central_and_the_journal_may_say_anything),
        cmocka_unit_test(a_dist_that_restarts_reports_a_job_of_which_central_has_a_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
