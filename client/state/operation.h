/*
 * An operation: what a call asks for, from its start to its result.
 *
 * It occupies a slot in handle->operations. A step that has to post something waits for room in
 * `blocked_reads` or `blocked_requests`, which every pass of the engine tries again. An operation
 * that passed its deadline keeps its slot until all it has under way came back, or until the
 * connection is gone.
 */
#ifndef OKV_CLIENT_STATE_OPERATION_H
#define OKV_CLIENT_STATE_OPERATION_H

#include <okv.h>
#include <stdbool.h>

#include "shared/format/bucket.h"
#include "shared/transport/transport.h"

/* Each operation's own memory for extents; a longer one needs other memory. */
#define EXTENT_BUFFER_SIZE 16384u
/* A long extent is READ in pieces of this size. */
#define EXTENT_PIECE_SIZE (256u << 10)

enum operation_kind {
    OPERATION_GET,
    OPERATION_HEAD,
    OPERATION_PUT,
    OPERATION_DELETE,
    OPERATION_INCR,
    OPERATION_APPEND,
    OPERATION_TOUCH,
    OPERATION_PING,
    OPERATION_STAT,
    OPERATION_FLUSH,
};

enum operation_step {
    STEP_FREE,
    STEP_WAITING,   /* for a connection: begins, or begins again, on it */
    STEP_BUCKET,    /* lookup: READ of the bucket or of one of its overflow pages */
    STEP_DIRECTORY, /* lookup: READ of the directory's entry of the bucket's segment */
    STEP_HINTED,    /* lookup: READs of the bucket and, where it was last, of the extent */
    STEP_EXTENT,    /* lookup: READs of the extent that a reference names */
    STEP_KEY,       /* lookup: READ of the key that a long extent begins with */
    STEP_CONFIRM,   /* lookup: READ of the bucket again: was the extent there all the time? */
    STEP_REPLY,     /* a request and its answer */
    STEP_ENDED,     /* synchronous: the result is there */
};

/* Who gets the result. */
enum operation_delivery {
    DELIVER_TO_POLL,
    DELIVER_TO_CALLER, /* who waits for the operation in engine_wait_for() */
    DELIVER_TO_ARRAY,  /* *operation->out, of okv_get_many() */
};

/* Which of an operation's READs an event is about. */
enum read_kind {
    READ_IMAGE,
    READ_EXTENT,
    READ_DIRECTORY,
};

/* Memory for one long extent, registered. */
struct bounce {
    uint8_t *base;
    size_t size;
    struct okv_memory *memory;
};

/* Where a get or head stands. */
struct lookup {
    uint64_t hash;
    uint64_t bucket;        /* being looked at */
    uint64_t page_offset;   /* where the part being looked at lies */
    uint64_t image_version; /* that every part of the bucket must carry */
    unsigned page;
    unsigned attempts;  /* READs of a bucket that led nowhere */
    unsigned limit;     /* of attempts */
    unsigned doubts;    /* images of first pages that failed their checks */
    unsigned redirects; /* images that named another bucket */
    bool settled;       /* an image was good, so doubts are rather of tearing than of the place */
    bool asked;         /* the server was asked, too */
    bool image_wanted;  /* the READ of an image has still to be posted */
    bool confirmed;     /* STEP_HINTED: the image has the reference that the hint told of */
    uint32_t position;  /* in the image, after `reference` */
    struct okv_entry reference;
};

/* Bytes of an extent on their way: the first `head` of them to the operation's own
 * buffer, the others to `to`. */
struct extent_read {
    uint64_t offset;
    uint32_t length;
    uint32_t posted; /* bytes whose READ was posted */
    uint32_t head;
    uint8_t *to;
    struct okv_memory *memory; /* that holds `to` */
};

struct operation {
    enum operation_kind kind;
    enum operation_step step;
    enum operation_delivery delivery;
    bool posted; /* its request left, or may have: the reply will come */
    bool resend; /* that was on an earlier connection: it is to be sent again, as it was */
    bool has_request_slot;
    bool blocked;          /* it is in handle->blocked_reads or blocked_requests */
    bool abandoned;        /* its result was given: the slot is kept until READs and reply came */
    bool is_fast;          /* on the fast path: its `lookup` has hash and bucket and no more */
    uint16_t index;        /* its slot */
    uint16_t request_slot; /* of its request, if it has one */
    uint16_t reads;        /* of it that are under way */
    uint64_t deadline_ns;
    uint64_t number; /* of those that were taken */

    const uint8_t *key;
    uint32_t key_length;
    const uint8_t *value; /* of the request */
    uint32_t value_length;
    uint16_t flags;    /* of the request: enum okv_request_flag */
    uint64_t argument; /* of the request */
    uint64_t ttl_ms;   /* of the request */
    uint8_t *buffer;   /* get, stat, flush: where a value goes; the caller's */
    size_t buffer_size;
    uint64_t sequence; /* of its request, if it has a request slot */
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
