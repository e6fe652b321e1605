/* hawk down: drains the whole cluster or some nodes, waits, and stops them. */
#include "cli/commands.h"
#include "cli/leaving_nodes.h"
#include "cli/print.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRACE_US (60 * US_PER_S)
/* Time for a node to stop: it ends running tasks, which takes the worker's kill_grace, and says good-bye. */
#define STOP_US (30 * US_PER_S)
#define POLL_MS 50

struct down_options {
    struct common_options common;
    int64_t grace_us;
    bool yes;
};

const struct flag down_flags[] = {
    FLAG(DURATION, struct down_options, grace_us, "grace", 0, "TIME",
         "how long their jobs and tasks may take to end; default: 60s"),
    FLAG(BOOL, struct down_options, yes, "yes", 'y', NULL,
         "answer yes: stop the whole cluster, or a `hawk up` with unfinished jobs"),
    {0},
};

struct down {
    struct session s;
    const struct down_options *o;
    struct leaving_nodes nodes;
    bool all, embedded, without_central, failed;
    bool central_stopped;
};

static int failed_down(struct down *d, int err)
{
    if (err != HAWK_ECANCELLED)
        return session_failed(&d->s);
    say_error("down",
              "interrupted: what was drained stays so: `hawk undrain NODE` takes it back, `hawk down` "
              "goes on");
    return exit_code_of_signal(SIGINT);
}

/* ---- Whom ---- */

/* Whether the words name the node, or there are none. */
static bool is_meant(const struct api_node *n, int argc, char **argv)
{
    char id[16];
    snprintf(id, sizeof id, "%u", n->node);
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], n->name) == 0 || strcmp(argv[i], id) == 0)
            return true;
    return argc == 0;
}

/* For the whole cluster: when all nodes that run have had the time to join a central that has just started. */
static int list_nodes(const struct down *d, struct api_list_nodes_reply *reply)
{
    char wait[DURATION_TEXT];
    int err = client_list_nodes(d->s.client, reply);
    if (err || !d->all || reply->embedded || !reply->settles_in_us)
        return err;
    if (d->s.mode == OUTPUT_TABLE)
        fprintf(stderr, "central has just started: its nodes have %s to come back\n",
                duration_text(wait, reply->settles_in_us));
    poll(NULL, 0, (int)(reply->settles_in_us / US_PER_MS) + 1);
    api_free(&api_list_nodes_reply_type, reply);
    return client_list_nodes(d->s.client, reply);
}

static int choose_nodes(struct down *d, int argc, char **argv)
{
    struct api_list_nodes_reply reply;
    if (list_nodes(d, &reply))
        return session_failed(&d->s);
    d->embedded = reply.embedded;
    for (uint32_t i = 0; i < reply.nodes_n; i++)
        if (is_meant(&reply.nodes[i], argc, argv))
            leaving_nodes_add(&d->nodes, &reply.nodes[i], 1);
    int exit_code = HAWK_EXIT_OK;
    for (int i = 0; i < argc && !exit_code; i++) {
        bool known = false;
        for (uint32_t k = 0; k < reply.nodes_n; k++)
            known |= is_meant(&reply.nodes[k], 1, argv + i) &&
                     strcmp(reply.nodes[k].role, role_text(ROLE_CENTRAL)) != 0;
        if (known)
            continue;
        bool central = strcmp(argv[i], role_text(ROLE_CENTRAL)) == 0;
        say_error("down",
                  central ? "central is stopped last, with the whole cluster (`hawk down`)%s"
                          : "no node %s is there (`hawk nodes` lists those that are)",
                  central ? "" : argv[i]);
        exit_code = central ? HAWK_EXIT_USAGE : HAWK_EXIT_UNREACHABLE;
    }
    api_free(&api_list_nodes_reply_type, &reply);
    return exit_code;
}

/* Reads the answer to the question on stderr. */
static int answer_taken(void)
{
    char answer[16] = "";
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return HAWK_EXIT_OK;
    say_error("down", "nothing was stopped");
    return HAWK_EXIT_USAGE;
}

/* The jobs of `hawk up` end with it. Without jobs there is nothing to lose, and no question. */
static int confirm_embedded(struct down *d)
{
    const struct client_job_query q = {.states = JOB_STATES_UNFINISHED};
    struct api_list_jobs_reply jobs;
    int err = client_list_jobs(d->s.client, &q, &jobs);
    uint32_t n = jobs.jobs_n;
    api_free(&api_list_jobs_reply_type, &jobs);
    if (err)
        return session_failed(&d->s);
    if (n == 0)
        return HAWK_EXIT_OK;
    if (!isatty(STDIN_FILENO) || d->s.mode != OUTPUT_TABLE)
        return usage_error(
            "down: %u unfinished job%s of `hawk up` would end with it: say --yes, or wait for %s "
            "(`hawk wait all`)",
            n, PLURAL(n), n == 1 ? "it" : "them");
    fprintf(stderr, "stop `hawk up`, and end %u unfinished job%s with it? [y/N] ", n, PLURAL(n));
    return answer_taken();
}

static int confirm_down(struct down *d)
{
    uint32_t dists = 0, workers = 0;
    if (d->o->yes || !d->all)
        return HAWK_EXIT_OK;
    if (d->embedded)
        return confirm_embedded(d);
    for (uint32_t i = 0; i < d->nodes.n; i++)
        dists += d->nodes.v[i].dist;
    if (!isatty(STDIN_FILENO) || d->s.mode != OUTPUT_TABLE)
        return usage_error("down: this stops the whole cluster: say --yes, or name nodes");
    workers = d->nodes.n - dists;
    fprintf(stderr, "stop the whole cluster%s %u dist%s and %u worker%s? [y/N] ",
            d->without_central ? " but central, which is away:" : ", central,", dists, PLURAL(dists), workers,
            PLURAL(workers));
    return answer_taken();
}

/* ---- Draining ---- */

static void note_problem(struct down *d, struct leaving_node *v, const char *why)
{
    free(v->problem);
    v->problem = xstrdup(why);
    d->failed = true;
    say_error("down", "%s", why);
}

static int drain_names(struct down *d, const char **names, uint32_t n)
{
    const struct api_drain_request r = {.nodes = names, .nodes_n = n, .until_restart = true};
    struct api_drain_reply reply;
    int err = n ? client_drain(d->s.client, &r, &reply) : 0;
    if (!err && n)
        api_free(&api_drain_reply_type, &reply);
    return err;
}

static bool ends_all(int err) { return err == HAWK_EUNAVAILABLE || err == HAWK_EDENIED; }

/* HAWK_EIO: the nodes are drained, though not in central's journal. */
static void say_undrained(struct down *d, int err)
{
    say_warning("down", "%s: %s", err == HAWK_EIO ? "drained" : "not waited for", client_error(d->s.client));
}

static int drain_one_by_one(struct down *d, const char **names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int err = drain_names(d, names + i, 1);
        if (ends_all(err))
            return err;
        if (err)
            say_undrained(d, err);
    }
    return 0;
}

/* Drains the nodes of one role together or, if central refuses one of several, one by one. A node that cannot be
 * drained is stopped all the same; whoever may drain none may stop none. */
static int drain_nodes(struct down *d, enum leaving_who who)
{
    const char **names = xcalloc(d->nodes.n + 1, sizeof *names);
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->nodes.n; i++)
        if (leaving_node_is(&d->nodes.v[i], who))
            names[n++] = d->nodes.v[i].name;
    int err = drain_names(d, names, n);
    if (err && !ends_all(err) && n > 1 && err != HAWK_EIO) {
        err = drain_one_by_one(d, names, n);
    } else if (err && !ends_all(err)) {
        say_undrained(d, err);
        err = 0;
    }
    free(names);
    return err;
}

/* Waits for dists or for workers until end_us. Says so after a second, which nodes without work do not need. */
static int wait_drained(struct down *d, enum leaving_who who, int64_t end_us)
{
    int64_t left_us = end_us - monotonic_us(), first_us = left_us < US_PER_S ? left_us : US_PER_S;
    char names[300], grace[32];
    int err = leaving_nodes_wait(&d->s, &d->nodes, who, LEAVING_DRAINED, first_us > 0 ? first_us : 0);
    left_us = end_us - monotonic_us();
    if (err != HAWK_ETIMEOUT || left_us <= 0)
        return err;
    if (d->s.mode == OUTPUT_TABLE)
        fprintf(stderr, "waiting for the %s of %s to end, until --grace (%s) is over\n",
                who == LEAVING_DISTS ? "jobs" : "tasks",
                leaving_nodes_names(names, sizeof names, &d->nodes, who, LEAVING_DRAINED),
                duration_format(grace, sizeof grace, d->o->grace_us));
    return leaving_nodes_wait(&d->s, &d->nodes, who, LEAVING_DRAINED, left_us);
}

/* Drains dists first, since their jobs need the workers. Then the workers give central's tasks back to its
 * journal. */
static int drain_all(struct down *d)
{
    static const enum leaving_who order[] = {LEAVING_DISTS, LEAVING_WORKERS};
    int64_t end_us = monotonic_us() + d->o->grace_us;
    char names[300], grace[32];
    int err = 0;
    for (int i = 0; i < 2 && !err; i++) {
        err = drain_nodes(d, order[i]);
        if (!err)
            err = wait_drained(d, order[i], end_us);
        if (err != HAWK_ETIMEOUT)
            continue;
        err = 0;
        say_warning("down", "after %s %s still had work: what runs there is ended",
                    duration_format(grace, sizeof grace, d->o->grace_us),
                    leaving_nodes_names(names, sizeof names, &d->nodes, order[i], LEAVING_DRAINED));
    }
    return err;
}

/* ---- Stopping ---- */

/* Finds the node that central's text "NAME: why" is about. */
static void take_problem(struct down *d, const char *text)
{
    for (uint32_t i = 0; i < d->nodes.n; i++) {
        size_t len = strlen(d->nodes.v[i].name);
        if (strncmp(text, d->nodes.v[i].name, len) == 0 && text[len] == ':')
            note_problem(d, &d->nodes.v[i], text);
    }
}

/* Central forgets a node that it has not heard for long_lease. */
static void note_lost(struct down *d, enum leaving_who who)
{
    char why[400];
    for (uint32_t i = 0; i < d->nodes.n; i++) {
        struct leaving_node *v = &d->nodes.v[i];
        if (!leaving_node_is(v, who) || !v->lost || v->problem)
            continue;
        snprintf(why, sizeof why,
                 "%.255s: it does not answer and did not say that it ended: it may still run",
                 CLEAN(v->name));
        note_problem(d, v, why);
    }
}

static int stop_nodes(struct down *d, enum leaving_who who)
{
    const char **names = xcalloc(d->nodes.n + 1, sizeof *names);
    struct api_stop_request r = {.nodes = names, .now = true};
    struct api_stop_reply reply;
    char left[300];
    for (uint32_t i = 0; i < d->nodes.n; i++)
        if (leaving_node_is(&d->nodes.v[i], who) && !d->nodes.v[i].gone && !d->nodes.v[i].lost)
            names[r.nodes_n++] = d->nodes.v[i].name;
    int err = r.nodes_n ? client_stop(d->s.client, &r, &reply) : 0;
    if (!err && r.nodes_n) {
        for (uint32_t i = 0; i < reply.failed_n; i++)
            take_problem(d, reply.failed[i]);
        api_free(&api_stop_reply_type, &reply);
        err = leaving_nodes_wait(&d->s, &d->nodes, who, LEAVING_GONE, STOP_US);
    }
    free(names);
    note_lost(d, who);
    if (err != HAWK_ETIMEOUT)
        return err;
    say_error("down", "told to stop, and still there: %s",
              leaving_nodes_names(left, sizeof left, &d->nodes, who, LEAVING_GONE));
    d->failed = true;
    return 0;
}

/* Stops central itself, or all of `hawk up`, and waits until nothing answers there any more. */
static int stop_central(struct down *d)
{
    const char *name = role_text(ROLE_CENTRAL);
    const struct api_stop_request r = {.nodes = &name, .nodes_n = 1};
    struct api_stop_reply reply;
    struct api_list_nodes_reply nodes;
    int err = client_stop(d->s.client, &r, &reply);
    if (err)
        return err;
    api_free(&api_stop_reply_type, &reply);
    for (int64_t end_us = monotonic_us() + STOP_US; monotonic_us() < end_us; poll(NULL, 0, POLL_MS)) {
        if (client_list_nodes(d->s.client, &nodes)) {
            d->central_stopped = true;
            return 0;
        }
        api_free(&api_list_nodes_reply_type, &nodes);
    }
    say_error("down", "%s was told to stop, and still answers", d->embedded ? "`hawk up`" : "central");
    d->failed = true;
    return 0;
}

/* Central is not to be reached: without --grace 0, no node is stopped unawares. */
static int stop_without_central(struct down *d, int argc, char **argv)
{
    struct api_list_nodes_reply nodes;
    session_failed(&d->s);
    if (d->o->grace_us > 0 && client_list_nodes(d->s.client, &nodes)) {
        say_error("down",
                  "nobody answers who knows the nodes: start a dist, or name central's address by --dist");
        return HAWK_EXIT_UNREACHABLE;
    }
    if (d->o->grace_us > 0) {
        api_free(&api_list_nodes_reply_type, &nodes);
        say_error("down",
                  "without central nothing can be drained: start it, or stop the nodes a dist knows, and "
                  "what runs there, with --grace 0");
        return HAWK_EXIT_UNREACHABLE;
    }
    d->failed = true;
    int exit_code = choose_nodes(d, argc, argv);
    if (!exit_code)
        exit_code = confirm_down(d);
    for (int dists = 0; dists < 2 && !exit_code; dists++) /* the dist that answered goes last */
        for (uint32_t i = 0; i < d->nodes.n; i++) {
            struct leaving_node *v = &d->nodes.v[i];
            if (v->dist != dists)
                continue;
            v->gone = client_stop_node(d->s.client, v->address, true) == 0;
            if (!v->gone)
                note_problem(d, v, client_error(d->s.client));
        }
    return exit_code;
}

/* ---- All of it ---- */

static void print_stopped(const struct down *d)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < d->nodes.n && !d->embedded; i++) {
        const struct leaving_node *v = &d->nodes.v[i];
        if (d->s.mode == OUTPUT_JSON)
            json_array_append_new(list, json_pack("{s:o, s:s, s:b, s:b}", "name", json_text(v->name), "role",
                                                  role_text(v->dist ? ROLE_DIST : ROLE_WORKER), "stopped",
                                                  v->gone, "drained", v->drained));
        else if (d->s.mode == OUTPUT_TABLE)
            printf("%s %s: %s\n", role_text(v->dist ? ROLE_DIST : ROLE_WORKER), CLEAN(v->name),
                   v->gone ? "stopped" : "not stopped");
    }
    if (d->s.mode == OUTPUT_JSON)
        document_print(json_pack("{s:O, s:b}", "nodes", list, "central_stopped", d->central_stopped));
    else if (d->s.mode == OUTPUT_TABLE && d->central_stopped)
        printf("%s\n",
               d->embedded ? "hawk up: stopped" : "central: stopped; standbys, if it has any, were told to");
    json_decref(list);
}

static int stop_in_order(struct down *d)
{
    int err = d->embedded ? 0 : drain_all(d);
    if (!err && !d->embedded)
        err = stop_nodes(d, LEAVING_WORKERS);
    if (!err && !d->embedded)
        err = stop_nodes(d, LEAVING_DISTS);
    if (!err && d->all)
        err = stop_central(d);
    return err;
}

static int take_down(struct down *d, int argc, char **argv)
{
    int exit_code = session_open(&d->s, "down", &d->o->common);
    if (exit_code)
        return exit_code;
    d->all = argc == 0;
    int err = client_use_central(d->s.client);
    if (err) {
        d->without_central = true;
        exit_code = stop_without_central(d, argc, argv);
    } else {
        exit_code = choose_nodes(d, argc, argv);
        if (!exit_code)
            exit_code = confirm_down(d);
        if (!exit_code && d->embedded && !d->all)
            exit_code = usage_error(
                "down: the nodes of `hawk up` are one process: `hawk drain` them, or stop it all");
        if (!exit_code && (err = stop_in_order(d)))
            exit_code = failed_down(d, err);
    }
    if (exit_code)
        return exit_code;
    print_stopped(d);
    return d->failed ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}

int down_main(int argc, char **argv)
{
    struct down_options o = {.grace_us = GRACE_US};
    struct down d = {.o = &o};
    int first = flags_parse(argv[0], down_flags, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    int exit_code = take_down(&d, argc - first, argv + first);
    session_close(&d.s);
    leaving_nodes_free(&d.nodes);
    return exit_code;
}
