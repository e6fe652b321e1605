/* Who leads: centrals that are elected over an etcd, and what one that was replaced can still write (nothing). */
#include "tests/test_store_etcd.h"

/* ---- Leaders ---- */

static bool stands_by(const struct leader_view *v) { return !v->leads && v->epoch; }

static bool has_trouble(const struct leader_view *v) { return v->trouble[0] != '\0'; }

static bool does_not_lead(const struct leader_view *v) { return !v->leads; }

/* ---- The election ---- */

static void test_one_leads_and_another_follows(void **state)
{
    struct world *w = ((struct fixture *)*state)->arg;

    central_start(&w->a, w, "host-a:7070");
    wait_view(&w->a, leads);
    assert_int_equal(w->a.view.epoch, 1);
    assert_true(leader_holds(w->a.leader, 1));
    assert_false(leader_holds(w->a.leader, 2));
    central_start(&w->b, w, "host-b:7070");
    wait_view(&w->b, stands_by);
    assert_string_equal(w->b.view.active, "host-a:7070");
    assert_false(leader_holds(w->b.leader, 1));
    central_stop(&w->a); /* resigns */
    wait_view(&w->b, leads);
    assert_int_equal(w->b.view.epoch, 2);
    assert_string_equal(w->b.view.active, "host-b:7070");
}

static void test_who_yields_is_not_first_again(void **state)
{
    struct world *w = ((struct fixture *)*state)->arg;

    central_start(&w->a, w, "a:1");
    wait_view(&w->a, leads);
    central_start(&w->b, w, "b:1");
    wait_view(&w->b, stands_by);
    leader_yield(w->a.leader, 7); /* of another reign: nothing */
    assert_true(leader_holds(w->a.leader, 1));
    leader_yield(w->a.leader, 1);
    assert_false(leader_holds(w->a.leader, 1));
    wait_view(&w->b, leads);
    wait_view(&w->a, stands_by);
    assert_string_equal(w->a.view.active, "b:1");
}

static void test_a_key_removed_by_hand_ends_the_reign(void **state)
{
    struct world *w = ((struct fixture *)*state)->arg;

    central_start(&w->a, w, "a:1");
    wait_view(&w->a, leads);
    change_key(w, "leader", NULL);
    wait_view(&w->a, does_not_lead);
    assert_false(leader_holds(w->a.leader, 1));
    wait_view(&w->a, leads); /* nobody else is there */
    assert_int_equal(w->a.view.epoch, 2);
}

static void test_a_leader_that_cannot_renew_stops_by_its_own_clock(void **state)
{
    struct world *w = ((struct fixture *)*state)->arg;

    central_start(&w->a, w, "a:1");
    wait_view(&w->a, leads);
    etcd_server_pause(&server);
    wait_view(&w->a, does_not_lead);
    assert_false(leader_holds(w->a.leader, 1));
    wait_view(&w->a, has_trouble);
    print_message("%s\n", w->a.view.trouble);
    kill(server.pid, SIGCONT);
    wait_view(&w->a, leads);
    assert_int_equal(w->a.view.epoch, 2);
}

/* ---- Fencing ---- */

static void test_a_leader_that_was_replaced_writes_nothing(void **state)
{
    struct fixture *f = *state, other = {.done.pipe = -1};
    struct world *w = f->arg;
    struct store_etcd c = {.endpoints = server.addr, .prefix = w->prefix};
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_node(f, 1, 1, "before");
    wait_token(f, 1);
    central_start(&w->b, w, "b:1");
    leader_yield(w->a.leader, w->a.view.epoch); /* though the store of that reign does not know */
    wait_view(&w->b, leads);
    write_node(f, 2, 2, "too late");
    wait_failures(f, 1);
    assert_int_equal(f->done.err, HAWK_ESTALE);
    assert_int_equal(f->done.token, 1);
    write_node(f, 3, 3, "later still");
    assert_int_equal(store_close(f->s), HAWK_EIO); /* at once: it is not tried again */
    f->s = NULL;
    pthread_mutex_init(&other.done.lock, NULL);
    pthread_cond_init(&other.done.changed, NULL);
    c.revision = w->b.view.revision;
    c.epoch = w->b.view.epoch;
    assert_int_equal(store_open_etcd(&other.s, &c, on_done, &other.done, other.why, sizeof other.why), 0);
    t = recover(&other);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 1);
    assert_non_null(strstr(t.text, "before"));
    free(t.text);
    assert_int_equal(store_close(other.s), 0);
    c.revision--; /* of a reign that is over */
    assert_int_equal(store_open_etcd(&other.s, &c, on_done, &other.done, other.why, sizeof other.why), 0);
    assert_int_equal(store_meta_set(other.s, "x", 1), HAWK_ESTALE);
    store_abandon(other.s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_one_leads_and_another_follows),
        TEST(test_who_yields_is_not_first_again),
        TEST(test_a_key_removed_by_hand_ends_the_reign),
        TEST(test_a_leader_that_cannot_renew_stops_by_its_own_clock),
        TEST(test_a_leader_that_was_replaced_writes_nothing),
    };

    if (etcd_missing())
        return 1;
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
