/*
 * What another process has, and may have for another moment only: a directory, an address. A killed
 * server keeps both until the kernel has freed its memory, and its successor may start earlier.
 */
#ifndef OKV_SERVER_CORE_TAKEOVER_H
#define OKV_SERVER_CORE_TAKEOVER_H

#include "server/core/log.h"

/* Of one thing. */
struct okv_takeover {
    struct okv_log *log;
    const char *part; /* of the server, for the log */
    unsigned naps;    /* so far */
};

/* Sleeps a moment, before `what` is tried again; logs the first time that it does. SIGTERM and
 * SIGINT end the process meanwhile, unless they are ignored. False: about 5 s have passed. */
bool okv_takeover_wait(struct okv_takeover *takeover, const char *what);

#endif
