/*
 * A small world for an exhaustive search: two or three servers with the protocol of copies, etcd,
 * and clients. It has no schedule of its own: it says which events are possible, and takes the one
 * that it is given. All of it is plain data, and equal states have equal bytes.
 *
 * Time goes by in ticks of 1 us, the same for all, and D is three of them. What is possible happens
 * at any time or never: a message, a timer that is due, an answer of etcd. So a server that does
 * nothing for a while is one that stands still.
 *
 * Clients have no state. In each state somebody READs each server, and knows the clocks exactly:
 * no other client would see more. The world fails when
 *
 *  - a get counts that returns less than was seen or answered before it began,
 *  - a copy publishes another frame than a primary did, or cuts its log below what it published,
 *  - a server serves while clients may trust what another one told in an earlier epoch,
 *  - two servers, or two runs of one, lead one epoch,
 *  - valid-until falls in an epoch,
 *  - the key is changed while the status does not say so, or leaves the primary out.
 */
#ifndef OKV_TESTS_CLUSTER_SMALL_H
#define OKV_TESTS_CLUSTER_SMALL_H

#include <stdbool.h>
#include <stdint.h>

#include "server/cluster/protocol.h"

#define SMALL_SERVERS 3
#define SMALL_FRAMES 16 /* of a log */
#define SMALL_EPOCHS 16
#define SMALL_MESSAGES 3 /* under way in a direction */
#define SMALL_TERM 3     /* D */

/* What a world has at most. All but the first two are counted down. */
struct small_bounds {
    uint8_t servers;
    uint8_t under_way; /* messages in each direction */
    uint8_t ticks, puts, breaks, unknowns, crashes, hand_overs;
};

/* Server 1 leads. */
enum small_start {
    SMALL_IN_SYNC, /* all are in the set, and at rest */
    SMALL_JOINED,  /* it is alone in the set, and all others follow it */
    SMALL_ALONE    /* ... and no other one has joined */
};

struct small_options {
    struct small_bounds bounds;
    enum small_start start;
    uint64_t suspect_us;
    bool acks_disk;
    bool loses_log;   /* a crash loses all of it; else what is not durable */
    bool is_blind;    /* clients do not look at the clock */
    bool is_careless; /* clients take what they READ before they knew that the epoch was served */
};

/* An okv_peer_message in fewer bytes, of which each state has many. */
struct small_message {
    uint32_t type, flags;
    uint8_t frames[SMALL_FRAMES]; /* of SHIP, from `from`, and of a snapshot */
    uint64_t epoch, sent_us, from, to, published, incarnation;
};

enum small_link_state { SMALL_LINK_NONE, SMALL_LINK_BROKEN, SMALL_LINK_DUE, SMALL_LINK_UP };

/* The connection of a primary to a copy; both directions are in order. */
struct small_link {
    enum small_link_state state;
    unsigned down_count, up_count;
    struct okv_epochs epochs; /* of each JOIN: a connection is of one epoch */
    struct small_message down[SMALL_MESSAGES], up[SMALL_MESSAGES];
};

enum small_request_state { SMALL_REQUEST_NONE, SMALL_REQUEST_SENT, SMALL_REQUEST_DONE };

/* A request to etcd, or its answer. */
struct small_request {
    enum small_request_state state;
    enum okv_protocol_event_type answer;
    bool is_change;
    uint64_t request, revision;
    struct okv_shard_key key;
};

struct small_server {
    struct okv_protocol protocol;
    bool is_up, is_writing, log_has_changed;
    bool is_stale; /* a READ of this epoch is under way that has less than was seen */
    uint64_t incarnation, epoch_seen;
    uint8_t log[SMALL_FRAMES]; /* [i] is the frame that ends at i + 1 */
    uint64_t begin, sealed, durable, applied, published;
    uint64_t told_us, told_epoch; /* the highest valid-until, and its epoch */
    struct small_request request; /* the latest */
    struct small_request late;    /* a change that nobody waits for */
};

struct small_world {
    struct small_bounds left;
    uint64_t now;
    struct small_server servers[SMALL_SERVERS];
    struct small_link links[SMALL_SERVERS][SMALL_SERVERS]; /* [primary][copy] */
    struct okv_shard_key key;
    uint64_t revision;
    uint8_t truth[SMALL_FRAMES];
    uint64_t true_end, seen;
    uint8_t leaders[SMALL_EPOCHS]; /* of each epoch; 0: none */
    uint8_t put_count;
};

enum small_kind {
    SMALL_TICK,
    SMALL_TIMER,    /* of server `a` */
    SMALL_DOWN,     /* the first message of primary `a` to copy `b` arrives */
    SMALL_UP,       /* the first one of copy `b` to primary `a` */
    SMALL_EXECUTE,  /* etcd takes the request of `a` */
    SMALL_ANSWER,   /* its answer arrives */
    SMALL_UNKNOWN,  /* no answer arrives; a change may still be made */
    SMALL_LATE,     /* ... now */
    SMALL_LINK,     /* `a` hears that its connection to `b` is there, or broke */
    SMALL_BREAK,    /* that connection breaks, with all that is on its way */
    SMALL_PUT,      /* at primary `a` */
    SMALL_SYNC,     /* the log of `a` is durable */
    SMALL_CRASH,    /* of `a` */
    SMALL_START,    /* of `a`, after a crash */
    SMALL_HAND_OVER /* from `a` to `b` */
};

struct small_choice {
    uint8_t kind, a, b;
};

#define SMALL_CHOICES_MAX 96

/* From a start of all servers on, with no fault. */
void small_begin(struct small_world *world, const struct small_options *options);
/* What may happen; returns how many. */
unsigned small_choices(const struct small_world *world,
                       struct small_choice choices[SMALL_CHOICES_MAX]);

enum small_outcome {
    SMALL_IS_FINE,
    SMALL_IS_OUTSIDE, /* more is under way than the bounds allow */
    SMALL_HAS_FAILED, /* small_failure() says why */
};

enum small_outcome small_take(struct small_world *world, struct small_choice choice);
const char *small_failure(void);
/* Prints each event and what follows from it, to stderr. */
void small_trace(bool is_on);

/* ---- of the parts ---- */

extern struct small_options small_options;
void small_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void small_say(const struct small_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void small_leave_bounds(void);
void small_step(struct small_world *world, unsigned index, const struct okv_protocol_event *event,
                const uint8_t *frames);
void small_server_start(struct small_world *world, unsigned index);
void small_server_crash(struct small_world *world, unsigned index);
void small_server_put(struct small_world *world, unsigned index);
void small_server_sync(struct small_world *world, unsigned index);
void small_server_message(struct small_world *world, unsigned index, unsigned from,
                          const struct small_message *message, const struct okv_epochs *epochs);
void small_etcd_send(struct small_world *world, unsigned index,
                     const struct okv_protocol_action *action);
void small_etcd_execute(struct small_world *world, unsigned index, struct small_request *request);
void small_etcd_answer(struct small_world *world, unsigned index, bool is_lost);
/* Nobody waits for the latest request of this server any more. */
void small_etcd_forget(struct small_world *world, unsigned index);
/* Renames what only its equality or its order matters of, and clears what does not matter. */
void small_normalise(struct small_world *world);
/* What clients see in this state. */
void small_check(struct small_world *world);

#endif
