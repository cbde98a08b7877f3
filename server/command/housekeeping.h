/*
 * Work between requests. Every worker updates the store's clock. The first worker is also the
 * housekeeper: it drops old reply caches and, while items expire, publishes the clock for readers
 * and removes expired items.
 */
#ifndef OKV_SERVER_COMMAND_HOUSEKEEPING_H
#define OKV_SERVER_COMMAND_HOUSEKEEPING_H

#include <stdbool.h>
#include <stdint.h>

#include "server/core/limits.h"

struct okv_server;
struct okv_store_work;

/* One per worker. Starts as zeros. All times are on the server's clock. */
struct okv_housekeeping {
    uint64_t clock_ms;  /* the clock at the last update */
    uint64_t forgot_ms; /* when old reply caches were last dropped */
    struct {
        uint64_t published_ms; /* when its clock was last published */
        uint64_t swept_ms;     /* time of its last sweep */
    } databases[OKV_DATABASES_MAX];
};

/* Sets the clock of all databases. Call it before requests are executed. */
void okv_housekeeping_update_clock(struct okv_housekeeping *housekeeping,
                                   struct okv_server *server);

/* The housekeeper's work: does what is due at the last update of the clock, in about a millisecond
 * at most. `works` has one for each database. Call it often. */
void okv_housekeeping_run(struct okv_housekeeping *housekeeping, struct okv_server *server,
                          struct okv_store_work *works);

/* Whether items expire. If none does, the housekeeper may sleep for ever. */
bool okv_housekeeping_is_due(struct okv_server *server);
/* How long the housekeeper may sleep, at most `longest`, in ms; -1: for ever. */
int okv_housekeeping_sleep_ms(struct okv_server *server, int longest);

#endif
