/* The nouns that messages carry: enumerations, the cluster-wide policy, and refcounted handles for what
 * does not fit a 64-byte event (job descriptions, member lists, sets of tasks). */
#ifndef HAWK_MSG_TYPES_H
#define HAWK_MSG_TYPES_H

#include "base/blob.h"
#include "base/ids.h"
#include "base/units.h"
#include "msg/after.h"
#include "msg/ancestors.h"
#include "msg/usage.h"

#include <stdbool.h>
#include <stdint.h>

#define PROTOCOL_VERSION 3
#define PROTOCOL_VERSION_MIN 1 /* the oldest one still spoken: two back */
/* The version that both sides of a link speak: the lower of the two. 0 from a shell that says nothing
 * means the present one. */
static inline uint32_t protocol_version_of(uint32_t said) { return said ? said : PROTOCOL_VERSION; }

/* Named limits with their defaults. A node that reaches one replies with an error (DESIGN 5.5). */
#define LIMIT_TASKS_PER_JOB 1000000u
#define LIMIT_JOB_BYTES (64u << 20)      /* one job's encoded description, all task arguments included */
#define LIMIT_SPEC_BYTES (1u << 20)      /* the part of it that goes to every worker */
#define LIMIT_SIGNATURE_BYTES (2u << 20) /* JobSpec.signature, which holds what is signed */
#define LIMIT_COLUMNS 100u               /* values in a task's argument */
#define LIMIT_NAME_BYTES 255u            /* a job's, node's, user's or application's name */
/* Results of a job for attached executors: */
#define LIMIT_PAYLOAD_BYTES (1u << 20) /* what one task is given */
#define LIMIT_RESULT_BYTES (1u << 20)  /* what one task returns */
#define LIMIT_JOB_RESULTS_BYTES                                                                              \
    (256u << 20)              /* all its tasks together; its dist keeps them as long as it knows the job */
#define LIMIT_WORKER_APPS 64u /* applications that one worker serves */
/* The dist keeps for people the worker's words on why it could not start a task: */
#define JOB_MESSAGES_MAX 16u   /* per job, the first ones: a job's tasks mostly fail for the same reason */
#define MESSAGE_BYTES_MAX 512u /* what is longer is cut */
/* A task fails when this many workers could not start it. */
#define START_WORKERS_MAX 3u
#define START_FAILURES_MAX 1024u     /* workers that one job avoids since they could not start tasks of it */
#define CODE_CANNOT_START 126        /* of such a task, as shells say */
#define LIMIT_SLOTS 4096u            /* of one worker */
#define LIMIT_LONG_STRETCH 1000000u  /* of central.long_stretch */
#define LIMIT_SHORT_FIRST UINT16_MAX /* short tasks that overtake a long one in its queue */
#define LIMIT_HEARTBEAT_MIN_US 10000 /* nodes send heartbeats no more often, whatever central asks for */
#define LIMIT_TIME_US (INT64_C(864000000) * 1000000) /* 10,000 days: any duration that crosses the wire */

/* X(constant, text): logs, the command line and JSON show the text. The values are on the wire: append
 * only. */
#define ROLES(X) X(ROLE_NONE, "none") X(ROLE_CENTRAL, "central") X(ROLE_DIST, "dist") X(ROLE_WORKER, "worker")
/* Clients and operators name central by this text, so no node may have it as its name. */
#define NODE_NAME_RESERVED "central is called so: choose another name"
bool node_name_reserved(const char *name);
#define JOB_CLASSES(X) X(CLASS_SHORT, "short") X(CLASS_LONG, "long")
#define CLASS_TAGS(X) X(TAG_AUTO, "auto") X(TAG_SHORT, "short") X(TAG_LONG, "long")
#define CLASS_WHYS(X)                                                                                        \
    X(WHY_UNKNOWN, "no tag, no estimate, no history: counts as short")                                       \
    X(WHY_TAG, "tagged by the user")                                                                         \
    X(WHY_ESTIMATE, "the user's estimate against the cutoff")                                                \
    X(WHY_HISTORY, "earlier runs of this name against the cutoff")                                           \
    X(WHY_PROMOTED, "its tasks outlived the cutoff: promoted to long")
/* OUTCOME_NOT_STARTED has code 127 (no such program) or CODE_CANNOT_START (126): not executable, or no worker could
 * start it (START_WORKERS_MAX). */
#define OUTCOMES(X)                                                                                          \
    X(OUTCOME_NONE, "none")                                                                                  \
    X(OUTCOME_EXITED, "exited")           /* code: exit status */                                            \
    X(OUTCOME_SIGNALED, "signaled")       /* code: signal number */                                          \
    X(OUTCOME_TIME_LIMIT, "time-limit")   /* killed at its time limit */                                     \
    X(OUTCOME_NOT_STARTED, "not-started") /* code: 127 or CODE_CANNOT_START */                               \
    X(OUTCOME_CANCELLED, "cancelled")                                                                        \
    X(OUTCOME_LOST, "lost")                   /* its worker disappeared and no retry was left */             \
    X(OUTCOME_OUT_OF_MEMORY, "out-of-memory") /* over its memory limit; code: 9 */
/* The phase of each state of a task or job. A new state is appended, whatever its phase: states have no
 * order. Code that means a phase asks for it (task_state_final), and never compares states by size. */
enum state_phase {
    PHASE_BEFORE, /* nothing of it has started */
    PHASE_RUNS,   /* it, or a task of it, has started */
    PHASE_FINAL,  /* it has ended, and never leaves this state */
};
/* X(constant, text, phase). The second list of each is empty except in tests, which append states there. */
#ifndef TASK_STATES_NEXT
#define TASK_STATES_NEXT(X)
#endif
#define TASK_STATES(X)                                                                                       \
    X(TASK_WAITING, "waiting", PHASE_BEFORE)   /* not launched: no worker has it */                          \
    X(TASK_PLACED, "placed", PHASE_BEFORE)     /* long: in one worker's queue */                             \
    X(TASK_LAUNCHED, "launched", PHASE_BEFORE) /* sent to a worker that has a slot for it */                 \
    X(TASK_RUNNING, "running", PHASE_RUNS)                                                                   \
    X(TASK_DONE, "done", PHASE_FINAL)                                                                        \
    X(TASK_FAILED, "failed", PHASE_FINAL)                                                                    \
    X(TASK_CANCELLED, "cancelled", PHASE_FINAL)                                                              \
    X(TASK_LOST, "lost", PHASE_FINAL)                                                                        \
    TASK_STATES_NEXT(X)
#ifndef JOB_STATES_NEXT
#define JOB_STATES_NEXT(X)
#endif
#define JOB_STATES(X)                                                                                        \
    X(JOB_PENDING, "pending", PHASE_BEFORE) /* long, and central has not journalled it yet */                \
    X(JOB_WAITING, "waiting", PHASE_BEFORE) /* no task has started */                                        \
    X(JOB_RUNNING, "running", PHASE_RUNS)                                                                    \
    X(JOB_DONE, "done", PHASE_FINAL)                                                                         \
    X(JOB_FAILED, "failed", PHASE_FINAL)                                                                     \
    X(JOB_CANCELLED, "cancelled", PHASE_FINAL)                                                               \
    X(JOB_BLOCKED, "blocked", PHASE_BEFORE) /* it waits for jobs that it runs after */                       \
    X(JOB_HELD, "held", PHASE_BEFORE)       /* its user holds it */                                          \
    JOB_STATES_NEXT(X)
/* Central places no long task on a suspect worker. A dist sends it no probe, unless it answers the dist's BEAT. */
#define MEMBER_STATES(X)                                                                                     \
    X(MEMBER_UP, "up")                                                                                       \
    X(MEMBER_SUSPECT, "suspect")   /* silent, or its stream broke */                                         \
    X(MEMBER_DRAINING, "draining") /* takes no new work */                                                   \
    X(MEMBER_GONE, "gone")
/* Whether an operator has drained a node (central's word, and the journal's). */
#define DRAINS(X)                                                                                            \
    X(DRAIN_NOT, "not")                                                                                      \
    X(DRAIN_KEPT, "kept")       /* until it is undrained, whatever restarts */                               \
    X(DRAIN_RESTART, "restart") /* until its process ends */
#define NODE_CHANGES(X)                                                                                      \
    X(CHANGE_JOINED, "joined")                                                                               \
    X(CHANGE_REPLACED, "is another process now") /* the old one's long tasks wait until its lease is over */ \
    X(CHANGE_BACK, "is heard again")                                                                         \
    X(CHANGE_CUT, "lost its stream")    /* suspect */                                                        \
    X(CHANGE_SILENT, "has gone silent") /* suspect */                                                        \
    X(CHANGE_DRAINING, "is draining: it takes no new work")                                                  \
    X(CHANGE_UNDRAINED, "takes work again")                                                                  \
    X(CHANGE_OUT, "takes itself out of service")                                                             \
    X(CHANGE_KEPT, "cannot start tasks, and stays in service, since as many as may are out of it")           \
    X(CHANGE_IN, "is in service again")                                                                      \
    X(CHANGE_STOPPING, "is told to stop")                                                                    \
    X(CHANGE_LEFT, "left")                                                                                   \
    X(CHANGE_GONE, "is gone") /* its lease is over: its long tasks are placed again */
#define PAYLOAD_KINDS(X)                                                                                     \
    X(PAYLOAD_COMMAND, "command") /* argv run as a process */                                                \
    X(PAYLOAD_TIMER, "timer")     /* the worker's own timer: a task that only takes time */                  \
    X(PAYLOAD_APP, "app")         /* bytes for an attached executor */

#define X(name, text) name,
enum role { ROLES(X) ROLE_COUNT };
enum job_class { JOB_CLASSES(X) CLASS_COUNT };
enum class_tag { CLASS_TAGS(X) TAG_COUNT };
enum class_why { CLASS_WHYS(X) WHY_COUNT };
enum outcome { OUTCOMES(X) OUTCOME_COUNT };
enum member_state { MEMBER_STATES(X) MEMBER_STATE_COUNT };
enum drain { DRAINS(X) DRAIN_COUNT };
enum node_change { NODE_CHANGES(X) CHANGE_COUNT };
enum payload_kind { PAYLOAD_KINDS(X) PAYLOAD_COUNT };
#undef X
#define X(name, text, phase) name,
enum task_state { TASK_STATES(X) TASK_STATE_COUNT };
enum job_state { JOB_STATES(X) JOB_STATE_COUNT };
#undef X
_Static_assert((int)TASK_STATE_COUNT <= 32 && (int)JOB_STATE_COUNT <= 32, "a set of states is 32 bits");
/* Sets of states: 1u << state for each. */
enum {
#define X(name, text, phase) | ((phase) == PHASE_FINAL ? 1u << name : 0u)
    TASK_STATES_FINAL = 0u TASK_STATES(X),
    JOB_STATES_FINAL = 0u JOB_STATES(X),
#undef X
#define X(name, text, phase) | ((phase) == PHASE_BEFORE ? 1u << name : 0u)
    TASK_STATES_BEFORE = 0u TASK_STATES(X),
#undef X
#define X(name, text, phase) | ((phase) != PHASE_FINAL ? 1u << name : 0u)
    JOB_STATES_UNFINISHED = 0u JOB_STATES(X),
#undef X
};

const char *role_text(enum role v);
const char *class_text(enum job_class v);
const char *tag_text(enum class_tag v);
const char *why_text(enum class_why v);
const char *outcome_text(enum outcome v);
const char *task_state_text(enum task_state v);
const char *job_state_text(enum job_state v);
const char *member_state_text(enum member_state v);
const char *node_change_text(enum node_change v);

/* The part of a reported run time that the owner believes, when it has known the job for known_us: no task
 * has run for longer. Two machines' clocks may differ by a hundredth, and a second. */
int64_t run_us_credible(int64_t run_us, int64_t known_us);
/* A duration as TASK_PAUSED has it; of one that still stands still at least 1, or it would seem to run. */
static inline uint32_t paused_ms_of(int64_t us)
{
    return us / US_PER_MS < UINT32_MAX ? (uint32_t)(us / US_PER_MS) : UINT32_MAX;
}
static inline uint32_t stood_ms_of(int64_t us) { return us < US_PER_MS ? 1 : paused_ms_of(us); }
/* Takes a state, or a number below 32 that is no state (yet) and is in no phase. */
static inline bool state_in(uint32_t set, unsigned state) { return set >> (state & 31) & 1; }
static inline bool task_state_final(enum task_state s) { return state_in(TASK_STATES_FINAL, s); }
static inline bool task_state_before(enum task_state s) { return state_in(TASK_STATES_BEFORE, s); }
static inline bool job_state_final(enum job_state s) { return state_in(JOB_STATES_FINAL, s); }
/* Whether a job that has ended so keeps its environment: somebody may want the rest of it. Whoever cancels it as a
 * whole, its user or an operator, wants it no more, nor does a client that is gone. */
static inline bool job_may_run_again(enum job_state s, bool cancelled_by_client)
{
    return s == JOB_FAILED || (s == JOB_CANCELLED && !cancelled_by_client);
}

/* ---- The cluster's policy: central owns it and pushes it to every dist and worker. ---- */

/* What a change of the policy applies to. JOB: jobs that are submitted from then on; a job keeps the
 * policy that it began under. CLUSTER: everything, as soon as a node hears of the change. X(constant,
 * text) */
#define POLICY_SCOPES(X) X(JOB, "new jobs") X(CLUSTER, "at once")

/* Flags: X(constant, bit, scope, key, help). The published simulator's assumptions are flags here, never a
 * branch of an engine. */
#define POLICY_FLAGS(X)                                                                                      \
    X(CENTRAL_LONG, 0, JOB, "central_long", "central places long jobs; off: dists probe for them as well")   \
    X(STEAL, 1, CLUSTER, "stealing",                                                                         \
      "idle workers steal short reservations stuck behind long tasks (Hawk 3.6)")                            \
    X(STEAL_ALWAYS, 2, CLUSTER, "steal_always", "thieves ask even while central knows of no long work")      \
    X(STEAL_RETRY, 3, CLUSTER, "steal_retry", "a parked thief tries again by itself, at growing intervals")  \
    X(STEAL_ON_FREE_ONLY, 4, CLUSTER, "steal_on_free_only",                                                  \
      "a thief asks only at the moment a slot is freed")                                                     \
    X(STEAL_HINTS, 5, CLUSTER, "steal_hints", "central pairs parked thieves with stuck workers")             \
    X(PROMOTE, 6, JOB, "promotion", "an untagged job whose tasks outlive the cutoff becomes long")           \
    X(CANCEL_PROBES, 7, JOB, "cancel_probes", "left-over reservations are cancelled (Sparrow 3.6)")          \
    X(REPROBE, 8, JOB, "reprobe", "probe again when live reservations < unlaunched tasks")                   \
    X(DRAW_REPLACE, 9, JOB, "draw_replace", "probe targets are drawn with replacement")                      \
    X(TIE_SHORT, 10, JOB, "tie_short", "an estimate equal to the cutoff is short (the published simulator)") \
    X(LONG_GENERAL, 11, JOB, "long_general", "probes for long jobs go to the general partition only")        \
    X(SHORT_RESERVED, 12, JOB, "short_reserved",                                                             \
      "probes for short jobs go to the short partition only (split), where slots are reserved at all")       \
    X(SPLIT_COUNTS, 13, JOB, "split_counts",                                                                 \
      "every probe is a reservation of its own, however many share a worker")                                \
    X(ALL_LONG, 14, JOB, "all_long", "every job counts as long, whatever it says (policy central)")          \
    X(PARTITION, 15, CLUSTER, "partition", "a share of the slots is reserved for short tasks (Hawk 3.4)")    \
    X(STEAL_REPLACE, 16, CLUSTER, "steal_replace",                                                           \
      "victims are drawn with replacement, the thief itself among them")                                     \
    X(STEAL_ADAPT, 17, CLUSTER, "steal_adapt",                                                               \
      "a thief whose rounds fail asks fewer workers in the next one")                                        \
    X(LATE_LONG, 18, CLUSTER, "late_long",                                                                   \
      "central keeps long tasks until a worker asks for one, instead of queueing them there")                \
    X(PAUSE, 19, CLUSTER, "pause",                                                                           \
      "a short task that would wait pauses a long one that runs, and takes its slot")                        \
    X(LONG_BY_WORK, 20, CLUSTER, "long_by_work",                                                             \
      "long tasks that central keeps: small jobs first, within central.long_stretch; off: by submission")    \
    X(AVOID_LONG, 21, CLUSTER, "avoid_long",                                                                 \
      "a general worker that long tasks fill refuses short jobs' probes, which go elsewhere (Eagle)")        \
    X(PROBE_EVERYWHERE, 22, JOB, "probe_everywhere",                                                         \
      "a short job has a reservation at every worker, where there are at most 16")                           \
    X(JOB_TURNS, 23, CLUSTER, "job_turns",                                                                   \
      "short jobs take turns in a worker's queue: one task, and the rest goes behind the other jobs")

/* Numbers: X(constant, bit, scope, field of struct policy, least, greatest). Each task needs at least one
 * probe, since workers ask for tasks only because of probes (Sparrow 3.3). */
#define POLICY_NUMBERS(X)                                                                                    \
    X(CUTOFF, 0, JOB, cutoff_us, 1, LIMIT_TIME_US)                                                           \
    X(SHARE, 1, CLUSTER, short_share_ppm, 0, 1000000)                                                        \
    X(RATIO, 2, JOB, probe_ratio_milli, 1000, 1000000)                                                       \
    X(MIN_PROBES, 3, JOB, min_probes, 0, LIMIT_TASKS_PER_JOB)                                                \
    X(STEAL_CAP, 4, CLUSTER, steal_cap, 1, UINT16_MAX)                                                       \
    X(STEAL_MAX, 5, CLUSTER, steal_max, 1, UINT16_MAX)                                                       \
    X(SHORT_FIRST, 6, CLUSTER, short_first, 0, LIMIT_SHORT_FIRST)

enum policy_scope {
#define X(name, text) POLICY_SCOPE_##name,
    POLICY_SCOPES(X)
#undef X
};
const char *policy_scope_text(enum policy_scope v);

enum policy_flag {
#define X(name, bit, scope, key, help) POLICY_##name = 1u << (bit),
    POLICY_FLAGS(X)
#undef X
};
enum policy_number {
#define X(name, bit, scope, field, min, max) POLICY_NUMBER_##name = 1u << (bit),
    POLICY_NUMBERS(X)
#undef X
};

enum {
#define X(name, bit, scope, field, min, max) | 1u << (bit)
    POLICY_NUMBERS_ALL = 0u POLICY_NUMBERS(X)
#undef X
};

/* The flags that a job keeps. */
enum {
#define X(name, bit, scope, key, help) | (POLICY_SCOPE_##scope == POLICY_SCOPE_JOB ? 1u << (bit) : 0u)
    POLICY_JOB_FLAGS = 0u POLICY_FLAGS(X)
#undef X
};

struct policy {
    int64_t cutoff_us;          /* a job with a lower estimate is short */
    uint32_t version;           /* grows with every change */
    uint32_t flags;             /* enum policy_flag */
    uint32_t short_share_ppm;   /* of slots, reserved for short tasks; what central aims at */
    uint32_t probe_ratio_milli; /* probes per task, x1000: 2000 = 2t */
    uint32_t min_probes;        /* never fewer probes per job than this (0: just t) */
    uint16_t steal_cap;         /* workers a thief asks per round at most (Hawk: 10) */
    uint16_t steal_max;         /* reservations one steal may take at most */
    uint16_t short_first;       /* short tasks that may overtake the long one at a queue's head (Hawk: 0) */
};

/* Fills *p with a named policy: "hawk", "sparrow", "hawk-no-steal", "hawk-no-partition", "hawk-no-central",
 * "split", "central" (every job is long), "harrier" (Hawk with long tasks bound late, small jobs first, and
 * paused for short ones), "eagle" (as far as its parts are here). The caller sets cutoff and share later; the
 * version is 0. HAWK_ENOT_FOUND for another name. */
int policy_preset(const char *name, struct policy *p);
extern const char *const policy_names[]; /* the names above, NULL-terminated */
/* The flag with that key ("stealing"), which has len bytes; 0 when there is none. */
uint32_t policy_flag(const char *key, size_t len);
/* The keys by bit, NULL where a bit is unused. */
extern const char *const policy_flag_keys[32];
static inline bool policy_has(const struct policy *p, enum policy_flag f) { return (p->flags & f) != 0; }
/* Whether slots are reserved for short tasks (Hawk 3.4). */
static inline bool policy_reserves(const struct policy *p)
{
    return policy_has(p, POLICY_PARTITION) && p->short_share_ppm > 0;
}
/* The least and greatest value; both are allowed. */
void policy_number_range(enum policy_number n, int64_t *least, int64_t *greatest);
/* 0; or HAWK_EINVALID, and *field names the number that is out of range. */
int policy_check(const struct policy *p, const char **field);

/* What an operator chose of a policy. The configuration decides the rest. */
struct policy_choice {
    uint32_t refs;
    uint32_t flags;  /* the flags that were chosen one by one; v.flags says on or off */
    uint8_t numbers; /* enum policy_number: the numbers of v that were chosen one by one */
    /* Place in policy_names plus 1; decides all flags and numbers but cutoff and share; 0: none. */
    uint8_t preset;
    struct policy v;
};
struct policy_choice *policy_choice_new(void); /* of nothing */
struct policy_choice *policy_choice_ref(struct policy_choice *c);
void policy_choice_drop(struct policy_choice *c);
/* Applies the choice to *p. */
void policy_choose(struct policy *p, const struct policy_choice *c);
/* Returns a new choice: what `before` chose (NULL: nothing), overridden by what `then` chose. */
struct policy_choice *policy_choice_then(const struct policy_choice *before,
                                         const struct policy_choice *then);
/* The place in policy_names plus 1 of a name of len bytes; 0: there is no such name. */
uint8_t policy_preset_number(const char *name, size_t len);

/* Where a value of the policy in force comes from. X(constant, text): the text is in JSON */
#define POLICY_ORIGINS(X)                                                                                    \
    X(POLICY, "policy")               /* its preset's own */                                                 \
    X(CONFIGURATION, "configuration") /* which differs from its preset */                                    \
    X(HISTORY, "history")             /* computed */                                                         \
    X(SET, "set")                     /* by an operator */
enum policy_origin {
#define X(name, text) POLICY_FROM_##name,
    POLICY_ORIGINS(X)
#undef X
};
const char *policy_origin_text(enum policy_origin v);

/* ---- Handles. One reference per holder; msg_ref and msg_drop take and give them back. ---- */

/* n NUL-terminated strings, one after the other. */
struct strings {
    char *data;
    uint32_t bytes;
    uint32_t n;
};

/* What differs from task to task: task i's argument is data[off[i] .. off[i+1]). */
struct task_args {
    uint32_t *off; /* n + 1 offsets */
    char *data;
    uint32_t n;
};

enum job_flag {
    JOB_DETACHED = 1u << 0, /* no client waits for it; its dist journals it */
    JOB_EACH_ARG = 1u << 1, /* args holds one argument per task: for the places in argv, or appended to it */
    JOB_AT_MOST_ONCE =
        1u << 2,            /* a task is never launched a second time; one that may not have run is lost */
    JOB_NO_PAUSE = 1u << 3, /* its tasks are not paused (POLICY_PAUSE) */
    JOB_EACH_CWD = 1u << 4, /* places in cwd are filled, too (template/template.h) */
    JOB_PART =
        1u << 5, /* of a longer list, from its input first_index on. Nobody knows yet how many there are */
    JOB_AFTER_WHOLE = 1u << 6, /* it waits for the end of its predecessors as a whole, never task by task */
    JOB_SUBMIT_HELD = 1u << 7, /* it is held from the start, until it is released */
    JOB_ARG_ASIDE = 1u << 8,   /* an argument is not appended to an argv that has no place for it */
};

/* Which failures are followed by another try. */
enum retry_on {
    RETRY_ON_EXIT = 1u << 0,
    RETRY_ON_SIGNAL = 1u << 1,
    RETRY_ON_TIME_LIMIT = 1u << 2,
    RETRY_ON_ALL = RETRY_ON_EXIT | RETRY_ON_SIGNAL | RETRY_ON_TIME_LIMIT,
};
#define LIMIT_FAILURE_RETRIES 100u
#define LIMIT_TASK_PIDS 4194304u /* of a task: what the kernel takes for pids.max, PID_MAX_LIMIT */

/* A job as the client described it; immutable and shared. Policy reads the first group only. */
struct job_desc {
    uint32_t refs;
    uint32_t tasks;             /* 1 .. LIMIT_TASKS_PER_JOB */
    int64_t estimate_us;        /* of one task; 0: none given */
    int64_t time_limit_us;      /* of one task; 0: none */
    uint16_t lost_retries;      /* further tries after a worker was lost */
    uint16_t failure_retries;   /* further tries after the task failed, up to LIMIT_FAILURE_RETRIES */
    uint32_t retry_on;          /* enum retry_on; 0: all */
    int64_t retry_delay_us;     /* before the first of them; then twice as long each time */
    uint8_t tag;                /* enum class_tag */
    uint8_t kind;               /* enum payload_kind */
    uint32_t flags;             /* enum job_flag */
    uint32_t max_fails;         /* cancel the rest after so many failed tasks; 0: never */
    uint32_t max_running;       /* the most tasks of it that are at workers at a time; 0: no limit */
    struct blob *retry_codes;   /* with RETRY_ON_EXIT: one byte per exit code; NULL: all but 0 */
    struct blob *name;          /* job name for history; never NULL, may be empty */
    struct blob *user;          /* the user who submitted it; never NULL, may be empty */
    struct ancestors ancestors; /* jobs in whose tasks it was submitted */
    struct after_list after;    /* its predecessors */
    job_id_t again_of;          /* the job that it runs again; or JOB_NONE */
    uint64_t again_key;         /* of a detached job: the key that its client asked for it with; 0: none */
    uint64_t shell;             /* of the shell that made it (the simulator's job number); not on the wire */

    /* For executors and stores only. */
    uint32_t first_index; /* HAWK_TASK_INDEX of task 0 (--array 5-10: 5) */
    uint32_t umask;       /* the submitter's, with JOB_UMASK_TOLD; 0: the client told none (job_desc_umask) */
    struct strings argv;
    struct strings env;          /* NAME=value */
    struct strings each_env;     /* the same, with places that a task's argument fills */
    uint32_t columns;            /* values in an argument, with a NUL between two; 0 counts as 1 */
    struct blob *cwd;            /* NULL: the worker's own */
    struct blob *stdout_pattern; /* NULL: the worker's default; see docs of `hawk submit` for placeholders */
    struct blob *stderr_pattern;
    struct blob *input;     /* standard input of every task; NULL: /dev/null */
    struct blob *app;       /* PAYLOAD_APP: the application's name */
    struct task_args args;  /* n = 0: none */
    int64_t mem_bytes;      /* that a task may use; 0: no limit */
    uint32_t pids;          /* processes and threads that a task may have at a time; 0: no limit */
    struct blob *signature; /* the user's: message Signed of hawk.proto; NULL: he has signed nothing */
    struct blob
        *tree; /* the hash tree over args of a signed job (msg/tree.h), which net/ makes; not on the wire */
};

#define JOB_UMASK_TOLD 01000u
#define JOB_UMASK_DEFAULT 022u /* when the client tells none */
/* The umask of the job's tasks. */
static inline uint32_t job_desc_umask(const struct job_desc *d)
{
    return d->umask & JOB_UMASK_TOLD ? d->umask & 0777 : JOB_UMASK_DEFAULT;
}

/* The number of an application's name. It is never 0, and in practice differs for different names. */
uint64_t app_id(const struct blob *name);
/* The number of the application that a job is for; 0: none. */
uint64_t job_desc_app(const struct job_desc *d);
/* The number of the user who submitted a job, by which users take turns; 0: it names none. Users with the same number
 * share their turns; of two users that is so in one of 4 billion cases. */
uint32_t job_desc_user(const struct job_desc *d);
/* The same number, of a user's name. */
static inline uint32_t user_number(const struct blob *name)
{
    uint64_t h = name->len > 0 ? app_id(name) : 0;

    return (uint32_t)(h ^ h >> 32);
}
/* Whether two applications are the same. user: whose tasks alone their executors take; NULL: everybody's. */
bool app_eq(const struct blob *name, const struct blob *user, const struct blob *other_name,
            const struct blob *other_user);
/* A key of an application for hash tables: different for different ones. A new blob. */
struct blob *app_key(const struct blob *name, const struct blob *user);
/* Whether a task of that estimate ends before a worker that ends then (TIME_NEVER: never). 0: nobody knows how long it
 * takes, and it fits anywhere. */
static inline bool fits_before_end(int64_t estimate_us, int64_t ends_us, int64_t now_us)
{
    return estimate_us <= 0 || ends_us == TIME_NEVER || estimate_us <= ends_us - now_us;
}
/* A set of applications in 64 bits. It may say that it has one that it has not, never the reverse. The
 * number's lowest bits choose the bit: they differ for "sum1" and "sum2", and the upper ones of FNV-1a do
 * not. */
static inline uint64_t app_set(uint64_t app) { return app ? UINT64_C(1) << (app & 63) : 0; }
/* The same of an application with executors of that user's (user_number(); 0: everybody's). */
static inline uint64_t app_set_of(uint64_t app, uint32_t user) { return UINT64_C(1) << ((app ^ user) & 63); }
/* Of these a worker has one, if it takes that user's tasks for the application. */
static inline uint64_t app_set_for(uint64_t app, uint32_t user)
{
    return app ? app_set(app) | app_set_of(app, user) : 0;
}
/* The payload of a task for an attached executor: its own argument, else the job's input. A new reference;
 * NULL: nothing. */
struct blob *job_desc_payload(const struct job_desc *d, struct blob *arg);

/* A new description with one reference. All is zero, but name and user are empty blobs. */
struct job_desc *job_desc_new(void);
struct job_desc *job_desc_ref(struct job_desc *d);
void job_desc_drop(struct job_desc *d);
/* A new description of the same content. */
struct job_desc *job_desc_copy(const struct job_desc *d);
/* Replaces *d, of a job that has ended, by a description without the environment, which may hold secrets.
 * Other holders of the old description keep it as it was. */
void job_desc_forget_env(struct job_desc **d);
/* A description like d, for tasks with these arguments, which are the inputs of a list from number `first` on. It takes
 * the arguments. */
struct job_desc *job_desc_part(const struct job_desc *d, struct task_args *args, uint32_t first);
/* The memory that it takes, roughly; for limits. O(1). */
size_t job_desc_bytes(const struct job_desc *d);
/* Task's own argument as a new reference, or NULL when the job has none. */
struct blob *job_desc_arg(const struct job_desc *d, uint32_t task);
/* What shows that the argument is what the user signed for that task: the hashes from its leaf to the root, as a new
 * reference; NULL when the job is not signed, or has no arguments. */
struct blob *job_desc_proof(const struct job_desc *d, uint32_t task);
/* The job is not signed any more. */
void job_desc_unsign(struct job_desc *d);
/* Appends a copy of a string to s. Only these functions may fill s: they derive its capacity from its
 * content. */
void strings_add(struct strings *s, const char *text);
/* Appends a text of len bytes. The caller writes it to where the returned pointer points. */
char *strings_add_space(struct strings *s, size_t len);
/* Appends one task's argument (any bytes). The caller adds exactly desc->tasks of them, sets JOB_EACH_ARG,
 * and stays within LIMIT_JOB_BYTES. Only these functions may fill a. */
void task_args_add(struct task_args *a, const void *data, size_t len);
void *task_args_add_space(struct task_args *a, size_t len);
/* Checks every limit and combination that a peer or client may get wrong. 0, or an error; why (size bytes)
 * then names the field and the limit. */
int job_desc_check(const struct job_desc *d, char *why, size_t size);
/* The same, and what no task of the job could start with. For submissions alone: journals and peers of earlier versions
 * may have such jobs, which end as not started. */
int job_submission_check(const struct job_desc *d, char *why, size_t size);
/* Checks a description that travels without its task arguments (field kind spec). */
int job_spec_check(const struct job_desc *d, char *why, size_t size);

/* A set of task indexes in ascending order: the tasks of a job that moved to central. */
struct task_set {
    uint32_t refs;
    uint32_t n;
    uint32_t v[];
};
struct task_set *task_set_new(uint32_t n);
struct task_set *task_set_ref(struct task_set *s);
void task_set_drop(struct task_set *s);

/* A job that its client moves to this dist because the dist that had it does not answer: what the client
 * knows of it. */
struct resubmit_task {
    int64_t wait_us, run_us; /* -1: not known */
    struct usage used;
    uint32_t task;
    uint32_t worker; /* a node id; 0: none */
    int32_t code;
    uint16_t attempt;
    uint8_t state; /* enum task_state: a final one */
    uint8_t outcome;
};
struct resubmit {
    uint32_t refs;
    uint32_t n;
    job_id_t job;
    int64_t age_us; /* since its first submission */
    uint16_t epoch; /* of its new owner */
    /* The epoch under which central has the job or a part of it; 0: the client knows of none. */
    uint16_t long_epoch;
    uint8_t class; /* enum job_class, as the client was told */
    uint8_t why;   /* enum class_why */
    bool held;     /* as the client last saw it */
    /* All tasks in the order in which they are launched, owned; NULL: as they come. Not on the wire. */
    uint32_t *order;
    struct resubmit_task v[]; /* the tasks that ended; the dist runs the others */
};
struct resubmit *resubmit_new(uint32_t n); /* zeroed */
struct resubmit *resubmit_ref(struct resubmit *r);
void resubmit_drop(struct resubmit *r);
/* Checks the values that a client may get wrong against the description that came with them. 0; or
 * HAWK_EINVALID, with a text in why (size bytes). */
int resubmit_check(const struct resubmit *r, const struct job_desc *d, char *why, size_t size);

/* One node as central sees it. */
struct member {
    node_id_t node;
    uint32_t slots;
    uint8_t role;      /* enum role */
    uint8_t state;     /* enum member_state */
    uint8_t general;   /* workers: 1 in the general partition, 0 reserved for short tasks */
    uint8_t unsettled; /* workers: 1 not in the general partition yet, but about to be; general is 0 */
    struct blob *addr; /* where it listens: "127.0.0.1:7101", "unix:/run/x.sock" */
    struct blob *name;
    /* Why the worker took itself out of service (it is MEMBER_DRAINING then); NULL: it did not. */
    struct blob *out_why;
    /* Workers: whose commands alone it runs; NULL: everybody's. */
    struct blob *serves;
};

struct members {
    uint32_t refs;
    uint32_t n;
    struct member v[]; /* by ascending node id */
};
struct members *members_new(uint32_t n); /* zeroed entries; the list owns their blobs */
struct members *members_ref(struct members *m);
void members_drop(struct members *m);

/* ---- Counters every node keeps and reports to central, cumulative since its start. ---- */
#define COUNTERS(X)                                                                                          \
    X(jobs_accepted, "jobs accepted by a dist")                                                              \
    X(jobs_short, "of them short")                                                                           \
    X(jobs_long, "of them long")                                                                             \
    X(jobs_promoted, "short jobs promoted to long")                                                          \
    X(jobs_finished, "jobs that ended, in whatever state")                                                   \
    X(probes_sent, "probes sent by dists, repeated ones included")                                           \
    X(probes_cancelled, "reservations cancelled before they were used")                                      \
    X(probes_unused, "task requests answered with: none left")                                               \
    X(probes_lost, "reservations lost with their worker")                                                    \
    X(tasks_launched, "tasks sent to workers")                                                               \
    X(tasks_retried, "tasks launched again after a worker was lost")                                         \
    X(tasks_placed, "long tasks placed by central")                                                          \
    X(tasks_started, "tasks started by workers")                                                             \
    X(tasks_finished, "tasks that ended at workers, in whatever way")                                        \
    X(tasks_failed, "tasks that ended badly")                                                                \
    X(steal_rounds, "rounds of asking by idle workers")                                                      \
    X(steal_requests, "victims asked")                                                                       \
    X(steal_successes, "victims that gave")                                                                  \
    X(steal_hints, "hints central sent to parked thieves")                                                   \
    X(reservations_stolen, "reservations that moved to a thief")                                             \
    X(tasks_stolen, "tasks launched through a stolen reservation")                                           \
    X(messages_in, "messages received")                                                                      \
    X(messages_out, "messages sent")                                                                         \
    X(jobs_moved, "jobs taken over from a dist that did not answer their client")                            \
    X(tasks_recalled, "queued long tasks called back for a worker that came later")                          \
    X(starts_blamed, "jobs of which a worker could not start a task that another one started")               \
    X(tasks_paused, "times that a long task was paused for a short one")                                     \
    X(paused_ms, "how long long tasks stood still, in milliseconds")                                         \
    X(tasks_failed_again, "tries that failed and were followed by another")

enum counter {
#define X(name, help) COUNTER_##name,
    COUNTERS(X)
#undef X
        COUNTER_COUNT
};
extern const char *const counter_names[COUNTER_COUNT];

/* What dists make receipts of job ids with (net/receipt.h); all zeros: they make none. */
struct receipt_secret {
    uint64_t low, high;
};
static inline bool receipt_secret_set(const struct receipt_secret *s) { return s->low || s->high; }

#endif
