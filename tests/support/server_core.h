/* A server without threads and listeners: statistics, clock, one database or two. Each call fails
 * the test when it fails. */
#ifndef OKV_TESTS_SERVER_CORE_H
#define OKV_TESTS_SERVER_CORE_H

#include <stdint.h>

#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/session/session.h"

#define SERVER_CORE_DATABASES 2

struct server_core {
    struct okv_server *server;
    struct okv_database *database; /* that of the calls below: the first one, until it is changed */
    struct okv_store_work works[SERVER_CORE_DATABASES];
    struct okv_executor executor; /* of the first one */
};

/* Opens a table with `params`; region, boot id and seed are chosen here, and 0 means the default.
 */
void server_core_open(struct server_core *core, const struct okv_store_params *params);
/* One more database, called "second". */
void server_core_open_second(struct server_core *core, const struct okv_store_params *params);
void server_core_close(struct server_core *core);

/* Creates a session that holds its client's reply cache, with a new id. The caller ends it with
 * okv_reply_cache_release() and okv_session_destroy(). */
struct okv_session *server_core_session(struct server_core *core, uint64_t id, uint8_t client,
                                        uint32_t resume, uint32_t request_slots);

/* Puts `length` bytes of `fill` under a key; returns the version. */
uint64_t server_core_put(struct server_core *core, const char *key, int fill, uint32_t length,
                         uint64_t ttl_ms);
void server_core_delete(struct server_core *core, const char *key);
/* Fails unless the key has these bytes and this version; length 0: no such key. */
void server_core_expect(struct server_core *core, const char *key, int fill, uint32_t length,
                        uint64_t version);

#endif
