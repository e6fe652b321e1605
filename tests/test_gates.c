/* exec/gates: who gets into the cgroups of a user's task. No limit has a cgroup here, so all get in who may. */
#include "exec/gates.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#define OTHER "daemon" /* who does not run tests */

static struct gates g;

static int setup(void **state)
{
    gates_init(&g);
    return 0;
}

static int teardown(void **state)
{
    gates_free(&g);
    return 0;
}

static bool is_ready(void) { return poll(&(struct pollfd){.fd = g.epoll, .events = POLLIN}, 1, 0) == 1; }

static const char *this_user(void) { return getpwuid(geteuid())->pw_name; }

/* What comes back to who asks at a gate. */
static ssize_t ask(int gate, const char *user)
{
    char in;

    assert_int_equal(write(gate, "0", 1), 1);
    assert_true(is_ready());
    gates_on_ready(&g, user);
    return read(gate, &in, 1);
}

static void its_user_gets_in(void **state)
{
    int gates[2] = {gates_open(&g, 1), gates_open(&g, 2)};

    assert_false(is_ready());
    for (int i = 1; i >= 0; i--) {
        assert_int_equal(ask(gates[i], this_user()), 1);
        assert_false(is_ready());
        close(gates[i]);
    }
}

static void nobody_else_does(void **state)
{
    int gate = gates_open(&g, 1);

    assert_int_equal(ask(gate, OTHER), 0);
    close(gate);
    gate = gates_open(&g, 1);
    assert_int_equal(ask(gate, "no such user"), 0);
    close(gate);
}

static void a_gate_closes_with_its_run(void **state)
{
    char in;
    int gate = gates_open(&g, 1);

    gates_close(&g, 2);
    gates_close(&g, 1);
    gates_close(&g, 1);
    assert_int_equal(read(gate, &in, 1), 0);
    close(gate);
    gate = gates_open(&g, 1);
    close(gate); /* the task did not start */
    assert_true(is_ready());
    gates_on_ready(&g, this_user());
    assert_false(is_ready());
}

/* The agent stands still: the runner must not. */
static void who_gets_no_answer_does_not_wait_for_ever(void **state)
{
    char in;
    int gate = gates_open(&g, 1);

    assert_int_equal(write(gate, "0", 1), 1);
    assert_int_equal(read(gate, &in, 1), -1);
    assert_int_equal(errno, EAGAIN);
    close(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(its_user_gets_in, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_else_does, setup, teardown),
        cmocka_unit_test_setup_teardown(a_gate_closes_with_its_run, setup, teardown),
        cmocka_unit_test_setup_teardown(who_gets_no_answer_does_not_wait_for_ever, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
