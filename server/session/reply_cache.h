/*
 * What each client's writes came to, so that one that is sent again is answered and not
 * applied again: docs/connections.md section 5.
 *
 * A ledger belongs to a client id. It has a lane for each credit, and a lane remembers its
 * last write. Whoever connects with the id holds the ledger until its session ends; an
 * earlier session of the same client is then replaced. Without a session a ledger is kept
 * for a while.
 *
 * Threads. All calls are for any thread. Sessions of one client may be at work at the same
 * time, the replaced one on another worker: a lane lets one of them apply a write.
 */
#ifndef OKV_SERVER_SESSION_REPLY_CACHE_H
#define OKV_SERVER_SESSION_REPLY_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/format/wire.h"

struct okv_ledger;

/* All ledgers of a server. */
struct okv_ledgers {
    pthread_mutex_t lock;
    uint64_t hash_seed;
    uint32_t bucket_count; /* a power of two */
    struct okv_ledger **buckets;
    struct okv_ledger *oldest, *newest; /* without a session, in the order in which they lost it */
    uint32_t count;                     /* of all */
    uint32_t idle_count;                /* of those without a session */
    uint32_t limit;                     /* of all */
    uint64_t remember_ms;
};

/* The longest value of a write's reply. */
#define OKV_LEDGER_VALUE_MAX 16

/* What a session is to do with a write. */
enum okv_ledger_verdict {
    OKV_LEDGER_APPLY,  /* it is new: apply it, then okv_ledger_done() or okv_ledger_undone() */
    OKV_LEDGER_ANSWER, /* it was applied: *reply is what it came to */
    OKV_LEDGER_WAIT,   /* it is being applied, or another session looks at its lane: ask again */
    OKV_LEDGER_STALE,  /* its client has gone on: drop it */
};

/* `limit` ledgers at most, each kept for `remember_ms` without a session. OKV_ENOMEM. */
int okv_ledgers_init(struct okv_ledgers *ledgers, uint32_t limit, uint64_t remember_ms,
                     uint64_t hash_seed);
/* Every session must have ended. */
void okv_ledgers_fini(struct okv_ledgers *ledgers);

/* Who takes a ledger. */
struct okv_ledger_taker {
    const uint8_t *client_id; /* OKV_CLIENT_ID_SIZE bytes */
    uint64_t session_id;      /* higher than that of every taker of this boot before */
    uint64_t resume;          /* of the client's last session that it knows of; 0: none */
    uint32_t credits;         /* lanes of a ledger that has to be made */
    uint32_t place;           /* the session's, of okv_admission_take() */
    unsigned worker;          /* index: who will serve the session */
};

/* What it gets. */
struct okv_ledger_taken {
    struct okv_ledger *ledger;
    bool resumed;  /* it knows all writes of session `resume` and of those since */
    bool replaced; /* another session had it, and finds okv_ledger_is_replaced() true */
    /* Of the one that was replaced. Its place is the taker's to give back. */
    uint64_t replaced_session;
    uint32_t replaced_place;
    unsigned replaced_worker;
};

/*
 * The ledger of a client for its new session: the one that was kept, with the lanes that
 * it has, or a new one. OKV_ENOMEM; OKV_EAGAIN when `limit` sessions hold one each.
 *
 * A ledger that was made for a session whose welcome got lost exists when the client comes
 * again, and knows nothing of what the client did before: hence `resume`. Sessions are
 * numbered from 1 in each boot, so `resume` may be of another boot and mean nothing here: one
 * that is not below session_id is, and the client compares boot ids for the rest.
 */
int okv_ledger_take(struct okv_ledgers *ledgers, const struct okv_ledger_taker *taker,
                    uint64_t now_ms, struct okv_ledger_taken *out);
/* The session has ended and looks at the ledger no more. It is kept, or with `forget` dropped,
 * unless a later session holds it. To be called once for each okv_ledger_take() that was not
 * taken back. Returns true when the session held it to the end: its place is then its own to
 * give back, and else that of who replaced it. */
bool okv_ledger_give_back(struct okv_ledgers *ledgers, struct okv_ledger *ledger,
                          uint64_t session_id, uint64_t now_ms, bool forget);
/* The session did not come about: all is as if it had not taken the ledger. Where one was
 * replaced, it holds the ledger again and has its place; returns false when it ended meanwhile:
 * its place is then still the taker's to give back. To be called before anyone else takes. */
bool okv_ledger_take_back(struct okv_ledgers *ledgers, const struct okv_ledger_taken *taken,
                          uint64_t session_id, uint64_t now_ms);
/* Whether a session holds the client's ledger, and then in *place its place. */
bool okv_ledger_find_holder(struct okv_ledgers *ledgers, const uint8_t *client_id, uint32_t *place);
/* How many there are, those without a session included. */
uint32_t okv_ledgers_count(struct okv_ledgers *ledgers);
/* Drops those that were kept long enough. */
void okv_ledgers_expire(struct okv_ledgers *ledgers, uint64_t now_ms);

/* True when a later session holds the ledger. */
bool okv_ledger_is_replaced(const struct okv_ledger *ledger, uint64_t session_id);
uint32_t okv_ledger_lanes(const struct okv_ledger *ledger);

/* Whether an operation leaves a trace in its lane. */
bool okv_ledger_is_write(unsigned opcode);

/* What to do with the write that came on `lane`, which must be below okv_ledger_lanes().
 * `reply` and `value` (OKV_LEDGER_VALUE_MAX bytes, which reply->value may point to) are
 * filled for OKV_LEDGER_ANSWER. */
enum okv_ledger_verdict okv_ledger_begin(struct okv_ledger *ledger, uint16_t lane,
                                         uint64_t sequence, struct okv_reply_message *reply,
                                         uint8_t *value);
/* It was applied, or refused: this is its answer, whose value is at most OKV_LEDGER_VALUE_MAX long.
 */
void okv_ledger_done(struct okv_ledger *ledger, const struct okv_reply_message *reply);
/* It was not applied and not answered: as if it had not come. This or okv_ledger_done() is for whom
 * okv_ledger_begin() told to apply it, once. */
void okv_ledger_undone(struct okv_ledger *ledger, uint16_t lane);

#endif
