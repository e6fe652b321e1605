/* Runs a command for each of a list of words on a Hawk cluster, a job for each word, and tells how each went:
 *
 *     each COMMAND [ARG]... -- WORD...
 *
 * {} in the command stands for the word. Needs nothing but the library:
 *
 *     cc each.c $(pkg-config --cflags --libs hawk) -o each
 *     HAWK_DIST=127.0.0.1:7101 ./each gzip -9 {} -- *.log */
#include <hawk.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *word(int state)
{
    switch (state) {
    case HAWK_JOB_DONE:
        return "done";
    case HAWK_JOB_FAILED:
        return "failed";
    case HAWK_JOB_CANCELLED:
        return "cancelled";
    default:
        return "refused";
    }
}

/* A line about a job that has ended; whether it went well. */
static int tell(const struct hawk_job *job)
{
    const char *of = hawk_job_user(job);
    struct hawk_task t;

    if (hawk_job_task(job, 0, &t))
        printf("%s\t%s\t%s %d%s%s\t%" PRId64 " us\n", of, word(hawk_job_state(job)), t.outcome, t.code,
               *t.message ? ": " : "", t.message, t.run_us);
    else
        printf("%s\t%s\t%s\n", of, word(hawk_job_state(job)), hawk_job_error(job));
    return hawk_job_state(job) == HAWK_JOB_DONE;
}

int main(int argc, char **argv)
{
    struct hawk_client *c;
    struct hawk_job *job;
    int words, failed = 0;

    for (words = 1; words < argc && strcmp(argv[words], "--") != 0; words++)
        ;
    if (words < 2 || words >= argc - 1) {
        fprintf(stderr, "usage: each COMMAND [ARG]... -- WORD...\n");
        return 2;
    }
    argv[words] = NULL; /* the end of the command */
    if (hawk_client_open(&c, NULL)) {
        fprintf(stderr, "each: %s\n", hawk_client_error(c));
        hawk_client_close(c);
        return 1;
    }
    for (int i = words + 1; i < argc; i++) {
        struct hawk_bytes arg = {argv[i], strlen(argv[i])};
        struct hawk_spec spec = {.name = "each",
                                 .argv = (const char *const *)argv + 1,
                                 .args = &arg,
                                 .lost_retries = 2,
                                 .user = argv[i]};

        if (!hawk_client_submit(c, &spec)) {
            fprintf(stderr, "each: %s: %s\n", argv[i], hawk_client_error(c));
            failed++;
        }
    }
    while (hawk_client_wait_any(c, &job, -1) == 1) {
        failed += !tell(job);
        hawk_job_free(job);
    }
    hawk_client_close(c);
    return failed > 0;
}
