/* The end of a process whose state contradicts itself. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

noreturn void check_failed(const char *expr, const char *file, int line)
{
    char text[512];
    int n = snprintf(text, sizeof text, "hawk: %s:%d: check failed: %s\n", file, line, expr);

    if (n >= (int)sizeof text)
        n = (int)sizeof text - 1;
    ssize_t ignored = n > 0 ? write(STDERR_FILENO, text, (size_t)n) : 0;
    (void)ignored;
    abort();
}
