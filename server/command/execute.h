/* Executes one request. It knows of no connection: a session or another front end calls it. */
#ifndef OKV_SERVER_COMMAND_EXECUTE_H
#define OKV_SERVER_COMMAND_EXECUTE_H

#include "shared/format/wire.h"

struct okv_database;
struct okv_server;
struct okv_store_long_value;
struct okv_store_work;

/* What requests of one database are executed with, on one thread. */
struct okv_executor {
    struct okv_server *server;
    struct okv_database *database;
    struct okv_store_work *work; /* the thread's own, for the database's buckets */
};

/*
 * Executes a decoded request, or refuses it where `rights` (of enum okv_right) lack the one that it
 * needs, and sets status, version and value of `reply`. The value is written to
 * `room`, which has `size` bytes. Returns 0; OKV_STORE_LONG for an APPEND to a long value,
 * or a TOUCH of one in a durable database; or OKV_EPROTO for a request that makes no sense, and the
 * caller closes the connection. In the last two cases, and with the status OKV_EAGAIN, nothing was
 * changed.
 */
int okv_execute(const struct okv_executor *executor, unsigned rights,
                const struct okv_request_message *request, struct okv_reply_message *reply,
                uint8_t *room, uint32_t size);

/*
 * Executes a long write; `room` is for the value of an APPEND's reply. With the status
 * OKV_STORE_LONG or OKV_EAGAIN nothing was changed.
 *
 * A PUT has a complete `value`.
 *
 * The first call for an APPEND or TOUCH has a `value` of zeros. It changes a short value;
 * OKV_STORE_LONG: the current value is long, and is the source of `value` now.
 *
 * A later call has the complete `value`. OKV_STORE_LONG: the item has another value
 * than the source now, so the change begins again (okv_store_append()).
 */
void okv_execute_long(const struct okv_executor *executor, unsigned rights,
                      const struct okv_request_message *request, struct okv_store_long_value *value,
                      struct okv_reply_message *reply, uint8_t *room);

/* The value of the answer to a GET_TOUCH that was applied earlier, as a reply cache has it: the
 * item's, if it still has reply->version. Else the status becomes OKV_EUNKNOWN. */
void okv_execute_get_again(const struct okv_executor *executor,
                           const struct okv_request_message *request,
                           struct okv_reply_message *reply, uint8_t *room, uint32_t size);

/* False when `rights` lack the one that the operation needs, which is counted. */
bool okv_execute_may(const struct okv_executor *executor, unsigned rights, unsigned opcode);

/* Whether this server may serve the items of the database: it is no copy. */
bool okv_execute_is_led(const struct okv_executor *executor);
/* Whether this server has a copy with all that its primary has published, as far as it has heard of
 * that within a lease. */
bool okv_execute_is_fresh_copy(const struct okv_executor *executor);

#endif
