/*
 * What an okv handle is made of, and how its files call each other:
 *
 *   open.c        opening and closing
 *   connect.c     one attempt to connect, in steps: handshake, first READs
 *   reconnect.c   what becomes of a connection: lost, closed, made again
 *   replay.c      what becomes of memory and operations when a connection goes and comes
 *   keepalive.c   finding out that the server's host is gone
 *   commands.c    what the public header demands of a command; starting it
 *   calls.c       the synchronous calls: one command each
 *   submit.c      asynchronous calls and okv_get_many
 *   short_get.c   okv_get when nothing is in its way
 *   short_many.c  okv_get_many, as far as nothing is in its way
 *   short_submit.c okv_submit, likewise, for gets
 *   short_way.h   what these three share
 *   lookup.c      a get or head: READs of buckets and extents until hit, miss or fallback
 *   extent.c      where the bytes of an extent go, in pieces, and whether they are whole
 *   hints.c       places of extents that were read before
 *   directory.c   where the index's segments are
 *   clock_sync.c  the server's clock, as far as it is known here
 *   request.c     what goes to the server as a message, and its answers
 *   reads.c       the batch of READs that go out with one doorbell
 *   buffers.c     registered memory: the handle's own and the caller's
 *   operation.c   slots: taking, blocking, ending and giving back
 *   engine.c      events, deadlines, the handle's failure
 *   wait.c        blocking until something happened
 *   watch.c       the descriptor of an event loop
 *   raw.c         one READ outside of any operation, for open.c and scan.c
 *   scan.c        okv_scan: the way through the table
 *   scan_bucket.c the items of one bucket, for scan.c
 *   flush.c       okv_flush
 *   probe.c       okv_probe: raw READs, timed
 *
 * An operation is a slot in handle->operations from its call until it ended
 * (synchronous: until its caller saw that). What a step of it still has to post
 * waits for room in `blocked_reads` or `blocked_requests`, which are tried again at every
 * turn. An operation that ended by its deadline keeps its slot until all it has under way
 * came back, or the connection is gone.
 *
 * While there is no connection to post on (link.state is not LINK_UP), operations wait: new
 * ones and those that begin again in STEP_WAITING, writes that may have been applied with
 * `resend`. The state changes only in link_advance(), but for LINK_LEAVING and LINK_CLOSING, which
 * an event or a failed post may bring about at any point.
 */
#ifndef OKV_CLIENT_HANDLE_H
#define OKV_CLIENT_HANDLE_H

#include <okv.h>
#include <stdbool.h>

#include "client/connection/state.h"
#include "shared/base/diag.h"
#include "shared/format/bucket.h"
#include "shared/format/superblock.h"
#include "shared/format/wire.h"
#include "shared/transport/transport.h"

/* Each operation's own memory for extents; a longer one needs other memory. */
#define EXTENT_BUFFER_SIZE 16384u
/* A long extent is READ in pieces of this size. */
#define EXTENT_PIECE_SIZE (256u << 10)
#define REGISTRATIONS_MAX 64
/* Bounce buffers that are kept for the next long extent. */
#define BOUNCES_KEPT 4

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
    STEP_BUCKET,    /* lookup: READ of the bucket or of one of its overflow parts */
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
    uint64_t part_offset;   /* where the part being looked at lies */
    uint64_t image_version; /* that every part of the bucket must carry */
    unsigned part;
    unsigned attempts;  /* READs of a bucket that led nowhere */
    unsigned limit;     /* of attempts */
    unsigned doubts;    /* images of first parts that failed their checks */
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
    bool has_lane;
    bool blocked;   /* it is in handle->blocked_reads or blocked_requests */
    bool abandoned; /* its result was given: the slot is kept until READs and reply came */
    bool is_short;  /* a get of short_submit.c, whose `lookup` has hash and bucket and no more */
    uint16_t index; /* its slot */
    uint16_t lane;  /* of its request, if it has one */
    uint16_t reads; /* of it that are under way */
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
    uint64_t sequence; /* of its request, if it has a lane */
    struct okv_exposure *exposure;

    struct lookup lookup;
    struct extent_read extent_read;
    struct bounce *bounce;
    uint8_t *image;  /* bucket_size bytes, registered */
    uint8_t *extent; /* EXTENT_BUFFER_SIZE bytes, registered */

    struct okv_result result;
    struct okv_result *out; /* DELIVER_TO_ARRAY */
};

/* A get of okv_get_many() on the short way: its READ goes to the image of a slot that has no
 * operation. */
struct short_read {
    const struct okv_command *command; /* NULL: there is none */
    struct okv_result *result;
    uint64_t hash;
    uint64_t bucket;
};

/* Room for all slots. */
struct slot_stack {
    uint16_t *slots;
    uint32_t count;
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

/* The place that is `ahead` behind `first` in a ring of `size`: `first` is below it,
 * `ahead` at most as much. */
static inline uint32_t ring_place(uint32_t first, uint32_t ahead, uint32_t size)
{
    uint32_t place = first + ahead;

    return place < size ? place : place - size;
}

/* The credits: docs/connections.md section 2. Room for as many as were asked for. */
struct lanes {
    struct operation **holders; /* by lane; NULL: it is free */
    uint16_t *free;             /* those that this connection has, and nobody holds */
    uint32_t count;             /* of the free ones */
    uint32_t resends;           /* holders that wait to be sent again */
};

/* READs that were decided on and not posted yet. */
struct read_batch {
    struct okv_read *reads; /* room for all that may be under way */
    unsigned count;
};

/* See clock_sync.c. */
#define CLOCK_BOUNDS 4
struct clock_bound {
    int64_t offset_ms; /* the server's clock was this far ahead of ours, or farther */
    uint64_t at_ms;    /* on our clock: when that was found */
};

struct clock_sync {
    struct clock_bound bounds[CLOCK_BOUNDS]; /* the last ones; bound n is in n % CLOCK_BOUNDS */
    uint64_t taken;                          /* bounds ever */
    uint64_t latest_ms;                      /* on the server's clock: the last one's sample */
    uint64_t sampled_at_ms; /* on our clock: when a sample came last, good or not */
    uint64_t told_ms;       /* on the server's clock: the last answer */
    bool reading;           /* the READ of a sample is under way */
};

/* See hints.c. */
struct hint {
    uint64_t extent : 48;
    uint64_t key_length : 15; /* 0: no hint here */
    uint64_t key_in_extent : 1;
    uint32_t hash; /* of the key: half of it */
    uint32_t value_length;
};

struct okv_registration {
    uint8_t *base;
    size_t length;
    struct okv_memory *memory; /* NULL while there is no connection */
};

struct okv {
    const struct okv_transport_ops *transport;
    struct okv_conn *conn;     /* NULL: there is none now */
    struct okv_memory *memory; /* the arena, registered */
    uint8_t *arena;            /* `staging`, `status`, every operation's image and extent buffer */
    size_t arena_size;
    uint32_t image_size; /* of each operation's image */
    uint8_t *staging;    /* OKV_DIRECTORY_SIZE bytes for READs of raw_read() and of connecting */
    uint8_t *status;     /* where the status is READ to between other things */

    struct link link;
    struct keepalive keepalive;
    struct watch watch;
    char how[sizeof((struct okv_conn *)0)->how]; /* of the last connection */
    struct okv_welcome_fields table;             /* as the server described it */
    uint64_t directory[OKV_DIRECTORY_ENTRIES];
    uint64_t bucket_count; /* an estimate: which bucket to look at first */
    uint64_t timeout_ns;
    struct clock_sync clock;
    struct hint *hints;
    uint64_t *hint_tags; /* behind them: a byte of each hint's hash, those of a set together */
    uint32_t hint_count; /* places: 0 or a power of two */
    uint32_t hints_kept; /* places in use */

    struct operation *operations;
    struct short_read *short_reads; /* by slot; none but in okv_get_many() */
    uint32_t slot_count; /* depth, and as many again as there are credits: for abandoned ones */
    uint32_t depth;
    uint32_t active;  /* operations that somebody waits for */
    uint32_t pending; /* operations whose result okv_poll has still to deliver: at most depth */
    uint64_t earliest_deadline_ns; /* of the active ones, or earlier */
    struct slot_stack free;
    struct slot_queue blocked_reads;    /* for room for READs */
    struct slot_queue blocked_requests; /* for credits and send buffers */
    struct result_queue ended;          /* of asynchronous operations */

    struct read_batch batch;
    unsigned reads; /* in the batch or under way, but for raw_read()'s and okv_probe()'s */
    struct bounce *bounces[BOUNCES_KEPT];                      /* not in use; NULL: none */
    struct okv_registration *registrations[REGISTRATIONS_MAX]; /* NULL: none */
    unsigned registrations_end;                                /* none from here on */

    struct lanes lanes;
    uint64_t taken;         /* operations ever */
    uint16_t *order;        /* room for all slots: replay.c */
    uint64_t next_sequence; /* rises over all connections */
    bool unflushed;         /* messages were queued since the last flush */
    uint32_t turns;
    uint64_t begun_ns; /* the last call that looked at the clock and began operations */
    int failure;       /* why the handle is unusable; 0 while it is usable */
    bool lost;         /* a message could not be posted: OKV_EDISCONNECTED */
    bool closed;       /* OKV_EVENT_CLOSED of `conn` came */

    struct okv_counters counters;
    struct okv_diag why;
};

/* ---- commands.c ---- */

/* 0 when the command is one that okv.h allows on this handle; OKV_EINVAL, OKV_EKEYSIZE,
 * OKV_EVALUESIZE, OKV_ETTL. */
int command_check(const okv *handle, const struct okv_command *command);
/* When its time is over that began at `begun_ns`. */
static inline uint64_t command_deadline_ns(const okv *handle, const struct okv_command *command,
                                           uint64_t begun_ns)
{
    uint32_t own_ms = command->timeout_ms;

    return begun_ns + (own_ms ? (uint64_t)own_ms * 1000000u : handle->timeout_ns);
}
/* What most commands are: a get that says no more than it has to, for which command_check() has no
 * objection. */
static inline bool command_is_plain_get(const okv *handle, const struct okv_command *command)
{
    uint64_t rest = command->flags | (uintptr_t)command->value | command->value_length |
                    command->version | (uint64_t)command->ttl_ms | (uint64_t)command->delta |
                    command->reserved[0] | command->reserved[1] | command->reserved[2];

    return command->kind == OKV_GET && rest == 0 && command->key &&
           command->key_length - 1 < handle->table.max_key &&
           (command->buffer || command->buffer_size == 0);
}
_Static_assert(sizeof((struct okv_command *)0)->reserved == 3 * sizeof(uint32_t), "all are zero");
/* All that a plain get has, and every operation may have. */
static inline void command_fill_get(struct operation *operation, const struct okv_command *command)
{
    operation->result.tag = command->tag;
    operation->key = command->key;
    operation->key_length = (uint32_t)command->key_length;
    operation->buffer = command->buffer;
    operation->buffer_size = command->buffer_size;
}
/* Checks and starts it; its time began at `begun_ns`. Its READs are in the batch: reads_flush()
 * is the caller's. `place` is for DELIVER_TO_ARRAY, `started` for DELIVER_TO_CALLER; otherwise
 * NULL. Also what operation_take() says. */
int command_start(okv *handle, const struct okv_command *command, uint64_t begun_ns,
                  enum operation_delivery delivery, struct okv_result *place,
                  struct operation **started);

/* Whether the values of the operation are within what this server takes, and how it takes
 * them. 0, OKV_EKEYSIZE, OKV_EVALUESIZE. */
int command_refit(const okv *handle, struct operation *operation);
/* Starts an operation that is filled in, from its beginning. */
void command_go(okv *handle, struct operation *operation);

/* ---- operation.c ---- */

/* A slot for an operation of this kind, initialised. Where there is none, DELIVER_TO_CALLER waits
 * for it, to its deadline: OKV_ETIMEDOUT; the others have OKV_EAGAIN. Or the handle's failure. */
int operation_take(okv *handle, enum operation_kind kind, enum operation_delivery delivery,
                   uint64_t deadline_ns, struct operation **out);
/* Begins one in a slot that was taken from the free ones. Key, buffer and tag in it may be an
 * earlier get's: the caller sets all of them (command_fill_get()), and counts `pending` where
 * okv_poll() delivers. */
static inline void operation_begin(okv *handle, struct operation *slot, enum operation_kind kind,
                                   enum operation_delivery delivery, uint64_t deadline_ns)
{
    slot->kind = kind;
    slot->delivery = delivery;
    slot->deadline_ns = deadline_ns;
    slot->number = handle->taken++;
    handle->active++;
    if (deadline_ns < handle->earliest_deadline_ns)
        handle->earliest_deadline_ns = deadline_ns;
}
/* The slot that the next operation would have; there is one. */
static inline struct operation *operation_next(const okv *handle)
{
    return &handle->operations[handle->free.slots[handle->free.count - 1]];
}
/* Starts or resumes the current step; blocks the operation when there is no room. */
void operation_advance(okv *handle, struct operation *operation);
/* Tries blocked operations again. */
void operation_retry_blocked(okv *handle);
/* Ends an operation: its result is ready for whoever waits. Unless it is
 * DELIVER_TO_CALLER its slot is free again: do not touch it afterwards. */
void operation_end(okv *handle, struct operation *operation, int status);
/* Ends it with a failure that is no answer of the server's: OKV_EUNKNOWN for a write
 * whose request left. */
void operation_end_unanswered(okv *handle, struct operation *operation, int failure);
/* Its deadline passed: gives its result; what is under way keeps the slot. */
void operation_expire(okv *handle, struct operation *operation);
/* Gives the slot back, and what the operation had besides. */
void operation_release(okv *handle, struct operation *operation);
/* A write, which a server applies once (docs/connections.md section 5). */
bool operation_is_write(const struct operation *operation);
/* Those that wait for room do so no more. */
void operation_unblock_all(okv *handle);
/* True from its start to its end. */
static inline bool operation_is_under_way(const struct operation *operation)
{
    return operation->step != STEP_FREE && operation->step != STEP_ENDED;
}

/* ---- engine.c ---- */

/* What a call begins with: returns the clock. Before that a handle that nobody looked at for a
 * while hears what happened meanwhile, such as the end of its connection. */
uint64_t engine_begin(okv *handle);
/* Whether nobody looked for a while. */
bool engine_is_stale(const okv *handle, uint64_t now);
/* Hears what happened, whenever anybody looked last. */
void engine_catch_up(okv *handle);
/* One pass over events, blocked operations and deadlines. Returns whether anything happened. */
bool engine_turn(okv *handle);
/* Handles one event of the transport. */
void engine_event(okv *handle, const struct okv_event *event);
/* Handles what a poll of the connection returned. */
void engine_take(okv *handle, const struct okv_event *events, int count);
/* Handles what events there are, up to a turn's. Returns how many, or a negative code. */
int engine_events(okv *handle);
/* Makes the handle unusable: ends every operation and says why. */
void engine_fail(okv *handle, int failure, const char *sentence);
/* The connection is lost, as the transport said by OKV_EDISCONNECTED: what came before, such
 * as the server's goodbye, is heard first. */
void engine_disconnected(okv *handle);

/* ---- link.h ---- */

static inline bool link_is_up(const okv *handle)
{
    return handle->link.state == LINK_UP;
}

/* ---- wait.c ---- */

/* How long somebody has waited for something to happen; begin with zeros. */
struct waiting {
    uint32_t idle;
    uint64_t spin_until_ns;
};

/* One turn, and a pause when nothing happened in it: short at first, then until an
 * event or a deadline, this or an operation's. */
void engine_pause(okv *handle, struct waiting *waiting, uint64_t deadline_ns);
/* Posts what is in the batch, then blocks until `operation` ended, at the latest at its
 * deadline. Fills *result (may be NULL) and returns the status. */
int engine_wait_for(okv *handle, struct operation *operation, struct okv_result *result);

/* ---- lookup.c ---- */

/* Starts a get or head whose key and buffer are set. */
void lookup_start(okv *handle, struct operation *operation);
/* The same for one whose READ of this bucket, to its image, was posted, and counted in
 * handle->reads, before there was the operation; its event is still to come. */
void lookup_adopt(struct operation *operation, uint64_t hash, uint64_t bucket);
/* Goes on after the server had no room for the value in its answer. */
void lookup_resume(okv *handle, struct operation *operation);
/* Adds what READs of the current step are left to the batch. 0, or OKV_EAGAIN for no room. */
int lookup_post(okv *handle, struct operation *operation);
/* A READ of the current step ended well. */
void lookup_read_done(okv *handle, struct operation *operation, enum read_kind kind);

/* ---- extent.c ---- */

/* Gets ready to READ the whole extent of a reference, which was checked with
 * extent_is_possible(), into the caller's buffer, the operation's or a bounce buffer.
 * On OKV_ENOMEM, or what else bounce_take() says, nothing of it is to be READ. */
int extent_begin(okv *handle, struct operation *operation, const struct okv_entry *reference);
/* Likewise only the key that the extent begins with, into the operation's buffer. */
void extent_begin_key(struct operation *operation, const struct okv_entry *reference);
/* Adds READs of pieces to the batch. 0 when as many as wanted are under way, or OKV_EAGAIN. */
int extent_post(okv *handle, struct operation *operation);
static inline bool extent_is_posted(const struct operation *operation)
{
    return operation->extent_read.posted == operation->extent_read.length;
}
/* Nothing more of it is wanted. */
static inline void extent_stop(struct operation *operation)
{
    operation->extent_read.posted = operation->extent_read.length;
}
/* As okv_extent_check, for the bytes that were read. */
int extent_check(const okv *handle, const struct operation *operation,
                 const struct okv_entry *reference);
/* The value that was read; it may be where the caller wants it. */
const uint8_t *extent_value(const struct operation *operation, const struct okv_entry *reference);
/* False for a reference that no server with this table makes, or that leaves the region. */
bool extent_is_possible(const okv *handle, const struct okv_entry *reference);

/* ---- hints.c ---- */

/* Forgets all of them. */
void hints_clear(okv *handle);
/* Makes room for `count` hints, rounded up to a power of two, at least 8. OKV_ENOMEM. */
int hints_create(okv *handle, uint32_t count);
/* Whether hints_find() may find something for a key with this hash. */
bool hints_has(const okv *handle, uint64_t hash);
/* True with the reference that a key had when it was last read, but for its checksum: that is for
 * the bucket to say. */
bool hints_find(const okv *handle, const struct operation *operation, struct okv_entry *reference);
/* The reference was right just now. */
void hints_remember(okv *handle, const struct operation *operation,
                    const struct okv_entry *reference);
/* Its key's extent is not, or will not be, where it was. */
void hints_forget(okv *handle, const struct operation *operation);

/* ---- directory.c ---- */

/* Where a bucket lies. False when no segment is known for it, or none inside the region. */
bool directory_locate(const okv *handle, uint64_t bucket, uint64_t *offset);
/* Takes the whole of it from `staging`. */
void directory_take(okv *handle);
/* READs the whole directory, blocking; as raw_read(). */
int directory_read(okv *handle);
/* Where the directory's entry of a bucket's segment lies; the last one for a bucket that
 * cannot be. */
uint64_t directory_entry(const okv *handle, uint64_t bucket);
/* Takes an entry that was READ. */
void directory_learn(okv *handle, uint64_t bucket, const uint8_t *entry);

/* ---- clock_sync.c ---- */

/* A sample of the server's clock that came just now. */
void clock_sample(okv *handle, uint64_t clock_ms);
/* The server's clock, in ms: never later than it is, and never earlier than told before, unless the
 * server's clock stood still. */
uint64_t clock_now_ms(okv *handle);
/* What an item has to live: OKV_TTL_NONE, or at least 1 ms; 0 when it has expired. */
int64_t clock_ttl_ms(okv *handle, uint64_t expiry_ms);
/* Adds a READ of the status to the batch unless the last one is recent or there is no room. */
void clock_refresh_soon(okv *handle);
/* The same whatever the age of the last one: for its count of buckets. */
void clock_status_soon(okv *handle);
/* That READ ended. */
void clock_status_done(okv *handle);
/* READs the status, blocking: a sample, and the count of buckets; as raw_read(). */
int clock_refresh(okv *handle);

/* ---- buffers.c ---- */

/* Registers what READs land in with the endpoint of the connection: the arena, which is made
 * anew when buckets have another size, and the caller's memory. */
int buffers_attach(okv *handle, uint32_t bucket_size);
/* Takes all memory from the connection; bounce buffers and exposures go. No READ reaches memory
 * that is not registered: from here on it is ours, and the caller's, again. */
void buffers_detach(okv *handle);
/* A buffer of at least `size` bytes. OKV_ENOMEM, or why it cannot be registered; *out is
 * then NULL. */
int bounce_take(okv *handle, size_t size, struct bounce **out);
void bounce_give_back(okv *handle, struct bounce *bounce);
/* The registration in which the buffer lies, whole; NULL when in none. */
const struct okv_registration *registration_find(const okv *handle, const uint8_t *base,
                                                 size_t length);
/* Frees all of it, after buffers_detach(). */
void buffers_destroy(okv *handle);

/* ---- request.c ---- */

/* Sends the operation's request as its only step. */
void request_start(okv *handle, struct operation *operation);
/* 0, OKV_EAGAIN for no lane or room, or a failure; operation->posted says whether
 * the message may have left. */
int request_post(okv *handle, struct operation *operation);
/* Whether the next request has a lane and a buffer. */
bool request_has_room(const okv *handle);
/* Sends GOODBYE. OKV_EAGAIN: no lane or room; OKV_EDISCONNECTED, OKV_EIO. */
int request_goodbye(okv *handle);
/* Whether an answer is owed on this connection. */
bool request_is_owed(const okv *handle);
/* All lanes are free but for those that are held. */
void lanes_reset(okv *handle);
/* No answer to the operation's request is waited for, if one was: its lane is free. */
void request_forget(okv *handle, struct operation *operation);
/* A message came from the server. */
void request_message(okv *handle, const struct okv_event *event);

/* ---- raw.c ---- */

/* READs `length` bytes at `offset` into registered memory and waits for them.
 * OKV_EDISCONNECTED: the connection was lost, or there is none. */
int raw_read(okv *handle, uint64_t offset, void *destination, struct okv_memory *memory,
             uint32_t length);

#include "client/get/read_batch.h"

#endif
