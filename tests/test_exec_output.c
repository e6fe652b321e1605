/* Names, permissions and owners of tasks' output files (exec/output.h), without a spawner. */
#include "exec/output.h"

#include "base/mem.h"
#include "exec/exec.h"
#include "tests/test_base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void set_blob(struct blob **b, const char *text)
{
    blob_drop(*b);
    *b = blob_str(text);
}

static struct job_desc *job_of(const char *user, const char *name, const char *pattern)
{
    struct job_desc *d = job_desc_new();

    d->tasks = 1;
    set_blob(&d->user, user);
    set_blob(&d->name, name);
    if (pattern)
        set_blob(&d->stdout_pattern, pattern);
    return d;
}

static void a_job_named_dot_leads_nowhere(void **state)
{
    const struct exec_config c = {0};
    const struct try_id id = {.attempt = 1};
    struct job_desc *d = job_of("", ".", "/x/%n/y");
    char path[100];

    assert_int_equal(exec_output_path(&c, &id, d, NULL, OUTPUT_STDOUT, path, sizeof path), 0);
    assert_string_equal(path, "/x/_/y");
    job_desc_drop(d);
}

/* An input that is an absolute path is not below the job's directory. */
static void an_input_may_say_where_the_file_is(void **state)
{
    const struct exec_config c = {0};
    const struct try_id id = {.attempt = 1};
    struct template_input in = {.arg = "/a/b", .len = 4};
    struct job_desc *d = job_of("", "", "{}.log");
    char path[100];

    set_blob(&d->cwd, "/x");
    assert_int_equal(exec_output_path(&c, &id, d, &in, OUTPUT_STDOUT, path, sizeof path), 0);
    assert_string_equal(path, "/a/b.log");
    in = (struct template_input){.arg = "b", .len = 1};
    assert_int_equal(exec_output_path(&c, &id, d, &in, OUTPUT_STDOUT, path, sizeof path), 0);
    assert_string_equal(path, "/x/b.log");
    job_desc_drop(d);
}

/* The terminating zero needs a byte as well. */
static void a_path_fits_or_is_refused(void **state)
{
    const struct exec_config c = {0};
    const struct try_id id = {.attempt = 1};
    struct job_desc *d = job_of("", "", "/1234567");
    char path[100];

    assert_int_equal(exec_output_path(&c, &id, d, NULL, OUTPUT_STDOUT, path, 9), 0);
    assert_string_equal(path, "/1234567");
    assert_int_equal(exec_output_path(&c, &id, d, NULL, OUTPUT_STDOUT, path, 8), HAWK_ETOO_LARGE);
    job_desc_drop(d);
}

static void only_a_lone_task_of_a_whole_job_has_a_file_alone(void **state)
{
    struct job_desc *d = job_of("", "", "/x/log");

    assert_true(output_is_own(d, OUTPUT_STDOUT));
    d->flags |= JOB_PART;
    assert_false(output_is_own(d, OUTPUT_STDOUT));
    assert_true(output_is_own(d, OUTPUT_STDERR)); /* below output_dir */
    d->flags = 0;
    d->tasks = 2;
    assert_false(output_is_own(d, OUTPUT_STDOUT));
    set_blob(&d->stdout_pattern, "/x/%t");
    assert_true(output_is_own(d, OUTPUT_STDOUT));
    set_blob(&d->stdout_pattern, "/x/{}"); /* there is no input */
    assert_false(output_is_own(d, OUTPUT_STDOUT));
    d->flags = JOB_EACH_ARG;
    assert_true(output_is_own(d, OUTPUT_STDOUT));
    d->flags = 0;
    job_desc_drop(d);
}

static void a_group_reads_and_others_do_not(void **state)
{
    struct job_desc *d = job_of("", "", "/x/log");
    struct output_mode m = output_mode(d, OUTPUT_STDERR, false);

    assert_true(m.file == 0600 && m.dir == 0700);
    m = output_mode(d, OUTPUT_STDERR, true);
    assert_true(m.file == 0640 && m.dir == 0750);
    d->umask = 027;
    m = output_mode(d, OUTPUT_STDOUT, true);
    assert_true(m.file == (0666 & ~job_desc_umask(d)) && m.dir == (0777 & ~job_desc_umask(d)));
    job_desc_drop(d);
}

static void output_stays_its_users(void **state)
{
    char dir[] = "/tmp/hawk-output-XXXXXX", path[100], file[100];
    struct job_desc *ann = job_of("ann", "", NULL), *bob = job_of("bob", "", NULL);
    const struct output_mode mode = {.file = 0600, .dir = 0700};

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/3.1/0.out", dir);
    for (int i = 0; i < 2; i++)
        assert_int_equal(output_claim(path, ann, mode), 0);
    assert_int_equal(output_claim(path, bob, mode), -EPERM);
    assert_int_equal(output_claim(path, ann, mode), 0);
    snprintf(file, sizeof file, "%s/3.1/.user", dir);
    assert_int_equal(unlink(file), 0);
    snprintf(file, sizeof file, "%s/3.1", dir);
    assert_int_equal(rmdir(file), 0);
    assert_int_equal(rmdir(dir), 0);
    job_desc_drop(ann);
    job_desc_drop(bob);
}

static const struct try_id first_try = {.job = {3ull << 32 | 1}, .attempt = 1};

/* Makes a task's stdout or stderr file below dir. Returns it, open for writing. */
static int open_default(const struct exec_config *c, const struct try_id *id, int which, char *path)
{
    const struct output_mode mode = {.file = 0600, .dir = 0700};
    int fd;

    assert_int_equal(exec_output_path(c, id, NULL, NULL, which, path, EXEC_PATH_MAX), 0);
    fd = output_open(path, true, mode);
    assert_true(fd >= 0);
    return fd;
}

static void remove_all(const char *dir)
{
    char command[200];

    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void an_empty_file_goes_and_a_note_says_so(void **state)
{
    char dir[] = "/tmp/hawk-output-XXXXXX", out[EXEC_PATH_MAX], err[EXEC_PATH_MAX];
    struct exec_config c = {.output_dir = mkdtemp(dir)};
    struct try_id id = first_try;

    for (id.task = 0; id.task < 3; id.task++) {
        int out_fd = open_default(&c, &id, OUTPUT_STDOUT, out),
            err_fd = open_default(&c, &id, OUTPUT_STDERR, err);

        assert_int_equal(write(err_fd, "text", id.task == 2 ? 4 : 0), id.task == 2 ? 4 : 0);
        close(out_fd);
        close(err_fd);
        c.drops_empty = id.task > 0;
        output_ended(&c, &id);
        assert_int_equal(access(out, F_OK) == 0, id.task == 0);
        assert_int_equal(access(err, F_OK) == 0, id.task != 1);
        assert_int_equal(exec_output_was_empty(out), id.task > 0);
        assert_int_equal(exec_output_was_empty(err), id.task == 1);
    }
    assert_int_equal(exec_output_path(&c, &id, NULL, NULL, OUTPUT_STDOUT, out, sizeof out), 0);
    assert_false(exec_output_was_empty(out)); /* there is no task 3 */
    remove_all(dir);
}

/* A process that outlives its task may write yet, also through a descriptor that it opened itself. */
static void an_empty_file_stays_while_somebody_may_write(void **state)
{
    char dir[] = "/tmp/hawk-output-XXXXXX", path[EXEC_PATH_MAX];
    struct exec_config c = {.output_dir = mkdtemp(dir), .drops_empty = true};
    int fd = open_default(&c, &first_try, OUTPUT_STDOUT, path), again = open(path, O_WRONLY | O_CLOEXEC);

    close(fd);
    output_ended(&c, &first_try);
    assert_int_equal(access(path, F_OK), 0);
    assert_false(exec_output_was_empty(path));
    close(again);
    fd = open(path, O_RDONLY | O_CLOEXEC); /* a reader */
    output_ended(&c, &first_try);
    assert_int_equal(access(path, F_OK), -1);
    close(fd);
    remove_all(dir);
}

static void what_is_marked_or_of_a_later_attempt_stays(void **state)
{
    char dir[] = "/tmp/hawk-output-XXXXXX", path[EXEC_PATH_MAX];
    struct exec_config c = {.output_dir = mkdtemp(dir), .drops_empty = true};
    struct try_id second = first_try;
    int fd = open_default(&c, &first_try, OUTPUT_STDOUT, path);

    assert_int_equal(fchmod(fd, 0600 | EXEC_OUTPUT_CUT), 0);
    close(fd);
    output_ended(&c, &first_try);
    assert_int_equal(access(path, F_OK), 0);
    second.attempt = 2;
    close(open_default(&c, &second, OUTPUT_STDOUT, path));
    output_ended(&c, &second);
    assert_int_equal(access(path, F_OK), 0);
    remove_all(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_named_dot_leads_nowhere),
        cmocka_unit_test(an_input_may_say_where_the_file_is),
        cmocka_unit_test(a_path_fits_or_is_refused),
        cmocka_unit_test(an_empty_file_goes_and_a_note_says_so),
        cmocka_unit_test(an_empty_file_stays_while_somebody_may_write),
        cmocka_unit_test(what_is_marked_or_of_a_later_attempt_stays),
        cmocka_unit_test(only_a_lone_task_of_a_whole_job_has_a_file_alone),
        cmocka_unit_test(a_group_reads_and_others_do_not),
        cmocka_unit_test(output_stays_its_users),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
