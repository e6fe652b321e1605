/* Writes the results of a simulation for scripts. */
#include "sim/report.h"

#include "base/units.h"
#include "msg/msg.h"

#include <sys/resource.h>

static double seconds(double us) { return us / 1e6; }

static void set(json_t *o, const char *key, json_t *value)
{
    if (json_object_set_new(o, key, value) != 0)
        json_decref(value);
}

/* unit: the spread's units per unit of the output. */
static void set_spread(json_t *o, const struct spread *s, const char *suffix, double unit)
{
    const struct {
        const char *name;
        double value;
    } figures[] = {{"p50", (double)s->p50},
                   {"p90", (double)s->p90},
                   {"p99", (double)s->p99},
                   {"mean", s->mean},
                   {"max", (double)s->max}};
    char key[32];

    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        snprintf(key, sizeof key, "%s%s", figures[i].name, suffix);
        set(o, key, json_real(figures[i].value / unit));
    }
}

static json_t *class_json(const struct sim_class *k)
{
    json_t *o = json_object(), *part;

    set(o, "n", json_integer(k->jobs));
    set_spread(o, &k->response_us, "_s", 1e6);
    set(o, "tasks", json_integer((json_int_t)k->tasks));
    set(o, "mistaken", json_integer(k->mistaken));
    for (int taken = 0; k->mistaken > 0 && taken < CLASS_COUNT; taken++) {
        part = json_object();
        set_spread(part, &k->taken_us[taken], "_s", 1e6);
        set(o, taken == CLASS_SHORT ? "as_short" : "as_long", part);
    }
    part = json_object();
    set_spread(part, &k->wait_us, "_s", 1e6);
    set(o, "queueing", part);
    part = json_object();
    set_spread(part, &k->slowdown, "", 1e3);
    set(o, "slowdown", part);
    return o;
}

static json_t *messages_json(const struct sim_result *r)
{
    json_t *o = json_object();

    for (unsigned t = 1; t < MSG_WIRE_END; t++)
        if (r->by_type[t])
            set(o, msg_name(t), json_integer((json_int_t)r->by_type[t]));
    return o;
}

static json_t *counters_json(const struct sim_result *r)
{
    json_t *o = json_object();

    for (int c = 0; c < COUNTER_COUNT; c++)
        set(o, counter_names[c], json_integer((json_int_t)r->counters[c]));
    return o;
}

/* The share of busy slots over time, in ten-thousandths. */
static json_t *samples_json(const struct sim_result *r)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < r->utilization_n; i++)
        json_array_append_new(list,
                              json_real((double)(int)((double)r->utilization[i] * 10000 + 0.5) / 10000));
    return list;
}

static double peak_rss_bytes(void)
{
    struct rusage u;

    return getrusage(RUSAGE_SELF, &u) == 0 ? (double)u.ru_maxrss * 1024 : 0;
}

json_t *sim_report_json(const struct sim_config *c, const struct sim_result *r)
{
    json_t *o = json_object(), *part;

    set(o, "yardstick", json_boolean(r->events == 0)); /* a bound, not a scheduler's result */
    set(o, "workers", json_integer(c->workers));
    set(o, "slots", json_integer(c->slots));
    set(o, "seed", json_integer((json_int_t)c->seed));
    for (int k = 0; k < CLASS_COUNT; k++)
        set(o, class_text((enum job_class)k), class_json(&r->classes[k]));
    set(o, "tasks", json_integer((json_int_t)r->tasks));
    set(o, "events", json_integer((json_int_t)r->events));
    set(o, "start_events", json_integer((json_int_t)r->start_events));
    set(o, "timers", json_integer((json_int_t)r->timers));
    set(o, "cpu_s", json_real(r->cpu_s));
    set(o, "peak_rss_bytes", json_integer((json_int_t)peak_rss_bytes()));
    set(o, "end_s", json_real(seconds((double)r->end_us)));
    part = json_object();
    set(part, "median", json_real(r->utilization_median));
    set(part, "median_until_end", json_real(r->utilization_median_all));
    set(part, "every_s", json_real(seconds((double)r->sample_us)));
    set(part, "samples", samples_json(r));
    set(o, "utilization", part);
    part = json_object();
    set(part, "received", json_integer((json_int_t)r->central_received));
    set(part, "sent", json_integer((json_int_t)r->central_sent));
    set(part, "busy", json_real(r->central_busy));
    set(o, "central", part);
    set(o, "messages", messages_json(r));
    set(o, "counters", counters_json(r));
    return o;
}

void sim_report_csv(FILE *f, const struct sim_result *r)
{
    fprintf(f, "class,n,p50_s,p90_s,p99_s,mean_s,max_s\n");
    for (int k = 0; k < CLASS_COUNT; k++) {
        const struct spread *s = &r->classes[k].response_us;

        fprintf(f, "%s,%u,%.6f,%.6f,%.6f,%.6f,%.6f\n", class_text((enum job_class)k), r->classes[k].jobs,
                seconds((double)s->p50), seconds((double)s->p90), seconds((double)s->p99), seconds(s->mean),
                seconds((double)s->max));
    }
}

void sim_report_jobs(FILE *f, const struct sim_result *r)
{
    fprintf(f, "number,class,believed,submit_s,response_s,longest_s,tasks\n");
    for (uint32_t i = 0; i < r->jobs_n; i++) {
        const struct sim_job_result *j = &r->jobs[i];

        fprintf(f, "%llu,%s,%s,%.6f,%.6f,%.6f,%u\n", (unsigned long long)j->number,
                class_text((enum job_class)j->class), class_text((enum job_class)j->believed),
                seconds((double)j->submit_us), seconds((double)j->response_us),
                seconds((double)j->longest_us), j->tasks);
    }
}
