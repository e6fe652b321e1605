/* Checks messages that came off the network. Every role relies on them (docs/protocol.md, ground rules). */
#include "base/err.h"
#include "base/units.h"
#include "msg/msg.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIMIT_ADDR_BYTES 255u
#define LIMIT_TEXT_BYTES 4096u /* an explanation for people */

/* ---- By kind: what holds of such a field in any message. Node ids, numbers and handles have no such rule. ---- */

static bool try_ok(struct try_id t)
{
    return job_id_ok(t.job) && t.task < LIMIT_TASKS_PER_JOB && t.epoch > 0;
}
static bool node_ok(node_id_t n) { return n.v <= NODE_CENTRAL.v; }
static bool time_ok(int64_t us) { return us >= 0 && us <= LIMIT_TIME_US; }
static bool desc_ok(const struct job_desc *d) { return !d || job_desc_check(d, NULL, 0) == 0; }
static bool spec_ok(const struct job_desc *d) { return !d || job_spec_check(d, NULL, 0) == 0; }

static bool tasks_ok(const struct task_set *s)
{
    if (!s)
        return true;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->v[i] >= LIMIT_TASKS_PER_JOB || (i > 0 && s->v[i] <= s->v[i - 1]))
            return false;
    return s->n > 0;
}

static bool text_ok(const struct blob *b, uint32_t max)
{
    return b && b->len <= max && !memchr(b->data, '\0', b->len);
}

static bool member_ok(const struct member *v)
{
    return v->node.v > 0 && v->node.v <= NODE_ID_MAX && v->slots <= LIMIT_SLOTS && v->role < ROLE_COUNT &&
           v->state < MEMBER_STATE_COUNT && v->general <= 1 && v->unsettled <= 1 &&
           text_ok(v->addr, LIMIT_ADDR_BYTES) && text_ok(v->name, LIMIT_NAME_BYTES) &&
           (!v->out_why || text_ok(v->out_why, LIMIT_TEXT_BYTES)) &&
           (!v->serves || text_ok(v->serves, LIMIT_NAME_BYTES));
}

static bool members_ok(const struct members *m)
{
    if (!m)
        return false;
    for (uint32_t i = 0; i < m->n; i++)
        if (!member_ok(&m->v[i]) || (i > 0 && m->v[i].node.v <= m->v[i - 1].node.v))
            return false;
    return true;
}

static bool policy_ok(struct policy p)
{
    return time_ok(p.cutoff_us) && p.short_share_ppm <= 1000000 && p.probe_ratio_milli <= 1000000 &&
           p.min_probes <= LIMIT_TASKS_PER_JOB;
}

#define OK_none(v) true
#define OK_job(v) job_id_ok(v)
#define OK_node(v) node_ok(v)
#define OK_try(v) try_ok(v)
#define OK_u8(v) true
#define OK_u16(v) true
#define OK_u32(v) true
#define OK_u64(v) true
#define OK_i32(v) true
#define OK_i64(v) time_ok(v) /* every signed 64-bit field is a duration */
#define OK_app(v) true
#define OK_policy(v) policy_ok(v)
#define OK_usage(v) true
#define OK_blob(v) true
#define OK_desc(v) desc_ok(v)
#define OK_spec(v) spec_ok(v)
#define OK_tasks(v) tasks_ok(v)
#define OK_members(v) members_ok(v)

static bool kinds_ok(const struct msg *m)
{
    /* The answer "nothing here" is the only one that names no job. */
    if (m->type == MSG_STEAL_LOOT && m->steal_loot.items == 0)
        return true;
    switch (m->type) {
#define FIELD(kind, field) &&OK_##kind(p->field)
#define X(NAME, name, tag)                                                                                   \
    case MSG_##NAME: {                                                                                       \
        const struct msg_##name *p = &m->name;                                                               \
        (void)p;                                                                                             \
        return true FIELDS_##name(FIELD);                                                                    \
    }
        WIRE_MESSAGES(X)
#undef X
#undef FIELD
    }
    return false;
}

/* ---- By message ---- */

static bool worker_ok(node_id_t n) { return n.v > 0 && n.v <= NODE_ID_MAX; }
static bool user_ok(const struct blob *b) { return !b || text_ok(b, LIMIT_NAME_BYTES); }
static bool flag_ok(uint8_t v) { return v <= 1; }
static bool result_ok(const struct blob *b) { return !b || b->len <= LIMIT_RESULT_BYTES; }

static bool join_ok(const struct msg_join *p)
{
    return text_ok(p->name, LIMIT_NAME_BYTES) && text_ok(p->addr, LIMIT_ADDR_BYTES) &&
           p->slots <= LIMIT_SLOTS && p->node.v <= NODE_ID_MAX &&
           (p->role == ROLE_DIST || p->role == ROLE_WORKER);
}

static bool one_member_ok(const struct msg_member *p)
{
    const struct member v = {.node = p->node,
                             .slots = p->slots,
                             .role = p->role,
                             .state = p->state,
                             .general = p->general,
                             .unsettled = p->unsettled,
                             .addr = p->addr,
                             .name = p->name,
                             .out_why = p->out_why,
                             .serves = p->serves};

    return member_ok(&v);
}

/* The mean is the sum over the number of tasks, rounded down. A sum that does not fit is INT64_MAX. */
static bool report_ok(const struct msg_job_report *p)
{
    __int128 least = (__int128)p->mean_us * p->tasks, most = least + p->tasks - 1;

    return text_ok(p->name, LIMIT_NAME_BYTES) && p->class < CLASS_COUNT && p->tasks > 0 &&
           p->tasks <= LIMIT_TASKS_PER_JOB && p->task_us <= INT64_MAX && (__int128)p->task_us <= most &&
           (p->task_us == INT64_MAX || (__int128)p->task_us >= least);
}

static bool long_submit_ok(const struct msg_long_submit *p)
{
    return p->desc && p->epoch > 0 && p->why < WHY_COUNT &&
           (!p->tasks || p->tasks->v[p->tasks->n - 1] < p->desc->tasks);
}

static bool finished_ok(const struct msg_task_finished *p)
{
    return p->id.attempt > 0 && p->outcome > OUTCOME_NONE && p->outcome < OUTCOME_COUNT &&
           flag_ok(p->stolen) && result_ok(p->result);
}

static bool app_ok(const struct msg_app *p)
{
    return text_ok(p->name, LIMIT_NAME_BYTES) && p->name->len > 0 && p->node.v <= NODE_ID_MAX &&
           flag_ok(p->on) && (!p->user || (text_ok(p->user, LIMIT_NAME_BYTES) && p->user->len > 0));
}

static bool loot_ok(const struct msg_steal_loot *p)
{
    return p->items == 0 || (p->index < p->items && p->count > 0 && worker_ok(p->dist));
}

/* Messages by which nodes describe themselves and control each other. */
static bool orders_ok(const struct msg *m)
{
    switch (m->type) {
    case MSG_DRAIN:
        return flag_ok(m->drain.on);
    case MSG_DRAINED:
        return flag_ok(m->drained.on) && flag_ok(m->drained.empty);
    case MSG_QUIT:
        return flag_ok(m->quit.now);
    case MSG_OUT_OF_SERVICE:
        return flag_ok(m->out_of_service.on) &&
               (!m->out_of_service.why || text_ok(m->out_of_service.why, LIMIT_TEXT_BYTES));
    case MSG_APP:
        return app_ok(&m->app);
    case MSG_SERVES:
        return text_ok(m->serves.user, LIMIT_NAME_BYTES) && m->serves.user->len > 0;
    case MSG_PARTITION:
        return flag_ok(m->partition.general);
    case MSG_LONG_WORK:
        return flag_ok(m->long_work.any);
    case MSG_PARKED:
        return flag_ok(m->parked.parked);
    case MSG_STUCK:
        return flag_ok(m->stuck.stuck);
    case MSG_STEAL_HINT:
        return worker_ok(m->steal_hint.victim) &&
               (!m->steal_hint.addr || text_ok(m->steal_hint.addr, LIMIT_ADDR_BYTES));
    case MSG_JOB_NUMBERS:
        return m->job_numbers.next > 0 && m->job_numbers.next <= JOB_SEQ_MAX + 1 &&
               (!m->job_numbers.receipts || m->job_numbers.receipts->len == sizeof(struct receipt_secret));
    default:
        return true;
    }
}

/* Checks that go beyond the kinds of fields. A message that is not listed needs none. */
static bool rules_ok(const struct msg *m)
{
    switch (m->type) {
    case MSG_JOIN:
        return join_ok(&m->join);
    case MSG_JOINED:
        return worker_ok(m->joined.node) && m->joined.heartbeat_us > 0 && m->joined.lease_us > 0 &&
               flag_ok(m->joined.draining);
    case MSG_MEMBERS:
        return flag_ok(m->members.workers_away);
    case MSG_REFUSED:
        return (!m->refused.why || m->refused.why->len <= LIMIT_TEXT_BYTES) && m->refused.err < 0;
    case MSG_MEMBER:
        return one_member_ok(&m->member);
    case MSG_ESTIMATE:
        return text_ok(m->estimate.name, LIMIT_NAME_BYTES);
    case MSG_JOB_REPORT:
        return report_ok(&m->job_report);
    case MSG_LONG_SUBMIT:
        return long_submit_ok(&m->long_submit);
    case MSG_LONG_ACCEPTED:
        return m->long_accepted.epoch > 0;
    case MSG_LONG_REFUSED:
        return m->long_refused.epoch > 0 && m->long_refused.err < 0;
    case MSG_LONG_CANCEL:
        return m->long_cancel.epoch > 0 && flag_ok(m->long_cancel.abandoned) && user_ok(m->long_cancel.user);
    case MSG_LONG_CANCEL_TASKS:
        return m->long_cancel_tasks.epoch > 0 && m->long_cancel_tasks.tasks &&
               user_ok(m->long_cancel_tasks.user);
    case MSG_LONG_WATCH:
        return m->long_watch.epoch > 0 && user_ok(m->long_watch.user);
    case MSG_LONG_HOLD:
        return m->long_hold.epoch > 0 && m->long_hold.on <= HOLD_FROM_BEFORE && user_ok(m->long_hold.user);
    case MSG_LONG_WATCHED:
        return m->long_watched.epoch > 0 && m->long_watched.err <= 0;
    case MSG_LONG_TASK: /* attempt 0: never placed */
        return m->long_task.state < TASK_STATE_COUNT && m->long_task.outcome < OUTCOME_COUNT;
    case MSG_LONG_MESSAGE:
        return m->long_message.text && m->long_message.text->len <= LIMIT_TEXT_BYTES;
    case MSG_LONG_RESULT:
        return m->long_result.result && result_ok(m->long_result.result);
    case MSG_TASK_ENQUEUE:
        return m->task_enqueue.desc && m->task_enqueue.id.attempt > 0;
    case MSG_TASK_RECALL:
        return m->task_recall.id.attempt > 0;
    case MSG_TASK_RETURNED:
        return m->task_returned.id.attempt > 0;
    case MSG_TASK_STARTED:
        return m->task_started.id.attempt > 0;
    case MSG_TASK_FINISHED:
        return finished_ok(&m->task_finished);
    case MSG_FINISH_ACK:
        return m->finish_ack.id.attempt > 0;
    case MSG_TASK_CANCEL:
        return m->task_cancel.id.attempt > 0;
    case MSG_TASK_OVERRUN:
        return m->task_overrun.id.attempt > 0 && m->task_overrun.run_us >= 0;
    case MSG_TASK_HELD:
        return m->task_held.id.attempt > 0 && m->task_held.run_us >= 0 &&
               m->task_held.state < TASK_STATE_COUNT;
    case MSG_PROBE:
        return m->probe.count > 0 && m->probe.class < CLASS_COUNT;
    case MSG_PROBE_REFUSED:
        return m->probe_refused.err <= 0;
    case MSG_BEAT:
        return flag_ok(m->beat.ask);
    case MSG_TASK_REQUEST:
        return flag_ok(m->task_request.has_spec);
    case MSG_TASK_LAUNCH:
        return m->task_launch.id.attempt > 0 && flag_ok(m->task_launch.promotable);
    case MSG_RES_MOVED:
        return worker_ok(m->res_moved.from);
    case MSG_STEAL_LOOT:
        return loot_ok(&m->steal_loot);
    default:
        return orders_ok(m);
    }
}

int msg_check(const struct msg *m)
{
    if (!msg_is_wire(m) || !kinds_ok(m) || !rules_ok(m))
        return HAWK_EMALFORMED;
    /* A newer peer may have counters that this version does not know. */
    if (m->type == MSG_COUNTER && m->counter.counter >= COUNTER_COUNT)
        return HAWK_EUNSUPPORTED;
    return 0;
}

/* ---- Submissions ---- */

/* Bytes without a NUL at their end. */
static bool is_duration(const char *data, size_t len)
{
    char text[64];
    int64_t us;

    if (len >= sizeof text || memchr(data, '\0', len))
        return false;
    memcpy(text, data, len);
    text[len] = '\0';
    return duration_parse(text, &us) == 0;
}

static int check_durations(const struct job_desc *d, char *why, size_t size)
{
    if (!d->args.n && !is_duration(d->argv.data, strlen(d->argv.data))) {
        snprintf(why, size, "argv: a timer job needs a duration like 250ms or 30s, not '%.40s'",
                 d->argv.data);
        return HAWK_EINVALID;
    }
    for (uint32_t i = 0; i < d->args.n; i++) {
        const char *arg = d->args.data + d->args.off[i];
        uint32_t len = d->args.off[i + 1] - d->args.off[i];

        if (is_duration(arg, len))
            continue;
        snprintf(why, size,
                 "task_args: an input of a timer job must be a duration like 250ms or 30s, not '%.*s'",
                 len < 40 ? (int)len : 40, arg);
        return HAWK_EINVALID;
    }
    return 0;
}

int job_submission_check(const struct job_desc *d, char *why, size_t size)
{
    int err = job_desc_check(d, why, size);

    if (!err && d->pids > LIMIT_TASK_PIDS) {
        snprintf(why, size, "pids: a task can be limited to 1 to %u processes, not to %" PRIu32,
                 LIMIT_TASK_PIDS, d->pids);
        err = HAWK_EINVALID;
    }
    return err || d->kind != PAYLOAD_TIMER ? err : check_durations(d, why, size);
}
