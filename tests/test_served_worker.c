/* A worker that runs the commands of one user alone: it says so, and takes and steals nobody else's. */
#include "tests/test_worker.h"

static uint32_t number_of(const char *name)
{
    struct blob *b = blob_str(name);
    uint32_t n = user_number(b);

    blob_drop(b);
    return n;
}

/* A joined general worker of ann's with two dists. */
static void begin_of_ann(struct talk *t)
{
    talk_init(t, 1);
    t->config.serves = blob_str("ann");
    talk_start(t);
    tell(t, PEER_UP, peer_up, CENTRAL, ROLE_CENTRAL);
    expect(t, JOIN, join, CENTRAL, whatever);
    tell(t, JOINED, joined, CENTRAL, .node = {SELF}, .heartbeat_us = 500 * MS, .lease_us = 60 * US_PER_S);
    expect(t, SERVES, serves, CENTRAL, strcmp(m->user->data, "ann") == 0);
    expect(t, HELD_END, held_end, CENTRAL, whatever);
    tell(t, PARTITION, partition, CENTRAL, .epoch = 1, .general = 1);
    expect(t, PARTITION_ACK, partition_ack, CENTRAL, whatever);
    dist_comes(t, DIST);
    dist_comes(t, DIST2);
}

static void end_of_ann(struct talk *t)
{
    blob_drop(t->config.serves);
    talk_end(t);
}

static void be_user(struct talk *t, const char *name)
{
    blob_drop(t->desc->user);
    t->desc->user = blob_str(name);
}

static void probe_of(struct talk *t, uint64_t job, const char *user)
{
    tell(t, PROBE, probe, DIST, .job = JOB(job), .count = 2, .user = number_of(user));
}

static void others_probes_are_refused(void **state)
{
    struct talk t;

    begin_of_ann(&t);
    probe_of(&t, 1, "bob");
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->count == 2 && m->err == HAWK_EWRONG_USER);
    probe_of(&t, 2, ""); /* nobody's */
    expect(&t, PROBE_REFUSED, probe_refused, DIST, m->err == HAWK_EWRONG_USER);
    probe_of(&t, 3, "ann");
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(3).v);
    end_of_ann(&t);
}

/* Its executors say themselves whom they serve. */
static void an_executor_of_everybody_serves_others_too(void **state)
{
    struct talk t;
    struct blob *name = blob_str("sum");

    begin_of_ann(&t);
    tell(&t, EXEC_APP, exec_app, 0, .name = name, .on = true);
    expect(&t, APP, app, CENTRAL, m->on);
    tell(&t, PROBE, probe, DIST, .job = JOB(1), .count = 1, .app = app_id(name), .user = number_of("bob"));
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(1).v);
    blob_drop(name);
    end_of_ann(&t);
}

static void others_long_tasks_go_back(void **state)
{
    struct talk t;

    begin_of_ann(&t);
    be_user(&t, "bob");
    enqueue(&t, 1, 0);
    expect(&t, TASK_RETURNED, task_returned, CENTRAL, m->id.job.v == JOB(1).v);
    be_user(&t, "ann");
    enqueue(&t, 2, 0);
    expect(&t, EXEC_START, exec_start, 0, m->id.job.v == JOB(2).v);
    end_of_ann(&t);
}

static void a_thief_gets_its_users_alone(void **state)
{
    struct talk t;

    talk_begin(&t, 1);
    long_runs(&t, 90);
    probe_of(&t, 1, "bob");
    expect(&t, STUCK, stuck, CENTRAL, m->stuck);
    probe_of(&t, 2, "ann");
    probe_of(&t, 3, "bob");
    tell(&t, STEAL_REQUEST, steal_request, OTHER, .request = 1, .max = 1000, .user = number_of("ann"));
    expect(&t, LOOT_USER, loot_user, OTHER, m->user == number_of("ann"));
    expect(&t, STEAL_LOOT, steal_loot, OTHER, m->items == 1 && m->job.v == JOB(2).v);
    tell(&t, STEAL_REQUEST, steal_request, OTHER + 1, .request = 1, .max = 1000, .user = number_of("cas"));
    expect(&t, STEAL_LOOT, steal_loot, OTHER + 1, m->items == 0);
    talk_end(&t);
}

static void a_thief_takes_its_users_alone(void **state)
{
    struct members *list = members_new(1);
    struct talk t;

    begin_of_ann(&t);
    list->v[0] = (struct member){.node = {OTHER}, .slots = 1, .role = ROLE_WORKER, .general = 1};
    list->v[0].addr = blob_str("127.0.0.1:1");
    list->v[0].name = blob_str("w8");
    tell(&t, MEMBERS, members, CENTRAL, .list = list);
    members_drop(list);
    probe_of(&t, 9, "ann");
    expect(&t, TASK_REQUEST, task_request, DIST, whatever);
    tell(&t, PROBE_CANCEL, probe_cancel, DIST, .job = JOB(9));
    expect(&t, PROBE_CANCELLED, probe_cancelled, DIST, whatever);
    tell(&t, LONG_WORK, long_work, CENTRAL, .any = 1);
    tell(&t, NO_TASK, no_task, DIST, .job = JOB(9), .request = 1);
    expect(&t, STEAL_REQUEST, steal_request, OTHER, m->user == number_of("ann"));
    /* An older victim gives what there is. */
    tell(&t, LOOT_USER, loot_user, OTHER, .request = 1, .user = number_of("bob"));
    tell(&t, STEAL_LOOT, steal_loot, OTHER, .request = 1, .items = 2, .job = JOB(1), .dist = {DIST},
         .count = 1);
    expect(&t, STEAL_ACK, steal_ack, OTHER, m->accepted == 0);
    tell(&t, LOOT_USER, loot_user, OTHER, .request = 1, .user = number_of("ann"));
    tell(&t, STEAL_LOOT, steal_loot, OTHER, .request = 1, .items = 2, .index = 1, .job = JOB(2),
         .dist = {DIST}, .count = 1);
    expect(&t, RES_MOVED, res_moved, DIST, m->job.v == JOB(2).v);
    expect(&t, STEAL_ACK, steal_ack, OTHER, m->accepted == 1);
    expect(&t, TASK_REQUEST, task_request, DIST, m->job.v == JOB(2).v);
    end_of_ann(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_probes_are_refused),
        cmocka_unit_test(an_executor_of_everybody_serves_others_too),
        cmocka_unit_test(others_long_tasks_go_back),
        cmocka_unit_test(a_thief_gets_its_users_alone),
        cmocka_unit_test(a_thief_takes_its_users_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
