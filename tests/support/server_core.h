/* A server without threads and listeners: its figures, its clock and its store. Each
 * call fails the test when it does not work. */
#ifndef OKV_TESTS_SERVER_CORE_H
#define OKV_TESTS_SERVER_CORE_H

#include <stdint.h>

#include "server/server.h"
#include "server/session/session.h"

struct server_core {
    struct okv_server *server;
    struct okv_store_work work;
};

/* A table of `params`, whose region, boot id and seed are chosen here; 0s are defaults. */
void server_core_open(struct server_core *core, const struct okv_store_params *params);
void server_core_close(struct server_core *core);

/* A session of a client, whose reply cache it holds; its number is higher than those before. For
 * okv_reply_cache_release() and okv_session_destroy(). */
struct okv_session *server_core_session(struct server_core *core, uint64_t id, uint8_t client,
                                        uint64_t resume, uint32_t request_slots);

/* Puts `length` bytes of `fill` under a text; returns the version. */
uint64_t server_core_put(struct server_core *core, const char *key, int fill, uint32_t length,
                         uint64_t ttl_ms);
void server_core_delete(struct server_core *core, const char *key);
/* The store has these bytes and this version under the key; length 0: nothing. */
void server_core_expect(struct server_core *core, const char *key, int fill, uint32_t length,
                        uint64_t version);

#endif
