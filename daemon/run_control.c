/* Which tasks `hawk run` runs, when they start, and when it stops. */
#include "base/entropy.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/document.h"
#include "cli/print.h"
#include "cli/quote.h"
#include "cli/show.h"
#include "daemon/cores.h"
#include "daemon/run.h"

#include <stdlib.h>
#include <string.h>

/* ---- Flags ---- */

static int read_slots(struct run *r)
{
    const char *text = r->options.slots;
    uint64_t cores = cores_usable(), n = cores;
    size_t len = text ? strlen(text) : 0;
    char number[16];
    bool share = len > 1 && len < sizeof number && text[len - 1] == '%';
    if (share) {
        snprintf(number, sizeof number, "%.*s", (int)len - 1, text);
        if (u64_parse(number, 1, 100000, &n))
            goto malformed;
        n = n * cores / 100;
        n = n < 1 ? 1 : n > LIMIT_SLOTS ? LIMIT_SLOTS : n;
    } else if (text && u64_parse(text, 1, LIMIT_SLOTS, &n)) {
        goto malformed;
    }
    r->slots = (uint32_t)n;
    if (r->desc->max_running && r->desc->max_running < r->slots)
        r->slots = r->desc->max_running;
    r->desc->max_running = 0; /* the slots are its limit, also of a list that comes by and by */
    return 0;
malformed:
    return usage_error(
        "run: --slots takes a whole number within 1 and %u, or a share of the cores like 50%%, not '%s'",
        LIMIT_SLOTS, text);
}

/* WHEN,WHICH=NUMBER */
static bool halt_parse(const char *text, struct run_halt *h)
{
    static const char *const words[] = {
        [HALT_FAIL] = "fail=", [HALT_SUCCESS] = "success=", [HALT_DONE] = "done="};
    uint64_t n = 0;
    h->now = strncmp(text, "now,", 4) == 0;
    if (!h->now && strncmp(text, "soon,", 5) != 0)
        return false;
    text = strchr(text, ',') + 1;
    for (int on = HALT_FAIL; on <= HALT_DONE; on++) {
        size_t len = strlen(words[on]);
        if (strncmp(text, words[on], len) != 0)
            continue;
        h->on = on;
        if (strchr(text, '%'))
            return share_parse(text + len, &h->ppm) == 0 && h->ppm > 0;
        if (u64_parse(text + len, 1, LIMIT_TASKS_PER_JOB, &n))
            return false;
        h->n = (uint32_t)n;
        return true;
    }
    return false;
}

int run_control_read(struct run *r)
{
    const struct run_options *o = &r->options;
    int exit_code = read_slots(r);
    if (exit_code)
        return exit_code;
    if (o->halt && strcmp(o->halt, "never") != 0 && !halt_parse(o->halt, &r->halt))
        return usage_error(
            "run: --halt takes never, or now or soon with fail, success or done and a number or share "
            "of tasks, like now,fail=1 or soon,fail=10%%, not '%s'",
            o->halt);
    if (o->keep_order && o->line_buffer)
        return usage_error("run: --keep-order prints tasks whole, --line-buffer by lines: give one");
    if (o->seed != UINT32_MAX && !o->shuf)
        return usage_error("run: --seed goes with --shuf");
    if ((o->tag || o->line_buffer) && o->output && strcmp(o->output, "json") == 0)
        return usage_error("run: --%s is about text, and --output json prints a document",
                           o->tag ? "tag" : "line-buffer");
    return 0;
}

/* ---- What would run ---- */

/* The command of a task as its worker makes it. */
static bool fill_command(struct strings *argv, const struct run *r, const struct template *t, uint32_t task)
{
    struct blob *arg = job_desc_arg(r->desc, task);
    struct template_input in = exec_input(r->desc, task, arg ? arg->data : NULL, arg ? arg->len : 0);
    struct text text = {0};
    size_t *at = xcalloc((size_t)template_count(t) + 1, sizeof *at);
    char why[TEMPLATE_WHY_MAX] = "it is too long";
    const char *word = r->desc->argv.data;
    bool starts = true;
    if (!arg)
        for (uint32_t i = 0; i < r->desc->argv.n; i++, word += strlen(word) + 1)
            strings_add(argv, word);
    else if (template_fill(t, &in, UINT32_MAX / 2, &text, at, why)) {
        say_warning("run", "task %u would not start: %s", r->desc->first_index + task, why);
        starts = false;
    } else if (arg->len > exec_input_max()) {
        say_warning("run", "task %u would not start: its input has %u bytes, and Linux takes at most %zu",
                    r->desc->first_index + task, arg->len, exec_input_max());
        starts = false;
    } else {
        for (uint32_t i = 0; i < template_count(t); i++)
            strings_add(argv, text.data + at[i]);
    }
    free(at);
    text_free(&text);
    blob_drop(arg);
    return starts;
}

static void print_command(const struct strings *argv)
{
    char *text = quote_command(argv);
    puts(text);
    free(text);
}

static void print_command_json(const struct run *r, const struct strings *argv, uint32_t task, bool first)
{
    json_t *o = json_pack("{s:I, s:I, s:o}", "task", (json_int_t)task, "index",
                          (json_int_t)r->desc->first_index + task, "command", words_json(argv));
    fputs(first ? "\n    " : ",\n    ", stdout);
    json_write(o, stdout, JSON_COMPACT);
    json_decref(o);
}

static uint32_t *random_order(uint32_t n, uint32_t seed)
{
    struct rng rng;
    uint32_t *order = xmalloc(((size_t)n + 1) * sizeof *order);
    rng_seed(&rng, seed);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)rng_below(&rng, (uint64_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    return order;
}

int run_dry(const struct run *r)
{
    const struct run_options *o = &r->options;
    const uint8_t *before = r->first ? r->first->before : NULL;
    uint32_t printed = 0, refused = 0;
    uint32_t *order = o->shuf && o->seed != UINT32_MAX ? random_order(r->desc->tasks, o->seed) : NULL;
    struct template *t = exec_template(r->desc);
    if (r->json) {
        document_begin();
        fputs("\"commands\": [", stdout);
    }
    for (uint32_t at = 0; r->first && at < r->desc->tasks; at++) {
        uint32_t i = order ? order[at] : at;
        struct strings argv = {0};
        if (before && before[i] != BEFORE_NOTHING)
            continue;
        if (!fill_command(&argv, r, t, i))
            refused++;
        else if (r->json)
            print_command_json(r, &argv, i, printed++ == 0);
        else
            print_command(&argv);
        free(argv.data);
    }
    if (r->json) {
        fputs("\n  ]", stdout);
        document_finish();
    }
    template_free(t);
    free(order);
    return refused ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}

void run_shuffle(struct run *r, struct resubmit *s)
{
    if (!r->options.shuf)
        return;
    if (r->options.seed == UINT32_MAX) {
        r->options.seed = (uint32_t)entropy() >> 1;
        if (!r->options.quiet)
            fprintf(stderr, "hawk run: shuffled: --seed %u gives the same order\n", r->options.seed);
    }
    s->order = random_order(r->desc->tasks, r->options.seed);
}

/* ---- Starts ---- */

static void on_delay(void *arg) {} /* the turn's hook does the work */

void run_control_start(struct run *r)
{
    loop_timer_init(&r->delay, on_delay, r);
    if (r->options.delay_us)
        embedded_hold(r->cluster);
}

void run_control_stop(struct run *r) { loop_timer_clear(r->loop, &r->delay); }

void run_control_turn(struct run *r)
{
    int64_t now = loop_now(r->loop);
    /* What waits then, also for another try, would be held for ever. */
    if (r->halting && !r->halt.now && r->parts_going && embedded_running(r->cluster) == 0)
        run_cancel(r);
    if (!r->options.delay_us || r->halting || embedded_held(r->cluster) == 0)
        return;
    if (now >= r->next_start_us) {
        embedded_go(r->cluster, 1);
        r->next_start_us = now + r->options.delay_us;
    }
    if (embedded_held(r->cluster) > 0)
        loop_timer_set(r->loop, &r->delay, r->next_start_us);
}

/* ---- Halting ---- */

static bool halt_reached(const struct run *r)
{
    const struct run_halt *h = &r->halt;
    uint32_t ended = r->ended_well + r->ended_badly;
    uint32_t n = h->on == HALT_FAIL ? r->ended_badly : h->on == HALT_SUCCESS ? r->ended_well : ended;
    if (h->on == HALT_NEVER)
        return false;
    if (h->n)
        return n >= h->n;
    if (h->on == HALT_DONE && (r->lines || r->cut)) /* nobody knows how many that is */
        return false;
    if (h->on == HALT_DONE) /* of all tasks: of those that ended it would be all */
        ended = r->total - r->done_before - r->failed_before;
    return n > 0 && (ended >= HALT_LEAST || (!r->lines && ended == r->total)) &&
           (uint64_t)n * 1000000 >= (uint64_t)h->ppm * ended;
}

void run_halt_look(struct run *r, const struct msg_task_event *m)
{
    bool halting = r->halting;
    r->ended_well += m->state == TASK_DONE;
    r->ended_badly += m->state != TASK_DONE && m->state != TASK_CANCELLED;
    if (m->state != TASK_CANCELLED && !halting)
        r->halting = halt_reached(r);
    if (r->halting && !halting)
        run_parts_stop_reading(r);
    if (r->halting && !halting && r->halt.now)
        run_cancel(r);
    else if (r->halting && !halting)
        embedded_hold(r->cluster);
    if (r->max_fails && m->state != TASK_CANCELLED && r->ended_badly == r->max_fails) {
        run_parts_stop_reading(r);
        run_cancel(r);
    }
}
