/*
 * What workers do between requests. Each tells the store the time. One of them, the
 * housekeeper, forgets reply caches that were kept long enough and, while there are items that
 * expire, publishes the time for readers and removes what has expired.
 */
#ifndef OKV_SERVER_HOUSEKEEPING_H
#define OKV_SERVER_HOUSEKEEPING_H

#include "server/server.h"

/* Starts as zeros. One for each thread that changes the store. */
struct okv_housekeeping {
    uint64_t clock_ms;     /* what the store was told last */
    uint64_t published_ms; /* when readers were told last */
    uint64_t swept_ms;     /* when the last sweep was */
    uint64_t forgot_ms;    /* when reply caches were forgotten last */
};

/* Tells the store the time; to be called before requests are applied. */
void okv_housekeeping_tell_time(struct okv_housekeeping *housekeeping, struct okv_server *server);

/* The housekeeper's part: does what is due at the time that was told last, in about a
 * millisecond at most; to be called often. */
void okv_housekeeping_run(struct okv_housekeeping *housekeeping, struct okv_server *server,
                          struct okv_store_work *work);

/* Whether the housekeeper must come by: it sleeps for ever when not. */
bool okv_housekeeping_is_due(struct okv_server *server);
/* How long the housekeeper may sleep, ms, when it would sleep for `longest`; -1: for ever. */
int okv_housekeeping_sleep_ms(struct okv_server *server, int longest);

#endif
