/* Peers of links, for test_net.c and test_net_refusals.c. */
#ifndef HAWK_TESTS_TEST_NET_FIXTURE_H
#define HAWK_TESTS_TEST_NET_FIXTURE_H

#include "tests/test_net.h"

#include "net/core.h"

#include <arpa/inet.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/hawk-test-net-XXXXXX";

static char unix_addr[64];

/* ---- Refusals ---- */

#define TOKEN "secret-of-clients"

/* ---- Listening ---- */

static int group_setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(unix_addr, sizeof unix_addr, "unix:%s/x.sock", dir);
    loop = loop_new(LOOP_NET);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    loop_free(loop);
    return rmdir(dir);
}

#endif
