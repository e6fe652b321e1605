/* What command lines make of a job: where its tasks get their inputs, and its description. */
#include "cli/inputs.h"
#include "cli/spec.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/test_cli.h"

static void test_arrays(void **state)
{
    static const struct {
        const char *text;
        int err;
        uint32_t first, tasks;
        const char *why;
    } cases[] = {
        {"1-1000", 0, 1, 1000, NULL},
        {"0-0", 0, 0, 1, NULL},
        {"5-10", 0, 5, 6, NULL},
        {"0-999999", 0, 0, 1000000, NULL},
        {"1-1000001", HAWK_ETOO_LARGE, 0, 0, "--array 1-1000001 has 1000001 tasks, the limit is 1000000"},
        {"5-4", HAWK_EINVALID, 0, 0, "--array 5-4 has no tasks: it ends before it begins"},
        {"7", 0, 7, 1, NULL},
        {"1-9:2", 0, 1, 5, NULL},
        {"1-10:2,15", 0, 1, 6, NULL},
        {"3,1-2", 0, 3, 3, NULL},
        {"1-9:0", HAWK_EINVALID, 0, 0, "like 1-10:2,15, not '1-9:0'"},
        {"7:2", HAWK_EINVALID, 0, 0, "--array takes"},
        {"1,,2", HAWK_EINVALID, 0, 0, "--array takes"},
        {"1,", HAWK_EINVALID, 0, 0, "--array takes"},
        {"", HAWK_EINVALID, 0, 0, "--array takes"},
        {"1-600000,1-600000", HAWK_ETOO_LARGE, 0, 0, "has 1200000 tasks"},
        {"-5", HAWK_EINVALID, 0, 0, "--array takes"},
        {"a-b", HAWK_EINVALID, 0, 0, "--array takes"},
        {"1-", HAWK_EINVALID, 0, 0, "--array takes"},
        {"1-99999999999999999999", HAWK_ETOO_LARGE, 0, 0, "the numbers end at 4294967294"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct array_range ranges[ARRAY_RANGES_MAX];
        uint32_t n = 0, tasks = 0;
        char why[200] = "";
        assert_int_equal(array_parse("--array", cases[i].text, ranges, &n, why, sizeof why), cases[i].err);
        for (uint32_t k = 0; k < n; k++)
            tasks += (ranges[k].last - ranges[k].first) / ranges[k].step + 1;
        if (cases[i].why)
            assert_non_null(strstr(why, cases[i].why));
        else {
            assert_int_equal(ranges[0].first, cases[i].first);
            assert_int_equal(tasks, cases[i].tasks);
        }
    }
}

/* ---- Job descriptions ---- */

static struct job_desc *desc;

/* One source of inputs. */
#define SOURCE(flag, text)                                                                                   \
    (struct input_options)                                                                                   \
    {                                                                                                        \
        .sources = {.v = (const char *[]){text}, .flags = (const char *[]){flag}, .n = 1 }                   \
    }

/* Builds from a command's words; returns the message, or "" and desc. */
static const char *build(const struct spec_options *o, int argc, char **argv)
{
    job_desc_drop(desc);
    desc = NULL;
    catch_begin();
    int result = spec_build("submit", o, argc, argv, &desc, NULL);
    catch_end(2);
    assert_int_equal(result, desc ? 0 : HAWK_EXIT_USAGE);
    return caught;
}

static const char *nth(const struct strings *s, uint32_t i)
{
    const char *text = s->data;
    assert_true(i < s->n);
    while (i--)
        text += strlen(text) + 1;
    return text;
}

static bool has_env(const char *entry)
{
    for (uint32_t i = 0; i < desc->env.n; i++)
        if (strcmp(nth(&desc->env, i), entry) == 0)
            return true;
    return false;
}

static void test_spec(void **state)
{
    char *argv[] = {(char[]){"/bin/echo"}, (char[]){"hello"}};
    struct spec_options o = {
        .lost_retries = 2, .estimate_us = 5, .class = "long", .cwd = "sub", .all_env = true};
    char here[4096], expected[5000];
    setenv("HAWK_TOKEN", "secret", 1);
    setenv("SPEC_TEST", "here", 1);
    assert_string_equal(build(&o, 2, argv), "");
    assert_int_equal(desc->tasks, 1);
    assert_int_equal(desc->lost_retries, 2);
    assert_int_equal(desc->tag, TAG_LONG);
    assert_int_equal(desc->estimate_us, 5);
    assert_string_equal(desc->name->data, "echo hello");
    assert_true(desc->user->len > 0);
    assert_string_equal(nth(&desc->argv, 1), "hello");
    assert_true(has_env("SPEC_TEST=here"));
    assert_false(has_env("HAWK_TOKEN=secret"));
    assert_non_null(getcwd(here, sizeof here));
    snprintf(expected, sizeof expected, "%s/sub", here);
    assert_string_equal(desc->cwd->data, expected);

    const char *env[] = {"SPEC_TEST=a", "SPEC_TEST=b"};
    o = (struct spec_options){.name = "n", .env = {.v = env, .n = 2}, .clean_env = true};
    assert_string_equal(build(&o, 2, argv), "");
    assert_int_equal(desc->env.n, 1);
    assert_true(has_env("SPEC_TEST=b"));
    assert_string_equal(desc->name->data, "n");
    unsetenv("HAWK_TOKEN");
    unsetenv("SPEC_TEST");
}

static void test_spec_arrays(void **state)
{
    char *plain[] = {(char[]){"true"}}, *braces[] = {(char[]){"echo"}, (char[]){"n{}"}};
    struct spec_options o = {.inputs = SOURCE("array", "5-7")};
    assert_string_equal(build(&o, 1, plain), "");
    assert_int_equal(desc->tasks, 3);
    assert_int_equal(desc->first_index, 5);
    assert_int_equal(desc->flags, 0);
    assert_string_equal(build(&o, 2, braces), "");
    assert_int_equal(desc->flags, JOB_EACH_ARG);
    struct blob *arg = job_desc_arg(desc, 2);
    assert_string_equal(arg->data, "7");
    blob_drop(arg);
    o.inputs = SOURCE("array", "5-7:2"); /* numbers are not appended, however they are written */
    assert_string_equal(build(&o, 2, braces), "");
    assert_int_equal(desc->flags, JOB_EACH_ARG);
    assert_string_equal(build(&o, 1, plain), "");
    assert_int_equal(desc->flags, JOB_EACH_ARG | JOB_ARG_ASIDE);
}

static void test_spec_files_of_an_array(void **state)
{
    static const struct {
        const char *pattern;
        bool warns;
    } cases[] = {{"s-%a.out", true}, {"%%a", false},   {"%%%a", true},     {"%j_%a", true},
                 {"%t.%a", false},   {"{}.%a", false}, {"one.out", false}, {"%w-%%", false}};
    char *argv[] = {(char[]){"true"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct spec_options o = {.inputs = SOURCE("array", "1-3"), .stderr_pattern = cases[i].pattern};
        build(&o, 1, argv);
        assert_int_equal(strstr(caught, "is one file of all 3 tasks: %a is the attempt") != NULL,
                         cases[i].warns);
        o.inputs = SOURCE("array", "1-1");
        assert_string_equal(build(&o, 1, argv), "");
        o.inputs = SOURCE("input", "w");
        assert_string_equal(build(&o, 1, argv), "");
    }
}

static const char *file_with(const char *text, size_t len)
{
    static char path[] = "/tmp/hawk-test-XXXXXX";
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
    return path;
}

static void test_spec_lines(void **state)
{
    char *argv[] = {(char[]){"echo"}};
    const char *path = file_with("one\n\ntwo words\nthree", 20);
    struct spec_options o = {.inputs = SOURCE("each-line", path)};
    assert_string_equal(build(&o, 1, argv), "");
    unlink(path);
    assert_int_equal(desc->tasks, 3);
    struct blob *arg = job_desc_arg(desc, 1);
    assert_string_equal(arg->data, "two words");
    blob_drop(arg);
    path = file_with("\n\n", 2);
    o.inputs = SOURCE("each-line", path);
    assert_string_equal(build(&o, 1, argv), "");
    assert_int_equal(desc->tasks, 0);
    unlink(path);
    path = file_with("a\nb\0c\n", 6);
    assert_non_null(strstr(build(&o, 1, argv), "line 2: a NUL byte"));
    o.inputs.null = true;
    assert_string_equal(build(&o, 1, argv), "");
    assert_int_equal(desc->tasks, 2);
    unlink(path);
    o.inputs = SOURCE("each-line", "/nonexistent/lines");
    assert_non_null(strstr(build(&o, 1, argv), "--each-line: cannot open /nonexistent/lines: No such file"));
}

/* Everything that records_read() says, in a text: "1:a|b;". */
static bool add_record(void *arg, size_t line, const char *fields, size_t len, uint32_t n)
{
    char *text = arg;
    size_t at = strlen(text);
    at += (size_t)sprintf(text + at, "%zu.%u:", line, n);
    for (size_t i = 0; i < len; i++)
        text[at++] = fields[i] == '\0' ? '|' : fields[i];
    memcpy(text + at, ";", 2);
    return true;
}

static void test_records(void **state)
{
    static const struct {
        const char *text;
        char end, separator;
        const char *records; /* NULL: refused */
        size_t line;
    } cases[] = {
        {"a,b\nc\n", '\n', 0, "1.1:a,b;2.1:c;", 0},
        {"\n a\"b \n\nx", '\n', 0, "2.1: a\"b ;4.1:x;", 0},
        {"a\r\nb", '\n', 0, "1.1:a\r;2.1:b;", 0},
        {"a,b\r\n,\r\n\"c,\"\"d\"\"\ne\",\n\nf", '\n', ',', "1.2:a|b;2.2:|;3.2:c,\"d\"\ne|;6.1:f;", 0},
        {"\"a\"\r\nb\"c,d", '\n', ',', "1.1:a;2.2:b\"c|d;", 0},
        {"a\tb", '\n', '\t', "1.2:a|b;", 0},
        {"a\nb!!\"c\n!\"!d", '!', ',', "1.1:a\nb;3.1:c\n!;5.1:d;", 0},
        {"a!b\nc!\"d", '!', ',', NULL, 3},
        {"a\n\"b\" c,d\n", '\n', ',', NULL, 2},
        {"a\n\n\"b", '\n', ',', NULL, 3},
        {"", '\n', ',', "", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[300] = "";
        size_t line = 0;
        struct records r = {.at = cases[i].text, .end = cases[i].text + strlen(cases[i].text), .line = 1};
        int err = records_read(&r, cases[i].end, cases[i].separator, add_record, text, &line);
        assert_int_equal(err, cases[i].records ? 0 : HAWK_EINVALID);
        if (cases[i].records)
            assert_string_equal(text, cases[i].records);
        else
            assert_int_equal(line, cases[i].line);
    }
}

/* The same of a text that comes byte by byte: what is read does not depend on where it is cut. */
static int read_bytewise(const char *text, char end, char separator, char *seen, size_t *line)
{
    size_t len = strlen(text);
    struct records r = {.at = text, .line = 1};
    int err = 0;
    for (size_t i = 0; !err && i <= len; i++) {
        r.end = text + i;
        r.more = i < len;
        err = records_read(&r, end, separator, add_record, seen, line);
    }
    assert_true(err || r.at == text + len);
    return err;
}

static void test_records_that_come_by_and_by(void **state)
{
    static const char *const texts[] = {
        "a,b\nc\n",
        "\n a\"b \n\nx",
        "a,b\r\n,\r\n\"c,\"\"d\"\"\ne\",\n\nf",
        "\"a\"\r\nb\"c,d",
        "\"a\"\"\"\n\"b\"\r\n",
        "a\n\"b\" c,d\n",
        "a\n\n\"b",
        "",
        "\"\"",
        "a,\n,",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (int k = 0; k < 2; k++) {
            char whole[300] = "", cut[300] = "", separator = k ? ',' : '\0';
            size_t line = 0, cut_line = 0;
            struct records r = {.at = texts[i], .end = texts[i] + strlen(texts[i]), .line = 1};
            int err = records_read(&r, '\n', separator, add_record, whole, &line);
            assert_int_equal(read_bytewise(texts[i], '\n', separator, cut, &cut_line), err);
            assert_string_equal(cut, whole);
            if (err)
                assert_int_equal(cut_line, line);
        }
}

static void assert_args(const char *expected)
{
    char text[300] = "";
    for (uint32_t i = 0; i < desc->args.n; i++)
        add_record(text, i, desc->args.data + desc->args.off[i], desc->args.off[i + 1] - desc->args.off[i],
                   0);
    assert_string_equal(text, expected);
}

static void test_spec_sources(void **state)
{
    char *argv[] = {(char[]){"echo"}, (char[]){"{name/.}-{2}-{a b}-{nobody}"}},
         *known[] = {argv[0], (char[]){"{1}"}};
    static const char table[] = "\xef\xbb\xbfname,a b\nx/y.c,1\n\"z \"\"\",2\n";
    const char *path = file_with(table, sizeof table - 1);
    const char *texts[] = {path, "8-9", "w", "v"}, *flags[] = {"each-line", "array", "input", "+"};
    struct spec_options o = {
        .inputs = {.sources = {.v = texts, .flags = flags, .n = 1}, .csv = true, .header = true},
        .cwd = "/{name}",
        .stdout_pattern = "{a b}.%t"};
    assert_non_null(strstr(build(&o, 2, argv), "{nobody} stays as it is: there is no column of that name"));
    assert_non_null(strstr(caught, "there are: name, a b\n"));
    assert_int_equal(desc->tasks, 2);
    assert_int_equal(desc->columns, 2);
    assert_string_equal(nth(&desc->argv, 1), "{1/.}-{2}-{2}-{nobody}");
    assert_string_equal(desc->cwd->data, "/{1}");
    assert_string_equal(desc->stdout_pattern->data, "{2}.%t");
    assert_int_equal(desc->flags, JOB_EACH_ARG | JOB_EACH_CWD);
    assert_args("0.0:x/y.c|1;1.0:z \"|2;");
    o.inputs.sources.n = 4;
    assert_string_equal(build(&o, 2, known), "");
    assert_int_equal(desc->columns, 4);
    assert_int_equal(desc->tasks, 8);
    assert_int_equal(desc->first_index, 0);
    assert_args("0.0:x/y.c|1|8|w;1.0:x/y.c|1|8|v;2.0:x/y.c|1|9|w;3.0:x/y.c|1|9|v;"
                "4.0:z \"|2|8|w;5.0:z \"|2|8|v;6.0:z \"|2|9|w;7.0:z \"|2|9|v;");
    o.inputs.link = true;
    assert_string_equal(build(&o, 2, known), "");
    assert_args("0.0:x/y.c|1|8|w;1.0:z \"|2|9|v;");
    texts[1] = "1-3";
    assert_non_null(strstr(build(&o, 2, argv), "the first source has 2 inputs, and source 2 has 3"));
    unlink(path);
    path = file_with("a,b\n1,2\n3\n", 10);
    assert_non_null(strstr(build(&o, 2, argv), "line 3: 1 column, and the first line has 2"));
    unlink(path);
    texts[1] = "1-2000", texts[2] = "1-2000", flags[2] = "array";
    o = (struct spec_options){.inputs = {.sources = {.v = texts + 1, .flags = flags + 1, .n = 2}}};
    assert_non_null(strstr(build(&o, 2, argv), "more than 1000000 combinations"));
}

static void test_spec_errors(void **state)
{
    char *argv[] = {(char[]){"true"}, (char[]){"x"}};
    const char *env[] = {"NOEQUALS"};
    assert_non_null(strstr(build(&(struct spec_options){0}, 0, argv), "the job has no command"));
    assert_non_null(
        strstr(build(&(struct spec_options){.inputs = SOURCE("array", "5-4")}, 1, argv), "has no tasks"));
    assert_non_null(
        strstr(build(&(struct spec_options){.inputs = SOURCE("each-line", "-"), .input = "-"}, 1, argv),
               "both read"));
    struct spec_options link = {.inputs = SOURCE("array", "1-2")};
    link.inputs.link = true;
    assert_non_null(strstr(build(&link, 1, argv), "--link goes with several sources"));
    link = (struct spec_options){.inputs = SOURCE("array", "1-2")};
    link.inputs.csv = true;
    assert_non_null(strstr(build(&link, 1, argv), "--csv goes with --each-line"));
    assert_non_null(
        strstr(build(&(struct spec_options){.timer = true}, 1, argv), "--timer takes a duration"));
    assert_non_null(strstr(build(&(struct spec_options){.env = {.v = env, .n = 1}}, 1, argv), "'NOEQUALS'"));
    assert_non_null(
        strstr(build(&(struct spec_options){.input = "/nonexistent"}, 1, argv), "--stdin: cannot open"));
    argv[0][0] = '\0';
    assert_non_null(strstr(build(&(struct spec_options){0}, 1, argv), "no command"));
    char *timer[] = {(char[]){"250ms"}};
    assert_string_equal(build(&(struct spec_options){.timer = true}, 1, timer), "");
    assert_int_equal(desc->kind, PAYLOAD_TIMER);
    assert_string_equal(desc->name->data, "timer 250ms");
    job_desc_drop(desc);
    desc = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays),       cmocka_unit_test(test_spec),
        cmocka_unit_test(test_spec_arrays),  cmocka_unit_test(test_spec_files_of_an_array),
        cmocka_unit_test(test_records),      cmocka_unit_test(test_records_that_come_by_and_by),
        cmocka_unit_test(test_spec_sources), cmocka_unit_test(test_spec_lines),
        cmocka_unit_test(test_spec_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
