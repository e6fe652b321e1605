/* net/front: too many connections for one daemon, and what all of them share. */
#include "tests/test_front_fixture.h"

/* Who waits is taken in when those who were have had their time, or have gone, or have proven themselves. */
static void a_crowd_of_unproven_connections_makes_room(void **state)
{
    enum { MOST = 20 };
    struct front_conn *last;
    int fd[MOST + 2];

    (void)state;
    begin_with(0, MOST, 0);
    until(loop, served_closed == 1); /* the self-test's */
    for (int i = 0; i < MOST; i++)
        assert_true(enters(1, &fd[i]));
    pass(FRONT_YOUNG_US);
    last = newest();
    last->refs++;
    close(fd[MOST - 1]); /* its place is free again */
    until(loop, last->closed);
    front_unref(last);
    assert_true(enters(1, &fd[MOST]));
    assert_true(stands(fd[0]));
    assert_true(enters(1, &fd[MOST + 1]));
    wait_end(fd[0]);
    for (int i = 0; i < MOST + 2; i++) {
        assert_true(i < MOST / 2 || i == MOST - 1 || stands(fd[i]));
        if (i != MOST - 1)
            close(fd[i]);
    }
}

/* However many wait for their turn: at once a quarter of the places becomes free, and no more. */
static void those_who_wait_make_little_room(void **state)
{
    enum { MOST = 20, WAIT = 6 };
    int fd[MOST], late[WAIT + 1], gone = 0;

    (void)state;
    begin_with(WAIT, MOST, 1);
    until(loop, served_closed == 1); /* the self-test's */
    while (answered_at_once(2, &late[0]))
        ;
    for (int i = 1; i < WAIT; i++)
        assert_false(answered_at_once(2, &late[i]));
    for (int i = 0; i < MOST; i++)
        assert_true(enters(1, &fd[i]));
    late[WAIT] = client(1, true); /* waits as well, in the listen queue */
    pass(2 * FRONT_YOUNG_US);
    wait_end(fd[0]);
    for (int i = 0; i < MOST; i++)
        gone += !stands(fd[i]);
    assert_in_range(gone, 1, MOST / 4 + 1);
    for (int i = 0; i < MOST; i++)
        close(fd[i]);
    for (int i = 0; i < WAIT + 1; i++)
        close(late[i]);
}

/* Whoever has hung up before it is its turn costs nothing. */
static void who_has_left_is_not_taken_in(void **state)
{
    int fd;

    (void)state;
    begin(0);
    until(loop, served_closed == 1); /* the self-test's */
    for (int i = 0; i < 10; i++)
        close(client(1, true));
    assert_true(enters(1, &fd));
    assert_int_equal(served_n, 2);
    close(fd);
}

static void write_streams(int fd, uint32_t n)
{
    static uint8_t buf[2048 * 9];
    uint8_t *p = buf;

    for (uint32_t i = 0; i < n; i++, p += 9) {
        const uint32_t id = 2 * i + 1;
        memcpy(p, (const uint8_t[]){0, 0, 0, 1, 4, 0, 0, (uint8_t)(id >> 8), (uint8_t)id}, 9);
    }
    assert_int_equal(send(fd, buf, (size_t)(p - buf), MSG_NOSIGNAL), p - buf);
}

/* Connections that each stay below their own limits are cut when all together open too many streams; the
 * others are not. */
static void unproven_connections_share_their_streams(void **state)
{
    enum { EACH = 1000, FEW = FRAMES_SHARED_BURST / EACH };
    struct front_conn *small_conn, *proven_conn;
    int fd[FEW + 1], small, proven;

    (void)state;
    begin(0);
    assert_true(enters(1, &proven));
    front_prove(proven_conn = newest());
    assert_true(enters(1, &small));
    small_conn = newest();
    for (int i = 0; i < FEW; i++) {
        assert_true(enters(1, &fd[i]));
        write_streams(fd[i], EACH);
        until(loop, guard_look(newest()->guard).streams == 2 * EACH - 1);
    }
    assert_true(enters(1, &fd[FEW]));
    write_streams(fd[FEW], EACH);
    wait_end(fd[FEW]);
    write_streams(small, FRAMES_OPENED_FREE);
    until(loop, guard_look(small_conn->guard).streams == 2 * FRAMES_OPENED_FREE - 1);
    write_streams(proven, EACH);
    until(loop, guard_look(proven_conn->guard).streams == 2 * EACH - 1);
    for (int i = 0; i < FEW; i++)
        assert_true(stands(fd[i]));
    assert_true(stands(small) && stands(proven));
    close(small);
    close(proven);
    for (int i = 0; i < FEW + 1; i++)
        close(fd[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_crowd_of_unproven_connections_makes_room, end),
        cmocka_unit_test_teardown(those_who_wait_make_little_room, end),
        cmocka_unit_test_teardown(who_has_left_is_not_taken_in, end),
        cmocka_unit_test_teardown(unproven_connections_share_their_streams, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
