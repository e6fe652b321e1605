/* Maps a function over a list on a Hawk cluster: the function is an attached executor's, of application APP,
 * and each WORD is the payload of one task. Prints what came back, in the order of the words:
 *
 *     map APP WORD...
 *
 * Needs nothing but the library: cc map.c $(pkg-config --cflags --libs hawk) -o map */
#include <hawk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print(struct hawk_job *job, char **words)
{
    int failed = 0;

    for (uint32_t i = 0; i < hawk_job_tasks(job); i++) {
        struct hawk_task t;

        if (hawk_job_task(job, i, &t) && t.state == HAWK_TASK_DONE && !t.result_lost) {
            printf("%s\t%.*s\n", words[i], (int)t.result.len, (const char *)t.result.data);
        } else {
            printf("%s\t(%s %d) %s\n", words[i], t.outcome, t.code,
                   t.result_lost ? "result lost" : t.message);
            failed = 1;
        }
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct hawk_client *c;
    struct hawk_bytes *payloads;
    struct hawk_job *job;
    int status = 1;

    if (argc < 3) {
        fprintf(stderr, "usage: map APP WORD...\n");
        return 2;
    }
    payloads = calloc((size_t)argc - 2, sizeof *payloads);
    for (int i = 2; payloads && i < argc; i++)
        payloads[i - 2] = (struct hawk_bytes){argv[i], strlen(argv[i])};
    if (hawk_client_open(&c, NULL)) {
        fprintf(stderr, "map: %s\n", hawk_client_error(c));
        goto out;
    }
    job = hawk_client_submit(
        c, &(struct hawk_spec){
               .tasks = (uint32_t)argc - 2, .app = argv[1], .args = payloads, .lost_retries = 2});
    if (!job) {
        fprintf(stderr, "map: %s\n", hawk_client_error(c));
        goto out;
    }
    hawk_client_wait(c, job, -1);
    if (hawk_job_state(job) == HAWK_JOB_REFUSED)
        fprintf(stderr, "map: %s\n", hawk_job_error(job));
    else
        status = print(job, argv + 2);
out:
    hawk_client_close(c);
    free(payloads);
    return status;
}
