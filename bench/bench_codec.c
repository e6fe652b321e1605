/* What one envelope costs: ns to encode and to decode, for the messages of a short task's life. Prints a line
 * per message. Usage: bench_codec [ENVELOPES] */
#include "net/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCH 32

static uint64_t delivered;

static bool count(void *arg, const struct msg *m)
{
    delivered += m->type != MSG_NONE;
    return true;
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int measure(const struct msg *m, uint64_t envelopes)
{
    struct codec_buf b = {0};
    struct codec_report report = {0};
    uint64_t batches = envelopes / BATCH;
    double start = now_ns(), encoded, decoded;
    int err = 0;

    for (uint64_t i = 0; i < batches; i++) {
        b.len = 0;
        for (int j = 0; j < BATCH && !err; j++)
            err = codec_encode(&b, m);
    }
    encoded = now_ns();
    for (uint64_t i = 0; i < batches && !err; i++)
        err = codec_decode(b.data, b.len, count, NULL, &report);
    decoded = now_ns();
    if (err) {
        fprintf(stderr, "%s: %s\n", msg_name(m->type), report.why);
    } else {
        double n = (double)(batches * BATCH);

        printf("%-14s %4zu bytes  encode %5.0f ns  decode %5.0f ns\n", msg_name(m->type), b.len / BATCH,
               (encoded - start) / n, (decoded - encoded) / n);
    }
    codec_buf_free(&b);
    return err;
}

int main(int argc, char **argv)
{
    uint64_t envelopes = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    struct job_desc *desc = job_desc_new();
    job_id_t job = job_id_make((node_id_t){7}, 123456);
    struct try_id id = {job, 42, 1, 1};
    struct msg messages[] = {
        {.type = MSG_PROBE, .probe = {.job = job, .estimate_us = 1500000, .count = 2}},
        {.type = MSG_TASK_REQUEST, .task_request = {.job = job, .request = 123456, .has_spec = 1}},
        {.type = MSG_TASK_LAUNCH, .task_launch = {.id = id, .desc = desc, .request = 123456}},
        {.type = MSG_TASK_LAUNCH, .task_launch = {.id = id, .request = 123456, .promotable = 1}},
        {.type = MSG_TASK_STARTED, .task_started = {.id = id, .wait_us = 1234}},
        {.type = MSG_TASK_FINISHED,
         .task_finished =
             {.id = id, .run_us = 1500000, .outcome = OUTCOME_EXITED, .used = usage_of(1234567, 5 << 20)}},
        {.type = MSG_FINISH_ACK, .finish_ack = {.id = id}},
        {.type = MSG_HEARTBEAT, .heartbeat = {.seq = 99, .queued = 3, .running_short = 1}},
    };
    int err = 0;

    desc->tasks = 100;
    strings_add(&desc->argv, "sleep");
    strings_add(&desc->argv, "1");
    strings_add(&desc->env, "HOME=/home/someone");
    strings_add(&desc->env, "PATH=/usr/local/bin:/usr/bin:/bin");
    for (size_t i = 0; i < sizeof messages / sizeof *messages && !err; i++)
        err = measure(&messages[i], envelopes);
    job_desc_drop(desc);
    return err || !delivered;
}
