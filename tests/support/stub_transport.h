/*
 * A transport without a peer: okv_transport_for() returns it for every scheme,
 * so a test that links it has a client whose server is `stub`.
 *
 * The region is memory of the process, READs copy from it when they are posted,
 * requests are answered by a function of the test. The client's side of the contract is asserted:
 * READs inside the region and into registered memory that no other READ owns, no more requests than
 * credits, every message released.
 */
#ifndef OKV_TESTS_STUB_TRANSPORT_H
#define OKV_TESTS_STUB_TRANSPORT_H

#include <okv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/format/bucket_edit.h"
#include "shared/format/hash.h"
#include "shared/format/superblock.h"
#include "shared/format/wire.h"
#include "shared/transport/transport.h"

#define STUB_URI "local:///stub"
#define STUB_REGION (1u << 20)
#define STUB_BUCKETS 4
#define STUB_BUCKET_SIZE 512
#define STUB_SEGMENT_BUCKETS OKV_SEGMENT_BUCKETS_MIN
#define STUB_SEGMENT_SIZE (STUB_SEGMENT_BUCKETS * STUB_BUCKET_SIZE)
#define STUB_INDEX OKV_HEAP_OFFSET /* the first segment, which the directory has */
#define STUB_SEGMENT_1 65536       /* where tests put a second one */
#define STUB_HEAP 131072           /* where tests put pages and extents */
#define STUB_DEPTH 2
#define STUB_CLOCK 5000000 /* ms; of the welcome */
#define STUB_BOOT UINT64_C(0x5eedf00dcafe0001)
#define STUB_SESSION 77 /* session_id of every welcome */
#define STUB_SEED 42
#define STUB_ADVERTISED UINT64_C(0x7000) /* the address of every advertised buffer */
#define STUB_LEFT_OUT 0xa5               /* a byte that a READ did not bring */

#define STUB_REQUESTS 256

/* A request as it was sent, with its bytes. */
struct stub_request {
    struct okv_request_message message;
    uint8_t bytes[OKV_SLOT_SIZE_DEFAULT];
};

/* What the server says to it, and how it spoils the message. */
struct stub_reply {
    struct okv_reply_message message;
    uint32_t immediate_flip; /* bits of the immediate that are wrong */
    uint32_t cut;            /* bytes missing at the end */
    bool no_immediate;
};

struct stub {
    /* Of the handshake: the region as it is described, and as it is. */
    struct okv_welcome welcome;
    struct okv_superblock block;
    struct okv_answer raw; /* sent instead of `welcome` when its length is not 0 */
    int connect_result;    /* also how a rejection in `raw` is told: OKV_EREFUSED */
    unsigned challenges;   /* hellos that are still to be answered with one, for a proof */
    unsigned stale;        /* proofs that are still to be rejected; challenges come meanwhile */
    int start_result;      /* of connect_start */
    unsigned connects;     /* begun */
    char host[256];        /* of the URI of the latest */
    void (*before_connect)(const struct okv_uri *uri); /* decides how it ends */
    const char *peer;                                  /* of the connection; NULL: "" */
    unsigned refusals;   /* connects that are still to end with OKV_EREFUSED */
    unsigned steps;      /* calls of connect_step that lead nowhere, for each connect */
    unsigned connecting; /* connects without a result */
    int set_remote_result;
    int register_result;
    struct okv_hello hello; /* what the client said */

    uint8_t region[STUB_REGION];

    /* READs. Counted from 1 since the test last set `reads` to 0. */
    unsigned reads;
    unsigned posts;         /* calls of post_read */
    unsigned reads_outside; /* refused with OKV_EINVAL */
    uint64_t last_read;     /* the offset of the latest */
    const void *last_destination;
    void (*before_read)(unsigned n);
    void (*after_read)(unsigned n); /* its event is there, or will be; not for read_now */
    int read_result;                /* of post_read */
    int read_status;                /* of its event */
    unsigned max_reads;

    /* READs that end at once, which are counted among the others, too. */
    bool has_now;       /* there is read_now; as it is when a handle is opened */
    bool now_declined;  /* read_now returns false */
    unsigned now_asked; /* calls of it */
    /* That the latest brought; the others of its destination are STUB_LEFT_OUT. */
    uint32_t now_bytes;

    /* NULL, or the operation; as it is when a handle is opened. */
    int (*bare_read)(struct okv_conn *conn, struct okv_bare_reads *reads);

    /* Advertised buffers: those of now, and what the latest one was. */
    unsigned adverts;
    uint32_t advert_key; /* of the latest */
    const uint8_t *advertised;
    size_t advertised_length;
    int advertise_result;
    const void *advertise_refused; /* OKV_EIO for memory that begins there */

    /* Requests. */
    unsigned sent;
    unsigned flushes;
    unsigned goodbyes;                           /* said by the client */
    unsigned unflushed;                          /* messages that were queued since */
    struct stub_request requests[STUB_REQUESTS]; /* the latest, by sent modulo the number */
    /* Changes the reply, which is a good one; false: no answer. NULL: all are answered. */
    bool (*answer)(const struct stub_request *request, struct stub_reply *reply);
    int send_result;        /* of post_send */
    unsigned no_buffers;    /* polls until send_buffer has room again */
    unsigned buffers_asked; /* calls of send_buffer */

    /* Events. */
    unsigned delay;          /* polls that find a new event not yet there */
    unsigned polls;          /* made */
    unsigned stream;         /* polls that find an event that says nothing to a client */
    int poll_result;         /* a failure of the endpoint */
    bool shy;                /* the end of the connection shows when the endpoint is armed; until
                                then what is posted gets lost */
    bool unwatchable;        /* the descriptor of an endpoint is not one for epoll */
    void (*after_arm)(void); /* runs at the end of each arm */

    /* What the client has and has not given back. */
    unsigned reads_under_way;
    unsigned messages_held;
    unsigned registrations;
    unsigned connections;
    unsigned closes;

    /* Signs of life. */
    bool silent;         /* the server's host acknowledges nothing */
    unsigned heartbeats; /* asked for */
    int heartbeat_result;
};

extern struct stub stub;

/* An empty table, a server that answers, nothing counted. */
void stub_reset(void);
/* A handle on the stub, without hints, that never reconnects; READs are counted from here. */
okv *stub_open(uint32_t depth, uint32_t credits, uint32_t timeout_ms);
okv *stub_open_with(const struct okv_options *options);
/* One that reconnects. */
okv *stub_open_lasting(uint32_t depth, uint32_t credits, uint32_t timeout_ms);
/* Closes it and sets it to NULL; nothing may be left of it. */
void stub_close(okv **handle);

/* The good reply to the request that was sent as number n, from 0. */
struct stub_reply stub_reply_to(unsigned n);
/* Lets a message of the server arrive. */
void stub_say(const struct stub_reply *reply);
static inline void stub_goodbye_because(int status)
{
    struct stub_reply goodbye = {.message = {.opcode = OKV_OP_GOODBYE, .status = status}};

    stub_say(&goodbye);
}
static inline void stub_goodbye(void)
{
    stub_goodbye_because(OKV_ESHUTDOWN);
}
/* A server that was started anew, or that forgot: with an empty table, and nothing to resume. */
void stub_restart(uint64_t boot_id);
/* Ends the connection from the server's side. */
void stub_hang_up(void);
/* Lets the events that are held back arrive at the next poll, READs with this status. */
void stub_release_events(int read_status);
/* The same for the one that has waited longest; later ones are held back no more than usual. */
void stub_release_first(void);

/* ---- the table ---- */

/* Writes to `key` the n-th key whose bucket at `depth` is `bucket`. */
static inline void stub_key(char key[16], uint64_t bucket, unsigned depth, unsigned n)
{
    for (unsigned i = 0;; i++) {
        snprintf(key, 16, "key-%06u", i);
        if (okv_hash_bucket(okv_hash_key(key, strlen(key), STUB_SEED), depth) == bucket && n-- == 0)
            return;
    }
}

static inline struct okv_entry stub_inline(const char *key, const char *value)
{
    return (struct okv_entry){
        .tag = okv_hash_tag(okv_hash_key(key, strlen(key), STUB_SEED)),
        .key_length = (uint32_t)strlen(key),
        .value_length = (uint32_t)strlen(value),
        .version = 5,
        .key = (const uint8_t *)key,
        .value = (const uint8_t *)value,
    };
}

/* Writes the extent, too: the key and the value. */
static inline struct okv_entry stub_reference(const char *key, const char *value, uint64_t offset)
{
    struct okv_entry entry = stub_inline(key, value);
    uint8_t *extent = stub.region + offset;

    memcpy(extent, key, entry.key_length);
    memcpy(extent + entry.key_length, value, entry.value_length);
    entry.is_reference = true;
    entry.key_in_extent = true;
    entry.extent = offset;
    entry.checksum =
        okv_extent_checksum(extent, okv_entry_extent_length(&entry), stub.block.boot_id);
    return entry;
}

/* The same with the key in the entry: the extent is the value. */
static inline struct okv_entry stub_reference_here(const char *key, const char *value,
                                                   uint64_t offset)
{
    struct okv_entry entry = stub_inline(key, value);
    uint8_t *extent = stub.region + offset;

    memcpy(extent, value, entry.value_length);
    entry.is_reference = true;
    entry.extent = offset;
    entry.checksum = okv_extent_checksum(extent, entry.value_length, stub.block.boot_id);
    return entry;
}

/* One image: page `page` of `bucket`, at `offset`. */
struct stub_image {
    uint64_t offset;
    uint64_t bucket;
    uint64_t version;
    uint64_t chain;
    unsigned depth;
    unsigned page;
};

static inline uint64_t stub_place(uint64_t bucket)
{
    if (bucket < STUB_SEGMENT_BUCKETS)
        return STUB_INDEX + bucket * STUB_BUCKET_SIZE;
    return STUB_SEGMENT_1 + (bucket - STUB_SEGMENT_BUCKETS) * STUB_BUCKET_SIZE;
}

/* Says in the directory where a segment is. */
static inline void stub_segment(unsigned segment, uint64_t offset)
{
    okv_put_u64(stub.region + OKV_DIRECTORY_OFFSET + segment * sizeof(okv_le64), offset);
}

static inline void stub_status(uint64_t clock_ms, uint64_t bucket_count)
{
    struct okv_table_status status = {.clock_ms = clock_ms, .bucket_count = bucket_count};

    okv_status_encode(&status, stub.block.boot_id,
                      (struct okv_wire_status *)(stub.region + OKV_STATUS_OFFSET));
}

#define STUB_VERSION 9 /* of images, and above those of entries */

static inline void stub_write(const struct stub_image *image, const struct okv_entry *entries,
                              unsigned count)
{
    uint8_t *bytes = stub.region + image->offset;

    okv_bucket_begin(bytes, image->depth, image->version, image->chain, image->page);
    for (unsigned i = 0; i < count; i++)
        okv_bucket_append(bytes, STUB_BUCKET_SIZE, &entries[i]);
    okv_bucket_seal(bytes, STUB_BUCKET_SIZE, stub.block.boot_id, image->bucket);
}

/* A bucket without further pages. */
static inline void stub_bucket(uint64_t bucket, unsigned depth, const struct okv_entry *entries,
                               unsigned count)
{
    struct stub_image image = {
        .offset = stub_place(bucket), .bucket = bucket, .version = STUB_VERSION, .depth = depth};

    stub_write(&image, entries, count);
}

/* The directory, the status and empty buckets, as a server starts with them. */
static inline void stub_table(void)
{
    stub_segment(0, STUB_INDEX);
    stub_status(STUB_CLOCK, STUB_BUCKETS);
    for (uint64_t bucket = 0; bucket < STUB_BUCKETS; bucket++)
        stub_bucket(bucket, STUB_DEPTH, NULL, 0);
}

#endif
