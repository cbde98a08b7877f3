/*
 * Long values of RESP clients move between socket and extent without a copy.
 *
 *   upload     the value of a command such as SET, as its bytes arrive: the parser buffers none
 *   download   the value of a GET, while it leaves after the replies before it
 *
 * A client has at most one of each. Both count towards its share of the database's memory
 * (server/command/reservation.h); a client without a share waits.
 */
#ifndef OKV_SERVER_RESP_RUN_LONG_VALUE_H
#define OKV_SERVER_RESP_RUN_LONG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/command/reservation.h"
#include "server/store/long_value.h"

struct okv_resp_arg;
struct okv_resp_call;
struct okv_resp_client;
struct okv_blob;
struct okv_store_now;

/* Size of the shortest long value. */
#define OKV_RESP_LONG_MIN (64u << 10)

/* ---- values that arrive ---- */

struct okv_resp_upload {
    unsigned database; /* index */
    int failure;       /* why it has no extent, so that its bytes are dropped; or 0 */
    uint32_t length, received;
    struct okv_store_long_value value;
    struct okv_reservation reservation;
    struct okv_blob *stored; /* by the log, in a file, until it is set; or NULL */
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

/* The value that arrived, for okv_store_modify(); or NULL. */
struct okv_store_long_value *okv_resp_upload_value(struct okv_resp_client *client);
/* The upload became the key's value, with this version. */
void okv_resp_upload_keep(struct okv_resp_client *client, const struct okv_resp_arg *key,
                          uint64_t version);

/* ---- values that leave ---- */

struct okv_resp_download {
    const uint8_t *bytes;
    uint32_t length, sent; /* length 0: there is none */
    unsigned database;     /* index */
    struct okv_heap_pin pin;
    struct okv_reservation reservation;
};

/* Replies with `length` bytes of a value, which is locked, from `first` on. Bytes of a long value
 * are sent after the reply, without a copy, and all of it is kept meanwhile. May be called again.
 * OKV_EAGAIN: there is no memory for that at the moment, and nothing was replied. */
int okv_resp_reply_value(struct okv_resp_call *call, const struct okv_store_now *now,
                         uint32_t first, uint32_t length);
void okv_resp_download_end(struct okv_resp_client *client);

#endif
