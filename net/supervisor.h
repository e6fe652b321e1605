/* What systemd hears of a process: sd_notify(3). Without systemd (NOTIFY_SOCKET, WATCHDOG_USEC), nothing happens. */
#ifndef HAWK_NET_SUPERVISOR_H
#define HAWK_NET_SUPERVISOR_H

#include <stdint.h>

/* Says `state`, as sd_notify(3) has it: "READY=1". */
void supervisor_say(const char *state);
/* systemd ends a process that does not say WATCHDOG=1 for so long. 0: it does not. */
int64_t supervisor_watchdog_us(void);

#endif
