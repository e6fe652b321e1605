/* Prints the results of a simulation as a table. */
#include "sim/report.h"

#include "base/units.h"
#include "msg/msg.h"

#define DURATION(us) duration_format((char[32]){0}, 32, (us))

static void print_spread(FILE *f, const char *class, const char *what, const struct spread *s)
{
    fprintf(f, "%-6s %-10s %10s %10s %10s %10s %10s\n", class, what, DURATION(s->p50), DURATION(s->p90),
            DURATION(s->p99), DURATION((int64_t)s->mean), DURATION(s->max));
}

static void print_slowdown(FILE *f, const char *class, const struct spread *s)
{
    fprintf(f, "%-6s %-10s %10.2f %10.2f %10.2f %10.2f %10.2f\n", class, "slowdown", (double)s->p50 / 1e3,
            (double)s->p90 / 1e3, (double)s->p99 / 1e3, s->mean / 1e3, (double)s->max / 1e3);
}

static void print_classes(FILE *f, const struct sim_result *r)
{
    fprintf(f, "%-6s %-10s %10s %10s %10s %10s %10s\n", "class", "", "p50", "p90", "p99", "mean", "max");
    for (int k = 0; k < CLASS_COUNT; k++) {
        const struct sim_class *c = &r->classes[k];

        if (c->jobs == 0)
            continue;
        print_spread(f, class_text((enum job_class)k), "response", &c->response_us);
        if (c->mistaken > 0) {
            print_spread(f, "", "as short", &c->taken_us[CLASS_SHORT]);
            print_spread(f, "", "as long", &c->taken_us[CLASS_LONG]);
        }
        print_spread(f, "", "queueing", &c->wait_us);
        if (c->slowdown.n > 0)
            print_slowdown(f, "", &c->slowdown);
    }
    fprintf(
        f, "(response: of jobs, submission to the last task's end; queueing: of tasks, submission to start;\n"
           " slowdown: response over the job's longest task, which is what an empty cluster takes)\n");
    if (r->classes[CLASS_SHORT].mistaken + r->classes[CLASS_LONG].mistaken > 0)
        fprintf(f, "(as short, as long: the response of those that the policy took for short, and for long, "
                   "when they "
                   "came)\n");
}

static double per_task(const struct sim_result *r, uint64_t n)
{
    return r->tasks ? (double)n / (double)r->tasks : 0;
}

static void print_messages(FILE *f, const struct sim_result *r)
{
    fprintf(f, "\nmessages per task:");
    for (unsigned t = 1, n = 0; t < MSG_WIRE_END; t++)
        if (r->by_type[t] > 0)
            fprintf(f, "%s %s %.3f", n++ % 4 == 0 ? "\n " : ",", msg_name(t), per_task(r, r->by_type[t]));
    fprintf(f, "\n");
}

static unsigned long long counter(const struct sim_result *r, enum counter c) { return r->counters[c]; }

void sim_report_table(FILE *f, const struct sim_config *c, const struct sim_result *r)
{
    const struct sim_class *s = &r->classes[CLASS_SHORT], *l = &r->classes[CLASS_LONG];

    fprintf(f, "%u short and %u long jobs, %llu tasks, on %u workers of %u slot%s for %s\n\n", s->jobs,
            l->jobs, (unsigned long long)r->tasks, c->workers, c->slots, c->slots == 1 ? "" : "s",
            DURATION(r->end_us));
    print_classes(f, r);
    if (r->events == 0) {
        fprintf(f, "\nomniscient: a yardstick, not a scheduler. No scheduler can beat these figures, with "
                   "whatever foresight and\n"
                   "without delays; none need reach them (queueing: 0).\n");
        return;
    }
    fprintf(f, "\nutilization: median %.1f %% while 99 %% of the jobs came, %.1f %% from start to end\n",
            r->utilization_median * 100, r->utilization_median_all * 100);
    if (s->mistaken + l->mistaken > 0)
        fprintf(f, "classified: %u short jobs taken for long, %u long ones for short\n", s->mistaken,
                l->mistaken);
    if (counter(r, COUNTER_jobs_promoted) > 0)
        fprintf(f, "promoted: %llu jobs\n", counter(r, COUNTER_jobs_promoted));
    fprintf(f, "probes: %llu sent (%.2f per task), %llu cancelled, %llu found nothing left\n",
            counter(r, COUNTER_probes_sent), per_task(r, r->counters[COUNTER_probes_sent]),
            counter(r, COUNTER_probes_cancelled), counter(r, COUNTER_probes_unused));
    fprintf(f,
            "stealing: %llu rounds, %llu victims asked, %llu gave %llu reservations, of which %llu became "
            "tasks\n",
            counter(r, COUNTER_steal_rounds), counter(r, COUNTER_steal_requests),
            counter(r, COUNTER_steal_successes), counter(r, COUNTER_reservations_stolen),
            counter(r, COUNTER_tasks_stolen));
    fprintf(f, "central: %llu tasks placed, %llu messages received, %llu sent, busy %.3f %%\n",
            counter(r, COUNTER_tasks_placed), (unsigned long long)r->central_received,
            (unsigned long long)r->central_sent, r->central_busy * 100);
    print_messages(f, r);
    fprintf(f, "\n%llu events in %.2f CPU seconds: %.2f million a second, %.0f tasks a second\n",
            (unsigned long long)r->events, r->cpu_s, (double)r->events / r->cpu_s / 1e6,
            (double)r->tasks / r->cpu_s);
}
