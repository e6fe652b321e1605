/* An attached executor: runs tasks of the application "upper" without a process each. A task's payload is a
 * text, and what it returns is the same in capital letters:
 *
 *     upper [TASKS_AT_ONCE]
 *
 * It attaches to the worker that HAWK_EXECUTOR names ("unix:PATH", as the worker's log says), else to this
 * user's `hawk up`, and serves until it is interrupted. A map over a list is then
 *
 *     hawk submit --app upper --each-line words.txt --wait --results
 *
 * or examples/map.c. Needs nothing but the library: cc upper.c $(pkg-config --cflags --libs hawk) -o upper */
#include <ctype.h>
#include <hawk.h>
#include <stdio.h>
#include <stdlib.h>

static void serve(struct hawk_executor *x, const struct hawk_work *w)
{
    const unsigned char *text = w->payload.data;
    char *upper = malloc(w->payload.len + 1);

    if (!upper || w->payload.len == 0) {
        hawk_executor_failed(x, w, 1, upper ? "there is nothing to convert" : "out of memory");
    } else {
        for (size_t i = 0; i < w->payload.len; i++)
            upper[i] = (char)toupper(text[i]);
        hawk_executor_done(x, w, upper, w->payload.len);
    }
    free(upper);
}

int main(int argc, char **argv)
{
    struct hawk_executor_options options = {.name = "upper", .slots = argc > 1 ? (uint32_t)atoi(argv[1]) : 1};
    const struct hawk_work *w;
    struct hawk_executor *x;
    int got = hawk_executor_open(&x, "upper", &options), told = 0;

    /* A worker that is not there is waited for: after a second people are told. */
    while (got >= 0 && (got = hawk_executor_next(x, &w, told ? -1 : 1000000)) >= 0) {
        if (got > 0)
            serve(x, w);
        else if (!told++ && *hawk_executor_error(x))
            fprintf(stderr, "upper: waiting: %s\n", hawk_executor_error(x));
    }
    fprintf(stderr, "upper: %s\n", hawk_executor_error(x));
    hawk_executor_close(x);
    return 1;
}
