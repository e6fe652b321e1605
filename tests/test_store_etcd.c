/* store/ in a real etcd: what every backend must do, the election, and that who does not lead writes nothing. */
/* seconds: 32 */
#include "tests/test_store_etcd.h"

#include "tests/lib/store_conformance.h"

/* ---- What is in etcd ---- */

static int count_one(void *arg, const struct etcd_kv *kv)
{
    ++*(int *)arg;
    return 0;
}

static int count_keys(const struct world *w, const char *table)
{
    struct etcd *e = etcd_new(server.addr, NULL);
    char from[100], to[100];
    int n = 0;
    struct etcd_range r = {.from = from, .to = to, .keys_only = true, .fn = count_one, .arg = &n};

    snprintf(from, sizeof from, "%s/%s/", w->prefix, table);
    snprintf(to, sizeof to, "%s/%s0", w->prefix, table);
    assert_int_equal(etcd_range(e, &r, BOUND_S * US_PER_S), 0);
    etcd_free(e);
    return n;
}

/* The keys that a version of etcd's schema 1 has written, but for the election's: "KEY VALUE" a line, VALUE
 * in hexadecimal. */
#define SCHEMA_1 "tests/data/etcd-schema-1"

static void put_line(struct etcd *e, const struct world *w, char *line)
{
    char key[200], *at = strchr(line, ' ');
    struct etcd_txn t = {0};
    uint8_t *value = xmalloc(strlen(line));
    size_t n = 0;
    int64_t revision;
    bool done;

    *at = '\0';
    for (at++; isxdigit((unsigned char)at[0]); at += 2)
        value[n++] = (uint8_t)strtoul((const char[]){at[0], at[1], '\0'}, NULL, 16);
    snprintf(key, sizeof key, "%s/%s", w->prefix, line + strlen("hawk/"));
    etcd_txn_put(&t, key, (struct span){value, n}, 0);
    if (!strstr(line, "/epoch"))
        assert_int_equal(etcd_txn_run(e, &t, BOUND_S * US_PER_S, &done, &revision), 0);
    etcd_txn_free(&t);
    free(value);
}

static void put_schema_1(const struct world *w)
{
    struct etcd *e = etcd_new(server.addr, NULL);
    FILE *f = fopen(SCHEMA_1 ".keys", "re");
    char *line = NULL;
    size_t size = 0;

    assert_non_null(f);
    while (getline(&line, &size, f) > 0)
        put_line(e, w, line);
    free(line);
    assert_int_equal(fclose(f), 0);
    etcd_free(e);
}

static void test_keys_of_an_earlier_version_are_read(void **state)
{
    struct fixture *f = *state;
    struct world *w = f->arg;
    uint64_t v = 0;

    put_schema_1(w);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(open_store(f), 0);
        assert_told(f, SCHEMA_1 ".txt");
        assert_true(store_cluster_id(f->s) == UINT64_C(5318563086641109809));
        assert_int_equal(store_meta_get(f->s, "joined", &v), 0);
        assert_true(v == UINT64_MAX - 2);
        assert_int_equal(store_meta_get(f->s, "former", &v), HAWK_ENOT_FOUND); /* a record by now */
        close_it(f);
    }
    assert_true(count_keys(w, "desc") > 0);
    assert_int_equal(open_store(f), 0);
    assert_int_equal(
        store_write(f->s,
                    &(struct msg){
                        .type = MSG_JOURNAL_JOB_END,
                        .journal_job_end = {.job = job_id_make((node_id_t){7}, 4), .token = 1, .epoch = 1}}),
        0);
    wait_token(f, 1);
    assert_int_equal(count_keys(w, "desc"), 0);
}

static void test_ended_jobs_leave_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t token = 0;

    assert_int_equal(open_store(f), 0);
    for (uint64_t round = 1; round <= 5; round++) {
        write_job(f, ++token, round, 1, round == 3 ? 100000 : 500, NULL);
        for (uint32_t i = 0; i < 500; i++)
            write_task(f, ++token, round, 1, i);
    }
    wait_token(f, token);
    assert_int_equal(count_keys(f->arg, "job"), 5 + 2500);
    assert_true(count_keys(f->arg, "desc") > 0);
    for (uint64_t round = 1; round <= 5; round++)
        write_end(f, ++token, round, 1);
    wait_token(f, token);
    assert_int_equal(count_keys(f->arg, "job"), 0);
    assert_int_equal(count_keys(f->arg, "desc"), 0);
}

/* What etcd held at a revision. */
struct past {
    int64_t revision;
    int secrets; /* keys whose value has the environment of our jobs */
};

static int look_for_env(void *arg, const struct etcd_kv *kv)
{
    struct past *p = arg;

    p->secrets += memmem(kv->value.data, kv->value.len, "A=b", 3) != NULL;
    return 0;
}

/* revision 0: now; it is set. */
static int read_past(struct etcd *e, const struct world *w, struct past *p)
{
    char from[100], to[100];
    struct etcd_range r = {.from = from, .to = to, .revision = p->revision, .fn = look_for_env, .arg = p};
    int err;

    snprintf(from, sizeof from, "%s/", w->prefix);
    snprintf(to, sizeof to, "%s0", w->prefix);
    p->secrets = 0;
    err = etcd_range(e, &r, BOUND_S * US_PER_S);
    if (!err && !p->revision)
        p->revision = r.seen_revision;
    return err;
}

static void wait_until_compacted(struct etcd *e, const struct world *w, struct past *p)
{
    const time_t end = time(NULL) + BOUND_S;
    int err;

    while (!(err = read_past(e, w, p))) {
        assert_true(time(NULL) < end);
        poll(NULL, 0, 50);
    }
    assert_int_equal(err, HAWK_EIO);
    assert_non_null(strstr(etcd_why(e), "compacted"));
}

static void test_an_environment_goes_with_its_job(void **state)
{
    struct fixture *f = *state;
    struct etcd *e = etcd_new(server.addr, NULL);
    const struct world *w = f->arg;
    struct past first = {0}, second = {0};

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 1, 1, 100000, NULL); /* in pieces */
    wait_token(f, 1);
    assert_int_equal(read_past(e, w, &first), 0);
    assert_int_equal(first.secrets, 1);
    write_end(f, 2, 1, 1);
    wait_token(f, 2);
    reopen(f); /* before it asks for the compaction: the next reign does */
    wait_until_compacted(e, w, &first);
    write_job(f, 3, 2, 1, 5, NULL);
    wait_token(f, 3);
    assert_int_equal(read_past(e, w, &second), 0);
    assert_int_equal(second.secrets, 1);
    write_end(f, 4, 2, 1);
    wait_token(f, 4);
    wait_until_compacted(e, w, &second);
    second.revision = 0;
    assert_int_equal(read_past(e, w, &second), 0);
    assert_int_equal(second.secrets, 0);
    /* That somebody asked for a later one is no error. */
    assert_int_equal(etcd_compact(e, second.revision, BOUND_S * US_PER_S), 0);
    assert_int_equal(etcd_compact(e, first.revision, BOUND_S * US_PER_S), 0);
    etcd_free(e);
}

static void test_the_largest_job_goes_through(void **state)
{
    struct fixture *f = *state;
    struct task_set *set = task_set_new(LIMIT_TASKS_PER_JOB);
    struct told t;

    for (uint32_t i = 0; i < set->n; i++)
        set->v[i] = i;
    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 1, 2, LIMIT_TASKS_PER_JOB, NULL);
    write_job(f, 2, 1, 2, LIMIT_TASKS_PER_JOB, set); /* replaces it */
    write_task(f, 3, 1, 2, 0);
    wait_token(f, 3);
    reopen(f);
    t = recover(f); /* looks at every argument */
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 1);
    assert_non_null(strstr(t.text, "epoch=2"));
    print_message("a job of %u tasks in %d pieces\n", LIMIT_TASKS_PER_JOB, count_keys(f->arg, "desc"));
    free(t.text);
    task_set_drop(set);
}

static void test_pieces_of_nobody_are_removed(void **state)
{
    struct fixture *f = *state;
    struct told t;
    int pieces;

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 1, 1, 100000, NULL);
    wait_token(f, 1);
    pieces = count_keys(f->arg, "desc");
    change_key(f->arg, "desc/0000000000000007/0001/0/000000", "cut off in between");
    change_key(f->arg, "desc/fffff00000000001/0001/0/000000", "an older one of the same job");
    assert_int_equal(count_keys(f->arg, "desc"), pieces + 2);
    write_task(f, 2, 99, 1, 0); /* of a job that has ended */
    wait_token(f, 2);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 0);
    assert_int_equal(count_keys(f->arg, "desc"), pieces);
    assert_int_equal(count_keys(f->arg, "job"), 1);
    free(t.text);
}

static void test_foreign_and_newer_keys_are_refused(void **state)
{
    struct fixture *f = *state;
    struct world *w = f->arg;

    change_key(w, "registry/pods", "of another program");
    assert_int_equal(open_store(f), HAWK_ECORRUPT);
    assert_non_null(strstr(f->why, "central.etcd_prefix"));
    change_key(w, "registry/pods", NULL);
    assert_int_equal(open_store(f), 0);
    assert_int_equal(store_close(f->s), 0);
    f->s = NULL;
    change_key(w, "meta/schema", "2");
    assert_int_equal(open_store(f), HAWK_EVERSION);
    assert_non_null(strstr(f->why, "schema 2"));
}

static void test_a_value_that_cannot_be_read_is_told(void **state)
{
    struct fixture *f = *state;
    struct told t = {0};

    assert_int_equal(open_store(f), 0);
    change_key(f->arg, "job/0000000000000001/0001", "\x1a\xff");
    assert_int_equal(store_recover(f->s, on_recovered, &t), HAWK_ECORRUPT);
    change_key(f->arg, "job/0000000000000001/0001", "\x10\xff\xff\xff\x7f"); /* why */
    assert_int_equal(store_recover(f->s, on_recovered, &t), HAWK_ECORRUPT);
    free(t.text);
}

/* ---- Trouble ---- */

/* As when the answer to a transaction was lost: it went through, and its sender does not know. */
static void test_a_transaction_that_went_through_unheard(void **state)
{
    struct fixture *f = *state;
    char value[100];

    assert_int_equal(open_store(f), 0);
    write_node(f, 1, 1, "n");
    wait_token(f, 1);
    snprintf(value, sizeof value, "%u 99999 1", store_epoch(f->s));
    change_key(f->arg, "commit", value);
    write_node(f, 2, 2, "n");
    write_history(f, "h", 1);
    write_node(f, 3, 3, "n");
    wait_token(f, 3);
    assert_int_equal(f->done.failures, 0);
    snprintf(value, sizeof value, "%u 1 1",
             store_epoch(f->s) + 1); /* of another reign: never by a leader's rules */
    change_key(f->arg, "commit", value);
    write_node(f, 4, 4, "n");
    wait_failures(f, 1);
    assert_int_equal(f->done.err, HAWK_ESTALE);
}

static void test_an_etcd_that_hangs_loses_and_doubles_nothing(void **state)
{
    struct fixture *f = *state;
    struct world *w = f->arg;
    struct told t;

    w->lease_us = 60 * US_PER_S; /* the reign goes on */
    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 1, 1, 1, NULL);
    wait_token(f, 1);
    etcd_server_pause(&server);
    write_history(f, "h", 1);
    write_task(f, 2, 1, 1, 0);
    wait_failures(f, 1);
    write_history(f, "h", 2);
    write_task(f, 3, 1, 1, 1);
    kill(server.pid, SIGCONT);
    write_history(f, "h", 3);
    wait_token(f, 3);
    reopen(f); /* with what has no token */
    t = recover(f);
    assert_int_equal(t.count[MSG_HISTORY], 3);
    assert_int_equal(t.first_history_us, 1);
    assert_int_equal(t.last_history_us, 3);
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 2);
    free(t.text);
}

static void test_an_etcd_that_restarts_is_found_again(void **state)
{
    struct fixture *f = *state;
    struct world *w = f->arg;
    struct told t;

    w->lease_us = 60 * US_PER_S;
    assert_int_equal(open_store(f), 0);
    etcd_server_kill(&server);
    write_node(f, 1, 1, "n");
    wait_failures(f, 1);
    assert_int_equal(f->done.err, HAWK_EIO);
    etcd_server_start(&server);
    wait_token(f, 1); /* by itself: nothing new is written */
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 1);
    free(t.text);
}

static void test_no_etcd_is_an_error_with_its_address(void **state)
{
    struct fixture *f = *state;
    struct store_etcd c = {.endpoints = "127.0.0.1:1,127.0.0.1:2", .prefix = "p", .revision = 1, .epoch = 1};

    assert_int_equal(store_open_etcd(&f->s, &c, on_done, &f->done, f->why, sizeof f->why), HAWK_EIO);
    print_message("%s\n", f->why);
    assert_non_null(strstr(f->why, "etcd at 127.0.0.1:2"));
}

/* ---- A kill ---- */

/* "writer PREFIX ENDPOINT": this program again, as the process that is killed. */
static int writer_main(char **argv)
{
    struct fixture *f;
    void *state;

    snprintf(server.addr, sizeof server.addr, "%s", argv[3]);
    set_up(&state);
    f = state;
    snprintf(((struct world *)f->arg)->prefix, sizeof((struct world *)f->arg)->prefix, "%s", argv[2]);
    f->done.pipe = STDOUT_FILENO;
    write_until_killed(f);
    return 1;
}

static void test_what_was_acknowledged_survives_a_kill(void **state)
{
    struct fixture *f = *state;
    struct world *w = f->arg;
    uint64_t token = 0, acknowledged = 0;
    int fds[2], status;
    struct told t;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execl("/proc/self/exe", "test_store_etcd", "writer", w->prefix, server.addr, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    while (acknowledged < 3000) {
        assert_int_equal(read(fds[0], &token, sizeof token), sizeof token);
        acknowledged = token;
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    while (read(fds[0], &token, sizeof token) == sizeof token)
        acknowledged = token;
    close(fds[0]);
    assert_int_equal(open_store(f), 0); /* when its lease is over */
    assert_int_equal(store_epoch(f->s), 2);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    assert_true(t.count[MSG_JOURNAL_TASK] >= acknowledged - 1);
    print_message("acknowledged %" PRIu64 ", found %u\n", acknowledged - 1, t.count[MSG_JOURNAL_TASK]);
    free(t.text);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORE_CONFORMANCE(TEST),
        TEST(test_keys_of_an_earlier_version_are_read),
        TEST(test_ended_jobs_leave_nothing),
        TEST(test_an_environment_goes_with_its_job),
        TEST(test_the_largest_job_goes_through),
        TEST(test_pieces_of_nobody_are_removed),
        TEST(test_foreign_and_newer_keys_are_refused),
        TEST(test_a_value_that_cannot_be_read_is_told),
        TEST(test_a_transaction_that_went_through_unheard),
        TEST(test_an_etcd_that_hangs_loses_and_doubles_nothing),
        TEST(test_an_etcd_that_restarts_is_found_again),
        TEST(test_no_etcd_is_an_error_with_its_address),
        TEST(test_what_was_acknowledged_survives_a_kill),
    };

    if (argc == 4 && strcmp(argv[1], "writer") == 0)
        return writer_main(argv);
    if (etcd_missing())
        return 1;
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
