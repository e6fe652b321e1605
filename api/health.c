/* gRPC's health check, grpc.health.v1.Health, for supervisors and load balancers that know nothing of Hawk. The
 * messages are so small that their bytes stand here. */
#include "api/internal.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_METHOD "/grpc.health.v1.Health/Check"
#define WATCH_METHOD "/grpc.health.v1.Health/Watch"
#define SERVICE_FIELD 0x0a /* HealthCheckRequest.service: field 1, bytes */

/* HealthCheckResponse.status: field 1, a number. */
static const uint8_t serving[] = {0x08, 1}, not_serving[] = {0x08, 2}, service_unknown[] = {0x08, 3};

/* A Watch: the client hears how things are, and again when that changes. */
struct api_health {
    struct api *api;
    struct rpc_call *call;
    const uint8_t *told; /* the answer that was sent last */
    bool known;          /* the service */
    struct list in_all;
};

/* Whether the request names this service; an empty one names the daemon. */
static bool is_for(const uint8_t *request, size_t len, const char *service)
{
    size_t n = strlen(service);

    return len == n + 2 && request[0] == SERVICE_FIELD && request[1] == n &&
           memcmp(request + 2, service, n) == 0;
}

static bool is_known(const uint8_t *request, size_t len)
{
    return len == 0 || is_for(request, len, "") || is_for(request, len, "hawk.v1.Hawk");
}

static const uint8_t *answer(const struct api *a) { return a->standby ? not_serving : serving; }

static void on_check(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    const struct api *a = arg;

    if (is_known(request, len))
        rpc_reply(c, answer(a), sizeof serving);
    else
        rpc_fail(c, GRPC_STATUS_NOT_FOUND,
                 "health is known of service hawk.v1.Hawk, and without a name of the daemon");
}

/* ---- Watch ---- */

static void end_watch(struct api_health *h)
{
    list_remove(&h->in_all);
    free(h);
}

/* What a full queue does not take is sent when the client has read: `told` stays as it is. */
static void tell(struct api_health *h)
{
    const uint8_t *now = h->known ? answer(h->api) : service_unknown;

    if (now != h->told && rpc_send(h->call, now, sizeof serving) == 0)
        h->told = now;
}

static void on_cancelled(void *arg, struct rpc_call *c)
{
    rpc_finish(c);
    end_watch(arg);
}

static void on_writable(void *arg, struct rpc_call *c) { tell(arg); }

/* As the standard says, a service that is not known is no error here: it may come. */
static void on_watch(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    struct api *a = arg;
    struct api_health *h = xcalloc(1, sizeof *h);

    *h = (struct api_health){.api = a, .call = c, .known = is_known(request, len)};
    list_push_tail(&a->health, &h->in_all);
    rpc_watch(c, on_cancelled, on_writable, h);
    tell(h);
}

void api_health_changed(struct api *a)
{
    list_foreach(&a->health, l, next)
        tell(container_of(l, struct api_health, in_all));
}

void api_health_init(struct api *a, struct server *s)
{
    list_init(&a->health);
    server_handle(s, CHECK_METHOD, on_check, a);
    server_handle(s, WATCH_METHOD, on_watch, a);
    server_limit(s, WATCH_METHOD, API_WATCHES_MAX);
    server_lasting(s, WATCH_METHOD);
}

void api_health_free(struct api *a)
{
    list_foreach(&a->health, l, next) {
        struct api_health *h = container_of(l, struct api_health, in_all);
        if (h->known)
            (void)!rpc_send(h->call, not_serving, sizeof not_serving);
        rpc_fail(h->call, GRPC_STATUS_UNAVAILABLE, "%s " API_GOING_TEXT, a->roles.name);
        end_watch(h);
    }
}
