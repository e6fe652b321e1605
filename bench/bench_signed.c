/* What a signature costs: to sign a job, to check one as a dist does, to open one as a worker does, to look up a task
 * of it there; jobs of one, 100 and 10,000 arguments, and how many bytes each has more. Usage: bench_signed [FILE.json
 * [ROUNDS]] */
#include "base/log.h"
#include "bench/lib/columns.h"
#include "bench/lib/figures.h"
#include "net/codec.h"
#include "net/submission.h"
#include "net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ARGUMENT "/data/input/part-%08u.csv"
#define BUSY_S 0.05 /* each value is of as many repeats as take so long */

struct bench {
    struct figures *f;
    struct tls *tls;
    struct signed_checker checker;
    struct job_desc *d; /* signed */
    struct submission opened;
    struct blob *arg, *proof; /* of its last task */
    const char *who;          /* "job of 100 arguments" */
};

static void must_be_good(int err, const char *why)
{
    if (err)
        bench_die("%s", why);
}

static void sign(struct bench *b)
{
    must_be_good(submission_sign(&b->d, 1, tls_signer(b->tls), (int64_t)time(NULL)),
                 "the credential cannot sign");
}

static void hash(struct bench *b)
{
    blob_drop(b->d->tree);
    b->d->tree = NULL;
    submission_tree(b->d);
}

static void check(struct bench *b)
{
    char why[SUBMISSION_WHY];

    must_be_good(submission_check(b->d, &b->checker, why), why);
}

static void open_it(struct bench *b)
{
    char why[SUBMISSION_WHY];

    submission_close(&b->opened);
    must_be_good(submission_open(&b->opened, b->d->signature, &b->checker, why), why);
}

static void look_up(struct bench *b)
{
    must_be_good(!submission_has(&b->opened, b->d->tasks - 1, b->arg, b->proof), "a task does not fit");
}

static void measure(struct bench *b, const char *what, void (*step)(struct bench *b))
{
    double from_s = cpu_s(), took_s;
    uint64_t n = 0;
    char name[128];

    do {
        step(b);
        n++;
        took_s = cpu_s() - from_s;
    } while (took_s < BUSY_S);
    snprintf(name, sizeof name, "%s: %s", b->who, what);
    figures_add(b->f, name, "us", took_s * 1e6 / (double)n);
}

static void measure_bytes(struct bench *b)
{
    struct codec_buf with = {0}, without = {0};
    struct job_desc *bare = job_desc_copy(b->d);
    char name[128];

    job_desc_unsign(bare);
    codec_desc_encode(&with, b->d, true);
    codec_desc_encode(&without, bare, true);
    snprintf(name, sizeof name, "%s: bytes of it", b->who);
    figures_add(b->f, name, "", (double)without.len);
    snprintf(name, sizeof name, "%s: bytes more, signed", b->who);
    figures_add(b->f, name, "", (double)(with.len - without.len));
    snprintf(name, sizeof name, "%s: bytes of a task's proof", b->who);
    figures_add(b->f, name, "", b->proof ? (double)b->proof->len : 0);
    codec_buf_free(&with);
    codec_buf_free(&without);
    job_desc_drop(bare);
}

static struct job_desc *job_of(uint32_t tasks)
{
    struct job_desc *d = job_desc_new();
    char text[64];

    d->tasks = tasks;
    d->flags = JOB_EACH_ARG;
    d->user = blob_str("bench0");
    strings_add(&d->argv, "/bin/true");
    strings_add(&d->env, "HOME=/home/someone");
    strings_add(&d->env, "PATH=/usr/local/bin:/usr/bin:/bin");
    for (uint32_t i = 0; i < tasks; i++) {
        snprintf(text, sizeof text, ARGUMENT, i);
        task_args_add(&d->args, text, strlen(text));
    }
    return d;
}

static void measure_job(struct bench *b, uint32_t tasks)
{
    char who[64];

    snprintf(who, sizeof who, tasks == 1 ? "job of %u argument" : "job of %u arguments", tasks);
    b->who = who;
    b->d = job_of(tasks);
    measure(b, "sign", sign);
    measure(b, "the dist's hash tree", hash);
    measure(b, "the dist's check", check);
    measure(b, "the worker's opening, once", open_it);
    b->arg = job_desc_arg(b->d, tasks - 1);
    b->proof = job_desc_proof(b->d, tasks - 1);
    measure(b, "the worker's look at each task", look_up);
    measure_bytes(b);
    blob_drop(b->arg);
    blob_drop(b->proof);
    submission_close(&b->opened);
    job_desc_drop(b->d);
}

int main(int argc, char **argv)
{
    static const uint32_t tasks[] = {1, 100, 10000};
    unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 7;
    struct bench b = {.f = figures_new("signed")};
    struct site site;
    char hawk[PATH_MAX];

    bench_name("bench_signed");
    log_init("bench_signed", LOG_ERROR);
    site_make(&site, COLUMN_SIGNED, hawk_path(hawk));
    b.tls = site_client(&site, 0);
    tls_checker(b.tls, &b.checker);
    for (unsigned long r = 0; r < rounds; r++)
        for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
            measure_job(&b, tasks[i]);
    tls_free(b.tls);
    site_remove(&site);
    figures_end(b.f, argc > 1 ? argv[1] : NULL);
    return 0;
}
