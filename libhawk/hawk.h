/* libhawk, the installed library. C programs submit many short jobs to a cluster with it, and follow their
 * tasks. Other programs run tasks with it (executors, below).
 *
 *     struct hawk_client *c;
 *     if (hawk_client_open(&c, NULL))                       // finds the cluster as `hawk submit` does
 *         die(hawk_client_error(c));
 *     struct hawk_job *job = hawk_client_submit(c, &(struct hawk_spec){.tasks = 10, .argv = argv});
 *     if (!job || hawk_client_wait(c, job, -1) < 0)
 *         die(hawk_client_error(c));
 *     printf("%u of %u tasks done\n", hawk_job_count(job, HAWK_TASK_DONE), hawk_job_tasks(job));
 *     hawk_client_close(c);
 *
 * Jobs go to one dist on one connection, many to a message. If that dist does not answer any more, they move
 * to another dist and keep their ids. The program then hears each task's end once, though a task may run
 * twice.
 *
 * Threads: a client and its jobs belong to one thread at a time. Several clients may be used by several
 * threads. Nothing happens between calls. A program with unfinished jobs must call hawk_client_wait or
 * hawk_client_poll at least once a second. Otherwise the cluster takes it for dead, and cancels its jobs
 * after dist.client_grace (10 s). A client with a descriptor (hawk_client_fd) works between calls.
 *
 * Another event loop: hawk_client_fd() returns a descriptor to wait for, and hawk_client_poll(c, 0) calls the
 * functions of the options for what has happened:
 *
 *     hawk_client_open(&c, &(struct hawk_client_options){.ended = on_ended, .arg = program});
 *     ev_io_init(&watcher, on_readable, hawk_client_fd(c), EV_READ);  // on_readable calls hawk_client_poll(c, 0)
 *
 * The first client starts gRPC, whose threads sleep until the process ends.
 *
 * fork(): a child must not use a client of its parent, nor close it, nor read its descriptor. It may execute
 * another program, which inherits no descriptor of the library's.
 *
 * Every function that returns int returns a negative number on an error; hawk_client_error() says in words
 * what happened and what to do. Running out of memory ends the program. */
#ifndef HAWK_H
#define HAWK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hawk_client; /* a connection to a cluster */
struct hawk_job;    /* a job that was submitted */

struct hawk_client_options {
    const char *dist; /* addresses of dists, comma separated; NULL: found as `hawk submit` finds it */
    /* A file with the cluster's token; NULL: $HAWK_TOKEN_FILE, else the token in $HAWK_TOKEN, else
     * none. */
    const char *token_file;
    int64_t timeout_us; /* how long all dists may stay silent before that is an error; 0: 30 s */
    /* The program's functions, or NULL. hawk_client_wait, _wait_all, _wait_any and _poll call them, in the
     * thread that called those, for each thing that has happened, in order and once: accepted (unless the job
     * is refused first), each task's end, then the job's. What the functions of jobs say is of that time.
     * They may call every function of this header for that client but hawk_client_close. They may free jobs,
     * but not the one that a hawk_client_wait waits for. Of a job that was freed nothing more is told. */
    void (*accepted)(void *arg, struct hawk_job *job);            /* a dist has it: hawk_job_id */
    void (*task)(void *arg, struct hawk_job *job, uint32_t task); /* the task has ended: hawk_job_task */
    void (*ended)(void *arg, struct hawk_job *job);               /* the job has ended, or was refused */
    void *arg;                                                    /* for all three */
};

/* Connects, with TLS if the environment names the files ($HAWK_TLS_CERTIFICATE, $HAWK_TLS_KEY,
 * $HAWK_TLS_ROOTS), or if the user has logged in (`hawk login`) and no token is given. Options
 * may be NULL. Sets *out also on an error, for hawk_client_error. Call hawk_client_close in any case. */
int hawk_client_open(struct hawk_client **out, const struct hawk_client_options *options);
/* Frees the client and its jobs. The cluster cancels those that have not ended. NULL is fine. */
void hawk_client_close(struct hawk_client *c);
/* The last error, in words; "" before one. Valid until the next call. */
const char *hawk_client_error(const struct hawk_client *c);

struct hawk_bytes {
    const void *data;
    size_t len;
};

enum hawk_tag {
    HAWK_TAG_AUTO, /* by estimate, else by earlier jobs of that name, else short */
    HAWK_TAG_SHORT,
    HAWK_TAG_LONG,
};

/* A job: one of argv, app and sleep says what its tasks are. Nothing in it is used after
 * hawk_client_submit. */
struct hawk_spec {
    const char *name; /* jobs of one name share their history; NULL: none */
    uint32_t tasks;   /* 0: 1 */
    /* A command, up to a NULL. With args, task i's argument stands wherever argv has {}, or is added at
     * the end. */
    const char *const *argv;
    const char *const *env; /* "NAME=value", up to a NULL; NULL: the environment of this process */
    const char *cwd;        /* NULL: the worker's own */
    /* Tasks for attached executors of this application; task i's payload is args[i]. */
    const char *app;
    /* Tasks that do nothing but take time, such as "250ms": args[i] of task i, else this one. */
    const char *sleep;
    const struct hawk_bytes *args; /* `tasks` of them, or NULL */
    enum hawk_tag tag;
    int64_t estimate_us;   /* mean run time of a task; 0: none given */
    int64_t time_limit_us; /* of one task; 0: none */
    uint32_t lost_retries; /* tries again of a task whose worker was lost, not of one that failed; 0: none */
    uint32_t max_fails;    /* cancel the rest after so many failed tasks; 0: never */
    void *user;            /* for hawk_job_user */
    int64_t mem_bytes;     /* that a task of a command may use, with all that it starts; 0: no limit */
    uint32_t pids;         /* processes and threads that it may have; 0: no limit */
    uint32_t max_running;  /* the most of its tasks that run at a time; 0: no limit */
};

/* Submits and returns at once. The job leaves with the next wait or poll, together with others; of a client
 * with a descriptor, at once. NULL: the spec is wrong. The job belongs to the client: free it with
 * hawk_job_free or hawk_client_close. */
struct hawk_job *hawk_client_submit(struct hawk_client *c, const struct hawk_spec *spec);

/* Waits until the job has ended. 1: it has; 0: not within timeout_us (negative: no bound). If no dist
 * takes the job within options.timeout_us, it ends as HAWK_JOB_REFUSED; one that was accepted, and whose dist
 * died, waits for room at the others. */
int hawk_client_wait(struct hawk_client *c, struct hawk_job *job, int64_t timeout_us);
/* Waits until all jobs have ended, in the same way. */
int hawk_client_wait_all(struct hawk_client *c, int64_t timeout_us);
/* Waits for any job. *job is one that has ended since the last call: each once, in the order in which they
 * ended. 0: none within timeout_us, or none is left. It also returns jobs for which hawk_client_wait has waited. */
int hawk_client_wait_any(struct hawk_client *c, struct hawk_job **job, int64_t timeout_us);
/* Does the client's work, and waits at most timeout_us for some. */
int hawk_client_poll(struct hawk_client *c, int64_t timeout_us);

/* Returns a descriptor that can be polled. It is readable while something has happened that the program has
 * not heard: then call hawk_client_poll(c, 0), which tells all of it and does not wait. The descriptor belongs
 * to the client, until hawk_client_close. Do not read, write or close it. Further calls return the same one.
 *
 * From the first call on, a thread of the library's own does the client's work. So:
 * - Jobs leave at once. No function but hawk_client_open, _wait, _wait_all, _wait_any, _poll and _close waits.
 * - The program may be as slow as it likes: its jobs are not cancelled, and what happens meanwhile is kept in
 *   its memory until it calls hawk_client_poll.
 * - When no dist can be reached, the descriptor stays as it is, and hawk_client_poll returns 0. A job that no
 *   dist takes within options.timeout_us ends as HAWK_JOB_REFUSED. Later jobs are tried anew.
 * - hawk_client_close waits for the thread, which may take some seconds while a dist does not answer.
 * - The thread gets no signals, and calls no function of the program's.
 * Negative: there is no descriptor or thread to be had. The client goes on as before. */
int hawk_client_fd(struct hawk_client *c);

enum hawk_job_state {
    HAWK_JOB_UNFINISHED,
    HAWK_JOB_DONE,      /* every task is HAWK_TASK_DONE */
    HAWK_JOB_FAILED,    /* some are not */
    HAWK_JOB_CANCELLED, /* by hawk_job_cancel, by another user, or by the cluster: hawk_job_error */
    HAWK_JOB_REFUSED,   /* no dist took it, or all were lost: hawk_job_error */
};
enum hawk_job_state hawk_job_state(const struct hawk_job *job);
/* Why it was refused or cancelled; "" when there is nothing to say. */
const char *hawk_job_error(const struct hawk_job *job);
/* Its id in the cluster ("3.17"), for `hawk job`; "" until a dist has accepted it. */
const char *hawk_job_id(const struct hawk_job *job);
void *hawk_job_user(const struct hawk_job *job);
/* Cancels the tasks that have not ended. The job ends when its tasks have. */
void hawk_job_cancel(struct hawk_job *job);
/* Forgets the job; one that has not ended is cancelled. NULL is fine. */
void hawk_job_free(struct hawk_job *job);

enum hawk_task_state {
    HAWK_TASK_UNFINISHED,
    HAWK_TASK_DONE,   /* exit status 0, or the executor's result */
    HAWK_TASK_FAILED, /* any other end of its own */
    HAWK_TASK_CANCELLED,
    HAWK_TASK_LOST, /* its worker was lost, and no retry was left */
};
struct hawk_task {
    enum hawk_task_state state;
    int code;            /* exit status, signal, or the executor's error */
    const char *outcome; /* in a word: "exited", "signaled", "time-limit", … */
    int64_t wait_us;     /* submission to start; -1: it did not start, or that is not known */
    int64_t run_us;
    struct hawk_bytes result; /* the executor's result; empty: none. Valid until hawk_job_free */
    const char *message;      /* why it was not started or its executor failed; "": not known. Likewise */
    /* The task is done, but its result is lost: do not rely on the result. A dist or central was restarted,
     * or forgot the job before this program had read so far. */
    int result_lost;
};
uint32_t hawk_job_tasks(const struct hawk_job *job);
/* The number of its tasks in this state. */
uint32_t hawk_job_count(const struct hawk_job *job, enum hawk_task_state state);
/* Fills *task. Returns whether there is such a task and it has ended. */
int hawk_job_task(const struct hawk_job *job, uint32_t i, struct hawk_task *task);

/* ---- Executors: programs that run tasks of one application without a process each ----
 *
 *     struct hawk_executor *x;
 *     const struct hawk_work *w;
 *     if (hawk_executor_open(&x, "echo", NULL))             // $HAWK_EXECUTOR, or the `hawk up` of this user
 *         die(hawk_executor_error(x));
 *     while (hawk_executor_next(x, &w, -1) > 0)
 *         hawk_executor_done(x, w, w->payload.data, w->payload.len);
 *     hawk_executor_close(x);
 *
 * Threads: several threads may use an executor at once: one takes tasks, others answer them. While no thread
 * is in one of its functions, it still answers the worker's pings.
 *
 * The executor waits for a worker that is not there, or that restarts, and attaches again by itself. Tasks
 * that it held then are lost to it: they run elsewhere, hawk_executor_cancelled() says so, and their results
 * are dropped.
 *
 * Pauses: a short task may take the slot of a long one, which stands still meanwhile. An executor whose tasks
 * can do that gives options.pause and options.resume. A task that stands still takes none of its slots, so it
 * gets another one in its place: keep a thread for that. It gets one again when it goes on, even if all are
 * taken. */
struct hawk_executor;
struct hawk_work;

struct hawk_executor_options {
    /* Where it attaches: "unix:PATH" (a worker's log names it) or "HOST:PORT"; NULL: $HAWK_EXECUTOR, else
     * this user's `hawk up`. */
    const char *worker;
    /* A file with the cluster's token; NULL: $HAWK_TOKEN_FILE, else the token in $HAWK_TOKEN, else
     * none. */
    const char *token_file;
    const char *name; /* for logs and messages; NULL: none */
    uint32_t slots;   /* tasks at once, 1 to 4,096; 0: 1 */
    /* Both, or neither: then no task is paused. `pause` is told that this task is to stand still. It returns
     * 1: it does; 0: hawk_executor_paused will say so; negative: it never will. A pause that is not confirmed
     * within half a second is undone. `resume` is told that the task is to go on, also before it stood still.
     * Any thread that is in a function of the executor calls them, and one of its own, possibly before
     * work->user is set. They do not wait, and call no function of the executor but hawk_executor_cancelled. */
    int (*pause)(void *arg, const struct hawk_work *work);
    void (*resume)(void *arg, const struct hawk_work *work);
    void *arg; /* for both */
};

/* A task. It belongs to the executor until it is answered, once, by done or failed. */
struct hawk_work {
    struct hawk_bytes payload; /* followed by a NUL that its length does not count */
    const char *job;           /* the job's id, "3.17" */
    const char *name;          /* and its name */
    uint32_t index, count;     /* the task's number, as in HAWK_TASK_INDEX, and how many the job has */
    uint32_t attempt;          /* from 1 */
    /* 0: none. When it is over, or the task is cancelled, hawk_executor_cancelled says so. */
    int64_t time_limit_us;
    void *user; /* the program's own; NULL at first */
};

/* Attaches. Options may be NULL. Waits for a worker that is not there. If the worker refuses the
 * application, the number of slots or the token, the next hawk_executor_next returns that error. Sets
 * *executor also on an error, for hawk_executor_error. Call hawk_executor_close in any case. */
int hawk_executor_open(struct hawk_executor **executor, const char *app,
                       const struct hawk_executor_options *options);
/* Gets the next task. 1: *work is it. 0: none within timeout_us (negative: no bound), or
 * hawk_executor_wake was called. Negative: the worker has sent the executor away, or (after
 * hawk_executor_leave) there are no more. Results leave while this waits. */
int hawk_executor_next(struct hawk_executor *x, const struct hawk_work **work, int64_t timeout_us);
/* The task has ended well, with this result (at most 1 MiB, or the task has failed). Frees work. */
void hawk_executor_done(struct hawk_executor *x, const struct hawk_work *work, const void *result,
                        size_t len);
/* The task has failed, with a code from 1 to 255 (any other counts as 1) and a text for people (may be
 * NULL). Frees work. */
void hawk_executor_failed(struct hawk_executor *x, const struct hawk_work *work, int code, const char *text);
/* Whether nobody wants the result any more: the task was cancelled, its time is over, or its worker is
 * gone. Answer it soon, with anything. */
int hawk_executor_cancelled(const struct hawk_executor *x, const struct hawk_work *work);
/* The task stands still, after options.pause returned 0. Does nothing if it was to go on meanwhile: a task
 * waits only until options.resume is called. */
void hawk_executor_paused(struct hawk_executor *x, const struct hawk_work *work);
/* Sets work->user, a pointer of the program's own. */
void hawk_work_set_user(const struct hawk_work *work, void *user);
/* Takes no more tasks. hawk_executor_next returns those that have come, then an error once all are
 * answered. */
void hawk_executor_leave(struct hawk_executor *x);
/* Makes a waiting hawk_executor_next return 0. Call it from any thread, but not from a signal handler. */
void hawk_executor_wake(struct hawk_executor *x);
/* The last error, in words; "" before one. Valid until the next call. */
const char *hawk_executor_error(const struct hawk_executor *x);
/* Leaves at once: tasks that were not answered run elsewhere. Frees x and all work. NULL is fine. */
void hawk_executor_close(struct hawk_executor *x);

#ifdef __cplusplus
}
#endif
#endif
