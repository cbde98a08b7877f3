/*
 * A long value that leaves, from its extent to the socket, after the replies before it. A client
 * has at most one. It counts as an upload does (upload.h).
 */
#ifndef OKV_SERVER_RESP_RUN_DOWNLOAD_H
#define OKV_SERVER_RESP_RUN_DOWNLOAD_H

#include "server/command/reservation.h"
#include "server/store/heap.h"

struct okv_resp_call;
struct okv_resp_client;
struct okv_store_now;

/* Size of the shortest long value. */
#define OKV_RESP_LONG_MIN (64u << 10)

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
