/* What makes the descriptor of an endpoint readable: an epoll set with an eventfd in it, and a
 * timer where the transport needs one. */
#ifndef OKV_SHARED_TRANSPORT_COMMON_WAKEUP_H
#define OKV_SHARED_TRANSPORT_COMMON_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/diag.h"

struct okv_wakeup {
    int set;   /* epoll: readable when one of its descriptors is */
    int event; /* eventfd */
    int timer; /* timerfd; -1: none */
};

/* A wake-up without descriptors, which okv_wakeup_close() accepts. */
#define OKV_WAKEUP_NONE ((struct okv_wakeup){-1, -1, -1})

/* OKV_EPERM (limit on descriptors), OKV_ENOMEM, OKV_EIO, with a sentence. On failure nothing is
 * open. */
int okv_wakeup_open(struct okv_wakeup *wakeup, bool has_timer, struct okv_diag *diag);
void okv_wakeup_close(struct okv_wakeup *wakeup);
/* Adds a descriptor to the set, with a NULL pointer as its data. Errors as those of open. */
int okv_wakeup_watch(const struct okv_wakeup *wakeup, int fd, uint32_t events,
                     struct okv_diag *diag);
/* Makes the set readable until the next clear. Any thread. */
void okv_wakeup_signal(const struct okv_wakeup *wakeup);
/* Undoes signals and an expired timer. OKV_EIO: the descriptors are broken. */
int okv_wakeup_clear(const struct okv_wakeup *wakeup);
/* Makes the set readable after `ns`, which is not 0. */
void okv_wakeup_start_timer(const struct okv_wakeup *wakeup, uint64_t ns);

#endif
