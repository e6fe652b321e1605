/* Catches what a command prints. Needs cmocka. */
#ifndef HAWK_TESTS_TEST_CLI_H
#define HAWK_TESTS_TEST_CLI_H

#include <stdio.h>
#include <unistd.h>

static char caught[1 << 16];
static int saved[2];
static FILE *sink[2];

static void catch_begin(void)
{
    FILE *streams[] = {stdout, stderr};
    for (int i = 0; i < 2; i++) {
        fflush(streams[i]);
        saved[i] = dup(i + 1);
        sink[i] = tmpfile();
        assert_non_null(sink[i]);
        dup2(fileno(sink[i]), i + 1);
    }
}

/* Ends catching; caught holds what stream 1 or 2 got. */
static const char *catch_end(int stream)
{
    FILE *streams[] = {stdout, stderr};
    for (int i = 0; i < 2; i++) {
        fflush(streams[i]);
        dup2(saved[i], i + 1);
        close(saved[i]);
        if (i + 1 == stream) {
            rewind(sink[i]);
            caught[fread(caught, 1, sizeof caught - 1, sink[i])] = '\0';
        }
        fclose(sink[i]);
    }
    return caught;
}

#endif
