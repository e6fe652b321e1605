/* Medians and ranges. */
#include "bench/lib/figures.h"

#include "base/mem.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct figure {
    char *name;
    const char *unit;
    double *v;
    uint32_t n, cap;
    double target;
    bool has_target, at_most;
};

struct figures {
    const char *bench;
    struct figure *v;
    uint32_t n, cap;
    double load;
};

static const char *program = "bench";

void bench_name(const char *name) { program = name; }

void bench_die(const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "%s: ", program);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

static double clock_s(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double wall_s(void) { return clock_s(CLOCK_MONOTONIC); }
double cpu_s(void) { return clock_s(CLOCK_PROCESS_CPUTIME_ID); }

struct figures *figures_new(const char *bench)
{
    struct figures *f = xcalloc(1, sizeof *f);

    f->bench = bench;
    if (getloadavg(&f->load, 1) != 1)
        f->load = -1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    return f;
}

static struct figure *find(struct figures *f, const char *name)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (strcmp(f->v[i].name, name) == 0)
            return &f->v[i];
    vec_grow(f->v, f->n, f->cap);
    f->v[f->n] = (struct figure){.name = xstrdup(name), .unit = ""};
    return &f->v[f->n++];
}

void figures_add(struct figures *f, const char *name, const char *unit, double value)
{
    struct figure *g = find(f, name);

    if (g->n == FIGURE_ROUNDS_MAX)
        bench_die("more than %u rounds", FIGURE_ROUNDS_MAX);
    g->unit = unit;
    vec_grow(g->v, g->n, g->cap);
    g->v[g->n++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void figures_add_quantiles(struct figures *f, const char *name, const char *unit, double *v, uint32_t n)
{
    static const uint32_t percents[] = {50, 90, 99};
    char full[128];

    qsort(v, n, sizeof *v, by_value);
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        snprintf(full, sizeof full, "%s, p%u", name, percents[i]);
        figures_add(f, full, unit, v[(uint64_t)n * percents[i] / 100]);
    }
}

static void set_target(struct figures *f, const char *name, double target, bool at_most)
{
    struct figure *g = find(f, name);

    g->target = target;
    g->has_target = true;
    g->at_most = at_most;
}

void figures_at_least(struct figures *f, const char *name, double target)
{
    set_target(f, name, target, false);
}
void figures_at_most(struct figures *f, const char *name, double target)
{
    set_target(f, name, target, true);
}

static double median(const double *sorted, uint32_t n)
{
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double figures_median(const struct figures *f, const char *name)
{
    for (uint32_t i = 0; i < f->n; i++) {
        const struct figure *g = &f->v[i];
        if (g->n == 0 || strcmp(g->name, name) != 0)
            continue;
        double *sorted = xmalloc(g->n * sizeof *sorted);
        memcpy(sorted, g->v, g->n * sizeof *sorted);
        qsort(sorted, g->n, sizeof *sorted, by_value);
        double mid = median(sorted, g->n);
        free(sorted);
        return mid;
    }
    return 0;
}

/* As many digits as tell something. */
static const char *number(char buf[32], double v)
{
    snprintf(buf, 32, "%.*f", v >= 1000 || v <= -1000 ? 0 : v >= 10 || v <= -10 ? 1 : 3, v);
    return buf;
}

static json_t *figure_json(const struct figure *g, json_t *values)
{
    json_t *o = json_object();

    json_object_set_new(o, "unit", json_string(g->unit));
    json_object_set_new(o, "median", json_real(median(g->v, g->n)));
    json_object_set_new(o, "min", json_real(g->v[0]));
    json_object_set_new(o, "max", json_real(g->v[g->n - 1]));
    if (g->has_target)
        json_object_set_new(o, g->at_most ? "at_most" : "at_least", json_real(g->target));
    json_object_set_new(o, "rounds", values);
    return o;
}

static json_t *report_one(struct figure *g)
{
    char m[32], lo[32], hi[32], t[32];
    json_t *values = json_array();
    double mid;

    for (uint32_t i = 0; i < g->n; i++)
        json_array_append_new(values, json_real(g->v[i]));
    qsort(g->v, g->n, sizeof *g->v, by_value);
    mid = median(g->v, g->n);
    printf("%-72s %12s %-6s (%s to %s)", g->name, number(m, mid), g->unit, number(lo, g->v[0]),
           number(hi, g->v[g->n - 1]));
    if (g->has_target)
        printf("  %s %s: %s", g->at_most ? "at most" : "at least", number(t, g->target),
               (g->at_most ? mid <= g->target : mid >= g->target) ? "met" : "MISSED");
    putchar('\n');
    return figure_json(g, values);
}

/* The first line that a command prints, or "". */
static void first_line(const char *command, char *buf, size_t size)
{
    FILE *p = popen(command, "r"); /* NOLINT(cert-env33-c): a constant */

    buf[0] = '\0';
    if (!p)
        return;
    if (!fgets(buf, (int)size, p))
        buf[0] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
    pclose(p);
}

void figures_end(struct figures *f, const char *path)
{
    json_t *all = json_object(), *o = json_object();
    char commit[64], cpu[128];

    first_line("git describe --always --dirty 2>/dev/null", commit, sizeof commit);
    first_line("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo", cpu, sizeof cpu);
    json_object_set_new(all, "bench", json_string(f->bench));
    json_object_set_new(all, "commit", json_string(commit));
    json_object_set_new(all, "cpu", json_string(cpu));
    json_object_set_new(all, "load_before", json_real(f->load));
    json_object_set_new(all, "figures", o);
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->v[i].n)
            json_object_set_new(o, f->v[i].name, report_one(&f->v[i]));
        free(f->v[i].v);
        free(f->v[i].name);
    }
    if (path && json_dump_file(all, path, JSON_INDENT(1)) != 0)
        bench_die("the figures cannot be written to %s", path);
    json_decref(all);
    free(f->v);
    free(f);
}
