/*
 * What each client's writes came to, so that one that is sent again is answered and not
 * applied again: docs/connections.md section 5.
 *
 * A reply cache belongs to a client id. It has a request slot for each credit, and a request slot
 * remembers its last write. Whoever connects with the id holds the reply cache until its session
 * ends; an earlier session of the same client is then replaced. Without a session a reply cache is
 * kept for a while.
 *
 * Threads. All calls are for any thread. Sessions of one client may be at work at the same
 * time, the replaced one on another worker: a request slot lets one of them apply a write.
 */
#ifndef OKV_SERVER_SESSION_REPLY_CACHE_H
#define OKV_SERVER_SESSION_REPLY_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/format/wire.h"

struct okv_reply_cache;

/* All reply caches of a server. */
struct okv_reply_caches {
    pthread_mutex_t lock;
    uint64_t hash_seed;
    uint32_t bucket_count; /* a power of two */
    struct okv_reply_cache **buckets;
    struct okv_reply_cache *oldest,
        *newest;         /* without a session, in the order in which they lost it */
    uint32_t count;      /* of all */
    uint32_t idle_count; /* of those without a session */
    uint32_t limit;      /* of all */
    uint64_t remember_ms;
};

/* The longest value of a write's reply. */
#define OKV_REPLY_CACHE_VALUE_MAX 16

/* What a session is to do with a write. */
enum okv_reply_cache_verdict {
    OKV_REPLY_CACHE_APPLY,  /* it is new: apply it, then okv_reply_cache_done() or
                               okv_reply_cache_undone() */
    OKV_REPLY_CACHE_ANSWER, /* it was applied: *reply is what it came to */
    OKV_REPLY_CACHE_WAIT,  /* it is being applied, or another session looks at its request slot: ask
                              again */
    OKV_REPLY_CACHE_STALE, /* its client has gone on: drop it */
};

/* `limit` reply caches at most, each kept for `remember_ms` without a session. OKV_ENOMEM. */
int okv_reply_caches_init(struct okv_reply_caches *reply_caches, uint32_t limit,
                          uint64_t remember_ms, uint64_t hash_seed);
/* Every session must have ended. */
void okv_reply_caches_fini(struct okv_reply_caches *reply_caches);

/* Who takes a reply cache. */
struct okv_reply_cache_taker {
    const uint8_t *client_id; /* OKV_CLIENT_ID_SIZE bytes */
    uint64_t session_id;      /* higher than that of every taker of this boot before */
    uint64_t resume;          /* of the client's last session that it knows of; 0: none */
    uint32_t credits;         /* request slots of a reply cache that has to be made */
    uint32_t place;           /* the session's, of okv_admission_take() */
    unsigned worker;          /* index: who will serve the session */
};

/* What it gets. */
struct okv_reply_cache_taken {
    struct okv_reply_cache *reply_cache;
    bool resumed;  /* it knows all writes of session `resume` and of those since */
    bool replaced; /* another session had it, and finds okv_reply_cache_is_replaced() true */
    /* Of the one that was replaced. Its place is the taker's to give back. */
    uint64_t replaced_session;
    uint32_t replaced_place;
    unsigned replaced_worker;
};

/*
 * The reply cache of a client for its new session: the one that was kept, with the request slots
 * that it has, or a new one. OKV_ENOMEM; OKV_EAGAIN when `limit` sessions hold one each.
 *
 * A reply cache that was made for a session whose welcome got lost exists when the client comes
 * again, and knows nothing of what the client did before: hence `resume`. Sessions are
 * numbered from 1 in each boot, so `resume` may be of another boot and mean nothing here: one
 * that is not below session_id is, and the client compares boot ids for the rest.
 */
int okv_reply_cache_take_over(struct okv_reply_caches *reply_caches,
                              const struct okv_reply_cache_taker *taker, uint64_t now_ms,
                              struct okv_reply_cache_taken *out);
/* The session has ended and looks at the reply cache no more. It is kept, or with `forget` dropped,
 * unless a later session holds it. To be called once for each okv_reply_cache_take_over() that was
 * not taken back. Returns true when the session held it to the end: its place is then its own to
 * give back, and else that of who replaced it. */
bool okv_reply_cache_give_back(struct okv_reply_caches *reply_caches,
                               struct okv_reply_cache *reply_cache, uint64_t session_id,
                               uint64_t now_ms, bool forget);
/* The session did not come about: all is as if it had not taken the reply cache. Where one was
 * replaced, it holds the reply cache again and has its place; returns false when it ended
 * meanwhile: its place is then still the taker's to give back. To be called before anyone else
 * takes. */
bool okv_reply_cache_rollback(struct okv_reply_caches *reply_caches,
                              const struct okv_reply_cache_taken *taken, uint64_t session_id,
                              uint64_t now_ms);
/* Whether a session holds the client's reply cache, and then in *place its place. */
bool okv_reply_cache_find_holder(struct okv_reply_caches *reply_caches, const uint8_t *client_id,
                                 uint32_t *place);
/* How many there are, those without a session included. */
uint32_t okv_reply_caches_count(struct okv_reply_caches *reply_caches);
/* Drops those that were kept long enough. */
void okv_reply_caches_expire(struct okv_reply_caches *reply_caches, uint64_t now_ms);

/* True when a later session holds the reply cache. */
bool okv_reply_cache_is_replaced(const struct okv_reply_cache *reply_cache, uint64_t session_id);
uint32_t okv_reply_cache_request_slots(const struct okv_reply_cache *reply_cache);

/* Whether an operation leaves a trace in its request slot. */
bool okv_reply_cache_is_write(unsigned opcode);

/* What to do with the write that came on `request slot`, which must be below
 * okv_reply_cache_request_slots(). `reply` and `value` (OKV_REPLY_CACHE_VALUE_MAX bytes, which
 * reply->value may point to) are filled for OKV_REPLY_CACHE_ANSWER. */
enum okv_reply_cache_verdict okv_reply_cache_begin(struct okv_reply_cache *reply_cache,
                                                   uint16_t request_slot, uint64_t sequence,
                                                   struct okv_reply_message *reply, uint8_t *value);
/* It was applied, or refused: this is its answer, whose value is at most OKV_REPLY_CACHE_VALUE_MAX
 * long.
 */
void okv_reply_cache_done(struct okv_reply_cache *reply_cache,
                          const struct okv_reply_message *reply);
/* It was not applied and not answered: as if it had not come. This or okv_reply_cache_done() is for
 * whom okv_reply_cache_begin() told to apply it, once. */
void okv_reply_cache_undone(struct okv_reply_cache *reply_cache, uint16_t request_slot);

#endif
