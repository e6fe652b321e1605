/* Finds the best point of a grid, and prints the grid as a table and as JSON. */
#include "sim/sweep.h"

/* How much long jobs may lose for short jobs, and how much short jobs must gain to be worth a change. */
#define LONG_LOSS_MAX 1.05
#define SHORT_GAIN_MIN 0.99

static const struct sim_sweep_point *base_of(const struct sim_sweep_result *r, uint32_t workers)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->points[i].workers == workers && r->points[i].base)
            return &r->points[i];
    return NULL;
}

static double short_p99(const struct sim_sweep_point *p) { return (double)p->response_us[CLASS_SHORT].p99; }
static double long_p90(const struct sim_sweep_point *p) { return (double)p->response_us[CLASS_LONG].p90; }

const struct sim_sweep_point *sim_sweep_best(const struct sim_sweep_result *r, uint32_t workers)
{
    const struct sim_sweep_point *base = base_of(r, workers), *best = base;

    if (!base || base->err || !base->response_us[CLASS_SHORT].n || !base->response_us[CLASS_LONG].n)
        return NULL;
    for (uint32_t i = 0; i < r->n; i++) {
        const struct sim_sweep_point *p = &r->points[i];

        if (p->workers == workers && !p->err && long_p90(p) <= LONG_LOSS_MAX * long_p90(base) &&
            short_p99(p) <= SHORT_GAIN_MIN * short_p99(base) && short_p99(p) < short_p99(best))
            best = p;
    }
    return best;
}

/* The change in percent. */
static double change_percent(double now, double before) { return before > 0 ? 100 * (now / before - 1) : 0; }

static const char *share_text(const struct sim_sweep_point *p, char *buf, size_t size)
{
    snprintf(buf, size, "%.4g %%", p->share_ppm / 1e4);
    return p->share_auto ? "auto" : buf;
}

static void print_point(FILE *f, const struct sim_sweep_point *p, const struct sim_sweep_point *base)
{
    char share[16];

    fprintf(f, "%8u  %8.6g s  %8s", p->workers, (double)p->cutoff_us / 1e6,
            share_text(p, share, sizeof share));
    if (p->err) {
        fprintf(f, "  %s\n", p->why[0] ? p->why : hawk_strerror(p->err));
        return;
    }
    fprintf(f, "  %4.0f %%", 100 * p->utilization);
    for (int k = 0; k < CLASS_COUNT; k++)
        fprintf(f, "  %9.6g  %9.6g  %9.6g", (double)p->response_us[k].p50 / 1e6,
                (double)p->response_us[k].p90 / 1e6, (double)p->response_us[k].p99 / 1e6);
    if (p->base)
        fprintf(f, "  base\n");
    else if (base && !base->err)
        fprintf(f, "  %+.0f %%, %+.0f %%\n", change_percent(short_p99(p), short_p99(base)),
                change_percent(long_p90(p), long_p90(base)));
    else
        fprintf(f, "\n");
}

static void print_best(FILE *f, const struct sim_sweep_result *r, const struct sim_sweep_point *base,
                       bool name_size)
{
    const struct sim_sweep_point *best = sim_sweep_best(r, base->workers);
    char share[16];

    if (name_size)
        fprintf(f, "%u workers: ", base->workers);
    if (base->err) {
        fprintf(f, "the run without changes failed: nothing to compare with\n");
        return;
    }
    if (!best) {
        fprintf(f, "no job is %s at the base's cutoff of %.6g s: give another --cutoff\n",
                class_text(base->response_us[CLASS_SHORT].n ? CLASS_LONG : CLASS_SHORT),
                (double)base->cutoff_us / 1e6);
        return;
    }
    fprintf(f, "%scutoff %.6g s, %s reserved", best == base ? "keep " : "", (double)best->cutoff_us / 1e6,
            share_text(best, share, sizeof share));
    if (best == base)
        fprintf(f, ": nothing in the grid is better for short jobs' p99 at 5 %% of long jobs' p90\n");
    else
        fprintf(f, ": short p99 %+.0f %%, long p90 %+.0f %%\n",
                change_percent(short_p99(best), short_p99(base)),
                change_percent(long_p90(best), long_p90(base)));
}

void sim_sweep_print(FILE *f, const struct sim_sweep_result *r)
{
    uint32_t bases = 0;

    fprintf(f, "%8s  %10s  %9s  %6s  %31s  %31s\n", "", "", "", "median", "short jobs' response (s)",
            "long jobs' response (s)");
    fprintf(f, "%8s  %10s  %9s  %6s  %9s  %9s  %9s  %9s  %9s  %9s  %s\n", "workers", "cutoff", "reserved",
            "util.", "p50", "p90", "p99", "p50", "p90", "p99", "short p99, long p90");
    for (uint32_t i = 0; i < r->n; i++) {
        print_point(f, &r->points[i], base_of(r, r->points[i].workers));
        bases += r->points[i].base;
    }
    fprintf(f, "\n");
    for (uint32_t i = 0; i < r->n; i++)
        if (r->points[i].base)
            print_best(f, r, &r->points[i], bases > 1);
}

static json_t *class_json(const struct spread *s)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "n", (json_int_t)s->n, "p50_s", (double)s->p50 / 1e6,
                     "p90_s", (double)s->p90 / 1e6, "p99_s", (double)s->p99 / 1e6, "mean_s", s->mean / 1e6);
}

json_t *sim_sweep_json(const struct sim_sweep_result *r)
{
    json_t *points = json_array();

    for (uint32_t i = 0; i < r->n; i++) {
        const struct sim_sweep_point *p = &r->points[i];
        json_t *share = p->share_auto ? json_string("auto") : json_real(p->share_ppm / 1e6);
        json_t *o = json_pack("{s:i, s:f, s:o, s:b, s:b}", "workers", (int)p->workers, "cutoff_s",
                              (double)p->cutoff_us / 1e6, "short_partition", share, "base", p->base, "best",
                              p == sim_sweep_best(r, p->workers));

        if (p->err) {
            json_object_set_new(o, "error", json_string(p->why[0] ? p->why : hawk_strerror(p->err)));
        } else {
            json_object_set_new(o, "utilization", json_real(p->utilization));
            json_object_set_new(o, "short", class_json(&p->response_us[CLASS_SHORT]));
            json_object_set_new(o, "long", class_json(&p->response_us[CLASS_LONG]));
        }
        json_array_append_new(points, o);
    }
    return json_pack("{s:I, s:o}", "jobs", (json_int_t)r->jobs, "points", points);
}
