/* exec/: commands as real processes: how they are started, and what comes out. */
#include "exec/procs.h"
#include "tests/lib/exec_fixture.h"

#include <sys/resource.h>

/* ---- Exits, output, environment ---- */

static void test_exit_codes_and_signals(void **state)
{
    struct fixture *f = *state;
    struct result *r;

    start(f);
    assert_exited(run_one(f, 0, COMMAND("true"), NULL), 0);
    assert_exited(run_one(f, 1, COMMAND("/bin/false"), NULL), 1);
    assert_exited(run_one(f, 2, SHELL("exit 42"), NULL), 42);
    r = run_one(f, 3, SHELL("kill -9 $$"), NULL);
    assert_int_equal(r->outcome, OUTCOME_SIGNALED);
    assert_int_equal(r->code, SIGKILL);
    assert_true(r->started_order < r->exited_order);
    assert_true(r->pid > 0);
    assert_int_equal(exec_running(f->e), 0);
    assert_int_equal(exec_next_timeout(f->e), TIME_NEVER);
}

static void test_output_goes_to_the_default_files(void **state)
{
    struct fixture *f = *state;
    struct try_id again = try_of(0);
    struct job_desc *d = SHELL("echo to out; echo to err >&2");

    start(f);
    assert_exited(run_one(f, 0, job_desc_ref(d), NULL), 0);
    assert_output(f, 0, "to out\n");
    assert_file("to err\n", "%s/out/3.%d/0.err", f->dir, JOB_SEQ);

    again.attempt = 2; /* a second attempt leaves the first one's output alone */
    ask_as(f, 1, d, &again, NULL, 0);
    pump_until(f, &f->v[1].exited);
    assert_file("to out\n", "%s/out/3.%d/0.2.out", f->dir, JOB_SEQ);
    job_desc_drop(d);
}

/* Whoever removes old output removes the note with it, if the running task of that job closed its files. */
static void test_whose_output_it_is_is_noted_again(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("exec >/dev/null 2>&1; [ {} = short ] || exec sleep 600");
    char path[300];

    set_blob(&d->user, "ann");
    start(f);
    ask(f, 0, d, "long");
    pump_until(f, &f->v[0].started);
    assert_file("ann", "%s/out/3.%d/.user", f->dir, JOB_SEQ);
    snprintf(path, sizeof path, "%s/out/3.%d/.user", f->dir, JOB_SEQ);
    assert_int_equal(unlink(path), 0);
    assert_exited(run_one(f, 1, job_desc_ref(d), "short"), 0);
    assert_file("ann", "%s/out/3.%d/.user", f->dir, JOB_SEQ);
    job_desc_drop(d);
}

static void test_placeholders(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("echo hello; echo oops >&2");
    struct try_id id = {job_id_make((node_id_t){3}, JOB_SEQ), 4, 1, 2};
    char path[EXEC_PATH_MAX];

    d->tasks = 5;
    d->first_index = 100;
    set_blob(&d->cwd, f->dir);
    set_blob(&d->name, "../na/me");
    set_blob(&d->stdout_pattern, "new/%J/%j-%t-%a-%w-%n-100%%");
    set_blob(&d->stderr_pattern, "none");
    start(f);
    ask_as(f, 0, d, &id, NULL, 0);
    pump_until(f, &f->v[0].exited);
    assert_exited(&f->v[0], 0);
    /* The job's name is one component, whatever slashes it has. */
    assert_file("hello\n", "%s/new/3.17/17-104-2-w1-.._na_me-100%%", f->dir);

    assert_int_equal(exec_output_path(&f->config, &id, d, NULL, 2, path, sizeof path), 0);
    assert_string_equal(path, "/dev/null");
    assert_int_equal(exec_output_path(&f->config, &id, d, NULL, 1, path, 20), HAWK_ETOO_LARGE);
    set_blob(&d->stdout_pattern, "/x/%q");
    assert_int_equal(exec_output_path(&f->config, &id, d, NULL, 1, path, sizeof path), HAWK_EINVALID);
    set_blob(&d->stdout_pattern, "/x/100%");
    assert_int_equal(exec_output_path(&f->config, &id, d, NULL, 1, path, sizeof path), HAWK_EINVALID);
    set_blob(&d->stdout_pattern, "/x/%n/y");
    set_blob(&d->name, "..");
    assert_int_equal(exec_output_path(&f->config, &id, d, NULL, 1, path, sizeof path), 0);
    assert_string_equal(path, "/x/__/y");
    job_desc_drop(d);
}

static void test_one_file_for_stdout_and_stderr_and_for_many_tasks(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("echo a; echo b >&2; echo c");

    set_blob(&d->cwd, f->dir);
    set_blob(&d->stdout_pattern, "both");
    set_blob(&d->stderr_pattern, "both");
    start(f);
    assert_exited(run_one(f, 0, job_desc_ref(d), NULL), 0);
    assert_file("a\nb\nc\n", "%s/both", f->dir);
    assert_exited(run_one(f, 1, d, NULL), 0); /* the same task again: afresh */
    assert_file("a\nb\nc\n", "%s/both", f->dir);

    d = SHELL("echo x");
    d->tasks = 2;
    set_blob(&d->cwd, f->dir);
    set_blob(&d->stdout_pattern, "all");
    assert_exited(run_one(f, 2, job_desc_ref(d), NULL), 0);
    assert_exited(run_one(f, 3, d, NULL), 0);
    assert_file("x\nx\n", "%s/all", f->dir); /* no task starts it afresh for the others */
}

static void test_arguments_replace_braces(void **state)
{
    struct fixture *f = *state;

    start(f);
    assert_exited(run_one(f, 0, COMMAND("printf", "[%s]", "{}", "a{}b{}", "{"), "X Y"), 0);
    assert_output(f, 0, "[X Y][aX YbX Y][{]");
    assert_exited(run_one(f, 1, COMMAND("printf", "[%s]", "one"), "two\nlines\x01\xff*"), 0);
    assert_output(f, 1, "[one][two\nlines\x01\xff*]");
    assert_exited(run_one(f, 2, COMMAND("printf", "[%s]", "{}"), ""), 0);
    assert_output(f, 2, "[]");
    assert_exited(run_one(f, 3, COMMAND("printf", "[%s]", "{}"), NULL),
                  0); /* no argument: nothing to replace */
    assert_output(f, 3, "[{}]");
    assert_exited(run_one(f, 4, COMMAND("{}", "-c", "echo program"), "sh"), 0);
    assert_output(f, 4, "program\n");
}

static void test_argument_that_no_command_can_be_given(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("echo");
    struct try_id id = try_of(0);
    size_t len = 4u << 20;
    char *big = xmalloc(len);

    start(f);
    ask_as(f, 0, d, &id, "a\0b", 3);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_NOT_STARTED);
    assert_int_equal(f->v[0].code, 126);
    assert_non_null(strstr(f->v[0].why, "NUL"));

    memset(big, 'x', len);
    ask_as(f, 1, d, &id, big, len);
    pump_until(f, &f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_NOT_STARTED);
    assert_int_equal(f->v[1].code, 126);
    assert_non_null(strstr(f->v[1].why, "the task's input has 4194304 bytes, and Linux takes at most"));
    free(big);
    job_desc_drop(d);
}

/* The spawner is there for the next task: it does not try to make nearly a terabyte of it. */
static void test_argument_in_more_places_than_memory_has_room(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("echo");
    struct try_id id = try_of(0);
    size_t len = 16u << 20, places = 50000;
    char *big = xmalloc(len), *text = xmalloc(2 * places + 1);

    for (size_t i = 0; i < places; i++)
        memcpy(text + 2 * i, "{}", 3);
    strings_add(&d->argv, text);
    memset(big, 'x', len);
    start(f);
    ask_as(f, 0, d, &id, big, len);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_NOT_STARTED);
    assert_int_equal(f->v[0].code, 126);
    assert_non_null(strstr(f->v[0].why, "Argument list too long"));
    assert_exited(run_one(f, 1, COMMAND("true"), NULL), 0);
    free(big);
    free(text);
    job_desc_drop(d);
}

static void test_many_arguments(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("echo $# ${10000}");
    char text[32];

    strings_add(&d->argv, "sh");
    for (int i = 1; i <= 10000; i++) {
        snprintf(text, sizeof text, "arg%d-{}", i);
        strings_add(&d->argv, text);
    }
    start(f);
    assert_exited(run_one(f, 0, d, "7"), 0);
    assert_output(f, 0, "10000 arg10000-7\n");
}

static void test_environment_and_directory(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d =
        SHELL("env | grep -v -e ^_= -e ^PWD= -e ^OLDPWD= -e ^SHLVL= -e ^HAWK_RUN= | sort; pwd");
    struct try_id id = {job_id_make((node_id_t){3}, JOB_SEQ), 2, 1, 3};
    char expected[1000], real[EXEC_PATH_MAX];

    d->tasks = 9;
    d->first_index = 50;
    set_blob(&d->name, "my job");
    strings_add(&d->env, "PATH=/usr/bin:/bin");
    strings_add(&d->env, "COLOUR=green");
    strings_add(&d->env, "HAWK_JOB_ID=forged");
    strings_add(&d->env, "HAWK_JOB_ANCESTORS=forged");
    d->ancestors = (struct ancestors){2, {job_id_make((node_id_t){3}, 12), job_id_make((node_id_t){1}, 5)}};
    set_blob(&d->cwd, f->dir);
    set_blob(&d->stdout_pattern, "o%t");
    start(f);
    ask_as(f, 0, d, &id, NULL, 0);
    pump_until(f, &f->v[0].exited);
    assert_exited(&f->v[0], 0);
    assert_non_null(realpath(f->dir, real));
    snprintf(expected, sizeof expected,
             "COLOUR=green\nHAWK_ATTEMPT=3\nHAWK_INPUT=52\nHAWK_JOB_ANCESTORS=3.12 "
             "1.5\nHAWK_JOB_ID=3.17\nHAWK_JOB_NAME=my "
             "job\nHAWK_TASK_COUNT=9\n"
             "HAWK_TASK_INDEX=52\nHAWK_WORKER=w1\nPATH=/usr/bin:/bin\n%.500s\n",
             real);
    assert_file(expected, "%s/o52", f->dir);
    job_desc_drop(d);
}

static void test_inherited_environment_hides_the_token(void **state)
{
    struct fixture *f = *state;

    setenv("HAWK_TOKEN", "secret", 1);
    setenv("HAWK_OTHER", "seen", 1);
    start(f);
    unsetenv("HAWK_TOKEN");
    assert_exited(run_one(f, 0, SHELL("echo ${HAWK_TOKEN-none} $HAWK_OTHER"), NULL), 0);
    assert_output(f, 0, "none seen\n");
}

static void test_standard_input(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("cksum; (echo more >&0) 2>/dev/null || echo read-only");
    size_t len = 900000;

    start(f);
    d->input = blob_new(NULL, len);
    for (size_t i = 0; i < len; i++)
        d->input->data[i] = (char)(i * 7 + i / 1000);
    assert_exited(run_one(f, 0, job_desc_ref(d), NULL), 0);
    assert_exited(run_one(f, 1, job_desc_ref(d), NULL), 0); /* reads from the beginning again */
    {
        char path[300], *first;

        snprintf(path, sizeof path, "%s/out/3.%d/0.out", f->dir, JOB_SEQ);
        first = read_path(path);
        assert_non_null(strstr(first, " 900000\nread-only\n"));
        assert_output(f, 1, first);
        free(first);
    }
    assert_exited(run_one(f, 2, COMMAND("cat"), NULL), 0); /* none: the end at once */
    assert_output(f, 2, "");
    job_desc_drop(d);
}

#define POLLED 4 /* descriptors that the spawner polls; Linux refuses to poll more than the limit */

/* The spawner, this process's only child, gets no descriptor from `limit` on. 0: as many as this process. */
static void limit_descriptors(rlim_t limit)
{
    struct pids children = {0};
    struct rlimit files;

    pids_add_children(&children, getpid());
    assert_int_equal(children.n, 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (limit)
        files.rlim_cur = limit;
    assert_int_equal(prlimit(children.v[0], RLIMIT_NOFILE, &files, NULL), 0);
    pids_free(&children);
}

static void test_an_input_that_lacked_a_descriptor_is_there_for_the_next_task(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("cat");
    const struct result *r;
    uint32_t run = 0;

    d->input = blob_str("words");
    set_blob(&d->cwd, f->dir);
    set_blob(&d->stdout_pattern, "named");
    start(f);
    assert_exited(run_one(f, run, COMMAND("true"), NULL), 0); /* the spawner has all that it needs itself */
    do { /* until there are enough for the output files */
        limit_descriptors(POLLED + run++);
        r = run_one(f, run, job_desc_ref(d), NULL);
        assert_int_equal(r->code, HAWK_ECANNOT_START);
        assert_non_null(strstr(r->why, "Too many open files"));
        assert_string_equal(r->place, ""); /* not the fault of the job's directory */
    } while (!strstr(r->why, "standard input"));
    limit_descriptors(0);
    assert_exited(run_one(f, ++run, d, NULL), 0);
    assert_file("words", "%s/named", f->dir);
}

static void test_nothing_leaks_into_tasks(void **state)
{
    struct fixture *f = *state;
    char line[300];
    int leak = open("/dev/null", O_RDONLY); /* not close-on-exec, as one from a careless parent */

    assert_true(leak >= 0);
    signal(SIGUSR1, SIG_IGN);
    start(f);
    signal(SIGUSR1, SIG_DFL);
    close(leak);
    assert_exited(run_one(f, 0,
                          SHELL("ls /proc/$$/fd | tr '\\n' ' '; grep -E 'Sig(Blk|Ign)' /proc/self/status |"
                                " tr -d '\\n'; ps -o tty= -p $$ 2>/dev/null | tr -d ' \\n'; "
                                "test $(cut -d' ' -f5 /proc/$$/stat) = $$ && echo leader"),
                          NULL),
                  0);
    snprintf(line, sizeof line, "%s/out/3.%d/0.out", f->dir, JOB_SEQ);
    {
        char *text = read_path(line);

        assert_int_equal(strncmp(text, "0 1 2 ", 6), 0);
        assert_non_null(strstr(text, "SigBlk:\t0000000000000000"));
        assert_non_null(strstr(text, "SigIgn:\t"));
        /* But for 32 and 33, which are the C library's own. */
        assert_int_equal(strtoull(strstr(text, "SigIgn:\t") + 8, NULL, 16) & ~(3ull << 31), 0);
        assert_non_null(strstr(text, "leader"));
        free(text);
    }
}

/* ---- What does not start ---- */

static void assert_not_started(struct fixture *f, const struct result *r, int code, const char *says,
                               int task)
{
    char path[300], *text;

    assert_int_equal(r->outcome, code == HAWK_ECANNOT_START ? OUTCOME_LOST : OUTCOME_NOT_STARTED);
    assert_int_equal(r->code, code);
    assert_false(r->started);
    if (!strstr(r->why, says))
        fail_msg("\"%s\" does not say \"%s\"", r->why, says);
    if (task < 0)
        return;
    snprintf(path, sizeof path, "%s/out/3.%d/%d.err", f->dir, JOB_SEQ, task);
    text = read_path(path);
    assert_int_equal(strncmp(text, "hawk: ", 6), 0);
    assert_non_null(strstr(text, says));
    free(text);
}

static void test_programs_that_do_not_exist_or_run(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d;
    char path[300];

    write_file(f, "data", "echo hi\n", 0644);
    write_file(f, "lost", "#!/no/such/interpreter\n", 0755);
    start(f);
    assert_not_started(f, run_one(f, 0, COMMAND("no-such-program-here"), NULL), 127,
                       "no-such-program-here: no such program", 0);
    assert_not_started(f, run_one(f, 1, COMMAND("/no/such/program"), NULL), 127,
                       "/no/such/program: no such program", 1);
    snprintf(path, sizeof path, "%s/data", f->dir);
    assert_not_started(f, run_one(f, 2, COMMAND(path), NULL), 126, "Permission denied", 2);
    snprintf(path, sizeof path, "PATH=%s", f->dir);
    d = COMMAND("data");
    strings_add(&d->env, path);
    assert_not_started(f, run_one(f, 3, d, NULL), 126, "not executable", 3);
    snprintf(path, sizeof path, "%s/lost", f->dir);
    assert_not_started(f, run_one(f, 4, COMMAND(path), NULL), 127, "interpreter", 4);
    assert_not_started(f, run_one(f, 5, COMMAND(f->dir), NULL), 126, "cannot be executed", 5);
    assert_not_started(f, run_one(f, 6, COMMAND("{}"), ""), 127, "name is empty", 6);
    assert_exited(run_one(f, 7, COMMAND("true"), NULL), 0); /* and the spawner is as before */
}

/* A client may say that its directory has places, and name none. */
static void test_places_in_no_directory(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("test", "{}", "=", "x");

    d->flags |= JOB_EACH_CWD;
    start(f);
    assert_exited(run_one(f, 0, job_desc_ref(d), "x"), 0);
    assert_exited(run_one(f, 1, job_desc_ref(d), NULL), 1);
    set_blob(&d->cwd, "");
    assert_exited(run_one(f, 2, job_desc_ref(d), "x"), 0);
    assert_exited(run_one(f, 3, d, NULL), 1);
}

static void test_programs_are_looked_up_from_the_jobs_directory(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d;

    write_file(f, "mine", "echo mine $1\n", 0755); /* no #!: the shell's */
    start(f);
    d = COMMAND("./mine");
    set_blob(&d->cwd, f->dir);
    assert_exited(run_one(f, 0, d, "one"), 0);
    assert_output(f, 0, "mine one\n");
    d = COMMAND("mine");
    set_blob(&d->cwd, f->dir);
    strings_add(&d->env, "PATH=/usr/bin:/bin:.");
    assert_exited(run_one(f, 1, d, "two"), 0);
    assert_output(f, 1, "mine two\n");
}

static void test_directory_that_is_missing(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("true");
    struct stat st;
    char path[300];

    snprintf(path, sizeof path, "%s/missing", f->dir);
    set_blob(&d->cwd, path);
    set_blob(&d->stdout_pattern, "o");
    start(f);
    assert_not_started(f, run_one(f, 0, d, NULL), HAWK_ECANNOT_START, "missing: No such file or directory",
                       -1);
    assert_int_equal(stat(path, &st), -1); /* not made on the way to the output file */
}

static void test_output_files_that_cannot_be_opened(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("true");
    char path[400];

    write_file(f, "file", "", 0644);
    snprintf(path, sizeof path, "%s/file/sub/o", f->dir);
    set_blob(&d->stdout_pattern, path);
    start(f);
    assert_not_started(f, run_one(f, 0, d, NULL), HAWK_ECANNOT_START, "cannot open the stdout file", -1);
    assert_non_null(strstr(f->v[0].why, "/file/sub/o: Not a directory"));

    d = COMMAND("true");
    set_blob(&d->stderr_pattern, "/proc/hawk/x");
    assert_not_started(f, run_one(f, 1, d, NULL), HAWK_ECANNOT_START,
                       "cannot open the stderr file /proc/hawk/x", -1);
    d = COMMAND("true");
    set_blob(&d->stdout_pattern, "%z");
    assert_not_started(f, run_one(f, 2, d, NULL), 126, "placeholder", -1);

    if (geteuid() == 0) /* nothing is unwritable for root */
        return;
    snprintf(path, sizeof path, "%s/locked", f->dir);
    assert_int_equal(mkdir(path, 0500), 0);
    d = COMMAND("true");
    strncat(path, "/%t", sizeof path - strlen(path) - 1);
    set_blob(&d->stdout_pattern, path);
    assert_not_started(f, run_one(f, 3, d, NULL), HAWK_ECANNOT_START, "Permission denied", -1);
}

static void expect_check_says(struct fixture *f, const char *place, const char *says)
{
    struct blob *b = place ? blob_str(place) : NULL;

    f->checked = false;
    exec_check(f->e, b);
    blob_drop(b);
    pump_until(f, &f->checked);
    if (says ? !strstr(f->check_why, says) : *f->check_why)
        fail_msg("\"%s\" does not say \"%s\"", f->check_why, says ? says : "");
}

/* What was to blame is told with the end, and looked at again when asked. */
static void test_what_could_not_be_done_is_tried_again(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("true");
    char missing[300], file[300], pattern[330];

    snprintf(missing, sizeof missing, "%s/missing", f->dir);
    snprintf(file, sizeof file, "%s/file", f->dir);
    snprintf(pattern, sizeof pattern, "%s/%%t", file);
    write_file(f, "file", "", 0644);
    start(f);
    expect_check_says(f, NULL, NULL);

    set_blob(&d->cwd, missing);
    assert_not_started(f, run_one(f, 0, d, NULL), HAWK_ECANNOT_START, "missing", -1);
    assert_string_equal(f->v[0].place, missing);
    expect_check_says(f, missing, "No such file or directory");
    assert_int_equal(mkdir(missing, 0755), 0);
    expect_check_says(f, missing, NULL);

    d = COMMAND("true");
    set_blob(&d->stdout_pattern, pattern);
    assert_not_started(f, run_one(f, 1, d, NULL), HAWK_ECANNOT_START, "Not a directory", -1);
    strncat(file, "/", sizeof file - strlen(file) - 1);
    assert_string_equal(f->v[1].place, file);
    expect_check_says(f, file, "Not a directory");
    file[strlen(file) - 1] = '\0';
    assert_int_equal(unlink(file), 0);
    strncat(file, "/", sizeof file - strlen(file) - 1);
    expect_check_says(f, file, NULL); /* the next file's directories are made with it */

    /* Where output goes for which jobs name no file. */
    d = COMMAND("true");
    exec_stop(f->e);
    f->config.output_dir = "/proc/hawk";
    start(f);
    assert_not_started(f, run_one(f, 2, d, NULL), HAWK_ECANNOT_START, "cannot open the stdout file", -1);
    assert_string_equal(f->v[2].place, "");
    expect_check_says(f, NULL, "cannot write a file in /proc/hawk");
}

/* No disk has so much room. It matters to whatever writes one of its files there. */
static void test_without_room_nothing_is_written_there(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d;

    f->config.output_free_min = UINT64_MAX - 1;
    assert_int_equal(mkdir(f->config.output_dir, 0755), 0);
    start(f);
    assert_not_started(f, run_one(f, 0, COMMAND("true"), NULL), HAWK_ECANNOT_START, "bytes are free", -1);
    d = COMMAND("true");
    set_blob(&d->stdout_pattern, "none");
    assert_not_started(f, run_one(f, 1, d, NULL), HAWK_ECANNOT_START, "bytes are free", -1);
    d = COMMAND("true");
    set_blob(&d->stderr_pattern, "none");
    assert_not_started(f, run_one(f, 2, d, NULL), HAWK_ECANNOT_START, "bytes are free", -1);
    d = COMMAND("true");
    set_blob(&d->stdout_pattern, "none");
    set_blob(&d->stderr_pattern, "none");
    assert_exited(run_one(f, 3, d, NULL), 0);
}

/* Once it is open, the file is the task's: it sees ENOSPC, and the run ends as the task says. */
static void test_a_full_disk_is_an_error_of_the_task(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("echo something || exit 3");

    set_blob(&d->stdout_pattern, "/dev/full");
    start(f);
    assert_exited(run_one(f, 0, d, NULL), 3);
}

static void test_fifo_that_nobody_reads_does_not_stop_the_spawner(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("true");
    char path[300];

    close(make_fifo(f, path, sizeof path));
    set_blob(&d->stdout_pattern, path);
    start(f);
    assert_not_started(f, run_one(f, 0, d, NULL), 126, "cannot open the stdout file", -1);
    assert_exited(run_one(f, 1, COMMAND("true"), NULL), 0);
}

static void test_full_fifo_does_not_stop_the_spawner(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("/nonexistent");
    char path[300], page[4096] = {0};
    int reader = make_fifo(f, path, sizeof path), writer = open(path, O_WRONLY | O_NONBLOCK);

    while (write(writer, page, sizeof page) > 0)
        ;
    set_blob(&d->stderr_pattern, path);
    start(f);
    assert_not_started(f, run_one(f, 0, d, NULL), 127, "/nonexistent", -1);
    close(writer);
    close(reader);
}

static void test_refusals(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("sleep", "1000"), *app = job_desc_new();
    struct try_id id = try_of(0);
    struct exec_config bad = f->config;
    struct exec *e;

    bad.output_dir = "relative";
    assert_int_equal(exec_start(&e, &bad), HAWK_EINVALID);
    f->config.max_running = 2;
    start(f);
    ask(f, 0, d, NULL);
    assert_int_equal(exec_run(f->e, 0, &(struct msg_exec_start){.run = 0, .id = id, .desc = d}, NULL),
                     HAWK_EEXISTS);
    app->kind = PAYLOAD_APP;
    assert_int_equal(exec_run(f->e, 0, &(struct msg_exec_start){.run = 1, .id = id, .desc = app}, NULL),
                     HAWK_EUNSUPPORTED);
    app->kind = PAYLOAD_COMMAND;
    assert_int_equal(exec_run(f->e, 0, &(struct msg_exec_start){.run = 1, .id = id, .desc = app}, NULL),
                     HAWK_EINVALID);
    ask(f, 1, d, NULL);
    assert_int_equal(exec_run(f->e, 0, &(struct msg_exec_start){.run = 2, .id = id, .desc = d}, NULL),
                     HAWK_ELIMIT);
    exec_kill(f->e, 0, 99, OUTCOME_CANCELLED, true); /* unknown: ignored */
    exec_kill(f->e, 0, 0, OUTCOME_CANCELLED, true);
    exec_kill(f->e, 0, 1, OUTCOME_CANCELLED, true);
    pump_exits(f, 2);
    job_desc_drop(app);
    job_desc_drop(d);
}

/* ---- Many ---- */

static void test_a_thousand(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("true");
    int64_t began;

    d->tasks = 1000;
    start(f);
    began = now_us();
    for (uint32_t i = 0; i < 1000; i++)
        ask(f, i, d, NULL);
    job_desc_drop(d);
    pump_exits(f, 1000);
    print_message("1000 x true: %" PRId64 " ms\n", (now_us() - began) / US_PER_MS);
    for (uint32_t i = 0; i < 1000; i++)
        assert_exited(&f->v[i], 0);
    assert_true(f->v[0].exited_order < f->v[999].started_order); /* ends are told while others start */
    assert_int_equal(exec_running(f->e), 0);
}

static void test_many_descriptions(void **state)
{
    struct fixture *f = *state;
    struct job_desc *first = COMMAND("echo", "first");
    char text[32];

    start(f);
    assert_exited(run_one(f, 0, job_desc_ref(first), NULL), 0);
    for (uint32_t i = 1; i < 60; i++) {
        struct job_desc *d;

        snprintf(text, sizeof text, "n%u", i);
        d = COMMAND("echo", text);
        assert_exited(run_one(f, i, d, NULL), 0);
        snprintf(text, sizeof text, "n%u\n", i);
        assert_output(f, i, text);
    }
    assert_int_equal(first->refs, 1); /* nobody runs it, so it was forgotten, and the spawner told to */
    assert_exited(run_one(f, 60, first, NULL), 0);
    assert_output(f, 60, "first\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exit_codes_and_signals),
        TEST(test_output_goes_to_the_default_files),
        TEST(test_whose_output_it_is_is_noted_again),
        TEST(test_placeholders),
        TEST(test_one_file_for_stdout_and_stderr_and_for_many_tasks),
        TEST(test_arguments_replace_braces),
        TEST(test_argument_that_no_command_can_be_given),
        TEST(test_argument_in_more_places_than_memory_has_room),
        TEST(test_many_arguments),
        TEST(test_environment_and_directory),
        TEST(test_inherited_environment_hides_the_token),
        TEST(test_standard_input),
        TEST(test_an_input_that_lacked_a_descriptor_is_there_for_the_next_task),
        TEST(test_nothing_leaks_into_tasks),
        TEST(test_programs_that_do_not_exist_or_run),
        TEST(test_places_in_no_directory),
        TEST(test_programs_are_looked_up_from_the_jobs_directory),
        TEST(test_directory_that_is_missing),
        TEST(test_output_files_that_cannot_be_opened),
        TEST(test_what_could_not_be_done_is_tried_again),
        TEST(test_without_room_nothing_is_written_there),
        TEST(test_a_full_disk_is_an_error_of_the_task),
        TEST(test_fifo_that_nobody_reads_does_not_stop_the_spawner),
        TEST(test_full_fifo_does_not_stop_the_spawner),
        TEST(test_refusals),
        TEST(test_a_thousand),
        TEST(test_many_descriptions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
