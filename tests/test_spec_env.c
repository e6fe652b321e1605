/* Which variables of its submitter's environment a job has (cli/spec.c). */
#include "cli/command.h"
#include "cli/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct job_desc *desc;

static int build(const struct spec_options *o, char **argv)
{
    job_desc_drop(desc);
    desc = NULL;
    return spec_build("submit", o, 1, argv, &desc, NULL);
}

static bool has_env(const char *entry)
{
    const char *text = desc->env.data;
    for (uint32_t i = 0; i < desc->env.n; i++, text += strlen(text) + 1)
        if (strcmp(text, entry) == 0)
            return true;
    return false;
}

static void which_variables_travel(void **state)
{
    char *argv[] = {(char[]){"true"}};
    struct spec_options o = {0};
    setenv("HAWK_TOKEN", "secret", 1);
    setenv("HAWK_TOKEN_FILE", "secret", 1);
    setenv("HAWK_DIST", "there", 1);
    setenv("LC_SPEC", "here", 1);
    setenv("LCX_SPEC", "here", 1);
    setenv("SPEC_TEST", "here", 1);
    setenv("PATHS", "here", 1);
    assert_int_equal(build(&o, argv), 0);
    assert_true(has_env("LC_SPEC=here") && has_env("HAWK_DIST=there"));
    assert_false(has_env("SPEC_TEST=here") || has_env("LCX_SPEC=here") || has_env("PATHS=here"));
    assert_false(has_env("HAWK_TOKEN=secret") || has_env("HAWK_TOKEN_FILE=secret"));
    o.all_env = true;
    assert_int_equal(build(&o, argv), 0);
    assert_true(has_env("LC_SPEC=here") && has_env("SPEC_TEST=here"));
    assert_false(has_env("HAWK_TOKEN=secret"));
    o.exported = "SPEC_TEST,LCX*,NOSUCH,HAWK_TOKEN";
    assert_int_equal(build(&o, argv), 0);
    assert_int_equal(desc->env.n, 2);
    assert_true(has_env("SPEC_TEST=here") && has_env("LCX_SPEC=here"));
    o = (struct spec_options){.exported = "ALL"};
    assert_int_equal(build(&o, argv), 0);
    assert_true(has_env("SPEC_TEST=here") && has_env("PATHS=here"));
    const char *env[] = {"SPEC_TEST", "NEW=1"};
    o = (struct spec_options){.exported = "NONE", .env = {.v = env, .n = 2}};
    assert_int_equal(build(&o, argv), 0);
    assert_int_equal(desc->env.n, 2);
    assert_true(has_env("SPEC_TEST=here") && has_env("NEW=1"));
    static const char *wrong[] = {"NOSUCH", "", "=x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o = (struct spec_options){.env = {.v = &wrong[i], .n = 1}};
        assert_int_equal(build(&o, argv), HAWK_EXIT_USAGE);
    }
    static const char *const made[] = {"HAWK_TOKEN", "HAWK_TOKEN_FILE", "HAWK_DIST", "LC_SPEC",
                                       "LCX_SPEC",   "SPEC_TEST",       "PATHS"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        unsetenv(made[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(which_variables_travel)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    job_desc_drop(desc);
    return failed;
}
