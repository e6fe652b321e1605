/* The replay's engine: one thread, every call asynchronous. It submits jobs when they are due, finds dists
 * that are lost, and hears interruptions; jobs.c has the way of one job. */
#include "replay/run.h"
#include "replay/jobs.h"

#include "base/list.h"
#include "base/mem.h"
#include "cli/print.h"
#include "libhawk/beat_streams.h"
#include "libhawk/client_impl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_US (250 * US_PER_MS) /* between attempts for a broken job */
#define DOWN_US (2 * US_PER_S)     /* a dist that was lost gets no jobs for this time */
/* After this many missed beats the replay counts a dist as lost and moves its jobs. Other clients count
 * fewer: a replay often loads its own machine so much that beats come late. */
#define MISSED_BEATS 30
/* A dist refuses a connection's calls while the requests of 300 others have not come: so many submissions are under way
 * at most, and so many watches begin per WATCHES_US. */
#define SUBMITS_MAX 100u
#define WATCHES_AT_ONCE 50u
#define WATCHES_US (20 * US_PER_MS)
#define CANCEL_WAIT_US (15 * US_PER_S)  /* after an interruption: time for the cancelled jobs to end */
#define PROGRESS_US (200 * US_PER_MS)   /* on a terminal */
#define PROGRESS_LOG_US (10 * US_PER_S) /* where stderr is a file */

/* --- dists that are lost --------------------------------------------------------------------------- */

static void on_dist_lost(void *arg, struct channel *ch, grpc_status_code status, const char *text)
{
    struct run *r = arg;
    int64_t now = loop_now(r->client->loop);

    for (uint32_t i = 0; i < r->targets_n; i++)
        if (r->targets[i].channel == ch)
            r->targets[i].down_us = now + DOWN_US;
    for (uint32_t i = 0; i < r->plan->n; i++) {
        struct job *j = &r->jobs[i];
        const struct target *at = j->state == MOVING ? j->to : j->target;

        if (j->state == PLANNED || j->state == FINISHED || at->channel != ch)
            continue;
        replay_job_drop_calls(j);
        if (j->broken_us == TIME_NEVER)
            j->broken_us = now;
        if (j->state != BROKEN)
            replay_job_set_state(j, BROKEN);
    }
    r->retry_us = now;
}

/* Dists that were lost for long enough count as there again, until they are lost again. */
static void look_at_targets(struct run *r)
{
    int64_t now = loop_now(r->client->loop);

    for (uint32_t i = 0; i < r->targets_n; i++)
        if (r->targets[i].down_us && r->targets[i].down_us <= now) {
            r->targets[i].down_us = 0;
            beat_streams_add(&r->beat_streams, r->targets[i].channel);
        }
    beat_streams_turn(&r->beat_streams);
}

/* --- the run --------------------------------------------------------------------------------------- */

static void on_interrupt(void *arg, int signo)
{
    struct replay_result *result = arg;
    struct run *r = result->run;

    if (!r || result->interrupted) {
        if (r)
            r->stop_now = true;
        result->interrupted = signo;
        return;
    }
    uint32_t left = r->submitted - r->counts[FINISHED];
    fprintf(stderr, "%shawk: interrupted: cancelling %u job%s; once more to leave %s behind\n",
            r->terminal && !r->options->quiet ? "\r\033[K" : "", left, PLURAL(left),
            left == 1 ? "it" : "them");
    r->result->interrupted = signo;
    r->give_up_us = loop_now(r->client->loop) + CANCEL_WAIT_US;
    for (struct job *j; (j = replay_job_first(r, PLANNED));)
        replay_job_finish(j, REPLAY_NOT_SUBMITTED, NULL);
    for (uint32_t i = 0; i < r->plan->n; i++)
        if (r->jobs[i].state != FINISHED && r->jobs[i].state != SUBMITTING && r->jobs[i].state != MOVING &&
            !job_eq(r->jobs[i].id, JOB_NONE))
            replay_job_cancel(&r->jobs[i]);
}

static void print_progress(struct run *r)
{
    const struct replay_result *result = r->result;
    int64_t now = loop_now(r->client->loop);

    r->progress_us = now + (r->terminal ? PROGRESS_US : PROGRESS_LOG_US);
    if (r->options->quiet)
        return;
    fprintf(stderr, "%s%lld s, arrivals last %lld s: %u of %u jobs submitted, %u ended, %u under way%s",
            r->terminal ? PROGRESS_BEGIN : "", (long long)((now - r->start_us) / US_PER_S),
            (long long)(r->plan->last_arrival_us / US_PER_S), r->submitted, r->plan->n,
            result->ends[REPLAY_ENDED],
            r->submitted - (r->counts[FINISHED] - result->ends[REPLAY_NOT_SUBMITTED]),
            r->terminal ? PROGRESS_END : "\n");
}

/* Does what is due now. Returns when the next thing is due. */
static int64_t do_what_is_due(struct run *r)
{
    int64_t now = loop_now(r->client->loop), next;
    struct job *j;

    look_at_targets(r);
    while ((j = replay_job_first(r, PLANNED)) && r->start_us + j->plan->at_us <= now &&
           r->counts[SUBMITTING] < SUBMITS_MAX)
        replay_job_submit(j);
    /* At SUBMITS_MAX an answer wakes the loop. */
    next = j && r->counts[SUBMITTING] < SUBMITS_MAX ? r->start_us + j->plan->at_us : TIME_NEVER;
    if (now >= r->watch_us && replay_jobs_watch(r, WATCHES_AT_ONCE) == WATCHES_AT_ONCE)
        r->watch_us = now + WATCHES_US;
    if (now < r->watch_us)
        next = earlier(next, r->watch_us);
    if (now >= r->retry_us) {
        list_foreach(&r->lists[BROKEN], n, following)
            replay_job_go_on(container_of(n, struct job, node));
        r->retry_us = now + RETRY_US;
    }
    if (now >= r->progress_us)
        print_progress(r);
    next = earlier(next, now + BEAT_STREAMS_TURN_US);
    if (r->counts[BROKEN])
        next = earlier(next, r->retry_us);
    return earlier(earlier(next, r->progress_us), r->give_up_us);
}

/* Finds the live dists, in the order of their ids, so that round robin is the same in every run. */
static int find_targets(struct run *r)
{
    struct api_list_nodes_reply nodes;
    int err = client_list_nodes(r->client, &nodes);

    if (err)
        return err;
    r->targets = xcalloc(nodes.nodes_n + 1, sizeof *r->targets);
    for (uint32_t i = 0; i < nodes.nodes_n && !err; i++) {
        const struct api_node *n = &nodes.nodes[i];
        struct target *t = &r->targets[r->targets_n];

        if (strcmp(n->role, role_text(ROLE_DIST)) != 0 || strcmp(n->state, member_state_text(MEMBER_UP)) != 0)
            continue;
        t->node = (node_id_t){n->node};
        err = client_node_channel(r->client, ROLE_DIST, t->node, &t->channel);
        r->targets_n++;
    }
    api_free(&api_list_nodes_reply_type, &nodes);
    if (!err && r->targets_n == 0)
        err = client_fail(r->client, HAWK_ENOT_FOUND,
                          "the cluster has no dist that is up (`hawk nodes` lists its nodes)");
    return err;
}

static void run_init(struct run *r)
{
    const struct replay_plan *p = r->plan;

    for (int i = 0; i < STATE_COUNT; i++)
        list_init(&r->lists[i]);
    r->jobs = xcalloc(p->n, sizeof *r->jobs);
    r->result->jobs = xcalloc(p->n, sizeof *r->result->jobs);
    r->result->wait_us = xmalloc(p->tasks * sizeof *r->result->wait_us);
    r->result->run_us = xmalloc(p->tasks * sizeof *r->result->run_us);
    memset(r->result->wait_us, -1, p->tasks * sizeof *r->result->wait_us);
    memset(r->result->run_us, -1, p->tasks * sizeof *r->result->run_us);
    r->told = xcalloc(p->tasks, sizeof *r->told);
    for (uint32_t i = 0; i < p->n; i++) {
        r->jobs[i] = (struct job){
            .run = r, .plan = &p->jobs[i], .result = &r->result->jobs[i], .broken_us = TIME_NEVER};
        list_push_tail(&r->lists[PLANNED], &r->jobs[i].node);
    }
    r->counts[PLANNED] = p->n;
    r->beat_streams = (struct beat_streams){
        .loop = r->client->loop, .lost = on_dist_lost, .arg = r, .missed = MISSED_BEATS};
    for (uint32_t i = 0; i < r->targets_n; i++)
        beat_streams_add(&r->beat_streams, r->targets[i].channel);
    r->terminal = stderr_redraws();
}

/* Ends calls and streams that are still open after an interruption. */
static void run_end(struct run *r)
{
    for (uint32_t i = 0; r->jobs && i < r->plan->n; i++) {
        struct job *j = &r->jobs[i];

        replay_job_drop_calls(j);
        if (j->state != FINISHED)
            replay_job_finish(j, REPLAY_LOST, "interrupted before it had ended");
    }
    beat_streams_free(&r->beat_streams);
    if (r->terminal && !r->options->quiet)
        fputs("\r\033[K", stderr);
    free(r->jobs);
    free(r->told);
}

int replay_run(struct client *client, const struct replay_plan *p, const struct replay_run_options *o,
               struct replay_result *result)
{
    struct run r = {.client = client, .plan = p, .options = o, .result = result, .give_up_us = TIME_NEVER};
    int err = find_targets(&r);

    *result = (struct replay_result){.run = &r, .dists = r.targets_n};
    if (err)
        goto out;
    if (loop_signal(client->loop, SIGINT, on_interrupt, result) ||
        loop_signal(client->loop, SIGTERM, on_interrupt, result)) {
        err = client_fail(client, HAWK_EEXISTS, "another loop of this process handles signals");
        goto out;
    }
    run_init(&r);
    r.start_us = r.end_us = loop_now(client->loop);
    r.progress_us = r.start_us + (r.terminal ? 0 : PROGRESS_LOG_US);
    while (r.counts[FINISHED] < p->n && !r.stop_now && loop_now(client->loop) < r.give_up_us)
        loop_once(client->loop, do_what_is_due(&r));
    result->elapsed_us = r.end_us - r.start_us;
    run_end(&r);
out:
    free(r.targets);
    result->run = NULL;
    return err;
}

void replay_result_free(struct replay_result *r)
{
    free(r->jobs);
    free(r->wait_us);
    free(r->run_us);
    *r = (struct replay_result){0};
}
