/*
 * What a service manager is told: that the server serves, that it ends, and that its threads go on.
 * The protocol of sd_notify(3), which is one datagram for each message and needs no library.
 */
#ifndef OKV_SERVER_CORE_NOTIFY_H
#define OKV_SERVER_CORE_NOTIFY_H

#include <stdint.h>

struct okv_notify {
    int fd;               /* -1: nobody wants to know */
    uint64_t watchdog_ns; /* how often to send WATCHDOG=1 at least; 0: never */
};

/* Connects to what NOTIFY_SOCKET names, and takes the interval from WATCHDOG_USEC, if that is for
 * this process (WATCHDOG_PID). A socket that is not there is as none. */
void okv_notify_init(struct okv_notify *notify);
void okv_notify_fini(struct okv_notify *notify);

/* Sends lines of NAME=VALUE. Never blocks; what the manager does not take is lost. Any thread. */
void okv_notify_send(const struct okv_notify *notify, const char *lines);

#endif
