/* The command line without a cluster: flags, selectors, tables, JSON. */
#include "base/mem.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/failures.h"
#include "cli/print.h"
#include "cli/show.h"
#include "cli/spec.h"
#include "daemon/commands.h"
#include "faults/faults.h"
#include "libhawk/select.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/test_cli.h"

/* ---- Flags ---- */

struct opts {
    bool yes;
    const char *text, *word;
    uint32_t count, share;
    int64_t time_us;
    struct flag_list list;
    bool common;
};

static const struct flag own[] = {
    FLAG(BOOL, struct opts, yes, "yes", 'y', NULL, "say yes"),
    FLAG(TEXT, struct opts, text, "text", 't', "TEXT", "some text"),
    FLAG(CHOICE, struct opts, word, "word", 0, "short|long|auto", "one of three"),
    FLAG_NUMBER(struct opts, count, "count", 'c', "N", "how many", 1, 10),
    FLAG(SHARE, struct opts, share, "share", 0, "SHARE", "how much"),
    FLAG(DURATION, struct opts, time_us, "time-limit", 0, "TIME", "how long"),
    FLAG(LIST, struct opts, list, "list", 'l', "X", "may be repeated"),
    {0},
};
static const struct flag common[] = {FLAG(BOOL, struct opts, common, "common", 0, NULL, "shared"), {0}};

#define ARGV_MAX 16
/* Splits a line at spaces and parses it. */
static int parse(const char *line, bool stop_early, struct opts *o, char **argv)
{
    static char copy[256];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    char *rest = copy;
    while ((argv[argc] = strsep(&rest, " ")))
        argc++;
    *o = (struct opts){0};
    return flags_parse("test", own, common, stop_early, argc, argv, o);
}

static void test_flags(void **state)
{
    struct opts o;
    char *argv[ARGV_MAX];
    int first = parse("test -yc 7 --text=a --common --share 17% --time-limit 5m -l x -l y", false, &o, argv);
    assert_int_equal(first, 13);
    assert_true(o.yes && o.common);
    assert_int_equal(o.count, 7);
    assert_string_equal(o.text, "a");
    assert_int_equal(o.share, 170000);
    assert_int_equal(o.time_us, 300 * US_PER_S);
    assert_int_equal(o.list.n, 2);
    assert_string_equal(o.list.v[1], "y");
    flag_list_free(&o.list);
    /* Flags and arguments mix, unless the arguments are a command of their own. */
    first = parse("test 3.17 -y last", false, &o, argv);
    assert_int_equal(first, 2);
    assert_string_equal(argv[2], "3.17");
    assert_true(o.yes);
    first = parse("test -y ls -l", true, &o, argv);
    assert_string_equal(argv[first], "ls");
    assert_int_equal(o.list.n, 0);
    first = parse("test -- -y", false, &o, argv);
    assert_string_equal(argv[first], "-y");
    assert_false(o.yes);
    assert_int_equal(parse("test --word long", true, &o, argv), 3);
    assert_string_equal(o.word, "long");
}

static void test_flag_errors(void **state)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"test --tme-limit 5m", "hawk: test: no flag '--tme-limit': did you mean --time-limit?\n"},
        {"test --xyzzy", "hawk: test: no flag '--xyzzy': `hawk help test` lists them\n"},
        {"test -z", "hawk: test: no flag '-z': `hawk help test` lists them\n"},
        {"test --ye now", "hawk: test: no flag '--ye': did you mean --yes?\n"},
        {"test --ye=1", "hawk: test: no flag '--ye=1': did you mean --yes?\n"},
        {"test --tex a", "hawk: test: no flag '--tex': did you mean --text?\n"},
        {"test --tex=--text", "hawk: test: no flag '--tex=--text': did you mean --text?\n"},
        {"test -y --tex", "hawk: test: no flag '--tex': did you mean --text?\n"},
        {"test --t=a", "hawk: test: no flag '--t=a': did you mean --text?\n"},
        {"test --hel", "hawk: test: no flag '--hel': did you mean --help?\n"},
        {"test --text", "hawk: test: --text needs its argument, TEXT\n"},
        {"test -c", "hawk: test: -c needs its argument, N\n"},
        {"test --yes=1", "hawk: test: --yes takes no argument\n"},
        {"test -c 11", "hawk: test: -c takes a whole number within 1 and 10, not '11'\n"},
        {"test -c 1x", "hawk: test: -c takes a whole number within 1 and 10, not '1x'\n"},
        {"test -c 1 --count 11", "hawk: test: --count takes a whole number within 1 and 10, not '11'\n"},
        {"test --count 1 -c11", "hawk: test: -c takes a whole number within 1 and 10, not '11'\n"},
        {"test --word lon", "hawk: test: --word is one of short|long|auto, not 'lon'\n"},
        {"test --share 170%",
         "hawk: test: --share takes a share within 0% and 100%, like 17% or 0.17, not '170%'\n"},
        {"test --time-limit 5",
         "hawk: test: --time-limit takes a duration like 250ms, 30s, 5m or 2h, not '5'\n"},
        {"test --time-limit 10001d", "hawk: test: --time-limit: '10001d' is more than 10,000 days\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct opts o;
        char *argv[ARGV_MAX];
        catch_begin();
        int result = parse(cases[i].line, false, &o, argv);
        catch_end(2);
        assert_string_equal(caught, cases[i].message);
        assert_int_equal(result, -HAWK_EXIT_USAGE);
    }
}

static int fake_run(int argc, char **argv)
{
    struct opts o = {0};
    int first = flags_parse("fake", own, common, false, argc, argv, &o);
    return first < 0 ? -first : HAWK_EXIT_FAILED;
}
static const struct command fake[] = {{.name = "fake",
                                       .help = "do nothing",
                                       .synopsis = "[FLAGS]",
                                       .details = "Details.\n",
                                       .flags = own,
                                       .common = common,
                                       .run = fake_run},
                                      {0}};

static void test_help(void **state)
{
    char *argv[] = {(char[]){"fake"}, (char[]){"--help"}, NULL};
    catch_begin();
    int result = command_run(command_find(fake, "fake"), 2, argv);
    catch_end(1);
    assert_int_equal(result, HAWK_EXIT_OK);
    assert_non_null(strstr(caught, "usage: hawk fake [FLAGS]\n\ndo nothing\n"));
    assert_non_null(strstr(caught, "  -t, --text TEXT             some text\n"));
    assert_non_null(strstr(caught, "common flags:\n      --common"));
    assert_non_null(strstr(caught, "\nDetails.\n"));
    assert_null(command_find(fake, "fak"));
}

/* Every user command is there once, has a help text, and no flag's letter or name twice. */
static void test_command_table(void **state)
{
    for (const struct command *c = client_commands; c->name; c++) {
        const struct flag *tables[] = {c->flags, c->common}, *seen[64];
        int n = 0;
        assert_ptr_equal(command_find(client_commands, c->name), c);
        assert_non_null(c->help);
        assert_non_null(c->synopsis);
        for (int t = 0; t < 2; t++)
            for (const struct flag *f = tables[t]; f && f->name; f++) {
                assert_true(n < 64);
                assert_non_null(f->help);
                assert_true((f->kind == FLAG_BOOL) == (f->arg == NULL));
                for (int i = 0; i < n; i++) {
                    assert_string_not_equal(seen[i]->name, f->name);
                    assert_true(!f->letter || seen[i]->letter != f->letter);
                }
                seen[n++] = f;
            }
    }
}

/* A full disk is reported; a reader that went away has seen enough. */
static int print_much(int argc, char **argv)
{
    for (int i = 0; i < 10000; i++)
        printf("line %d\n", i);
    return HAWK_EXIT_OK;
}

static int run_into(int fd)
{
    const struct command c = {.name = "print", .run = print_much};
    fflush(stdout);
    int out = dup(1), result;
    dup2(fd, 1);
    result = command_run(&c, 0, NULL);
    clearerr(stdout);
    dup2(out, 1);
    close(out);
    return result;
}

/* `hawk sim --kinds` sends people there. */
static void test_sim_lists_kinds_of_faults(void **state)
{
    char line[64];
    for (int i = 0; i < FAULT_COUNT; i++) {
        snprintf(line, sizeof line, "\n  %s: ", fault_names[i]);
        assert_non_null(strstr(sim_details, line));
    }
}

/* What comes of a small cloudera, whose table reserves 9 %. */
static char *cloudera(const char *policy, const char *share)
{
    const char *argv[] = {
        "sim",    "--workload", "cloudera", "--workers", "200",      "--jobs", "60",
        "--load", "0.9",        "--output", "csv",       "--policy", policy,   "--short-partition",
        share,    NULL};
    int err;

    catch_begin();
    err = sim_main(share ? 15 : 13, (char **)argv);
    catch_end(1);
    assert_int_equal(err, HAWK_EXIT_OK);
    return xstrdup(caught);
}

static void expect_same(bool same, char *one, char *other)
{
    assert_true((strcmp(one, other) == 0) == same);
    free(one);
    free(other);
}

/* A table's reserve is not for a policy that pauses. */
static void test_sim_reserves_what_the_table_says_unless_it_pauses(void **state)
{
    expect_same(true, cloudera("hawk", NULL), cloudera("hawk", "9%"));
    expect_same(false, cloudera("hawk", NULL), cloudera("hawk", "0%"));
    expect_same(true, cloudera("harrier", NULL), cloudera("harrier", "auto"));
    expect_same(false, cloudera("harrier", NULL), cloudera("harrier", "9%"));
    expect_same(false, cloudera("hawk", NULL), cloudera("hawk", "auto"));
}

static void test_full_disk_and_closed_pipe(void **state)
{
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC), ends[2];
    assert_true(full >= 0);
    int err = dup(2), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, 2);
    int result = run_into(full), piped;
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    piped = run_into(ends[1]);
    dup2(err, 2);
    close(err);
    close(null);
    close(full);
    close(ends[1]);
    assert_int_equal(result, HAWK_EXIT_FAILED);
    assert_int_equal(piped, HAWK_EXIT_OK);
}

/* ---- Selectors ---- */

/* What a selector selects, written back. */
static const char *select_text(const char *text)
{
    static char buf[512];
    char why[200], *argv[] = {(char *)(uintptr_t)text};
    struct selection s = {0};
    buf[0] = '\0';
    if (selection_parse(&s, 1, argv, why, sizeof why))
        snprintf(buf, sizeof buf, "error: %s", why);
    else
        for (uint32_t i = 0; i < s.n; i++) {
            char id[JOB_ID_TEXT];
            size_t len = strlen(buf);
            snprintf(buf + len, sizeof buf - len, "%s%s", i ? " " : "", job_id_format(id, s.jobs[i]));
        }
    size_t end = strlen(buf);
    snprintf(buf + end, sizeof buf - end, "%s%s", s.last ? "+last" : "", s.all ? "+all" : "");
    selection_free(&s);
    return buf;
}

static void test_selectors(void **state)
{
    assert_string_equal(select_text("3.17"), "3.17");
    assert_string_equal(select_text("3.17-3.20"), "3.17 3.18 3.19 3.20");
    assert_string_equal(select_text("3.17-19"), "3.17 3.18 3.19");
    assert_string_equal(select_text("3.19,3.17-18,3.19,4.1"), "3.19 3.17 3.18 4.1");
    assert_string_equal(select_text("last"), "+last");
    assert_string_equal(select_text("all,3.1"), "3.1+all");
    assert_non_null(strstr(select_text("3.20-3.17"), "no range"));
    assert_non_null(strstr(select_text("3.1-4.2"), "no range"));
    assert_non_null(strstr(select_text("first"), "'first' is no job"));
    assert_non_null(strstr(select_text("3.1-x"), "'3.1-x' is no job"));
    assert_non_null(strstr(select_text(""), "is no job"));
    assert_non_null(strstr(select_text("3.1-9999999"), "more than 1000000 jobs"));
}

/* ---- Tables and JSON ---- */

static void test_table(void **state)
{
    struct text_table t = {0};
    table_columns(&t, "NAME", ">N", "LAST", NULL);
    table_cell(&t, "%s", "a");
    table_cell(&t, "%d", 1000);
    table_cell(&t, "%s", CLEAN("x\033[31m"));
    table_cell(&t, "%s", "größer");
    table_cell(&t, "%d", 7);
    table_cell(&t, "%s", DURATION(-1));
    catch_begin();
    table_print(&t, NULL);
    assert_string_equal(catch_end(1), "NAME       N  LAST\n"
                                      "a       1000  x?[31m\n"
                                      "größer     7  -\n");
    table_columns(&t, "NAME", "N", NULL); /* wide characters, and one that stands over another */
    table_cell(&t, "%s", "日本");
    table_cell(&t, "%d", 1);
    table_cell(&t, "%s", "e\xcc\x81");
    table_cell(&t, "%d", 2);
    catch_begin();
    table_print(&t, NULL);
    assert_string_equal(catch_end(1), "NAME  N\n日本  1\ne\xcc\x81     2\n");
    for (int narrow = 0; narrow < 2;
         narrow++) { /* cells that are empty, and a column that is so in every row */
        table_columns(&t, "NAME", "EMPTY", "?N", "LAST", NULL);
        for (int row = 0; row < 2; row++) {
            table_cell(&t, "%s", row ? "name" : "eleven char");
            table_cell(&t, "%s", "");
            table_cell(&t, "%s", row ? "" : "3");
            table_cell(&t, "%s", row ? "" : "last");
        }
        setenv("COLUMNS", narrow ? "21" : "80", 1);
        catch_begin();
        table_print(&t, NULL);
        unsetenv("COLUMNS");
        assert_string_equal(catch_end(1), narrow ? "NAME         N  LAST\neleven char  3  last\nname\n"
                                                 : "NAME         EMPTY  N  LAST\n"
                                                   "eleven char         3  last\n"
                                                   "name\n");
    }
    table_columns(&t, "NAME", NULL);
    catch_begin();
    table_print(&t, "none");
    assert_string_equal(catch_end(1), "none\n");
}

static void test_cuts(void **state)
{
    char buf[64];
    assert_string_equal(text_cut(buf, sizeof buf, "quarterfinal", 12, false), "quarterfinal");
    assert_string_equal(text_cut(buf, sizeof buf, "quarterfinal", 11, false), "quar...inal");
    assert_string_equal(text_cut(buf, sizeof buf, "quarterfinal", 11, true), "quarterf...");
    assert_string_equal(text_cut(buf, sizeof buf, "日本日本日本", 12, false), "日本日本日本");
    assert_string_equal(text_cut(buf, sizeof buf, "日本日本日本", 11, false), "日本...日本");
    assert_string_equal(text_cut(buf, sizeof buf, "日本日本日本", 10, false), "日本...本");
    assert_string_equal(text_cut(buf, sizeof buf, "日本日本日本", 10, true), "日本日...");
    assert_string_equal(text_cut(buf, sizeof buf,
                                 "e\xcc\x81"
                                 "abcdef",
                                 6, false),
                        "e\xcc\x81"
                        "a...f");
}

/* Whether the table of a text of `width` characters and a note of 18 shows the column that may go, in lines of 40. */
static bool shows_extra(int width, bool *whole)
{
    struct text_table t = {0};
    char text[40] = "";
    memset(text, 'x', (size_t)width);
    table_columns(&t, "TEXT", "->EXTRA", ".NOTE", NULL);
    table_cell(&t, "%s", text);
    table_cell(&t, "%d", 12345);
    table_cell(&t, "%s", "a note of eighteen");
    setenv("COLUMNS", "40", 1);
    catch_begin();
    table_print(&t, NULL);
    const char *printed = catch_end(1);
    unsetenv("COLUMNS");
    *whole = strstr(printed, text) != NULL;
    return strstr(printed, "EXTRA") != NULL;
}

/* A column goes before a text is cut; prose is cut for it, down to 12. */
static void test_columns_that_go_first(void **state)
{
    bool whole;
    assert_true(shows_extra(10, &whole) && whole);
    assert_true(shows_extra(19, &whole) && whole); /* 19 + 5 + 12, and the gaps */
    assert_true(!shows_extra(20, &whole) && whole);
    assert_true(!shows_extra(26, &whole));
}

/* Nothing in a name moves a terminal's cursor, changes it, or turns what follows; and a cut leaves whole characters. */
static void test_clean_text(void **state)
{
    static const struct {
        const char *text, *shown;
        size_t size;
    } cases[] = {
        {"a\nb\tc\033[31m\x7f", "a?b c?[31m?", 40},
        {"grö\xc3\x9f"
         "er",
         "größer", 40},
        {"caf\xe9", "caf?", 40}, /* Latin-1 */
        {"a\xc2\x9b"
         "31m",
         "a?31m", 40},                                          /* CSI as one character */
        {"a\xe2\x80\xaetxt.exe\xe2\x81\xa6", "a?txt.exe?", 40}, /* right to left */
        {"\xe2\x82", "??", 40},                                 /* not the whole of a character */
        {"äöüäöü", "äöüäöü", 13},
        {"äöüäöü", "äöüä...", 12},
        {"äöüäöü", "äöü...", 11},
        {"äöüäöü", "äöü...", 10},
        {"abcdef", "...", 4},
        {"abcdef", "ab", 3},
        {"", "", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buf[40];
        assert_string_equal(clean_text(buf, cases[i].size, cases[i].text), cases[i].shown);
    }
}

/* The names and types of hawk.v1: a change here breaks scripts. */
static void test_json(void **state)
{
    struct api_job job = {.job = job_id_make((node_id_t){3}, 17),
                          .name = "caf\xe9",
                          .user = "ann",
                          .state = JOB_RUNNING,
                          .class = CLASS_SHORT,
                          .why = WHY_ESTIMATE,
                          .tasks = 2,
                          .running = 1,
                          .done = 1,
                          .estimate_us = 5,
                          .cutoff_us = 10,
                          .age_us = 7,
                          .response_us = -1,
                          .first_start_us = 2,
                          .probes_sent = 4,
                          .cpu_us = 2000,
                          .epoch = 1};
    struct api_task task = {.task = 1,
                            .state = TASK_FAILED,
                            .outcome = OUTCOME_SIGNALED,
                            .code = 9,
                            .attempt = 1,
                            .worker = 5,
                            .worker_name = "w5",
                            .message = "",
                            .wait_us = 3,
                            .run_us = -1,
                            .cpu_us = 8};
    static const char *const times[] = {"submitted_at", "started_at", "ended_at"};
    json_t *o = job_json(&job);
    json_object_set_new(o, "task", task_json(&task, 10));
    for (size_t i = 0; i < 3; i++) { /* they depend on when this runs */
        assert_non_null(json_object_get(o, times[i]));
        json_object_del(o, times[i]);
    }
    catch_begin();
    document_print(o);
    assert_string_equal(
        catch_end(1),
        "{\n  \"schema\": \"hawk.v1\",\n  \"job\": \"3.17\",\n  \"name\": \"caf\xef\xbf\xbd\",\n  \"user\": "
        "\"ann\",\n"
        "  \"state\": \"running\",\n  \"class\": \"short\",\n"
        "  \"why\": \"the user's estimate against the cutoff\",\n  \"tag\": \"auto\",\n  \"estimate_us\": "
        "5,\n"
        "  \"cutoff_us\": 10,\n  \"at_central\": false,\n  \"epoch\": 1,\n  \"held\": false,\n  \"waits\": "
        "null,\n  \"cause\": null,\n  \"abandoned\": false,\n  \"by_client\": false,\n  \"no_executor\": "
        "false,\n  "
        "\"attended\": false,\n  \"tasks\": 2,\n  \"waiting\": "
        "0,\n"
        "  \"running\": 1,\n  \"done\": 1,\n  \"failed\": 0,\n  \"cancelled\": 0,\n  \"lost\": 0,\n"
        "  \"probes_sent\": 4,\n  \"probes_live\": 0,\n  \"probes_cancelled\": 0,\n  \"probes_unused\": 0,\n"
        "  \"probes_lost\": 0,\n  \"reservations_stolen\": 0,\n  \"paused\": 0,\n  \"pauses\": 0,\n"
        "  \"cpu_us\": 2000,\n  \"mem_peak_bytes\": null,\n"
        "  \"age_us\": 7,\n  \"response_us\": null,\n"
        "  \"first_start_us\": 2,\n  \"paused_us\": 0,\n  \"task\": {\n    \"task\": 1,\n    \"index\": "
        "11,\n    \"state\": \"failed\",\n"
        "    \"outcome\": \"signaled\",\n    \"code\": 9,\n    \"attempt\": 1,\n"
        "    \"failures\": 0,\n    \"worker\": 5,\n"
        "    \"worker_name\": \"w5\",\n    \"wait_us\": 3,\n    \"run_us\": null,\n"
        "    \"cpu_us\": 8,\n    \"mem_peak_bytes\": null,\n    \"stolen\": false,\n"
        "    \"paused\": false,\n    \"stood_us\": null,\n    \"pauses\": 0,\n    \"paused_us\": 0,\n"
        "    \"paused_for\": null,\n    \"paused_for_task\": null,\n    \"message\": \"\"\n  "
        "}\n}\n");
    char ending[100];
    assert_string_equal(task_ending(ending, sizeof ending, &task, 0), "killed by signal 9 (Killed)");
    task.outcome = OUTCOME_LOST;
    assert_string_equal(task_ending(ending, sizeof ending, &task, 0), "lost with its worker");
    task.worker = 0;
    assert_string_equal(task_ending(ending, sizeof ending, &task, 0),
                        "in doubt, since its dist or central was away: it may have run");
    assert_string_equal(show_job_state(JOB_STATE_COUNT), "unknown");
}

static void test_a_task_is_one_line_of_a_file(void **state)
{
    catch_begin();
    document_print(json_pack("{s:[{s:s, s:[{s:i, s:s, s:{s:s}}, {s:i}], s:[]}], s:b}", "jobs", "job", "3.17",
                             "task_list", "task", 1, "message", "\"a\"", "argument", "base64", "/w==", "task",
                             2, "none", "more", 0));
    assert_string_equal(
        catch_end(1),
        "{\n  \"schema\": \"hawk.v1\",\n  \"jobs\": [\n    {\n      \"job\": \"3.17\",\n"
        "      \"task_list\": [\n"
        "        {\"task\": 1, \"message\": \"\\\"a\\\"\", \"argument\": {\"base64\": \"/w==\"}},\n"
        "        {\"task\": 2}\n      ],\n      \"none\": []\n    }\n  ],\n  \"more\": false\n}\n");
}

static void test_default_socket(void **state)
{
    char buf[100], expected[100];
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    assert_string_equal(client_default_socket(buf, sizeof buf), "unix:/run/user/7/hawk/up.sock");
    assert_null(client_default_socket(buf, 10));
    unsetenv("XDG_RUNTIME_DIR");
    snprintf(expected, sizeof expected, "unix:/tmp/hawk-%u/up.sock", (unsigned)getuid());
    assert_string_equal(client_default_socket(buf, sizeof buf), expected);
}

/* What failures_print makes of them, to be freed. */
static char *printed(const struct failures *f, uint32_t lines)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    failures_print(f, to, "- ", lines);
    fclose(to);
    return text;
}

/* However few lines there are room for: no failed task goes untold. */
static void test_failures_of_many_kinds(void **state)
{
    static const struct api_task on_a = {.worker_name = "a"}, on_b = {.worker_name = "b"};
    struct failures f = {0};
    char text[32], *said;
    for (uint32_t i = 0; i < 7; i++)
        assert_false(failures_add(&f, &on_a, i, "exited 1", 0));
    failures_add(&f, &on_a, 7, "exited 2", 0);
    failures_add(&f, &on_b, 8, "exited 2", 0);
    failures_add(&f, &on_b, 9, "exited 3", 0);
    said = printed(&f, 3);
    assert_string_equal(said, "- 7 tasks (0, 1, 2, 3, 4, ...): exited 1, on a\n"
                              "- tasks 7, 8: exited 2\n"
                              "- task 9: exited 3, on b\n");
    free(said);
    said = printed(&f, 1);
    assert_string_equal(said, "- 7 tasks (0, 1, 2, 3, 4, ...): exited 1, on a\n"
                              "- and 3 in other ways\n");
    free(said);
    for (uint32_t i = 4; i <= FAILURE_KINDS_MAX + 5; i++) {
        snprintf(text, sizeof text, "exited %u", i);
        failures_add(&f, &on_a, 6 + i, text, 0);
    }
    said = printed(&f, 0);
    snprintf(text, sizeof text, "- and %u in other ways\n", 10 + FAILURE_KINDS_MAX + 2);
    assert_string_equal(said, text);
    free(said);
    failures_free(&f);
}

static void test_inputs_keep_both_ends(void **state)
{
    char buf[INPUT_TEXT], longer[101] = "";
    memset(longer, '-', 100);
    memcpy(longer, "/begin", 6);
    memcpy(longer + 96, "/end", 4);
    assert_string_equal(input_text(buf, "a\0b\tc", 5), "a b c");
    assert_string_equal(input_text(buf, NULL, 0), "");
    assert_int_equal(strlen(input_text(buf, longer, 100)), INPUT_SHOWN);
    assert_memory_equal(buf, "/begin---", 9);
    assert_string_equal(buf + INPUT_SHOWN - 7, "---/end");
}

static void test_speed(void **state)
{
    char buf[SPEED_TEXT];
    assert_string_equal(speed_text(buf, 0, 5 * US_PER_S, 9, 0), "");
    assert_string_equal(speed_text(buf, 5, 0, 9, 0), "");
    assert_string_equal(speed_text(buf, 5, 2 * US_PER_S, 0, 0), ", 2.5/s");
    assert_string_equal(speed_text(buf, 100, 10 * US_PER_S, 37230, 0), ", 10/s, 1h 2m left");
    assert_string_equal(speed_text(buf, 1, US_PER_S / 10, 2, 10 * US_PER_S), ", 10/s, 10s left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_flag_errors),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_command_table),
        cmocka_unit_test(test_sim_lists_kinds_of_faults),
        cmocka_unit_test(test_sim_reserves_what_the_table_says_unless_it_pauses),
        cmocka_unit_test(test_full_disk_and_closed_pipe),
        cmocka_unit_test(test_selectors),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_columns_that_go_first),
        cmocka_unit_test(test_clean_text),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_a_task_is_one_line_of_a_file),
        cmocka_unit_test(test_default_socket),
        cmocka_unit_test(test_failures_of_many_kinds),
        cmocka_unit_test(test_inputs_keep_both_ends),
        cmocka_unit_test(test_speed),
    };
    command_take_streams();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
