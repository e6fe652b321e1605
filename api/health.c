/* gRPC's health check, grpc.health.v1.Health/Check, for supervisors that know nothing of Hawk. The messages are so
 * small that their bytes stand here. */
#include "api/internal.h"

#include <string.h>

#define HEALTH_METHOD "/grpc.health.v1.Health/Check"
#define SERVICE_FIELD 0x0a /* HealthCheckRequest.service: field 1, bytes */

/* HealthCheckResponse.status: field 1, a number. */
static const uint8_t serving[] = {0x08, 1}, not_serving[] = {0x08, 2};

/* Whether the request names this service; an empty one names the daemon. */
static bool is_for(const uint8_t *request, size_t len, const char *service)
{
    size_t n = strlen(service);

    return len == n + 2 && request[0] == SERVICE_FIELD && request[1] == n &&
           memcmp(request + 2, service, n) == 0;
}

static void on_check(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    const struct api *a = arg;

    if (len == 0 || is_for(request, len, "") || is_for(request, len, "hawk.v1.Hawk"))
        rpc_reply(c, a->standby ? not_serving : serving, sizeof serving);
    else
        rpc_fail(c, GRPC_STATUS_NOT_FOUND,
                 "health is known of service hawk.v1.Hawk, and without a name of the daemon");
}

void api_health_init(struct api *a, struct server *s) { server_handle(s, HEALTH_METHOD, on_check, a); }
