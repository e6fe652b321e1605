/* net/front and net/selftest: who gets in, how long a connection may stay, and when a daemon finds itself deaf. */
#include "tests/test_front_fixture.h"

/* So many calls of the newest connection have wrong tokens. */
static void guess(unsigned n)
{
    struct front_conn *c = newest();

    for (unsigned i = 0; i < n; i++)
        front_failed(c, "its token is missing or wrong");
}

/* ---- Its own listener ---- */

static void a_deaf_listener_is_noticed(void **state)
{
    (void)state;
    way = MUTE;
    begin(0);
    for (int i = 0; i < 1000 && dead_n == 0; i++)
        pass(STEP_US);
    assert_int_equal(dead_n, 1);
    assert_true(served_n >= SELFTEST_ATTEMPTS);
}

static void a_pause_of_the_process_is_none(void **state)
{
    (void)state;
    way = MUTE;
    begin(0);
    for (int i = 0; i < 20; i++) { /* SIGSTOP, SIGCONT */
        ahead_us += 30 * US_PER_S;
        for (int k = 0; k < 8; k++)
            loop_once(loop, loop_now(loop));
        pass(STEP_US);
    }
    assert_int_equal(dead_n, 0);
    for (int i = 0; i < 1000 && dead_n == 0; i++)
        pass(STEP_US);
    assert_int_equal(dead_n, 1);
}

static void a_full_listen_queue_is_not_deafness(void **state)
{
    int fd;

    (void)state;
    begin(0);
    until(loop, served_closed == 1); /* the self-test's */
    queue_full = true;
    for (int64_t over = loop_now(loop) + 20 * SELFTEST_EVERY_US; loop_now(loop) < over; pass(STEP_US)) {
        assert_true(enters(1, &fd)); /* others are accepted */
        close(fd);
    }
    assert_int_equal(dead_n, 0);
    for (int i = 0; i < 1000 && dead_n == 0; i++) /* nobody is */
        pass(STEP_US);
    assert_int_equal(dead_n, 1);
}

static void frames_that_nobody_counts_are_noticed(void **state)
{
    (void)state;
    way = ANSWERS_UNSEEN;
    begin(0);
    until(loop, dead_n == 1);
    assert_int_equal(served_n, 1);
}

static void a_listener_that_answers_is_fine(void **state)
{
    (void)state;
    begin(0);
    until(loop, served_closed == 1);
    pass(60 * US_PER_S);
    assert_true(served_n >= 5);
    assert_int_equal(dead_n, 0);
}

/* ---- Time ---- */

static void connections_have_little_time(void **state)
{
    int mute, idle, guest, proven;

    (void)state;
    begin(0);
    assert_true(enters(1, &proven));
    front_prove(newest());
    assert_true(enters(1, &guest));
    newest()->who.role = ROLE_GUEST; /* that his call was accepted proves nothing */
    front_prove(newest());
    assert_true(enters(1, &idle));
    mute = client(1, false);
    pass(FRONT_SETUP_US - US_PER_S);
    assert_true(stands(mute));
    pass(2 * US_PER_S);
    wait_end(mute);
    pass(FRONT_UNPROVEN_US - FRONT_SETUP_US - 5 * US_PER_S);
    assert_true(stands(idle) && stands(guest));
    pass(6 * US_PER_S);
    wait_end(idle);
    wait_end(guest);
    pass(FRONT_UNPROVEN_US);
    assert_true(stands(proven));
    close(mute);
    close(idle);
    close(guest);
    close(proven);
}

static void count_turn(void *arg) { ++*(unsigned *)arg; }

/* A proven connection of another machine, which does nothing, costs nothing. */
static void an_idle_connection_wakes_nobody(void **state)
{
    struct loop_hook hook;
    unsigned turns = 0;
    int fd;

    (void)state;
    begin(0);
    assert_true(enters(2, &fd));
    guess(1);
    front_prove(newest());
    pass(20 * US_PER_S); /* what the log left out is over, too */
    loop_hook_add(loop, &hook, LOOP_AFTER, count_turn, &turns);
    for (int64_t over = loop_now(loop) + US_PER_S; loop_now(loop) < over;)
        loop_once(loop, over);
    loop_hook_remove(&hook);
    assert_true(turns < 9); /* a self-test's at most */
    close(fd);
}

/* ---- Addresses ---- */

static void an_address_has_few_unproven_connections(void **state)
{
    struct front_conn *late;
    int fd[6];

    (void)state;
    begin(3);
    assert_true(enters(2, &fd[0]));
    front_prove(newest());
    for (int i = 1; i < 4; i++)
        assert_true(enters(2, &fd[i]));
    assert_true(enters(3, &fd[4])); /* another address */
    late = newest();
    assert_true(stands(fd[1]));
    assert_true(enters(2, &fd[5])); /* the oldest makes room */
    wait_end(fd[1]);
    assert_true(stands(fd[0]) && stands(fd[2]) && stands(fd[3]) && stands(fd[4]) && stands(fd[5]));
    close(fd[1]);
    late->refs++; /* a call of it */
    close(fd[4]);
    until(loop, late->closed);
    front_prove(late); /* its place was given back already */
    front_unref(late);
    for (int i = 1; i < 4; i++) {
        assert_true(enters(3, &fd[4]));
        close(fd[4]);
    }
    assert_true(enters(3, &fd[4]));
    assert_true(enters(2, &fd[1])); /* again */
    wait_end(fd[2]);
    front_prove(newest());
    close(fd[2]);
    assert_true(enters(2, &fd[2])); /* proven ones do not count */
    assert_true(stands(fd[0]) && stands(fd[1]) && stands(fd[3]) && stands(fd[5]));
    for (int i = 0; i < 6; i++)
        close(fd[i]);
    for (int i = 0; i < 6; i++) /* loopback: any number */
        assert_true(enters(1, &fd[i]));
    for (int i = 0; i < 6; i++)
        close(fd[i]);
}

/* What a client has sent and nobody has read holds its place against others, and not against its own address. */
static void an_address_has_few_connections_that_wait_for_the_process(void **state)
{
    enum { MOST = 3, ALL = 8 };
    int fd[ALL];

    (void)state;
    begin(MOST);
    until(loop, served_closed == 1); /* the self-test's */
    way = MUTE;                      /* it reads nothing from now on */
    for (int i = 0; i < ALL; i++) {
        fd[i] = client(2, true);
        until(loop, served_n == (unsigned)i + 2);
    }
    for (int i = 0; i < ALL; i++)
        assert_true(stands(fd[i]) == (i >= ALL - MOST));
    for (int i = 0; i < ALL; i++)
        close(fd[i]);
}

/* The oldest waits for this process, and so the next one makes room, until that has taken long. */
static void who_waits_for_the_process_keeps_his_place_for_a_while(void **state)
{
    int fd[4];

    (void)state;
    begin(2);
    until(loop, served_closed == 1); /* the self-test's */
    way = MUTE;
    fd[0] = client(2, true);
    until(loop, served_n == 2);
    way = ANSWERS;
    for (int i = 1; i < 3; i++)
        assert_true(enters(2, &fd[i]));
    wait_end(fd[1]);
    assert_true(stands(fd[0]) && stands(fd[2]));
    pass(FRONT_OWED_US);
    assert_true(enters(2, &fd[3]));
    wait_end(fd[0]);
    assert_true(stands(fd[2]) && stands(fd[3]));
    for (int i = 0; i < 4; i++)
        close(fd[i]);
}

static bool answered_now(int fd)
{
    bool answered = false;

    (void)ended(fd, &answered);
    return answered;
}

static void an_address_that_connects_too_fast_waits(void **state)
{
    unsigned n = 0;
    int late[4], fd;

    (void)state;
    begin_with(3, 0, 1);
    while (answered_at_once(2, &late[0]))
        assert_true(++n < 1000);
    assert_true(n >= ADDRESS_CONNECT_S);
    assert_false(answered_at_once(2, &late[1])); /* nobody overtakes those that wait */
    assert_false(answered_at_once(2, &late[2]));
    assert_false(enters(2, &late[3])); /* enough of them wait */
    assert_int_equal(front_counts(front).refused, 1);
    close(late[3]);
    for (int i = 0; i < 20; i++) /* loopback has no limit */
        assert_true(answered_at_once(1, &fd));
    assert_true(enters(3, &fd)); /* another address does not wait */
    close(fd);
    close(late[1]); /* who has left takes nobody's turn */
    for (int i = 0; i < 10 && !answered_now(late[0]); i++)
        pass(STEP_US);
    for (int i = 0; i < 10 && !answered_now(late[2]); i++)
        pass(STEP_US);
    assert_int_equal(front_counts(front).delayed, 3);
    assert_int_equal(front_counts(front).refused, 1);
    close(late[0]);
    close(late[2]);
    pass(ADDRESS_CONNECT_S * US_PER_S);
    for (unsigned i = 0; i < ADDRESS_CONNECT_S; i++) /* all is forgotten */
        assert_true(answered_at_once(2, &fd));
}

static void who_comes_back_with_backoff_never_waits(void **state)
{
    int fd;

    (void)state;
    begin_with(0, 0, 1);
    for (int64_t backoff = 100 * US_PER_MS, i = 0; i < 40; i++) {
        assert_true(answered_at_once(2, &fd));
        pass(backoff);
        backoff = 2 * backoff < 2 * US_PER_S ? 2 * backoff : 2 * US_PER_S;
    }
    assert_int_equal(front_counts(front).delayed, 0);
}

/* How many connections of 10.0.0.2 get in, `most` at most, when each makes calls with wrong tokens until it
 * is ended. */
static unsigned guessers(unsigned most)
{
    int fd;

    for (unsigned n = 0; n < most; n++) {
        bool in = enters(2, &fd);
        if (in)
            guess(FRONT_FAILED_MAX);
        close(fd);
        if (!in)
            return n;
    }
    return most;
}

static void wrong_tokens_close_the_door_to_an_address(void **state)
{
    int fd;

    (void)state;
    begin(0);
    assert_true(enters(2, &fd));
    guess(FRONT_FAILED_MAX - 1);
    assert_true(stands(fd));
    guess(1);
    wait_end(fd);
    close(fd);
    assert_in_range(guessers(50), ADDRESS_FAILED_BURST / FRONT_FAILED_MAX - 1, 49);
    assert_true(enters(3, &fd)); /* another address */
    close(fd);
    pass(2 * US_PER_S);
    assert_true(enters(2, &fd));
    front_prove(newest()); /* the right one is there as well: all is forgiven */
    close(fd);
    until(loop, served_closed >= served_n - 1);
    pass(ADDRESS_TRUST_US);
    assert_int_equal(guessers(ADDRESS_FAILED_BURST / FRONT_FAILED_MAX - 1),
                     ADDRESS_FAILED_BURST / FRONT_FAILED_MAX - 1);
}

/* Behind one address are machines whose token is right, and one whose token is wrong. */
static void who_shares_an_address_with_proven_ones_gets_in(void **state)
{
    int good;

    (void)state;
    begin(0);
    assert_true(enters(2, &good));
    front_prove(newest());
    assert_int_equal(guessers(40), 40);
    close(good);
    until(loop, served_closed >= served_n - 1);
    pass(ADDRESS_TRUST_US - US_PER_S);
    assert_int_equal(guessers(40), 40); /* who called lately will call again */
    pass(2 * US_PER_S);
    assert_in_range(guessers(40), 0, 39);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_deaf_listener_is_noticed, end),
        cmocka_unit_test_teardown(a_pause_of_the_process_is_none, end),
        cmocka_unit_test_teardown(a_full_listen_queue_is_not_deafness, end),
        cmocka_unit_test_teardown(frames_that_nobody_counts_are_noticed, end),
        cmocka_unit_test_teardown(a_listener_that_answers_is_fine, end),
        cmocka_unit_test_teardown(connections_have_little_time, end),
        cmocka_unit_test_teardown(an_idle_connection_wakes_nobody, end),
        cmocka_unit_test_teardown(an_address_has_few_unproven_connections, end),
        cmocka_unit_test_teardown(an_address_has_few_connections_that_wait_for_the_process, end),
        cmocka_unit_test_teardown(who_waits_for_the_process_keeps_his_place_for_a_while, end),
        cmocka_unit_test_teardown(an_address_that_connects_too_fast_waits, end),
        cmocka_unit_test_teardown(who_comes_back_with_backoff_never_waits, end),
        cmocka_unit_test_teardown(wrong_tokens_close_the_door_to_an_address, end),
        cmocka_unit_test_teardown(who_shares_an_address_with_proven_ones_gets_in, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
