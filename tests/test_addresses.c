/* What a server remembers of addresses: which peers are one address, when they are forgotten, whom it distrusts. */
#include "net/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct addresses as;
static int64_t now_us;

static int begin(void **state)
{
    (void)state;
    now_us = 1000 * US_PER_S;
    return 0;
}

static int end(void **state)
{
    (void)state;
    addresses_free(&as);
    memset(&as, 0, sizeof as);
    return 0;
}

static bool net_of(const char *text, uint8_t net[ADDRESS_NET_BYTES])
{
    union sockaddr_any peer = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&peer;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&peer;
    bool local;

    if (strchr(text, '/')) {
        peer.un.sun_family = AF_UNIX;
    } else if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
        v6->sin6_family = AF_INET6;
    }
    address_net(&peer, net, &local);
    return local;
}

static bool same(const char *x, const char *y)
{
    uint8_t a[ADDRESS_NET_BYTES], b[ADDRESS_NET_BYTES];

    (void)net_of(x, a);
    (void)net_of(y, b);
    return memcmp(a, b, sizeof a) == 0;
}

static void peers_of_one_address(void **state)
{
    uint8_t net[ADDRESS_NET_BYTES];

    (void)state;
    assert_false(same("10.0.0.1", "10.0.0.2"));
    assert_true(same("10.0.0.1", "::ffff:10.0.0.1"));
    assert_true(same("2001:db8::1", "2001:db8::ffff:1"));
    assert_false(same("2001:db8::1", "2001:db8:0:1::1"));
    assert_true(same("127.0.0.1", "127.1.2.3"));
    assert_true(same("127.0.0.1", "::1"));
    assert_true(same("127.0.0.1", "::ffff:127.0.0.1"));
    assert_false(same("127.0.0.1", "/run/hawk.sock"));
    assert_true(net_of("127.9.9.9", net) && net_of("::1", net) && net_of("/run/hawk.sock", net));
    assert_false(net_of("10.0.0.1", net) || net_of("2001:db8::1", net) || net_of("::ffff:10.0.0.1", net));
}

static struct address *address(unsigned i)
{
    uint8_t net[ADDRESS_NET_BYTES] = {10, 0, (uint8_t)(i >> 8), (uint8_t)i};

    return addresses_get(&as, net);
}

static void an_address_is_forgotten_once_it_is_idle_and_nothing_is_to_be_remembered(void **state)
{
    struct address *a = address(1);

    (void)state;
    a->unproven_n = 1;
    assert_int_equal(addresses_sweep(&as, now_us), TIME_NEVER);
    assert_ptr_equal(addresses_find(&as, a->net), a);
    a->unproven_n = 0;
    a->strict_until_us = now_us + ADDRESS_STRICT_US;
    now_us += ADDRESSES_SWEEP_US;
    assert_int_equal(addresses_sweep(&as, now_us), a->strict_until_us);
    now_us = a->strict_until_us;
    assert_int_equal(addresses_sweep(&as, now_us), TIME_NEVER);
    assert_null(as.all);
}

/* Each of many has a moment of its own: they are looked through together. */
static void addresses_are_looked_through_at_most_so_often(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        address(i)->strict_until_us = now_us + (i + 1) * US_PER_MS;
    assert_int_equal(addresses_sweep(&as, now_us), now_us + ADDRESSES_SWEEP_US);
    assert_int_equal(addresses_sweep(&as, now_us + 50 * US_PER_MS), now_us + ADDRESSES_SWEEP_US);
    assert_int_equal(HASH_COUNT(as.all), 100);
    assert_int_equal(addresses_sweep(&as, now_us + ADDRESSES_SWEEP_US), TIME_NEVER);
    assert_null(as.all);
}

static void wrong_tokens_make_an_address_distrusted(void **state)
{
    struct address *a = address(1);

    (void)state;
    for (unsigned i = 0; i < ADDRESS_FAILED_BURST; i++) {
        assert_false(address_is_distrusted(a, now_us));
        address_failed(a, now_us);
    }
    assert_true(address_is_distrusted(a, now_us));
    a->proven_n = 1;
    assert_false(address_is_distrusted(a, now_us));
    a->proven_n = 0;
    assert_false(address_is_distrusted(a, now_us + US_PER_S / ADDRESS_FAILED_RATE));
    address_trust(a, now_us);
    for (unsigned i = 0; i <= ADDRESS_FAILED_BURST; i++)
        address_failed(a, now_us);
    assert_false(address_is_distrusted(a, now_us));
}

/* A moment without connections is no way around the rate. */
static void what_an_address_has_opened_is_remembered(void **state)
{
    struct address *a = address(1);

    (void)state;
    for (unsigned i = 0; i < 2 * ADDRESS_CONNECT_S; i++)
        assert_true(address_may_connect(a, 2, now_us));
    assert_false(address_may_connect(a, 2, now_us));
    now_us += ADDRESSES_SWEEP_US;
    (void)addresses_sweep(&as, now_us);
    assert_ptr_equal(addresses_find(&as, a->net), a);
    assert_false(address_may_connect(a, 2, now_us));
    now_us += US_PER_S;
    assert_true(address_may_connect(a, 2, now_us) && address_may_connect(a, 2, now_us));
    assert_false(address_may_connect(a, 2, now_us));
    a->waiting_n = 1;
    now_us += ADDRESS_CONNECT_S * US_PER_S;
    assert_int_equal(addresses_sweep(&as, now_us), TIME_NEVER);
    assert_ptr_equal(addresses_find(&as, a->net), a);
    a->waiting_n = 0;
    now_us += ADDRESSES_SWEEP_US;
    assert_int_equal(addresses_sweep(&as, now_us), TIME_NEVER);
    assert_null(as.all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(peers_of_one_address, begin, end),
        cmocka_unit_test_setup_teardown(
            an_address_is_forgotten_once_it_is_idle_and_nothing_is_to_be_remembered, begin, end),
        cmocka_unit_test_setup_teardown(addresses_are_looked_through_at_most_so_often, begin, end),
        cmocka_unit_test_setup_teardown(what_an_address_has_opened_is_remembered, begin, end),
        cmocka_unit_test_setup_teardown(wrong_tokens_make_an_address_distrusted, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
