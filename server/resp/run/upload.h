/*
 * A long value that arrives: the value of a command such as SET goes from the socket to its extent,
 * and the parser buffers none of it. A client has at most one. It counts towards the client's share
 * of the database's memory (server/command/reservation.h); a client without a share waits.
 */
#ifndef OKV_SERVER_RESP_RUN_UPLOAD_H
#define OKV_SERVER_RESP_RUN_UPLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "server/command/long_transfer.h"

struct okv_resp_arg;
struct okv_resp_client;

struct okv_resp_upload {
    unsigned database; /* index */
    int failure;       /* why it has no extent, so that its bytes are dropped; or 0 */
    uint32_t length, received;
    struct okv_long_transfer transfer;
};

/* Begins one if a long value comes next in the client's request. OKV_EAGAIN: there is no memory for
 * it at the moment. */
int okv_resp_upload_begin(struct okv_resp_client *client);
/* Where the next bytes of the value go, at most *room; NULL: there is no upload, or it is complete.
 */
uint8_t *okv_resp_upload_room(struct okv_resp_client *client, size_t *room);
/* `length` bytes have come there. */
void okv_resp_upload_add(struct okv_resp_client *client, size_t length);
/* Whether the request can run. A value that the log stores in a file of its own is stored first. */
bool okv_resp_upload_is_ready(struct okv_resp_client *client);
/* The request has run, or never will. */
void okv_resp_upload_end(struct okv_resp_client *client);

/* The value that arrived, or was made (long_build.h), for okv_store_modify(); or NULL. */
struct okv_store_long_value *okv_resp_long_value(struct okv_resp_client *client);
/* If it became the key's value, with this version, its file is the log's. */
void okv_resp_long_value_keep(struct okv_resp_client *client, const struct okv_resp_arg *key,
                              uint64_t version);

#endif
