/* The keys that KEYS or SCAN lists on its walk over the table. KEYS takes many turns, and keeps
 * them in its client. */
#ifndef OKV_SERVER_RESP_RUN_LISTING_H
#define OKV_SERVER_RESP_RUN_LISTING_H

#include "server/resp/proto/buffer.h"
#include "server/resp/proto/pattern.h"
#include "server/store/iterate.h"

struct okv_resp_client;

/* Bytes before the keys, for the head of an array. */
#define OKV_RESP_LISTING_ROOM 32u

struct okv_resp_listing {
    struct okv_store_walk walk;
    struct okv_resp_pattern pattern;
    bool has_pattern;            /* else all keys are listed */
    uint64_t met, listed;        /* keys */
    struct okv_resp_buffer keys; /* as replies, from OKV_RESP_LISTING_ROOM on */
    bool keeps_for_pages; /* work for those that they fill, here and as a reply: the limit sinks */
    bool is_complete;     /* it becomes the client's reply when all earlier replies have left */
};

/* Room for the head; false: there is no memory. */
bool okv_resp_listing_init(struct okv_resp_listing *listing);
void okv_resp_listing_fini(struct okv_resp_listing *listing);

/* Begins the listing of the client. NULL: there is no memory. */
struct okv_resp_listing *okv_resp_listing_create(struct okv_resp_client *client);
/* Drops it, if there is one. */
void okv_resp_listing_destroy(struct okv_resp_client *client);
/* Makes a complete listing the client's replies, of which it has none, without moving it. */
void okv_resp_listing_reply(struct okv_resp_client *client);
/* okv_resp_buffer_fresh() of it. */
size_t okv_resp_listing_fresh(struct okv_resp_client *client);
/* Bytes of memory. */
size_t okv_resp_listing_bytes(const struct okv_resp_client *client);

#endif
