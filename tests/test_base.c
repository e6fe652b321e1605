/* base/: errors, ids, quantities, random numbers, heap, lists, memory, blobs, checks, log. */
#include "tests/test_base.h"

#include <jansson.h>
#include <poll.h>

/* --- helpers ----------------------------------------------------------------------------------- */

static int redirected_from;

/* From here on stderr goes to a pipe; returns its reading end. */
static int stderr_capture(void)
{
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    fflush(stderr);
    redirected_from = dup(STDERR_FILENO);
    assert_true(redirected_from >= 0);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    close(fds[1]);
    return fds[0];
}

/* Puts stderr back and reads what was written: less than a pipe holds. */
static void stderr_release(int fd, char *text, size_t size)
{
    size_t n = 0;
    ssize_t got;

    assert_true(dup2(redirected_from, STDERR_FILENO) >= 0);
    close(redirected_from);
    while ((got = read(fd, text + n, size - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(fd);
}

/* Runs body in a child, which must abort; text receives what it said. */
static void assert_aborts(void (*body)(void), char *text, size_t size)
{
    int fd = stderr_capture();
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        body();
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    stderr_release(fd, text, size);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* --- errors and checks ------------------------------------------------------------------------- */

static void errors_have_texts(void **state)
{
    assert_string_equal(hawk_strerror(0), "success");
    assert_string_equal(hawk_strerror(HAWK_ENO_WORKERS), "the cluster has no workers");
    assert_string_equal(hawk_strerror(12345), "unknown error");
}

static void break_a_check(void) { CHECK(1 + 1 == 3); }

static void check_says_what_and_where(void **state)
{
    char text[512];

    CHECK(1 + 1 == 2);
    assert_aborts(break_a_check, text, sizeof text);
    assert_non_null(strstr(text, "tests/test_base.c:"));
    assert_non_null(strstr(text, "check failed: 1 + 1 == 3\n"));
}

/* --- random numbers ---------------------------------------------------------------------------- */

static void rng_gives_the_published_sequence(void **state)
{
    /* xoshiro256** from the state 1, 2, 3, 4; splitmix64 from 1234567. */
    const uint64_t expected[] = {
        11520u,
        0u,
        1509978240u,
        1215971899390074240u,
        1216172134540287360u,
        607988272756665600u,
        16172922978634559625u,
        8476171486693032832u,
        10595114339597558777u,
        2904607092377533576u,
    };
    const uint64_t seeded[4] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                4593380528125082431u};
    struct rng r = {{1, 2, 3, 4}};

    for (size_t i = 0; i < COUNT(expected); i++)
        assert_true(rng_next(&r) == expected[i]);
    rng_seed(&r, 1234567);
    for (size_t i = 0; i < COUNT(seeded); i++)
        assert_true(r.s[i] == seeded[i]);
}

static void rng_below_is_in_range_and_even(void **state)
{
    enum { N = 7, DRAWS = 70000 };
    int hits[N] = {0};
    struct rng r;

    rng_seed(&r, 4711);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t x = rng_below(&r, N);

        assert_true(x < N);
        hits[x]++;
    }
    for (int i = 0; i < N; i++) /* five standard deviations around 10,000 */
        assert_in_range(hits[i], 9537, 10463);
    for (int i = 0; i < 100; i++)
        assert_true(rng_below(&r, 1) == 0);
    /* A bound where half of all draws must be thrown away. */
    for (int i = 0; i < 1000; i++)
        assert_true(rng_below(&r, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
}

static void rng_instances_are_independent(void **state)
{
    struct rng a, b, c;

    rng_seed(&a, 1);
    rng_seed(&b, 1);
    rng_seed(&c, 2);
    assert_true(rng_next(&a) == rng_next(&b));
    rng_next(&c);
    assert_true(rng_next(&a) == rng_next(&b));
    assert_true(rng_next(&a) != rng_next(&c));
}

/* --- heap -------------------------------------------------------------------------------------- */

enum { MODEL_NODES = 300, MODEL_STEPS = 30000 };

/* The least node by looking at all of them. */
static struct heap_node *model_min(struct heap_node *nodes)
{
    struct heap_node *least = NULL;

    for (int i = 0; i < MODEL_NODES; i++) {
        struct heap_node *n = &nodes[i];

        if (heap_in(n) && (!least || n->key < least->key || (n->key == least->key && n->seq < least->seq)))
            least = n;
    }
    return least;
}

static void heap_agrees_with_brute_force(void **state)
{
    struct heap_node nodes[MODEL_NODES] = {0};
    uint64_t seq = 0;
    uint32_t in = 0;
    struct heap h;
    struct rng r;

    rng_seed(&r, 99);
    heap_init(&h);
    for (int step = 0; step < MODEL_STEPS; step++) {
        struct heap_node *n = &nodes[rng_below(&r, MODEL_NODES)];
        int64_t key = (int64_t)rng_below(&r, 50) - 25; /* few keys, so that ties are common */

        if (!heap_in(n) || rng_below(&r, 3) == 0) {
            in += !heap_in(n);
            heap_set(&h, n, key, seq++);
        } else if (rng_below(&r, 2) == 0) {
            heap_remove(&h, n);
            in--;
        } else {
            heap_remove(&h, heap_min(&h));
            in--;
        }
        assert_int_equal(h.n, in);
        assert_true(heap_check(&h));
        assert_ptr_equal(heap_min(&h), model_min(nodes));
    }
    heap_free(&h);
}

static void heap_sorts_by_key_then_sequence(void **state)
{
    struct heap_node nodes[64] = {0};
    struct heap h;

    heap_init(&h);
    assert_null(heap_min(&h));
    for (int i = 0; i < 64; i++) {
        nodes[i].key = (i * 37 % 64) / 8 - 4; /* eight of each key */
        nodes[i].seq = (uint64_t)i;
        assert_int_equal(heap_push(&h, &nodes[i]), 0);
    }
    assert_int_equal(h.cap, 64);
    for (const struct heap_node *last = NULL, *n; (n = heap_min(&h)) != NULL; last = n) {
        if (last)
            assert_true(last->key < n->key || (last->key == n->key && last->seq < n->seq));
        heap_remove(&h, heap_min(&h));
        assert_false(heap_in(n));
    }
    heap_free(&h);
}

static void heap_check_sees_disorder(void **state)
{
    struct heap_node a = {.key = 1, .seq = 1}, b = {.key = 2, .seq = 2};
    struct heap h;

    heap_init(&h);
    assert_int_equal(heap_push(&h, &a), 0);
    assert_int_equal(heap_push(&h, &b), 0);
    assert_true(heap_check(&h));
    a.key = 3;
    assert_false(heap_check(&h));
    a.key = 1;
    b.pos = 1;
    assert_false(heap_check(&h));
    heap_free(&h);
}

static void remove_twice(void)
{
    struct heap_node a = {.key = 1}, b = {.key = 2};
    struct heap h;

    heap_init(&h);
    if (heap_push(&h, &a) || heap_push(&h, &b))
        _exit(1);
    heap_remove(&h, &a);
    heap_remove(&h, &a);
}

static void heap_removing_a_stranger_aborts(void **state)
{
    char text[512];

    assert_aborts(remove_twice, text, sizeof text);
    assert_non_null(strstr(text, "base/heap.c:"));
}

/* --- lists ------------------------------------------------------------------------------------- */

struct item {
    int value;
    struct list link;
};

static void lists_keep_order_and_allow_removal(void **state)
{
    struct item items[4];
    struct list l;
    int seen = 0;

    list_init(&l);
    assert_true(list_empty(&l));
    for (int i = 0; i < 4; i++) {
        items[i].value = i;
        list_init(&items[i].link);
        list_remove(&items[i].link); /* harmless on a node in no list */
    }
    list_push_tail(&l, &items[1].link);
    list_push_tail(&l, &items[3].link);
    list_push_head(&l, &items[0].link);
    list_insert_before(&items[3].link, &items[2].link);
    list_foreach(&l, node, next) {
        assert_int_equal(container_of(node, struct item, link)->value, seen++);
        list_remove(node);
    }
    assert_int_equal(seen, 4);
    assert_true(list_empty(&l));
}

/* --- memory and blobs -------------------------------------------------------------------------- */

static void a_ring_keeps_its_order_however_it_wraps(void **state)
{
    struct {
        uint32_t *v;
        uint32_t head, n, cap;
    } ring = {0};
    struct rng r;
    uint32_t in = 0, out = 0, got;

    rng_seed(&r, 7);
    /* Longer and longer, so that it grows with its oldest element at any place. */
    while (in < 20000) {
        for (uint64_t k = rng_below(&r, 100); k; k--)
            ring_push(&ring, in++);
        for (uint64_t k = rng_below(&r, 90); k && ring.n; k--) {
            ring_pop(&ring, &got);
            assert_int_equal(got, out++);
        }
        assert_int_equal(ring.n, in - out);
        for (uint32_t k = 0; k < ring.n; k++)
            assert_int_equal(ring_at(&ring, k), out + k);
    }
    assert_true(ring.cap > 64);
    free(ring.v);
}

static void allocation_never_returns_null(void **state)
{
    char *p = xmalloc(0), *zeros = xcalloc(3, 5), *text = xstrdup("kept");
    int *v = NULL;
    uint32_t n = 0, cap = 0;

    assert_non_null(p);
    p = xrealloc(p, 0);
    assert_non_null(p);
    for (int i = 0; i < 15; i++)
        assert_int_equal(zeros[i], 0);
    assert_string_equal(text, "kept");
    for (int i = 0; i < 100; i++) {
        vec_grow(v, n, cap);
        v[n++] = i;
    }
    assert_int_equal(v[99], 99);
    assert_in_range(cap, 100, 200);
    free(p);
    free(zeros);
    free(text);
    free(v);
}

static void blobs_live_as_long_as_their_references(void **state)
{
    struct blob *b = blob_str("hello"), *zeros = blob_new(NULL, 3), *bytes = blob_new("a\0b", 3);

    assert_int_equal(b->len, 5);
    assert_string_equal(b->data, "hello");
    assert_ptr_equal(blob_ref(b), b);
    blob_drop(b);
    assert_string_equal(b->data, "hello");
    blob_drop(b);
    assert_memory_equal(zeros->data, "\0\0\0", 4);
    blob_drop(zeros);
    assert_int_equal(bytes->len, 3);
    assert_memory_equal(bytes->data, "a\0b", 4);
    blob_drop(bytes);
    blob_drop(NULL);
    assert_null(blob_ref(NULL));
}

/* --- log --------------------------------------------------------------------------------------- */

static void log_levels_are_read(void **state)
{
    enum log_level level = LOG_ERROR;

    assert_int_equal(log_level_parse("trace", &level), 0);
    assert_int_equal(level, LOG_TRACE);
    assert_int_equal(log_level_parse("Warn", &level), 0);
    assert_int_equal(level, LOG_WARN);
    assert_int_equal(log_level_parse("loud", &level), HAWK_EINVALID);
    assert_int_equal(log_level_parse("", &level), HAWK_EINVALID);
    assert_int_equal(level, LOG_WARN);
}

static void log_writes_one_line_per_event(void **state)
{
    char text[8192];
    int fd = stderr_capture();

    log_init("dist d1", LOG_INFO);
    log_info("job seventeen accepted\n");
    log_debug("not at this level");
    log_warn("a name with%ca newline", '\n');
    stderr_release(fd, text, sizeof text);

    for (char *c = text; *c; c++)
        if (*c >= '0' && *c <= '9')
            *c = '9';
    assert_string_equal(text, "9999-99-99T99:99:99.999Z info  dist d9: job seventeen accepted\n"
                              "9999-99-99T99:99:99.999Z warn  dist d9: a name with?a newline\n");
}

static void log_lines_may_be_json(void **state)
{
    char text[8192];
    int fd = stderr_capture();

    log_init("dist d1", LOG_INFO);
    log_form(true, 0);
    log_warn("job 3.17 (a \"name\\) is cancelled%c", '\n');
    log_info("a job that has no id");
    log_form(false, 0);
    stderr_release(fd, text, sizeof text);

    char *second = strchr(text, '\n') + 1;
    second[-1] = '\0';
    json_t *a = json_loads(text, 0, NULL), *b = json_loads(second, 0, NULL);
    assert_non_null(a);
    assert_non_null(b);
    assert_string_equal(json_string_value(json_object_get(a, "message")),
                        "job 3.17 (a \"name\\) is cancelled");
    assert_string_equal(json_string_value(json_object_get(a, "job")), "3.17");
    assert_string_equal(json_string_value(json_object_get(a, "level")), "warn");
    assert_string_equal(json_string_value(json_object_get(a, "role")), "dist d1");
    assert_int_equal(strlen(json_string_value(json_object_get(a, "time"))),
                     strlen("9999-99-99T99:99:99.999Z"));
    assert_null(json_object_get(b, "job"));
    json_decref(a);
    json_decref(b);
}

static uint32_t lines_with(const char *text, const char *word)
{
    uint32_t n = 0;

    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

/* Logs until a line says what was left out: its second is over then. Returns how much of the captured text it read. */
static size_t log_until_reported(int fd, char *text, size_t size)
{
    struct pollfd written = {.fd = fd, .events = POLLIN};
    size_t n = 0;

    for (int tries = 0; tries < 1000 && !strstr(text, "left out"); tries++) {
        log_info("noise %d", 100);
        if (poll(&written, 1, 10) <= 0)
            continue;
        ssize_t got = read(fd, text + n, size - 1 - n);
        assert_true(got > 0);
        n += (size_t)got;
        text[n] = '\0';
    }
    return n;
}

static void log_lines_of_one_kind_have_a_limit(void **state)
{
    static char text[65536];
    int fd = stderr_capture();

    log_form(false, 5);
    for (int i = 0; i < 100; i++)
        log_info("noise %d", i);
    log_info("another kind");
    size_t n = log_until_reported(fd, text, sizeof text);
    log_form(false, 0);
    for (int i = 0; i < 20; i++)
        log_info("without limit");
    stderr_release(fd, text + n, sizeof text - n);

    assert_in_range(lines_with(text, "info  dist d1: noise"), 6, 11); /* the second may end in between */
    assert_int_equal(lines_with(text, "another kind"), 1);
    assert_in_range(lines_with(text, "more lines were left out (log.rate) like: noise %d"), 1, 2);
    assert_int_equal(lines_with(text, "without limit"), 20);
}

/* Wherever their texts lie: here 64 bytes from each other. */
#define KINDS(X) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19)
static void log_lines_of_many_kinds_have_a_limit_each(void **state)
{
    static char text[262144];
    int fd = stderr_capture();

    log_form(false, 5);
    for (int i = 0; i < 50; i++) {
#define X(k) log_info("one more line of kind " #k ": its text with its end is 64 bytes, %d", i);
        KINDS(X)
#undef X
    }
    log_form(false, 0);
    stderr_release(fd, text, sizeof text);

#define X(k) assert_in_range(lines_with(text, "line of kind " #k), 5, 10); /* or the second ends in between */
    KINDS(X)
#undef X
}

static void log_cuts_what_is_too_long(void **state)
{
    char text[8192], *big = xcalloc(1, 5001);
    int fd = stderr_capture();
    size_t len;

    memset(big, 'x', 5000);
    log_error("%s", big);
    stderr_release(fd, text, sizeof text);
    len = strlen(text);
    assert_in_range(len, 1000, 4000);
    assert_string_equal(text + len - 5, "x...\n");
    free(big);
}

/* --- spread ------------------------------------------------------------------------------------ */

static void quantiles_interpolate(void **state)
{
    int64_t ten[] = {100, 90, 80, 70, 60, 50, 40, 30, 20, 10}, one[] = {7}, two[] = {4, 1};
    int64_t far[] = {INT64_MAX, -1, INT64_MAX};
    struct spread s = spread_of(ten, COUNT(ten));

    assert_int_equal(s.n, 10);
    assert_int_equal(s.p50, 55);
    assert_int_equal(s.p90, 91);
    assert_int_equal(s.p99, 99); /* 99.1 */
    assert_true(s.mean >= 55 && s.mean <= 55);
    assert_int_equal(s.max, 100);
    assert_int_equal(ten[0], 10); /* sorted */
    s = spread_of(one, COUNT(one));
    assert_int_equal(s.p50, 7);
    assert_int_equal(s.p99, 7);
    s = spread_of(two, COUNT(two));
    assert_int_equal(s.p50, 2); /* 2.5 */
    assert_int_equal(s.p90, 3); /* 3.7 */
    s = spread_of(far, COUNT(far));
    assert_int_equal(s.p50, INT64_MAX);
    s = spread_of(NULL, 0);
    assert_int_equal(s.n, 0);
    assert_int_equal(s.max, 0);
}

static void what_is_not_utf8_is_mended(void **state)
{
    static const char *const texts[][2] = {
        {"plain \x7f\n", "plain \x7f\n"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb3", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb3"},
        {"\xff\xfe", "??"},
        {"a\xc3", "a?"},
        {"\xe2\x82z", "??z"},
        {"\xc0\x80\xed\xa0\x80", "?????"}, /* overlong, a surrogate */
        {"\xe0\x9f\xbf\xf0\x8f\xbf\xbf", "???????"},
        {"\xe0\xa0\x80\xf0\x90\x80\x80", "\xe0\xa0\x80\xf0\x90\x80\x80"}, /* the first that need as much */
        {"\xf4\x90\x80\x80\xc3\xa9", "????\xc3\xa9"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[32];

        snprintf(text, sizeof text, "%s", texts[i][0]);
        utf8_mend(text, strlen(text));
        assert_string_equal(text, texts[i][1]);
    }
    utf8_mend(NULL, 0);
}

static void a_text_is_cut_between_characters(void **state)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb3z"; /* of 1, 2, 3, 4 and 1 bytes */
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};

    for (size_t n = 0; n < sizeof text; n++)
        assert_int_equal(utf8_whole(text, n), whole[n]);
    assert_int_equal(utf8_whole("\x80\x80\x80\x80", 4), 4); /* no character */
}

static void what_acts_on_a_terminal_is_tamed(void **state)
{
    static const char *const texts[][2] = {
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xb3 \xe2\x80\x8d",
         "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xb3 \xe2\x80\x8d"},
        {"a\tb\nc\x1b[31m\x7f", "a b?c?[31m?"},
        {"\xc2\x80\xc2\x9f\xc2\xa0\xc2\xad", "??\xc2\xa0?"},          /* C1; soft hyphen */
        {"\xe2\x80\xaa\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9", "????"}, /* embeddings, isolates */
        {"\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c\xe2\x80\xa8", "????"},     /* marks, a line's end */
        {"\xe2\x80\x8b\xef\xbb\xbf\xf3\xa0\x81\x81", "???"},          /* nothing to see */
        {"\xff\xc2", "??"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[64];

        snprintf(text, sizeof text, "%s", texts[i][0]);
        text[utf8_tame(text, strlen(text))] = '\0';
        assert_string_equal(text, texts[i][1]);
    }
    assert_int_equal(utf8_tame(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_have_texts),
        cmocka_unit_test(check_says_what_and_where),
        cmocka_unit_test(rng_gives_the_published_sequence),
        cmocka_unit_test(rng_below_is_in_range_and_even),
        cmocka_unit_test(rng_instances_are_independent),
        cmocka_unit_test(heap_agrees_with_brute_force),
        cmocka_unit_test(heap_sorts_by_key_then_sequence),
        cmocka_unit_test(heap_check_sees_disorder),
        cmocka_unit_test(heap_removing_a_stranger_aborts),
        cmocka_unit_test(lists_keep_order_and_allow_removal),
        cmocka_unit_test(a_ring_keeps_its_order_however_it_wraps),
        cmocka_unit_test(allocation_never_returns_null),
        cmocka_unit_test(blobs_live_as_long_as_their_references),
        cmocka_unit_test(quantiles_interpolate),
        cmocka_unit_test(log_levels_are_read),
        cmocka_unit_test(log_writes_one_line_per_event),
        cmocka_unit_test(log_lines_may_be_json),
        cmocka_unit_test(log_lines_of_one_kind_have_a_limit),
        cmocka_unit_test(log_lines_of_many_kinds_have_a_limit_each),
        cmocka_unit_test(log_cuts_what_is_too_long),
        cmocka_unit_test(what_is_not_utf8_is_mended),
        cmocka_unit_test(a_text_is_cut_between_characters),
        cmocka_unit_test(what_acts_on_a_terminal_is_tamed),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
