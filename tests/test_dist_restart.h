/* A dist's journal, read back: for test_dist_restart.c and test_dist_once.c. */
#ifndef HAWK_TESTS_TEST_DIST_RESTART_H
#define HAWK_TESTS_TEST_DIST_RESTART_H

#include "tests/test_dist.h"

/* As the store does it. */
static inline void journal_job(struct talk *t, uint64_t seq, struct job_desc *desc, uint16_t life,
                               uint16_t handed, struct task_set *tasks)
{
    desc->flags |= JOB_DETACHED;
    HEAR(t, 0, JOURNAL_JOB, journal_job, .job = J(seq), .desc = desc, .tasks = tasks, .epoch = 1,
         .life = life, .handed = handed, .class = desc->tag == TAG_LONG, .why = WHY_TAG);
    job_desc_drop(desc);
}

static inline void journal_task(struct talk *t, uint64_t seq, uint32_t task, enum task_state state)
{
    HEAR(t, 0, JOURNAL_TASK, journal_task, .id = try_of(seq, task, 1, 1), .state = state, .run_us = 50,
         .worker = {101}, .code = state == TASK_FAILED, .outcome = OUTCOME_EXITED);
}

/* In the life after the first one, before it has joined. */
static inline struct talk *talk_again(void)
{
    struct talk *t = talk_new("hawk");

    t->cfg.life = 2;
    t->cfg.first_seq = 100;
    t->cfg.node = (node_id_t){ME};
    talk_begin(t);
    return t;
}

static inline void submit_detached(struct talk *t)
{
    struct job_desc *desc = desc_new(1, "");

    desc->flags = JOB_DETACHED;
    submit(t, desc);
}

/* Submits a detached job, the first record; it is on record and accepted. */
static inline void submit_durable(struct talk *t, struct job_desc *desc)
{
    submit(t, desc);
    ignore(t);
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 1);
    ignore(t);
}

static inline void held(struct talk *t, uint32_t worker, struct try_id id, enum task_state state)
{
    HEAR(t, worker, TASK_HELD, task_held, .id = id, .state = state, .run_us = 1000);
}

static inline void held_end(struct talk *t, uint32_t worker) { HEAR(t, worker, HELD_END, held_end, 0); }

/* The journal is read; worker 101 has nothing of it. */
static inline void recover_with_nothing_held(struct talk *t)
{
    HEAR(t, 0, RECOVERED, recovered, 0);
    central_joins(t);
    worker_up(t, 101, 1, true);
    held_end(t, 101);
    wait_timer(t, 50000);
}

/* ---- At most once ---- */

static inline void journal_launch(struct talk *t, uint64_t seq, uint32_t task, uint32_t worker)
{
    HEAR(t, 0, JOURNAL_TASK, journal_task, .id = try_of(seq, task, 1, 1), .state = TASK_LAUNCHED,
         .worker = {worker});
}

#endif
