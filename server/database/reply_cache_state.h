/* What reply caches are made of. Only the files reply_cache*.c include this
 * header. */
#ifndef OKV_SERVER_DATABASE_REPLY_CACHE_STATE_H
#define OKV_SERVER_DATABASE_REPLY_CACHE_STATE_H

#include "server/database/reply_cache.h"

/*
 * The last write of a request slot. `is_locked` protects all fields except `sequence`, which may be
 * read without. It is held for a lookup, or until a new write was applied. `sequence` decreases
 * only in okv_reply_cache_undone().
 */
struct request_slot {
    atomic_uint_fast64_t sequence; /* 0: none yet */
    uint64_t earlier; /* while a write is being applied: the sequence of the one before */
    uint64_t version;
    int status;
    atomic_bool is_locked;
    uint8_t opcode;
    uint8_t value_length;
    uint8_t value[OKV_WRITE_REPLY_MAX];
};

/* The last write of a request slot that changed something, as the log has it. */
struct logged_reply {
    uint64_t sequence; /* 0: none yet */
    uint64_t version;
    uint8_t opcode;
    uint8_t value_length;
    uint8_t value[OKV_WRITE_REPLY_MAX];
};

/* A user with reply caches. */
struct okv_reply_cache_user {
    char name[OKV_NAME_SIZE];
    uint32_t count;      /* of its reply caches; 0: the entry goes */
    uint32_t idle_count; /* of these, idle ones */
    struct okv_reply_cache_user *next;
};

struct okv_reply_cache {
    struct okv_reply_cache_owner owner;
    struct okv_reply_cache_user *user;
    uint64_t first_session;      /* that it was made for: its name in a log */
    uint64_t known_since;        /* all writes since this session are known */
    atomic_uint_fast64_t holder; /* the last session that acquired it */
    bool is_held;                /* this and the fields down to `newer`: under the lock of all */
    bool is_dropped;             /* it is not in the table; its last user frees it */
    uint32_t users;              /* sessions that acquired and have not released it */
    uint32_t place;              /* the holder's */
    unsigned worker;             /* the holder's */
    uint64_t replaced; /* the session that the holder replaced, until that one ends; else 0 */
    uint64_t idle_since_ms;
    struct okv_reply_cache *next_in_bucket;
    struct okv_reply_cache *older, *newer; /* in the list of idle ones */
    /* Of a durable database; changed only by writes whose batch is collected. */
    struct logged_reply *logged;         /* by request slot; or NULL */
    bool is_logged;                      /* the log has its CLIENT record; under the log's lock */
    atomic_uint_fast64_t logged_session; /* the last one that is in a record */
    uint32_t request_slot_count;
    struct request_slot request_slots[];
};

/* How much of its value is kept: all, but nothing of a GET_TOUCH's, which may be long. */
uint8_t okv_reply_cache_value_length(const struct okv_reply_message *reply);

/* Under reply_caches->lock: makes one that no session holds, of claim->credits slots. OKV_EAGAIN:
 * as many are held as there may be; OKV_ENOMEM. */
int okv_reply_cache_create(struct okv_reply_caches *reply_caches,
                           const struct okv_reply_cache_claim *claim, struct okv_reply_cache **out);
/* Under reply_caches->lock: lists it as idle. */
void okv_reply_cache_idle(struct okv_reply_caches *reply_caches,
                          struct okv_reply_cache *reply_cache, uint64_t now_ms);
/* Under reply_caches->lock: drops all that no session holds. Their sessions can still be resumed.
 */
void okv_reply_caches_drop_idle(struct okv_reply_caches *reply_caches);
/* Under reply_caches->lock. NULL: there is none. */
struct okv_reply_cache *okv_reply_cache_find(const struct okv_reply_caches *reply_caches,
                                             const struct okv_reply_cache_owner *owner);

#endif
