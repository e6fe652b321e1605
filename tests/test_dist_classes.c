/* How a dist classifies a job (protocol 3.2). */
#include "tests/test_dist.h"

static void test_classes(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct blob *name = blob_str("big");
    struct job_desc *desc = desc_new(1, "big");

    HEAR(t, CENTRAL, ESTIMATE, estimate, .name = name, .mean_us = 30 * US_PER_S, .runs = 2);
    submit(t, desc); /* from history */
    says(t, "central LONG_SUBMIT job=3.1 desc=\"big\"x1 tasks=all estimate_us=30000000 epoch=1 why=3");
    says(t, "- SUBMITTED job=3.1 client=9 err=0 class=1 why=3");
    desc = desc_new(1, "big");
    desc->tag = TAG_SHORT;
    submit(t, desc);
    says(t, "- SUBMITTED job=3.2 client=9 err=0 class=0 why=1");
    says(t, "101 PROBE job=3.2 estimate_us=30000000");
    desc = desc_new(1, "");
    desc->tag = TAG_LONG; /* how long, nobody knows: the cutoff at least */
    submit(t, desc);
    says(t, "central LONG_SUBMIT job=3.3 desc=\"\"x1 tasks=all estimate_us=10000000 epoch=1 why=1");
    ignore(t);
    blob_drop(name);
    talk_end(t);
}

static struct job_desc *desc_by(const char *user, const char *name)
{
    struct job_desc *d = desc_new(1, name);

    blob_drop(d->user);
    d->user = blob_str(user);
    return d;
}

/* Ann's runs of "big" say nothing of Bob's. */
static void test_history_is_its_users(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct blob *name = blob_str("big"), *ann = blob_str("ann");

    HEAR(t, CENTRAL, ESTIMATE, estimate, .name = name, .mean_us = 30 * US_PER_S, .runs = 2,
         .user = user_number(ann));
    submit(t, desc_by("ann", "big"));
    says(t, "central LONG_SUBMIT job=3.1 desc=\"big\"x1 tasks=all estimate_us=30000000 epoch=1 why=3");
    says(t, "- SUBMITTED job=3.1 client=9 err=0 class=1 why=3");
    submit(t, desc_by("bob", "big"));
    says(t, "- SUBMITTED job=3.2 client=9 err=0 class=0 why=0");
    ignore(t);
    blob_drop(name);
    blob_drop(ann);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_history_is_its_users),
    };

    return cmocka_run_group_tests_name("dist_classes", tests, NULL, NULL);
}
