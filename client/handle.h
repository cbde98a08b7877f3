/*
 * What an okv handle is made of, and how its files call each other:
 *
 *   open.c     connecting, the handshake, closing
 *   calls.c    the public calls: one operation each, synchronous or not
 *   lookup.c   a get: READs of buckets and extents until hit, miss or fallback
 *   request.c  what goes to the server as a message, and its answers
 *   engine.c   events, deadlines, results
 *   raw.c      one READ outside of any operation, for open.c and scan.c
 *   scan.c     okv_scan: every bucket in turn
 *   probe.c    okv_probe: raw READs, timed
 *
 * An operation is a slot in handle->operations from its call until it ended
 * (synchronous: until its caller saw that). Each step of it either is under way (`posted`) or waits
 * in `blocked` for room, which is tried again at every turn.
 */
#ifndef OKV_CLIENT_HANDLE_H
#define OKV_CLIENT_HANDLE_H

#include <okv.h>
#include <stdbool.h>

#include "shared/bucket.h"
#include "shared/diag.h"
#include "shared/transport.h"
#include "shared/wire.h"

enum operation_kind {
    OPERATION_GET,
    OPERATION_PUT,
    OPERATION_DELETE,
    OPERATION_PING,
    OPERATION_STAT,
};

enum operation_step {
    STEP_FREE,
    STEP_BUCKET, /* get: READ of the bucket or of one of its overflow parts */
    STEP_EXTENT, /* get: READ of the extent that a reference names */
    STEP_REPLY,  /* a request and its answer */
    STEP_ENDED,  /* synchronous: the result is there */
};

struct operation {
    enum operation_kind kind;
    enum operation_step step;
    bool posted;      /* the step is with the transport: its event will come */
    bool synchronous; /* the caller waits for it: its result is not for okv_poll */
    bool abandoned;   /* its result was given: the slot is kept until its event or reply comes */
    uint16_t index;   /* its slot */
    uint64_t deadline_ns;

    const uint8_t *key;
    uint32_t key_length;
    const uint8_t *value; /* put */
    uint32_t value_length;
    uint8_t *buffer; /* get, stat: the caller's */
    size_t buffer_size;
    uint64_t sequence; /* of its request; 0 before it was sent */

    uint64_t hash;
    uint64_t bucket;        /* being looked at */
    uint64_t part_offset;   /* where the part being looked at lies */
    uint64_t image_version; /* that every part of the bucket must carry */
    unsigned part;
    unsigned attempts;
    uint32_t position; /* in the image, after `reference` */
    struct okv_entry reference;
    uint8_t *image;  /* bucket_bytes, registered */
    uint8_t *extent; /* extent_max bytes, registered */

    struct okv_result result;
};

/* Queues with room for all slots, and for `depth` results. */
struct slot_queue {
    uint16_t *slots;
    uint32_t first;
    uint32_t count;
};

struct result_queue {
    struct okv_result *results;
    uint32_t first;
    uint32_t count;
};

struct okv {
    const struct okv_transport_ops *transport;
    struct okv_conn *conn;
    struct okv_memory *memory; /* the arena, registered */
    uint8_t *arena;            /* every operation's image and extent buffer */
    size_t arena_size;

    struct okv_welcome_fields table; /* as the server described it */
    uint64_t bucket_count;
    uint32_t extent_max; /* longest extent that the server may refer to */
    uint64_t timeout_ns;

    struct operation *operations;
    uint32_t slot_count; /* depth, and as many again as there are credits: for abandoned ones */
    uint32_t depth;
    uint32_t active;  /* operations that somebody waits for */
    uint32_t pending; /* operations whose result okv_poll has still to deliver: at most depth */
    uint64_t earliest_deadline_ns; /* of the active ones, or earlier */
    struct slot_queue free;
    struct slot_queue blocked;
    struct result_queue ended; /* of asynchronous operations */

    uint32_t credits; /* requests that may still be sent */
    uint64_t next_sequence;
    uint32_t turns;
    int failure; /* why the handle is unusable; 0 while it is usable */
    bool closed; /* OKV_EVENT_CLOSED came */

    struct okv_counters counters;
    struct okv_diag why;
};

/* ---- engine.c ---- */

/* A free slot, initialised for an operation of this kind; NULL when there is none. */
struct operation *operation_take(okv *handle, enum operation_kind kind);
/* Starts or resumes the current step; blocks the operation when there is no room. */
void operation_advance(okv *handle, struct operation *operation);
/* Ends an operation: its result is ready for whoever waits. An asynchronous
 * one's slot is free again: do not touch it afterwards. */
void operation_end(okv *handle, struct operation *operation, int status);
/* Gives the slot back. */
void operation_release(okv *handle, struct operation *operation);
/* Copies a value that was found to the caller and ends the operation. */
void operation_deliver(okv *handle, struct operation *operation, const uint8_t *value,
                       uint32_t length, uint64_t version);

/* One pass over events, blocked operations and deadlines. Returns whether anything happened. */
bool engine_turn(okv *handle);
/* Handles one event of the transport. */
void engine_event(okv *handle, const struct okv_event *event);
/* Makes the handle unusable: ends every operation and says why. */
void engine_fail(okv *handle, int failure, const char *sentence);
/* Blocks until `operation` ended, at the latest at its deadline; returns its status. */
int engine_wait_for(okv *handle, struct operation *operation);

/* ---- lookup.c ---- */

/* Starts a get whose key, buffer and hash are set. */
void lookup_start(okv *handle, struct operation *operation);
/* Posts the READ of the current step. 0, OKV_EAGAIN for no room, or a failure. */
int lookup_post(okv *handle, struct operation *operation);
/* The READ of the current step ended well. */
void lookup_read_done(okv *handle, struct operation *operation);

/* ---- request.c ---- */

/* Sends the operation's request. 0, OKV_EAGAIN for no credit or room, or a failure. */
int request_post(okv *handle, struct operation *operation);
/* A message came from the server. */
void request_message(okv *handle, const struct okv_event *event);

/* ---- raw.c ---- */

/* READs `length` bytes at `offset` into registered memory and waits for them. */
int raw_read(okv *handle, uint64_t offset, void *destination, struct okv_memory *memory,
             uint32_t length);

#endif
