/* Configuration: every mistake is named with its place, every value knows where it came from. */
#include "config/config.h"

#include "base/mem.h"
#include "msg/types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Loads text as a file and returns what was complained about, the path replaced by "F"; the caller frees. */
static char *load(struct config *c, const char *text, int *err)
{
    char path[] = "/tmp/hawk-config-XXXXXX", *said = NULL;
    size_t len = 0;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    FILE *f = open_memstream(&said, &len);
    *err = config_load(c, path, f);
    fclose(f);
    unlink(path);
    for (char *at; (at = strstr(said, path));) {
        *at = 'F';
        memmove(at + 1, at + strlen(path), strlen(at + strlen(path)) + 1);
    }
    return said;
}

static void test_values(void **state)
{
    struct config c;
    int err;
    config_init(&c);
    assert_int_equal(c.central.cutoff, SETTING_AUTO);
    assert_int_equal(c.central.heartbeat, 500000);
    assert_int_equal(c.central.probe_ratio, 2000);
    assert_int_equal(c.central.short_first, 0);
    char *said =
        load(&c,
             "central:\n  cutoff: 90.5s\n  short_partition: 17%\n  listen: [127.0.0.1:1, 'unix:/x']\n"
             "  probe_ratio: 1.5\n  short_first: 100\n\nworker:\n  slots: 12\n  queues: "
             "per-slot\ndist:\ncluster:\n  insecure: yes\n",
             &err);
    assert_string_equal(said, "");
    assert_int_equal(err, 0);
    assert_int_equal(c.central.cutoff, 90500000);
    assert_int_equal(c.central.short_partition, 170000);
    assert_string_equal(c.central.listen, "127.0.0.1:1,unix:/x");
    assert_int_equal(c.central.probe_ratio, 1500);
    assert_int_equal(c.central.short_first, 100);
    assert_int_equal(c.worker.slots, 12);
    assert_string_equal(c.worker.queues, "per-slot");
    assert_true(c.cluster.insecure);
    free(said);
    config_free(&c);
}

static void test_mistakes(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"centrl:\n  cutoff: 1s\n",
         "F:1: centrl: no such section; there are cluster, tls, central, dist, worker, up and log\n"},
        {"central:\n  cutof: 1s\n", "F:2: central.cutof: no such setting (`hawk config show` lists them)\n"},
        {"central:\n  policy: hawk\n  cutoff: banana\n",
         "F:3: central.cutoff: \"banana\" is not a duration such as 250ms, 30s or 2h, or auto\n"},
        {"central:\n  cutoff: 90\n",
         "F:2: central.cutoff: \"90\" is not a duration such as 250ms, 30s or 2h, or auto\n"},
        {"central:\n  short_partition: 120%\n",
         "F:2: central.short_partition: \"120%\" is not a share such as 17% or 0.17, or auto\n"},
        {"worker:\n  slots: 0\n", "F:2: worker.slots: \"0\" is not a whole number of at least 1, or auto\n"},
        {"worker:\n  slots: [1, 2]\n", "F:2: worker.slots takes a single value\n"},
        {"worker:\n  slots: 1\n  slots: 2\n", "F:3: worker.slots is given twice\n"},
        {"worker: 5\n", "F:1: worker: expected settings, indented, one per line\n"},
        {"- worker\n", "F:1: expected sections: cluster, tls, central, dist, worker, up or log\n"},
        {"worker:\n  x: 1\n  y: 2\n", "F:2: worker.x: no such setting (`hawk config show` lists them)\n"
                                      "F:3: worker.y: no such setting (`hawk config show` lists them)\n"},
        {"worker:\n  *x: 1\n  y: 2\n", "F:2: expected the name of a setting of worker\n"
                                       "F:3: worker.y: no such setting (`hawk config show` lists them)\n"},
        {"worker:\n  ? [x]\n  : [1]\n  y: 2\n",
         "F:2: expected the name of a setting of worker\n"
         "F:4: worker.y: no such setting (`hawk config show` lists them)\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c;
        int err;
        config_init(&c);
        char *said = load(&c, cases[i].text, &err);
        assert_string_equal(said, cases[i].said);
        assert_int_equal(err, HAWK_EINVALID);
        free(said);
        config_free(&c);
    }
}

static void test_garbage_is_refused(void **state)
{
    static const char *const cases[] = {"worker: [\n",
                                        "\t\tx",
                                        "a: b: c",
                                        "worker: {slots: 1",
                                        "\x01\x02",
                                        "&a [*a]",
                                        "worker:\n  *x: 1\nw[orker:\n  x'"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c;
        int err;
        config_init(&c);
        char *said = load(&c, cases[i], &err);
        assert_int_equal(err, HAWK_EINVALID);
        assert_true(strncmp(said, "F:", 2) == 0);
        free(said);
        config_free(&c);
    }
    struct config c;
    int err;
    config_init(&c);
    char *said = load(&c, "", &err);
    assert_int_equal(err, 0);
    free(said);
    assert_int_equal(config_load(&c, "/no/such/file", stderr), HAWK_EIO);
    config_free(&c);
}

/* What would block, or never end, is not read. */
static void test_no_regular_file(void **state)
{
    char dir[] = "/tmp/hawk-config-XXXXXX", fifo[64];
    assert_non_null(mkdtemp(dir));
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const struct {
        const char *path, *said;
    } cases[] = {{fifo, "a pipe, not a regular file"},
                 {dir, "a directory, not a regular file"},
                 {"/dev/zero", "a device or socket, not a regular file"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c;
        char *said = NULL;
        size_t size;
        FILE *err = open_memstream(&said, &size);
        config_init(&c);
        assert_int_equal(config_load(&c, cases[i].path, err), HAWK_EIO);
        fclose(err);
        assert_non_null(strstr(said, cases[i].path));
        assert_non_null(strstr(said, cases[i].said));
        free(said);
        config_free(&c);
    }
    unlink(fifo);
    rmdir(dir);
}

/* What show prints is a configuration again, and the same one. */
static void test_show_reads_back(void **state)
{
    struct config c, d;
    char *shown = NULL, *again = NULL, why[200];
    size_t len;
    int err;
    config_init(&c);
    assert_int_equal(config_set(&c, "dist.name", "a: \"strange\" #name", "test", why, sizeof why), 0);
    assert_int_equal(config_set(&c, "central.listen", ",127.0.0.1:1,,[::1]:2,,", "test", why, sizeof why), 0);
    FILE *f = open_memstream(&shown, &len);
    config_show(&c, NULL, f);
    fclose(f);
    assert_non_null(strstr(shown, "listen: [\"127.0.0.1:1\", \"[::1]:2\"]  # test"));
    config_init(&d);
    char *said = load(&d, shown, &err);
    assert_string_equal(said, "");
    assert_string_equal(d.dist.name, "a: \"strange\" #name");
    assert_string_equal(d.central.listen, "127.0.0.1:1,[::1]:2");
    f = open_memstream(&again, &len);
    config_show(&d, "dist", f);
    fclose(f);
    assert_non_null(strstr(again, "  # F:") ? again : strstr(again, "/tmp/hawk-config-"));
    free(said);
    free(shown);
    free(again);
    config_free(&c);
    config_free(&d);
}

/* What is said of it, to be freed. */
static char *validate(const struct config *c, const char *section, int expected)
{
    char *said = NULL;
    size_t size;
    FILE *err = open_memstream(&said, &size);
    assert_int_equal(config_validate(c, section, err), expected);
    fclose(err);
    return said;
}

/* One range per number of the policy: what `hawk policy set` refuses, the configuration must not say, or no
 * change of the policy would be taken any more. */
static void test_ranges_of_the_policy(void **state)
{
    static const char *const sections[] = {"central", "up", NULL}; /* NULL: all of a file */
    static const struct {
        const char *key, *text, *said;
    } cases[] = {
        {"central.probe_ratio", "1", ""},
        {"central.probe_ratio", "0.5", "central.probe_ratio: \"0.5\": it must be 1 to 1000\n"},
        {"central.steal_cap", "65536", "central.steal_cap: \"65536\": it must be 1 to 65535\n"},
        {"central.steal_max", "65536", "central.steal_max: \"65536\": it must be 1 to 65535\n"},
        {"central.short_first", "0", ""},
        {"central.short_first", "65536", "central.short_first: \"65536\": it must be 0 to 65535\n"},
        {"central.long_stretch", "1000000", ""},
        {"central.long_stretch", "1000001", "central.long_stretch: \"1000001\": it may be 1000000 at most\n"},
    };
    for (size_t i = 0; i < 3 * (sizeof cases / sizeof cases[0]); i++) {
        const char *text = cases[i / 3].text, *section = sections[i % 3];
        struct config c;
        char why[200], *said;
        config_init(&c);
        assert_int_equal(config_set(&c, cases[i / 3].key, text, "F", why, sizeof why), 0);
        said = validate(&c, section, *cases[i / 3].said ? HAWK_EINVALID : 0);
        assert_string_equal(*said ? strchr(said, ' ') + 1 : said, cases[i / 3].said);
        free(said);
        config_free(&c);
    }
}

/* What a dead agent leaves behind is gone before the lease is over, not when it is. */
static void test_grace_below_the_lease(void **state)
{
    static const struct {
        const char *agent, *kill;
        bool ok;
    } cases[] = {{"15s", "4999ms", true}, {"15s", "5s", false}, {"4s", "16s", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c;
        char why[200], *said;
        config_init(&c);
        assert_int_equal(config_set(&c, "central.long_lease", "20s", "F", why, sizeof why), 0);
        assert_int_equal(config_set(&c, "worker.agent_grace", cases[i].agent, "F", why, sizeof why), 0);
        assert_int_equal(config_set(&c, "worker.kill_grace", cases[i].kill, "F", why, sizeof why), 0);
        said = validate(&c, NULL, cases[i].ok ? 0 : HAWK_EINVALID);
        assert_true(cases[i].ok || strstr(said, "worker.agent_grace: "));
        free(said);
        config_free(&c);
    }
}

/* The file may set the one of two settings that is good by itself. */
static void test_two_settings_are_named_with_the_place_of_the_one_that_is_set(void **state)
{
    static const struct {
        const char *section, *key, *value, *said;
    } cases[] = {
        {NULL, "central.long_lease", "15s",
         "F:3: central.long_lease: \"15s\": default: worker.agent_grace: \"20s\": "},
        {NULL, "worker.kill_grace", "50s",
         "F:3: worker.kill_grace: \"50s\": default: worker.agent_grace: \"20s\": "},
        {NULL, "worker.agent_grace", "80s", "F:3: worker.agent_grace: \"80s\": together with"},
        {"central", "central.heartbeat", "30s",
         "F:3: central.heartbeat: \"30s\": default: central.suspect: "},
        {"central", "central.cutoff_max", "1ms",
         "F:3: central.cutoff_max: \"1ms\": default: central.cutoff_min: "},
        {"central", "central.suspect", "90s",
         "F:3: central.suspect: \"90s\": default: central.long_lease: \"60s\": "},
        {"worker", "worker.park_min", "1h", "F:3: worker.park_min: \"1h\": default: worker.park_max: "},
        {"worker", "cluster.local_users", "yes",
         "F:3: cluster.local_users: \"yes\": default: worker.listen: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c;
        char why[200], *said;
        config_init(&c);
        assert_int_equal(config_set(&c, cases[i].key, cases[i].value, "F:3", why, sizeof why), 0);
        said = validate(&c, cases[i].section, HAWK_EINVALID);
        if (!strstr(said, cases[i].said))
            fail_msg("%s: %s", cases[i].key, said);
        free(said);
        config_free(&c);
    }
}

/* Whoever mistypes a flag of the policy is told what there is, without a cluster. */
static void test_unknown_policy_flag(void **state)
{
    struct config c;
    char why[200], *said;
    config_init(&c);
    assert_int_equal(config_set(&c, "central.policy_on", "stealing,xyzzy", "F", why, sizeof why), 0);
    said = validate(&c, "central", HAWK_EINVALID);
    assert_non_null(strstr(said, "no policy flag \"xyzzy\""));
    for (int bit = 0; bit < 32; bit++)
        assert_true(!policy_flag_keys[bit] || strstr(said, policy_flag_keys[bit]));
    free(said);
    config_free(&c);
}

/* Runs config_from_args for a worker on the words of text. */
static int from_args(struct config *c, const char *text)
{
    char copy[256], *argv[16], *save = NULL;
    int argc = 0;
    snprintf(copy, sizeof copy, "worker %s", text);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    argv[argc] = NULL;
    return config_from_args(c, "worker", argc, argv);
}

static void test_flags(void **state)
{
    struct config c;
    config_init(&c);
    assert_int_equal(from_args(&c, "--slots 3 --central=127.0.0.1:9 --set log.level=debug --insecure"), 0);
    assert_int_equal(c.worker.slots, 3);
    assert_string_equal(c.worker.central, "127.0.0.1:9");
    assert_string_equal(c.log.level, "debug");
    assert_true(c.cluster.insecure);
    assert_string_equal(config_origin(&c, "worker.slots"), "flag --slots");
    assert_string_equal(config_origin(&c, "cluster.insecure"), "flag --insecure");
    assert_int_equal(from_args(&c, "--frobnicate 3"), 2);
    assert_int_equal(from_args(&c, "--slots"), 2);
    assert_int_equal(from_args(&c, "extra"), 2);
    config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_garbage_is_refused),
        cmocka_unit_test(test_no_regular_file),
        cmocka_unit_test(test_show_reads_back),
        cmocka_unit_test(test_ranges_of_the_policy),
        cmocka_unit_test(test_grace_below_the_lease),
        cmocka_unit_test(test_two_settings_are_named_with_the_place_of_the_one_that_is_set),
        cmocka_unit_test(test_unknown_policy_flag),
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
