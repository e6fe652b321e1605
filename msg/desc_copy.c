/* Copies of job descriptions, whole or in part. */
#include "base/mem.h"
#include "msg/types.h"

#include <stdlib.h>
#include <string.h>

static void strings_copy(struct strings *to, const struct strings *from)
{
    const char *text = from->data;

    for (uint32_t i = 0; i < from->n; i++, text += strlen(text) + 1)
        strings_add(to, text);
}

struct job_desc *job_desc_copy(const struct job_desc *d)
{
    struct job_desc *copy = xmalloc(sizeof *copy);

    *copy = *d;
    copy->refs = 1;
    copy->argv = copy->env = copy->each_env = (struct strings){0};
    copy->args = (struct task_args){0};
    strings_copy(&copy->argv, &d->argv);
    strings_copy(&copy->env, &d->env);
    strings_copy(&copy->each_env, &d->each_env);
    for (uint32_t i = 0; i < d->args.n; i++)
        task_args_add(&copy->args, d->args.data + d->args.off[i], d->args.off[i + 1] - d->args.off[i]);
    blob_ref(d->name);
    blob_ref(d->user);
    blob_ref(d->cwd);
    blob_ref(d->stdout_pattern);
    blob_ref(d->stderr_pattern);
    blob_ref(d->input);
    blob_ref(d->app);
    blob_ref(d->retry_codes);
    blob_ref(d->signature);
    blob_ref(d->tree);
    after_copy(&copy->after, &d->after);
    return copy;
}

void job_desc_unsign(struct job_desc *d)
{
    blob_drop(d->signature);
    blob_drop(d->tree);
    d->signature = d->tree = NULL;
}

void job_desc_forget_env(struct job_desc **d)
{
    struct job_desc *shared = *d;

    if (shared->env.n == 0 && shared->each_env.n == 0 && !shared->signature)
        return;
    if (shared->refs > 1) {
        *d = job_desc_copy(shared);
        job_desc_drop(shared);
        shared = *d;
    }
    free(shared->env.data);
    free(shared->each_env.data);
    shared->env = shared->each_env = (struct strings){0};
    job_desc_unsign(shared); /* a signature has the environment, too */
}

struct job_desc *job_desc_part(const struct job_desc *d, struct task_args *args, uint32_t first)
{
    struct job_desc shell = *d;
    shell.args = (struct task_args){0};
    struct job_desc *part = job_desc_copy(&shell);
    job_desc_unsign(part); /* what was signed is the whole */
    part->args = *args;
    part->tasks = args->n;
    part->first_index = first;
    *args = (struct task_args){0};
    return part;
}
