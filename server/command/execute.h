/*
 * Executes one request. It knows of no connection: a session, or any other front end, calls it.
 *
 * This folder may use server/store and shared/, and the headers that all threads of a server share
 * (server.h).
 */
#ifndef OKV_SERVER_COMMAND_EXECUTE_H
#define OKV_SERVER_COMMAND_EXECUTE_H

#include "server/server.h"
#include "shared/format/wire.h"

/* What requests of one database are executed with, on one thread. */
struct okv_executor {
    struct okv_server *server;
    struct okv_database *database;
    struct okv_store_work *work; /* the thread's own, for the database's buckets */
};

/*
 * Executes a decoded request, or refuses it where `rights` (of enum okv_right) lack the one that it
 * needs, and sets status, version and value of `reply`. The value is written to
 * `room`, which has `size` bytes. Returns 0, or OKV_EPROTO for a request that makes no sense; then
 * nothing was changed and the caller closes the connection.
 */
int okv_execute(const struct okv_executor *executor, unsigned rights,
                const struct okv_request_message *request, struct okv_reply_message *reply,
                uint8_t *room, uint32_t size);

/*
 * A PUT whose value is in `extent`, or in the request if that is 0. If `reply->status` is 0 the
 * extent belongs to the store, otherwise it stays the caller's.
 */
void okv_execute_put(const struct okv_executor *executor, unsigned rights,
                     const struct okv_request_message *request, uint64_t extent,
                     struct okv_reply_message *reply);

/* False when `rights` lack the one that the operation needs, which is counted. */
bool okv_execute_may(const struct okv_executor *executor, unsigned rights, unsigned opcode);

#endif
