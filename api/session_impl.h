/* The inside of sessions: what session.c (streams and their jobs) and session_news.c (news for clients)
 * share. */
#ifndef HAWK_API_SESSION_IMPL_H
#define HAWK_API_SESSION_IMPL_H

#include "api/internal.h"

/* One event has at most this many bytes, unless a single entry is larger. */
#define SESSION_EVENT_BYTES (256u << 10)
/* Bytes that wait for one client to read them. Above HOLD the dist keeps further results and reads no more
 * from that client; above MAX it ends the stream. */
#define SESSION_HOLD_BYTES (4u << 20)
#define SESSION_BYTES_MAX (64u << 20)
/* Bytes that wait for all clients together. Above RESULTS the dist keeps further results; above MAX it
 * ends the stream that most of them wait for. */
#define SESSIONS_RESULTS_BYTES (64u << 20)
#define SESSIONS_BYTES_MAX (256u << 20)
/* The dist tells an acceptance at most this late. A job that ends sooner is told once, as accepted and
 * ended. */
#define SESSION_SOON_US US_PER_MS

struct session {
    struct list in_all, in_dirty; /* in_dirty: in `dirty`, or in `soon` while `soon` is set */
    struct api *api;
    struct rpc_call *call;
    struct session_job *jobs; /* by tag: the jobs that have not ended */
    struct codec_buf event;   /* the one that grows */
    struct codec_buf *full;   /* the events before it, oldest first */
    uint32_t full_first, full_n, full_cap;
    struct late *late; /* the ends that come after those, oldest first */
    uint32_t late_first, late_n, late_cap;
    size_t bytes;    /* of all these */
    int64_t sent_us; /* the last event */
    /* For the audit log: what the client asked for since the last line, and what of it was refused. */
    uint32_t submitted, cancelled, refused;
    int64_t audit_us; /* the last line */
    bool beats, held, soon;
    bool all_sent; /* the client has ended its side: the call ends with the last job */
    bool full_up;  /* too much waits for it unread; its stream ends */
};

/* A job on a session: it waits for SUBMITTED, and is then accepted. */
struct session_job {
    struct session *session;
    uint64_t tag;
    job_id_t job;
    uint32_t client; /* while it is asked for */
    uint32_t tasks;
    bool accepted, cancel;
    bool over; /* its end is among the late ones */
    struct api_session_job told;
    struct session_job
        *next; /* the same job on another stream: its client has moved, and we have not noticed that yet */
    struct api_cancel cancelling;
    UT_hash_handle hh, hh_job; /* by tag; by client or job, only the first of each */
};

/* The end of a task whose result waits at the dist, or of a job behind such a task. */
struct late {
    struct session_job *job;
    struct resubmit_task task; /* of a job's end: only the state, which is the job's */
    bool end, abandoned;
};

/* ---- session_news.c ---- */

/* A session has at most one line of the audit log in this time. */
#define SESSION_AUDIT_US US_PER_S
void session_audit_soon(struct session *s);
/* Writes what is left to say, before the call ends. */
void session_audit(struct session *s);
/* Its event leaves at the end of the turn. */
void session_mark_dirty(struct session *s);
/* The timer of news that may wait SESSION_SOON_US. `arg` is the struct api. */
void session_on_soon(void *arg);
/* Frees all that waits to be sent. */
void session_forget_unsent(struct session *s);
/* Adds an event's entries to those that wait, which leave at the end of the turn. */
void session_queue_event(struct session *s, const struct api_session_event *e);
/* Whether ends wait at the dist for room here. */
bool session_any_late(const struct session *s);
/* Adds an end behind those that wait already. */
void session_add_late(struct session *s, struct late l);
/* Answers a submission with the reason for its refusal. */
void session_tell_refused(struct session *s, uint64_t tag, int err, const char *text);
/* Sends the job as it is, if that is news. Nobody acts on it. */
void session_tell_job(struct session_job *j, const struct job_view *v);
/* Sends a task's end. */
void session_queue_task(struct session_job *j, const struct task_view *t);
/* Sends it, or leaves it with the dist until there is room for its result. */
void session_tell_task(struct session_job *j, const struct task_view *t);

#endif
