/*
 * Three servers with the protocol of copies, etcd and clients, on a simulated time that a seed
 * repeats. Messages are delayed, connections break or stall, servers stop while their memory can
 * still be READ, crash and start, clocks have rates of their own, and answers of etcd get lost,
 * also those to changes that are made later.
 *
 * A frame is a position and a put. What was published at a position is the truth. The world fails
 * when
 *
 *  - a copy publishes another frame there, or cuts its log below what it published,
 *  - a get returns less than was seen or answered before it began, or a put is ordered before that,
 *  - a server serves while clients may trust what another one told in an earlier epoch,
 *  - a change of the key is sent while the status does not say so, or leaves the primary out,
 *  - no write succeeds at the end, when all faults are over and a server may lead.
 */
#ifndef OKV_TESTS_CLUSTER_WORLD_H
#define OKV_TESTS_CLUSTER_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "server/cluster/protocol.h"

#define WORLD_SERVERS 3
#define WORLD_CLIENTS 3
#define WORLD_FRAMES 1024 /* of a log */
#define WORLD_SAMPLES 4
#define WORLD_MS UINT64_C(1000000) /* the world's time is in ns */

/* A clock: us that are read at a time in ns. */
struct world_clock {
    uint64_t offset_us;
    int64_t ppm;
};

enum world_kind {
    WORLD_STEP,     /* `event` for a server's protocol */
    WORLD_TIMER,    /* of a server */
    WORLD_SNAPSHOT, /* arrives at a copy */
    WORLD_SYNCED,   /* the disk has the log up to `position` */
    WORLD_APPLIED,
    WORLD_START,  /* a crashed server */
    WORLD_ETCD,   /* a request arrives at etcd */
    WORLD_PUT,    /* arrives at a server */
    WORLD_ASK,    /* a get by message, likewise */
    WORLD_PING,   /* for a sample of the server's clock */
    WORLD_FETCH,  /* a READ of the bucket reaches the server's memory */
    WORLD_STATUS, /* likewise of the status */
    WORLD_REPLY,  /* to a client's operation */
    WORLD_SAMPLE, /* the reply to a ping */
    WORLD_CLIENT, /* a client begins its next operation */
    WORLD_FAULT,
};

struct world_item {
    uint64_t at, order;
    enum world_kind kind;
    unsigned server, client;
    uint64_t boot;       /* of the server it is for; 0: any */
    uint64_t connection; /* 0: of none */
    unsigned from;       /* its other end */
    uint64_t position, operation, posted_us, clock_us, epoch;
    const uint32_t *frames;             /* of SHIP and snapshots */
    bool is_change, is_unanswered;      /* at etcd */
    bool is_read, is_status, is_answer; /* to a client: a READ, of the status; of a put */
    struct okv_protocol_event event;
};

struct world_put {
    unsigned client;
    uint64_t operation;
};

struct world_server {
    struct okv_protocol protocol;
    struct world_clock clock;
    bool is_up;
    uint64_t boot, stopped_until;
    /* What files keep; in memory mode a start has an empty log. */
    uint64_t incarnation, epoch_seen;
    uint32_t log[WORLD_FRAMES]; /* [i] is the frame that ends at i + 1 */
    uint64_t begin, sealed, durable, applied, cuts;
    bool log_has_changed, is_full;
    uint64_t full_until, slow_until;
    /* What its memory shows to READs. */
    uint64_t published;
    struct okv_protocol_status status;
    uint64_t told_us, told_epoch; /* the highest valid-until, and its epoch */
    struct world_put waiting[WORLD_CLIENTS * 4], under_way;
    unsigned waiting_count;
    bool is_writing;
    uint64_t timer_order, timer_at; /* of the pending one; 0: none */
};

struct world_sample {
    uint64_t posted_us, clock_us;
};

/* A client's connection to a server. */
struct world_session {
    uint64_t boot;
    struct world_sample samples[WORLD_SAMPLES];
    unsigned taken;
    uint64_t valid_until_us, epoch; /* of the latest status; 0: it did not serve */
};

struct world_client {
    struct world_clock clock;
    struct world_session sessions[WORLD_SERVERS];
    uint64_t operation, floor;
    unsigned server;
    bool is_put;
};

struct world_options {
    uint64_t seed;
    int64_t ppm;    /* of clocks, in both directions */
    bool is_calm;   /* no faults but delays and clocks */
    bool is_traced; /* prints what happens */
};

struct world {
    struct world_options options;
    struct okv_protocol_options protocol;
    uint64_t random, now, order;
    unsigned queued;
    struct world_server servers[WORLD_SERVERS];
    struct world_client clients[WORLD_CLIENTS];
    struct okv_shard_key key;
    uint64_t revision;
    uint64_t connections[WORLD_SERVERS][WORLD_SERVERS]; /* [primary][copy]; 0: none */
    uint64_t connection_count;
    uint64_t clear_at[WORLD_SERVERS][WORLD_SERVERS]; /* messages do not pass before; FIFO */
    uint64_t stalled_until[WORLD_SERVERS][WORLD_SERVERS];
    uint32_t truth[WORLD_FRAMES];
    uint64_t true_end, seen;
    uint32_t frame_count;
    unsigned arena_used;
    uint64_t faults_end, end, fault_gap_ms;
    unsigned etcd_losses;                                          /* in percent */
    bool is_over;                                                  /* no more faults */
    unsigned last_puts;                                            /* answered since then */
    unsigned puts, gets, stale, take_overs, hand_overs, snapshots; /* that counted */
    char failure[160];
};

/* Runs one schedule; true: nothing failed. `world` is for the counts, and is zeroed first. */
bool world_run(struct world *world, const struct world_options *options);

/* ---- of the parts ---- */

uint64_t world_below(struct world *world, uint64_t end);
bool world_chance(struct world *world, unsigned percent);
/* A delay of a message in ns: mostly short. */
uint64_t world_delay(struct world *world);
uint64_t world_clock_us(const struct world *world, const struct world_clock *clock);
struct world_clock world_make_clock(struct world *world);
void world_fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_trace(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Something that happens at a time, to fill in; the rest of it is zero. */
struct world_item *world_push(struct world *world, uint64_t at, enum world_kind kind);
/* Memory for frames, until the end of the run. */
uint32_t *world_frames(struct world *world, uint64_t count);

void world_server_start(struct world *world, unsigned index);
void world_server_crash(struct world *world, unsigned index);
void world_server_item(struct world *world, const struct world_item *item);
void world_server_break(struct world *world, unsigned primary, unsigned copy);
void world_server_write(struct world *world, unsigned index);
void world_etcd_request(struct world *world, unsigned index,
                        const struct okv_protocol_action *action);
void world_etcd_item(struct world *world, const struct world_item *item);
void world_client_item(struct world *world, const struct world_item *item);
void world_fault_item(struct world *world);
void world_answer_put(struct world *world, struct world_put put, uint64_t position);

#endif
