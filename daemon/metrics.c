/* The page of metrics and who serves it: see metrics.h. */
#include "daemon/metrics.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/listen.h"
#include "net/sonames.h"
#include "net/token.h"

#include <dlfcn.h>
#include <grpc/status.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define EVERY_US US_PER_S
/* Readers are few. One that sends nothing, or does not read, loses its connection; one that takes its time, when
 * there are more than CONNECTIONS. */
#define CONNECTIONS 32u
#define CONNECTIONS_ENDING 16u    /* more of them, that are being closed */
#define CONNECTIONS_OF_ADDRESS 8u /* others can still read when one address keeps its connections open */
#define IDLE_S 10u
#define CONTENT_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* A connection. */
struct reader {
    struct list at; /* in metrics.readers; in none: it is being closed */
    int fd;
};

struct metrics {
    struct loop *loop;
    struct loop_timer timer;
    struct metrics_config config;
    struct histogram turns;
    int64_t started_us; /* time of day */
    char addr[ADDR_TEXT];
    char *token;
    struct MHD_Daemon *http;
    atomic_ulong wrong_tokens;

    struct list readers; /* of libmicrohttpd's thread; the oldest first */

    pthread_mutex_t lock; /* of what follows: held while a page is copied, and no longer */
    char *page;
    size_t len;
    int64_t made_us;
};

/* ---- Families ---- */

void metrics_family(FILE *page, const char *name, const char *type, const char *help)
{
    fprintf(page, "# TYPE %s %s\n", name, type);
    size_t len = strlen(name);
    if (len > 8 && strcmp(name + len - 8, "_seconds") == 0)
        fprintf(page, "# UNIT %s seconds\n", name);
    fprintf(page, "# HELP %s %s\n", name, help);
}

static void put_sample(FILE *page, const char *name, const char *suffix, const char *labels, double value)
{
    fprintf(page, *labels ? "%s%s{%s} %.15g\n" : "%s%s%s %.15g\n", name, suffix, labels, value);
}

void metrics_gauge(FILE *page, const char *name, const char *labels, double value)
{
    put_sample(page, name, "", labels, value);
}

void metrics_counter(FILE *page, const char *name, const char *labels, double value)
{
    put_sample(page, name, "_total", labels, value);
}

void metrics_histogram(FILE *page, const char *name, const char *labels, const struct histogram *h,
                       enum histogram_scale scale)
{
    const double unit = scale == HISTOGRAM_TIME ? 1e6 : 1e3;
    const char *comma = *labels ? "," : "";
    uint64_t below = 0;
    uint32_t n;
    const int64_t *bounds = histogram_bounds(scale, &n);

    for (uint32_t i = 0; i < n; i++) {
        double bound = (double)bounds[i] / unit;
        below += h->in[i];
        /* OpenMetrics wants a point in every bound. */
        fprintf(page, "%s_bucket{%s%sle=\"%.10g%s\"} %" PRIu64 "\n", name, labels, comma, bound,
                bound == (double)(int64_t)bound ? ".0" : "", below);
    }
    fprintf(page, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, h->n);
    put_sample(page, name, "_count", labels, (double)h->n);
    put_sample(page, name, "_sum", labels, (double)h->sum / unit);
}

/* ---- What every process has ---- */

static const char *const codes[SERVER_CODES] = {
    "ok",        "cancelled",      "unknown",           "invalid_argument",   "deadline_exceeded",
    "not_found", "already_exists", "permission_denied", "resource_exhausted", "failed_precondition",
    "aborted",   "out_of_range",   "unimplemented",     "internal",           "unavailable",
    "data_loss", "unauthenticated"};

static void process_families(const struct metrics *m, FILE *page)
{
    const struct server_counts calls = server_counts(m->config.server);
    char labels[64];

    metrics_family(page, "hawk_build", "info", "Version and role of this process.");
    fprintf(page, "hawk_build_info{version=\"%s\",role=\"%s\"} 1\n", m->config.version, m->config.role);
    metrics_family(page, "hawk_start_time_seconds", "gauge", "Time of day at which this process started.");
    metrics_gauge(page, "hawk_start_time_seconds", "", (double)m->started_us / 1e6);
    metrics_family(page, "hawk_calls", "counter", "Calls of clients and nodes that came.");
    metrics_counter(page, "hawk_calls", "", (double)calls.calls);
    metrics_family(page, "hawk_calls_refused", "counter",
                   "Calls that were refused or failed, by gRPC's code.");
    for (int i = 1; i < SERVER_CODES; i++) {
        snprintf(labels, sizeof labels, "code=\"%s\"", codes[i]);
        uint64_t here = i == GRPC_STATUS_UNAUTHENTICATED ? atomic_load(&m->wrong_tokens) : 0;
        metrics_counter(page, "hawk_calls_refused", labels, (double)(calls.failed[i] + here));
    }
    metrics_family(page, "hawk_connections_delayed", "counter",
                   "Connections that waited, since their address connected too fast (cluster.connect_rate).");
    metrics_counter(page, "hawk_connections_delayed", "", (double)calls.connections_delayed);
    metrics_family(page, "hawk_connections_refused", "counter",
                   "Connections that were refused; the log says why.");
    metrics_counter(page, "hawk_connections_refused", "", (double)calls.connections_refused);
    metrics_family(page, "hawk_connections_untrusted", "counter",
                   "Connections whose TLS failed, or whose certificate was good no more; the log says why.");
    metrics_counter(page, "hawk_connections_untrusted", "", (double)calls.connections_untrusted);
    metrics_family(page, "hawk_loop_lag_seconds", "histogram",
                   "Turns of the event loop by their time: so long something that comes may wait.");
    metrics_histogram(page, "hawk_loop_lag_seconds", "", &m->turns, HISTOGRAM_TIME);
}

/* ---- The loop's thread ---- */

/* If a reader's page is just being copied, the next second has to do. */
static void write_page(void *arg)
{
    struct metrics *m = arg;
    char *page = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&page, &len);

    if (f) {
        process_families(m, f);
        m->config.fill(m->config.arg, f);
        if (fclose(f) == 0 && pthread_mutex_trylock(&m->lock) == 0) {
            char *old = m->page;
            m->page = page;
            m->len = len;
            m->made_us = loop_now(m->loop);
            pthread_mutex_unlock(&m->lock);
            page = old;
        }
        free(page);
    }
    loop_timer_set(m->loop, &m->timer, loop_now(m->loop) + EVERY_US);
}

/* ---- libmicrohttpd ---- */

/* It is loaded where metrics are served alone: with GnuTLS, which it is linked with, it takes longer to load than most
 * commands take to run. */
#define MHD_FUNCTIONS(X)                                                                                     \
    X(start_daemon)                                                                                          \
    X(stop_daemon)                                                                                           \
    X(lookup_connection_value)                                                                               \
    X(get_connection_info)                                                                                   \
    X(create_response_from_buffer)                                                                           \
    X(add_response_header)                                                                                   \
    X(queue_response)                                                                                        \
    X(destroy_response)

static struct {
#define X(name) __typeof__(MHD_##name) *name;
    MHD_FUNCTIONS(X)
#undef X
} mhd;

static bool load_mhd(char *why, size_t size)
{
    void *lib = dlopen(SONAME_MICROHTTPD, RTLD_NOW);
    bool ok = lib;

#define X(name) ok = ok && (mhd.name = (__typeof__(mhd.name))dlsym(lib, "MHD_" #name));
    MHD_FUNCTIONS(X)
#undef X
    if (!ok)
        snprintf(why, size, "cannot serve metrics without libmicrohttpd: %s", dlerror());
    return ok;
}

/* ---- libmicrohttpd's thread ---- */

static bool may_read(const struct metrics *m, struct MHD_Connection *c)
{
    const char *sent = mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");

    return !m->token || (sent && token_matches(sent, strlen(sent), m->token));
}

static enum MHD_Result answer_with(struct MHD_Connection *c, unsigned status, char *text, size_t len,
                                   const char *type)
{
    struct MHD_Response *r = mhd.create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result = MHD_NO;

    if (!r) {
        free(text);
        return MHD_NO;
    }
    if (mhd.add_response_header(r, "Content-Type", type) == MHD_YES &&
        (status != MHD_HTTP_UNAUTHORIZED ||
         mhd.add_response_header(r, "WWW-Authenticate", "Bearer") == MHD_YES))
        result = mhd.queue_response(c, status, r);
    mhd.destroy_response(r);
    return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *c, unsigned status, const char *text)
{
    return answer_with(c, status, xstrdup(text), strlen(text), "text/plain");
}

/* Only this thread knows how old the page is: a loop that stands still writes no other. */
static char *copy_page(struct metrics *m, size_t *len)
{
    static const char family[] =
        "# TYPE hawk_page_age_seconds gauge\n# UNIT hawk_page_age_seconds seconds\n"
        "# HELP hawk_page_age_seconds Age of this page, which the event loop writes every "
        "second: more than two, and the loop stands still.\n";
    char tail[sizeof family + 80];

    pthread_mutex_lock(&m->lock);
    int n = snprintf(tail, sizeof tail, "%shawk_page_age_seconds %.3f\n# EOF\n", family,
                     (double)(loop_now(m->loop) - m->made_us) / 1e6);
    char *copy = xmalloc(m->len + (size_t)n);
    memcpy(copy, m->page, m->len);
    *len = m->len;
    pthread_mutex_unlock(&m->lock);
    memcpy(copy + *len, tail, (size_t)n);
    *len += (size_t)n;
    return copy;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_len, void **state)
{
    struct metrics *m = arg;
    size_t len;

    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
    if (!may_read(m, c)) {
        atomic_fetch_add(&m->wrong_tokens, 1);
        return answer_text(c, MHD_HTTP_UNAUTHORIZED,
                           "the token is missing or wrong: \"Authorization: Bearer TOKEN\", with what "
                           "cluster.metrics_token_file holds\n");
    }
    if (strcmp(url, "/metrics") != 0)
        return answer_text(c, MHD_HTTP_NOT_FOUND, "there is /metrics, and nothing else\n");
    char *page = copy_page(m, &len);
    return answer_with(c, MHD_HTTP_OK, page, len, CONTENT_TYPE);
}

/* Who connects last is served: else those who keep CONNECTIONS open would keep everybody else out. */
static void on_connection(void *arg, struct MHD_Connection *c, void **socket,
                          enum MHD_ConnectionNotificationCode what)
{
    struct metrics *m = arg;
    struct reader *r = *socket;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        list_remove(&r->at);
        free(r);
        return;
    }
    *socket = r = xcalloc(1, sizeof *r);
    r->fd = mhd.get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    list_push_tail(&m->readers, &r->at);
    if (list_length(&m->readers) > CONNECTIONS) {
        struct reader *oldest = container_of(m->readers.next, struct reader, at);
        list_remove(&oldest->at);
        shutdown(oldest->fd, SHUT_RDWR); /* libmicrohttpd sees its end, and closes it */
    }
}

/* ---- Life ---- */

/* Signals are the loop's. */
static struct MHD_Daemon *start_thread(struct metrics *m, int fd)
{
    sigset_t before;
    struct MHD_Daemon *http;

    thread_block_signals(&before);
    http = mhd.start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, on_request, m,
                            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                            CONNECTIONS + CONNECTIONS_ENDING, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                            CONNECTIONS_OF_ADDRESS, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, m, MHD_OPTION_END);
    thread_restore_signals(&before);
    return http;
}

struct metrics *metrics_start(struct loop *l, const struct metrics_config *c, char *why, size_t size)
{
    char numeric[ADDR_TEXT];
    struct metrics *m = xcalloc(1, sizeof *m);
    int fd = -1;

    *m = (struct metrics){.loop = l, .config = *c, .started_us = clock_us(CLOCK_REALTIME)};
    m->token = c->token ? xstrdup(c->token) : NULL;
    pthread_mutex_init(&m->lock, NULL);
    list_init(&m->readers);
    loop_timer_init(&m->timer, write_page, m);
    if (load_mhd(why, size) && addr_resolve(c->listen, numeric, sizeof numeric, why, size) == 0 &&
        listen_open(numeric, &fd, m->addr, why, size) == 0) {
        loop_measure(l, &m->turns);
        write_page(m);
        m->http = m->page ? start_thread(m, fd) : NULL;
        if (!m->http) {
            listen_close(m->addr, fd);
            snprintf(why, size, "cannot serve metrics on %s: libmicrohttpd does not start", m->addr);
        }
    }
    if (m->http)
        return m;
    metrics_stop(m);
    return NULL;
}

const char *metrics_addr(const struct metrics *m) { return m->addr; }

void metrics_stop(struct metrics *m)
{
    if (!m)
        return;
    if (m->http) {
        mhd.stop_daemon(m->http); /* closes the socket */
        if (addr_is_unix(m->addr))
            remove(m->addr + strlen("unix:"));
    }
    loop_measure(m->loop, NULL);
    loop_timer_clear(m->loop, &m->timer);
    pthread_mutex_destroy(&m->lock);
    free(m->page);
    free(m->token);
    free(m);
}
