/*
 * An operation: one command of the caller, from its start to its result.
 *
 * It occupies a slot in handle->operations. A step without room to post waits in `blocked_reads` or
 * `blocked_requests`; every pass of the engine retries both. An operation that missed its deadline
 * is abandoned: it keeps its slot until its READs and its reply have come back, or until the
 * connection is gone.
 */
#ifndef OKV_CLIENT_OPERATION_H
#define OKV_CLIENT_OPERATION_H

#include <okv.h>
#include <stdbool.h>

#include "shared/format/bucket.h"
#include "shared/transport/transport.h"

/* Each operation's own buffer for an extent; a longer extent goes elsewhere (get/extent.c). */
#define EXTENT_BUFFER_SIZE 16384u
/* Its layout in STEP_PART and STEP_CONFIRM: the key, the image, a short part of the value. */
#define CONFIRM_OFFSET 2048u
#define PART_OFFSET (CONFIRM_OFFSET + OKV_BUCKET_SIZE_MAX)
_Static_assert(OKV_KEY_MAX <= CONFIRM_OFFSET && PART_OFFSET < EXTENT_BUFFER_SIZE,
               "room for a key and an image");
/* A long extent is READ in pieces of this size. */
#define EXTENT_PIECE_SIZE (256u << 10)

enum operation_kind {
    OPERATION_GET,
    OPERATION_HEAD,
    OPERATION_GET_RANGE,
    OPERATION_PUT,
    OPERATION_DELETE,
    OPERATION_INCR,
    OPERATION_APPEND,
    OPERATION_TOUCH,
    OPERATION_GET_TOUCH,
    OPERATION_PING,
    OPERATION_STAT,
    OPERATION_ADMIN,
    OPERATION_FLUSH,
};

enum operation_step {
    STEP_FREE,
    STEP_WAITING,   /* for a connection, on which it starts from its beginning */
    STEP_BUCKET,    /* lookup: READ of a page of the bucket */
    STEP_DIRECTORY, /* lookup: READ of the directory entry of the bucket's segment */
    STEP_HINTED,    /* lookup: READs of the bucket and of the hinted extent */
    STEP_EXTENT,    /* lookup: READs of the extent of a reference */
    STEP_PART,      /* lookup: READs of the key or a part of the value of a long extent */
    STEP_CONFIRM,   /* lookup: READ of the bucket again, to confirm the reference */
    STEP_LEASE,     /* lookup: decided, but not yet covered by a lease */
    STEP_REPLY,     /* a request and its reply */
    STEP_ENDED,     /* the result waits for wait_operation() */
};

/* Where the result goes. */
enum operation_delivery {
    DELIVER_TO_POLL,
    DELIVER_TO_CALLER, /* the caller blocks in wait_operation() */
    DELIVER_TO_ARRAY,  /* *operation->out, of okv_call_many() */
};

/* The purpose of a READ. */
enum read_kind {
    READ_IMAGE,
    READ_EXTENT,
    READ_DIRECTORY,
    READ_STATUS,
    READ_SUPERBLOCK,
};

/* Registered memory for one long extent. */
struct bounce {
    uint8_t *base;
    size_t size;
    struct okv_memory *memory;
};

/* The progress of a get, head or get_range. */
struct lookup {
    uint64_t hash;
    uint64_t bucket;        /* the one that is READ */
    uint64_t page_offset;   /* offset of the page that is READ */
    uint64_t image_version; /* of the primary page; overflow pages must carry it too */
    uint64_t seen_ns;       /* STEP_LEASE: lease.seen_ns of the READs that decided it */
    unsigned page;
    unsigned attempts;    /* images that led nowhere */
    unsigned limit;       /* of attempts */
    unsigned rejected;    /* images of primary pages that failed their checks */
    unsigned redirects;   /* images that named another bucket */
    bool settled;         /* one image was good: a bad one is likely torn, not misplaced */
    bool asked;           /* the server was asked instead */
    bool image_wanted;    /* the READ of the image is not posted yet */
    bool confirmed;       /* STEP_HINTED: the image contains the hinted reference */
    unsigned unconfirmed; /* parts that STEP_CONFIRM did not confirm */
    uint32_t position;    /* in the image, after `reference` */
    struct okv_entry reference;
};

/* READs of an extent: its first `head` bytes go to the operation's own buffer, the next `skipped`
 * are not READ, the rest goes to `to`. */
struct extent_read {
    uint64_t offset;
    uint32_t length; /* bytes that are READ */
    uint32_t skipped;
    uint32_t posted; /* bytes whose READs are posted */
    uint32_t head;
    uint8_t *to;
    struct okv_memory *memory; /* of `to` */
};

struct operation {
    enum operation_kind kind;
    enum operation_step step;
    enum operation_delivery delivery;
    bool posted; /* its request left, or may have left: a reply is owed */
    bool resend; /* the request left on an earlier connection and goes out again unchanged */
    bool has_request_slot;
    bool blocked;          /* in handle->blocked_reads or blocked_requests */
    bool abandoned;        /* its result was delivered; READs or the reply are still to come */
    bool is_fast;          /* on the fast path: only hash and bucket of `lookup` are set */
    uint16_t index;        /* its slot */
    uint16_t request_slot; /* valid if has_request_slot */
    uint16_t reads;        /* under way */
    uint64_t deadline_ns;
    uint64_t begun_ns;
    uint64_t number; /* order of start, over the life of the handle */

    const uint8_t *key;
    uint32_t key_length;
    const uint8_t *value; /* of the request */
    uint32_t value_length;
    uint16_t flags;    /* of the request: enum okv_request_flag */
    uint64_t argument; /* of the request */
    uint64_t ttl_ms;   /* of the request */
    uint8_t *buffer;   /* get, stat, flush: the caller's memory for a value */
    size_t buffer_size;
    uint64_t offset;   /* get_range: of the part in the value */
    uint64_t sequence; /* of its request; valid if has_request_slot */
    struct okv_advert *advert;

    struct lookup lookup;
    struct extent_read extent_read;
    struct bounce *bounce;
    uint8_t *image;  /* bucket_size bytes, registered */
    uint8_t *extent; /* EXTENT_BUFFER_SIZE bytes, registered */

    struct okv_result result;
    struct okv_result *out; /* DELIVER_TO_ARRAY */
};

#endif
