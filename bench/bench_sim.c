/* What the simulator costs: events and tasks per CPU second and memory, on the Google trace under hawk at
 * 15,000 workers (with $HAWK_SHARED/traces, ../shared by default), and how the cost of an event grows from
 * 1,000 to 100,000 workers. Usage: bench_sim [FILE.json]
 *
 * Instructions come from the processor's counters; with INSTRUCTIONS=1 in the environment, where those are
 * not to be had (virtual machines), from valgrind, which runs everything once more, 30 times as slowly. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/units.h"
#include "sim/sim.h"
#include "workload/workload.h"

#include <jansson.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- A made-up workload of any size: nine short jobs to each long one, at a load of 85 % ---- */

#define TASKS_PER_JOB 50

struct made {
    struct rng rng;
    uint32_t workers, jobs;
    int64_t at_us;
    int64_t durations_us[TASKS_PER_JOB];
};

static int next_made(void *arg, struct trace_job *job)
{
    struct made *m = arg;
    int64_t mean_us = (rng_below(&m->rng, 10) == 0 ? 1000 : 50) * US_PER_S;

    if (m->jobs == 0)
        return 0;
    m->jobs--;
    for (int i = 0; i < TASKS_PER_JOB; i++)
        m->durations_us[i] = mean_us / 2 + (int64_t)rng_below(&m->rng, (uint64_t)mean_us);
    *job = (struct trace_job){
        .submit_us = m->at_us, .mean_us = mean_us, .tasks = TASKS_PER_JOB, .durations_us = m->durations_us};
    /* 145 s is the mean of all tasks. */
    m->at_us += (int64_t)rng_below(&m->rng, 2 * TASKS_PER_JOB * 145 * US_PER_S / m->workers * 100 / 85);
    return 1;
}

/* ---- One run, in a process of its own: its peak memory is its own ---- */

struct figures {
    uint64_t events, tasks, instructions, peak_rss_bytes;
    double cpu_s;
};

/* Counts this process's instructions from now on; -1 where the machine does not tell. */
static int count_instructions(void)
{
    struct perf_event_attr a = {.type = PERF_TYPE_HARDWARE,
                                .size = sizeof a,
                                .config = PERF_COUNT_HW_INSTRUCTIONS,
                                .exclude_kernel = 1,
                                .exclude_hv = 1};

    return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

static int simulate(uint32_t workers, const char *trace, uint64_t tasks, struct figures *f)
{
    struct made m = {.workers = workers, .jobs = (uint32_t)(tasks / TASKS_PER_JOB)};
    struct sim_source source = {next_made, &m};
    struct sim_workload w = {0};
    struct sim_config c;
    struct sim_result r;
    struct rusage u;
    char why[256] = "";
    int counter = count_instructions(), err = 0;

    sim_config_init(&c);
    c.workers = workers;
    c.policy.cutoff_us = trace ? 1129532000 : 500 * US_PER_S;
    c.policy.short_share_ppm = 170000;
    c.sample_us = 100 * US_PER_S; /* as earlier versions had it: their figures compare */
    rng_seed(&m.rng, 1);
    if (trace)
        err = workload_open(&w, trace, &source);
    if (!err)
        err = sim_run(&c, &source, &r, why, sizeof why);
    if (err) {
        fprintf(stderr, "bench_sim: %s %s\n", why, trace ? workload_error(&w) : "");
        return 1;
    }
    getrusage(RUSAGE_SELF, &u);
    *f = (struct figures){.events = r.events,
                          .tasks = r.tasks,
                          .cpu_s = r.cpu_s,
                          .peak_rss_bytes = (uint64_t)u.ru_maxrss * 1024};
    if (counter < 0 || read(counter, &f->instructions, sizeof f->instructions) != sizeof f->instructions)
        f->instructions = 0;
    return 0;
}

static bool measure(uint32_t workers, const char *trace, uint64_t tasks, struct figures *f)
{
    int ends[2], status;
    pid_t child;
    bool got;

    if (pipe(ends) != 0)
        return false;
    child = fork();
    if (child == 0) {
        bool ok = simulate(workers, trace, tasks, f) == 0 && write(ends[1], f, sizeof *f) == sizeof *f;

        _exit(ok ? 0 : 1);
    }
    close(ends[1]);
    got = child > 0 && read(ends[0], f, sizeof *f) == sizeof *f;
    close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 && got;
}

/* The same by valgrind, in this program's one-run form (main). False: it is not installed, or failed. */
static bool count_by_valgrind(const char *program, uint32_t workers, const char *trace, uint64_t tasks,
                              uint64_t *instructions)
{
    char command[8192], line[256];
    const char *found;
    FILE *f;

    snprintf(command, sizeof command,
             "valgrind --tool=callgrind --callgrind-out-file=/dev/null '%s' --one %u %llu '%s' 2>&1", program,
             workers, (unsigned long long)tasks, trace ? trace : "");
    f = popen(command, "r");
    *instructions = 0;
    while (f && fgets(line, sizeof line, f))
        if ((found = strstr(line, "Collected :")))
            *instructions = strtoull(found + strlen("Collected :"), NULL, 10);
    return f && pclose(f) == 0 && *instructions > 0;
}

static void tell(json_t *all, const char *name, uint32_t workers, const struct figures *f)
{
    double events = (double)f->events;

    printf("%-18s %7u workers %9llu tasks %6.2f CPU s %5.2f M events/s %4.0f ns/event %7.0f tasks/s %5.0f MB",
           name, workers, (unsigned long long)f->tasks, f->cpu_s, events / f->cpu_s / 1e6,
           f->cpu_s * 1e9 / events, (double)f->tasks / f->cpu_s, (double)f->peak_rss_bytes / 1e6);
    if (f->instructions)
        printf(" %5.0f instructions/event", (double)f->instructions / events);
    printf("\n");
    fflush(stdout);
    json_array_append_new(all, json_pack("{s:s,s:i,s:I,s:I,s:I,s:f,s:f,s:f,s:I}", "name", name, "workers",
                                         (int)workers, "tasks", (json_int_t)f->tasks, "events",
                                         (json_int_t)f->events, "instructions", (json_int_t)f->instructions,
                                         "cpu_s", f->cpu_s, "events_per_cpu_s", events / f->cpu_s,
                                         "tasks_per_cpu_s", (double)f->tasks / f->cpu_s, "peak_rss_bytes",
                                         (json_int_t)f->peak_rss_bytes));
}

static bool run(json_t *all, const char *program, const char *name, uint32_t workers, const char *trace,
                uint64_t tasks)
{
    struct figures f;

    if (!measure(workers, trace, tasks, &f))
        return false;
    if (getenv("INSTRUCTIONS") && !f.instructions &&
        !count_by_valgrind(program, workers, trace, tasks, &f.instructions))
        fprintf(stderr, "bench_sim: valgrind counted no instructions; is it installed?\n");
    tell(all, name, workers, &f);
    return true;
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {1000, 3000, 10000, 30000, 100000};
    const char *shared = getenv("HAWK_SHARED");
    json_t *all = json_array();
    char trace[4096];
    bool ok = true;

    if (argc == 5 && strcmp(argv[1], "--one") == 0) {
        struct figures f;

        return simulate((uint32_t)strtoul(argv[2], NULL, 10), *argv[4] ? argv[4] : NULL,
                        strtoull(argv[3], NULL, 10), &f);
    }
    snprintf(trace, sizeof trace, "%s/traces/google-10000.tr", shared ? shared : "../shared");
    if (access(trace, R_OK) != 0)
        printf("%s is not there: set HAWK_SHARED to the folder that holds traces/\n", trace);
    else
        ok = run(all, argv[0], "google-10000", 15000, trace, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && ok; i++)
        ok = run(all, argv[0], "10 tasks a worker", sizes[i], NULL, (uint64_t)sizes[i] * 10);
    if (argc > 1 && json_dump_file(all, argv[1], JSON_INDENT(2)) != 0) {
        fprintf(stderr, "bench_sim: %s cannot be written\n", argv[1]);
        ok = false;
    }
    json_decref(all);
    return ok ? 0 : 1;
}
