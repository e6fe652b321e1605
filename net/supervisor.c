/* See supervisor.h. libsystemd is loaded only under systemd: loading it takes longer than most commands run. */
#include "net/supervisor.h"

#include "base/log.h"
#include "msg/types.h"
#include "net/sonames.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

static struct {
    __typeof__(sd_notify) *notify;
    __typeof__(sd_watchdog_enabled) *watchdog_enabled;
} systemd;

static bool is_loaded(void)
{
    static bool tried;
    void *lib;

    if (tried || (!getenv("NOTIFY_SOCKET") && !getenv("WATCHDOG_USEC")))
        return systemd.notify;
    tried = true;
    lib = dlopen(SONAME_SYSTEMD, RTLD_NOW);
    if (lib) {
        systemd.watchdog_enabled = (__typeof__(systemd.watchdog_enabled))dlsym(lib, "sd_watchdog_enabled");
        systemd.notify = (__typeof__(systemd.notify))dlsym(lib, "sd_notify");
    }
    if (!systemd.notify || !systemd.watchdog_enabled) {
        log_error("systemd hears nothing of this process (NOTIFY_SOCKET, WATCHDOG_USEC are set): %s",
                  dlerror());
        systemd.notify = NULL;
    }
    return systemd.notify;
}

void supervisor_say(const char *state)
{
    if (is_loaded())
        systemd.notify(0, state);
}

int64_t supervisor_watchdog_us(void)
{
    uint64_t us = 0;

    if (!is_loaded() || systemd.watchdog_enabled(0, &us) <= 0 || us > LIMIT_TIME_US)
        return 0;
    return (int64_t)us;
}
