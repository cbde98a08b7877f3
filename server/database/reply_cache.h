/*
 * Replies to each client's last writes. A resent write is answered from here and not applied again:
 * docs/connections.md section 5.
 *
 * A reply cache belongs to a user's client id. It has a slot for each credit; a slot remembers the
 * last write of that request slot. The newest session with the client id holds the reply cache and
 * replaces an older session of that client. Without a session the reply cache is kept for a while.
 *
 * Threads. Every call may be made from any thread. Two sessions of one client may run at the same
 * time, the replaced one on another worker. A slot lets only one of them apply a write.
 */
#ifndef OKV_SERVER_DATABASE_REPLY_CACHE_H
#define OKV_SERVER_DATABASE_REPLY_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/base/uri.h"
#include "shared/format/wire.h"

struct okv_reply_cache;

/* Whose reply cache it is: a client of a user. */
struct okv_reply_cache_owner {
    char user[OKV_NAME_SIZE]; /* filled up with zeros */
    uint8_t client_id[OKV_CLIENT_ID_SIZE];
};

struct okv_reply_cache_user;

/* All reply caches of a database. */
struct okv_reply_caches {
    pthread_mutex_t lock;
    uint64_t hash_seed;
    uint32_t bucket_count; /* a power of two */
    struct okv_reply_cache **buckets;
    struct okv_reply_cache *oldest,
        *newest; /* idle ones, in the order in which they lost their session */
    struct okv_reply_cache_user *users; /* those who have any */
    uint32_t count;                     /* of all */
    uint32_t idle_count;                /* of idle ones, without a session */
    uint32_t limit;                     /* of all */
    uint64_t remember_ms;
    bool is_durable;                /* a log has what changed something (reply_cache_log.h) */
    atomic_uint_fast64_t forgotten; /* of sessions up to this id some may have been dropped */
    struct okv_recovered_clients *recovered; /* during a start; in a cluster, always */
    bool is_following;                       /* as after okv_reply_caches_follow() */
    bool has_dropped; /* clients of the log, of which later sessions without a change are unknown */
};

/* What to do with a write. */
enum okv_reply_cache_verdict {
    OKV_REPLY_CACHE_APPLY,  /* it is new: apply it, then call okv_reply_cache_done() or
                               okv_reply_cache_undone() */
    OKV_REPLY_CACHE_ANSWER, /* it was applied: *reply is its reply */
    OKV_REPLY_CACHE_WAIT,   /* the slot is in use by another session or write: ask again */
    OKV_REPLY_CACHE_STALE,  /* the client gave it up: drop it */
};

/* At most `limit` reply caches; idle ones are kept for `remember_ms`. OKV_ENOMEM. */
int okv_reply_caches_init(struct okv_reply_caches *reply_caches, uint32_t limit,
                          uint64_t remember_ms, uint64_t hash_seed);
/* A client whose reply cache was dropped had this session, and does not resume it. */
void okv_reply_caches_forget(struct okv_reply_caches *reply_caches, uint64_t session_id);
/* Every session must have ended. */
void okv_reply_caches_fini(struct okv_reply_caches *reply_caches);

/* A new session that claims a reply cache. */
struct okv_reply_cache_claim {
    struct okv_reply_cache_owner owner;
    uint64_t session_id; /* higher than in every earlier claim */
    uint32_t resume;     /* low half of the id of the client's last session; 0: none */
    uint32_t credits;    /* of the session: slots of a new reply cache */
    uint32_t place;      /* of okv_admission_admit() */
    unsigned worker;     /* index of the worker that will serve the session */
};

/* What the session gets. */
struct okv_reply_cache_grant {
    struct okv_reply_cache *reply_cache;
    bool resumed;  /* it knows all writes of session `resume` and later ones */
    bool replaced; /* another session held it and is replaced now */
    /* Of the replaced session. The caller releases its admission. */
    uint64_t replaced_session;
    uint32_t replaced_place;
    unsigned replaced_worker;
};

/*
 * Gives a new session the client's reply cache: the existing one, with the slots that it has, or a
 * new one. Beyond `limit`, drops the oldest idle cache of the user with most idle ones, so nobody
 * makes the server forget what others wrote. OKV_ENOMEM; OKV_EAGAIN: `limit` sessions hold one
 * each.
 *
 * `resume` is needed because the existing reply cache may be one that was made for a session whose
 * welcome got lost. It then knows nothing of earlier writes. Without a log, session ids start from
 * 1 in each boot, so `resume` may be from another boot. One that fits no id below session_id
 * certainly is; for the rest the client compares hash seeds.
 */
int okv_reply_cache_acquire(struct okv_reply_caches *reply_caches,
                            const struct okv_reply_cache_claim *claim, uint64_t now_ms,
                            struct okv_reply_cache_grant *out);
/* The session has ended. Its reply cache becomes idle, or is dropped if `forget`, unless a later
 * session holds it. Call it once for each okv_reply_cache_acquire() that was not rolled back.
 * Returns true if the session was still the holder: it then releases its own admission. Otherwise
 * the session that replaced it does. */
bool okv_reply_cache_release(struct okv_reply_caches *reply_caches,
                             struct okv_reply_cache *reply_cache, uint64_t session_id,
                             uint64_t now_ms, bool forget);
/* Undoes okv_reply_cache_acquire() for a session that could not be created. A replaced session
 * becomes the holder again. Returns false if the replaced session ended meanwhile: the caller then
 * releases its admission. Call it before any other okv_reply_cache_acquire(). */
bool okv_reply_cache_rollback(struct okv_reply_caches *reply_caches,
                              const struct okv_reply_cache_grant *grant, uint64_t session_id,
                              uint64_t now_ms);
/* Whether a session holds the client's reply cache. If so, *place is that session's. */
bool okv_reply_cache_find_holder(struct okv_reply_caches *reply_caches,
                                 const struct okv_reply_cache_owner *owner, uint32_t *place);
/* The number of reply caches, including idle ones. */
uint32_t okv_reply_caches_count(struct okv_reply_caches *reply_caches);
/* Drops those that have been idle for remember_ms. */
void okv_reply_caches_expire(struct okv_reply_caches *reply_caches, uint64_t now_ms);

/* Whether a later session holds the reply cache. */
bool okv_reply_cache_is_replaced(const struct okv_reply_cache *reply_cache, uint64_t session_id);
uint32_t okv_reply_cache_request_slots(const struct okv_reply_cache *reply_cache);

/* What to do with a write (okv_opcode_is_write()) on `request_slot`, which is below
 * okv_reply_cache_request_slots(). OKV_REPLY_CACHE_ANSWER fills `reply` and `value`, which has
 * OKV_WRITE_REPLY_MAX bytes. */
enum okv_reply_cache_verdict okv_reply_cache_begin(struct okv_reply_cache *reply_cache,
                                                   uint16_t request_slot, uint64_t sequence,
                                                   struct okv_reply_message *reply, uint8_t *value);
/* The write was applied or refused. Stores its reply, whose value has at most
 * OKV_WRITE_REPLY_MAX bytes. */
void okv_reply_cache_done(struct okv_reply_cache *reply_cache,
                          const struct okv_reply_message *reply);
/* The write was not applied and not answered: forgets it. After OKV_REPLY_CACHE_APPLY, call either
 * this or okv_reply_cache_done(), once. */
void okv_reply_cache_undone(struct okv_reply_cache *reply_cache, uint16_t request_slot);

#endif
