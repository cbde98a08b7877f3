#include <stdlib.h>
#include <string.h>

#include "server/database/reply_cache_state.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

/* ---- all reply caches, under reply_caches->lock ---- */

static struct okv_reply_cache **bucket_of(const struct okv_reply_caches *reply_caches,
                                          const struct okv_reply_cache_owner *owner)
{
    uint64_t hash = okv_hash_key(owner, sizeof *owner, reply_caches->hash_seed);

    return &reply_caches->buckets[hash & (reply_caches->bucket_count - 1)];
}

struct okv_reply_cache *okv_reply_cache_find(const struct okv_reply_caches *reply_caches,
                                             const struct okv_reply_cache_owner *owner)
{
    struct okv_reply_cache *reply_cache = *bucket_of(reply_caches, owner);

    while (reply_cache && memcmp(&reply_cache->owner, owner, sizeof *owner) != 0)
        reply_cache = reply_cache->next_in_bucket;
    return reply_cache;
}

static void idle_append(struct okv_reply_caches *reply_caches, struct okv_reply_cache *reply_cache)
{
    reply_cache->newer = NULL;
    reply_cache->older = reply_caches->newest;
    if (reply_caches->newest)
        reply_caches->newest->newer = reply_cache;
    else
        reply_caches->oldest = reply_cache;
    reply_caches->newest = reply_cache;
    reply_caches->idle_count++;
    reply_cache->user->idle_count++;
}

static void idle_remove(struct okv_reply_caches *reply_caches, struct okv_reply_cache *reply_cache)
{
    if (reply_cache->older)
        reply_cache->older->newer = reply_cache->newer;
    else
        reply_caches->oldest = reply_cache->newer;
    if (reply_cache->newer)
        reply_cache->newer->older = reply_cache->older;
    else
        reply_caches->newest = reply_cache->older;
    reply_caches->idle_count--;
    reply_cache->user->idle_count--;
}

static struct okv_reply_cache_user *user_acquire(struct okv_reply_caches *reply_caches,
                                                 const char *name)
{
    struct okv_reply_cache_user *user = reply_caches->users;

    while (user && strcmp(user->name, name) != 0)
        user = user->next;
    if (!user) {
        user = calloc(1, sizeof *user);
        if (!user)
            return NULL;
        memcpy(user->name, name, sizeof user->name);
        user->next = reply_caches->users;
        reply_caches->users = user;
    }
    user->count++;
    return user;
}

static void user_release(struct okv_reply_caches *reply_caches, struct okv_reply_cache_user *user)
{
    struct okv_reply_cache_user **link = &reply_caches->users;

    if (--user->count > 0)
        return;
    while (*link != user)
        link = &(*link)->next;
    *link = user->next;
    free(user);
}

static void reply_cache_free(struct okv_reply_cache *reply_cache)
{
    free(reply_cache->logged);
    free(reply_cache);
}

/* It is not in the list of idle ones. A replaced session may still use it. */
static void reply_cache_drop(struct okv_reply_caches *reply_caches,
                             struct okv_reply_cache *reply_cache)
{
    struct okv_reply_cache **link = bucket_of(reply_caches, &reply_cache->owner);

    while (*link != reply_cache)
        link = &(*link)->next_in_bucket;
    *link = reply_cache->next_in_bucket;
    reply_caches->count--;
    user_release(reply_caches, reply_cache->user);
    reply_cache->is_dropped = true;
    if (reply_cache->users == 0)
        reply_cache_free(reply_cache);
}

void okv_reply_cache_idle(struct okv_reply_caches *reply_caches,
                          struct okv_reply_cache *reply_cache, uint64_t now_ms)
{
    reply_cache->is_held = false;
    reply_cache->idle_since_ms = now_ms;
    idle_append(reply_caches, reply_cache);
}

/* Its sessions cannot be resumed any more. */
static void forget(struct okv_reply_caches *reply_caches, struct okv_reply_cache *reply_cache)
{
    okv_reply_caches_forget(reply_caches, atomic_load(&reply_cache->holder));
    idle_remove(reply_caches, reply_cache);
    reply_cache_drop(reply_caches, reply_cache);
}

void okv_reply_caches_drop_idle(struct okv_reply_caches *reply_caches)
{
    struct okv_reply_cache *oldest;

    while ((oldest = reply_caches->oldest)) {
        idle_remove(reply_caches, oldest);
        reply_cache_drop(reply_caches, oldest);
    }
}

/* The oldest idle one of the user who has most. There is an idle one. */
static void drop_of_most(struct okv_reply_caches *reply_caches)
{
    const struct okv_reply_cache_user *most = reply_caches->users;
    struct okv_reply_cache *victim = reply_caches->oldest;

    for (const struct okv_reply_cache_user *user = most; user; user = user->next)
        if (user->idle_count > most->idle_count)
            most = user;
    while (victim->user != most)
        victim = victim->newer;
    forget(reply_caches, victim);
}

int okv_reply_cache_create(struct okv_reply_caches *reply_caches,
                           const struct okv_reply_cache_claim *claim, struct okv_reply_cache **out)
{
    struct okv_reply_cache **bucket = bucket_of(reply_caches, &claim->owner);

    if (reply_caches->count == reply_caches->limit) {
        if (!reply_caches->oldest)
            return OKV_EAGAIN;
        drop_of_most(reply_caches);
    }
    struct okv_reply_cache *reply_cache =
        calloc(1, sizeof *reply_cache + claim->credits * sizeof *reply_cache->request_slots);
    if (!reply_cache)
        return OKV_ENOMEM;
    if (reply_caches->is_durable)
        reply_cache->logged = calloc(claim->credits, sizeof *reply_cache->logged);
    if (!reply_caches->is_durable || reply_cache->logged)
        reply_cache->user = user_acquire(reply_caches, claim->owner.user);
    if (!reply_cache->user) {
        reply_cache_free(reply_cache);
        return OKV_ENOMEM;
    }
    reply_cache->owner = claim->owner;
    reply_cache->first_session = reply_cache->known_since = claim->session_id;
    reply_cache->request_slot_count = claim->credits;
    reply_cache->next_in_bucket = *bucket;
    *bucket = reply_cache;
    reply_caches->count++;
    *out = reply_cache;
    return 0;
}

int okv_reply_caches_init(struct okv_reply_caches *reply_caches, uint32_t limit,
                          uint64_t remember_ms, uint64_t hash_seed)
{
    *reply_caches = (struct okv_reply_caches){
        .hash_seed = hash_seed,
        .bucket_count = 1,
        .limit = limit,
        .remember_ms = remember_ms,
    };
    while (reply_caches->bucket_count < limit)
        reply_caches->bucket_count *= 2;
    reply_caches->buckets = calloc(reply_caches->bucket_count, sizeof *reply_caches->buckets);
    if (!reply_caches->buckets)
        return OKV_ENOMEM;
    pthread_mutex_init(&reply_caches->lock, NULL);
    return 0;
}

void okv_reply_caches_fini(struct okv_reply_caches *reply_caches)
{
    while (reply_caches->oldest)
        forget(reply_caches, reply_caches->oldest);
    pthread_mutex_destroy(&reply_caches->lock);
    free(reply_caches->buckets);
}

/* The client's session before this one, whose low half it told; 0: there was none. */
static uint64_t session_before(const struct okv_reply_cache_claim *claim)
{
    const uint64_t half = UINT64_C(1) << 32;
    uint64_t id = claim->session_id / half * half + claim->resume;

    if (claim->resume == 0)
        return 0;
    if (id < claim->session_id)
        return id;
    return id >= half ? id - half : 0;
}

void okv_reply_caches_forget(struct okv_reply_caches *reply_caches, uint64_t session_id)
{
    uint64_t before = atomic_load(&reply_caches->forgotten);

    while (before < session_id &&
           !atomic_compare_exchange_weak(&reply_caches->forgotten, &before, session_id))
        ;
}

/* Without a reply cache the client has changed nothing, if all are kept from its session on. Only a
 * log has all, from one start to the next. */
static bool is_resumed(const struct okv_reply_caches *reply_caches,
                       const struct okv_reply_cache *reply_cache,
                       const struct okv_reply_cache_claim *claim)
{
    uint64_t before = session_before(claim);

    if (reply_cache)
        return before >= reply_cache->known_since;
    return reply_caches->is_durable && before > atomic_load(&reply_caches->forgotten);
}

int okv_reply_cache_acquire(struct okv_reply_caches *reply_caches,
                            const struct okv_reply_cache_claim *claim, uint64_t now_ms,
                            struct okv_reply_cache_grant *grant)
{
    int rc = 0;

    okv_reply_caches_expire(reply_caches, now_ms);
    pthread_mutex_lock(&reply_caches->lock);
    struct okv_reply_cache *reply_cache = okv_reply_cache_find(reply_caches, &claim->owner);
    *grant = (struct okv_reply_cache_grant){
        .resumed = is_resumed(reply_caches, reply_cache, claim),
        .replaced = reply_cache && reply_cache->is_held,
    };
    if (grant->replaced) {
        grant->replaced_session = atomic_load(&reply_cache->holder);
        grant->replaced_place = reply_cache->place;
        grant->replaced_worker = reply_cache->worker;
    }
    if (!reply_cache) {
        rc = okv_reply_cache_create(reply_caches, claim, &reply_cache);
        if (rc == 0 && grant->resumed)
            reply_cache->known_since = session_before(claim);
    } else if (!reply_cache->is_held) {
        idle_remove(reply_caches, reply_cache);
    }
    if (rc == 0) {
        reply_cache->is_held = true;
        reply_cache->users++;
        reply_cache->place = claim->place;
        reply_cache->worker = claim->worker;
        reply_cache->replaced = grant->replaced_session;
        atomic_store(&reply_cache->holder, claim->session_id);
        grant->reply_cache = reply_cache;
    }
    pthread_mutex_unlock(&reply_caches->lock);
    return rc;
}

bool okv_reply_cache_release(struct okv_reply_caches *reply_caches,
                             struct okv_reply_cache *reply_cache, uint64_t session_id,
                             uint64_t now_ms, bool forget)
{
    pthread_mutex_lock(&reply_caches->lock);
    bool held = !okv_reply_cache_is_replaced(reply_cache, session_id);
    reply_cache->users--;
    if (reply_cache->replaced == session_id)
        reply_cache->replaced = 0;
    if (reply_cache->is_dropped) {
        if (reply_cache->users == 0)
            reply_cache_free(reply_cache);
    } else if (held && forget) {
        reply_cache_drop(reply_caches, reply_cache);
    } else if (held) {
        okv_reply_cache_idle(reply_caches, reply_cache, now_ms);
    }
    pthread_mutex_unlock(&reply_caches->lock);
    return held;
}

bool okv_reply_cache_rollback(struct okv_reply_caches *reply_caches,
                              const struct okv_reply_cache_grant *grant, uint64_t session_id,
                              uint64_t now_ms)
{
    struct okv_reply_cache *reply_cache = grant->reply_cache;

    pthread_mutex_lock(&reply_caches->lock);
    bool restored = !grant->replaced || reply_cache->replaced == grant->replaced_session;
    reply_cache->users--;
    if (grant->replaced && restored) {
        atomic_store(&reply_cache->holder, grant->replaced_session);
        reply_cache->place = grant->replaced_place;
        reply_cache->worker = grant->replaced_worker;
        reply_cache->replaced = 0;
    } else if (reply_cache->first_session == session_id) {
        reply_cache_drop(reply_caches, reply_cache);
    } else {
        okv_reply_cache_idle(reply_caches, reply_cache, now_ms);
    }
    pthread_mutex_unlock(&reply_caches->lock);
    return restored;
}

bool okv_reply_cache_find_holder(struct okv_reply_caches *reply_caches,
                                 const struct okv_reply_cache_owner *owner, uint32_t *place)
{
    pthread_mutex_lock(&reply_caches->lock);
    const struct okv_reply_cache *reply_cache = okv_reply_cache_find(reply_caches, owner);
    bool held = reply_cache && reply_cache->is_held;
    if (held)
        *place = reply_cache->place;
    pthread_mutex_unlock(&reply_caches->lock);
    return held;
}

uint32_t okv_reply_caches_count(struct okv_reply_caches *reply_caches)
{
    pthread_mutex_lock(&reply_caches->lock);
    uint32_t count = reply_caches->count;
    pthread_mutex_unlock(&reply_caches->lock);
    return count;
}

/* now_ms was read before the lock was acquired, so it may be before idle_since_ms. */
static bool is_overdue(const struct okv_reply_caches *reply_caches,
                       const struct okv_reply_cache *reply_cache, uint64_t now_ms)
{
    return now_ms >= reply_cache->idle_since_ms &&
           now_ms - reply_cache->idle_since_ms >= reply_caches->remember_ms;
}

void okv_reply_caches_expire(struct okv_reply_caches *reply_caches, uint64_t now_ms)
{
    pthread_mutex_lock(&reply_caches->lock);
    while (reply_caches->oldest && is_overdue(reply_caches, reply_caches->oldest, now_ms))
        forget(reply_caches, reply_caches->oldest);
    pthread_mutex_unlock(&reply_caches->lock);
}

bool okv_reply_cache_is_replaced(const struct okv_reply_cache *reply_cache, uint64_t session_id)
{
    return atomic_load(&reply_cache->holder) != session_id;
}

uint32_t okv_reply_cache_request_slots(const struct okv_reply_cache *reply_cache)
{
    return reply_cache->request_slot_count;
}

/* ---- the slots of one reply cache ---- */

uint8_t okv_reply_cache_value_length(const struct okv_reply_message *reply)
{
    return reply->opcode == OKV_OP_GET_TOUCH ? 0 : (uint8_t)reply->value_length;
}

static uint64_t sequence_of(const struct request_slot *request_slot)
{
    return atomic_load_explicit(&request_slot->sequence, memory_order_relaxed);
}

static void sequence_set(struct request_slot *request_slot, uint64_t sequence)
{
    atomic_store_explicit(&request_slot->sequence, sequence, memory_order_relaxed);
}

static bool slot_try_lock(struct request_slot *request_slot)
{
    return !atomic_exchange_explicit(&request_slot->is_locked, true, memory_order_acquire);
}

static void slot_unlock(struct request_slot *request_slot)
{
    atomic_store_explicit(&request_slot->is_locked, false, memory_order_release);
}

static void recall(const struct request_slot *request_slot, uint16_t number,
                   struct okv_reply_message *reply, uint8_t *value)
{
    memcpy(value, request_slot->value, request_slot->value_length);
    *reply = (struct okv_reply_message){
        .opcode = request_slot->opcode,
        .slot = number,
        .status = request_slot->status,
        .sequence = sequence_of(request_slot),
        .version = request_slot->version,
        .value = value,
        .value_length = request_slot->value_length,
    };
}

enum okv_reply_cache_verdict okv_reply_cache_begin(struct okv_reply_cache *reply_cache,
                                                   uint16_t number, uint64_t sequence,
                                                   struct okv_reply_message *reply, uint8_t *value)
{
    struct request_slot *request_slot = &reply_cache->request_slots[number];

    if (sequence == 0) /* the sequence of an unused slot */
        return OKV_REPLY_CACHE_STALE;
    /* A later write waits too, until the reply of the earlier one is stored. */
    if (!slot_try_lock(request_slot))
        return sequence < sequence_of(request_slot) ? OKV_REPLY_CACHE_STALE : OKV_REPLY_CACHE_WAIT;
    uint64_t last = sequence_of(request_slot);
    if (sequence > last) {
        request_slot->earlier = last;
        sequence_set(request_slot, sequence);
        return OKV_REPLY_CACHE_APPLY; /* done or undone unlocks the slot */
    }
    if (sequence == last)
        recall(request_slot, number, reply, value);
    slot_unlock(request_slot);
    return sequence == last ? OKV_REPLY_CACHE_ANSWER : OKV_REPLY_CACHE_STALE;
}

void okv_reply_cache_done(struct okv_reply_cache *reply_cache,
                          const struct okv_reply_message *reply)
{
    struct request_slot *request_slot = &reply_cache->request_slots[reply->slot];

    request_slot->version = reply->version;
    request_slot->status = reply->status;
    request_slot->opcode = (uint8_t)reply->opcode;
    request_slot->value_length = okv_reply_cache_value_length(reply);
    if (request_slot->value_length)
        memcpy(request_slot->value, reply->value, request_slot->value_length);
    slot_unlock(request_slot);
}

void okv_reply_cache_undone(struct okv_reply_cache *reply_cache, uint16_t number)
{
    struct request_slot *request_slot = &reply_cache->request_slots[number];

    sequence_set(request_slot, request_slot->earlier);
    slot_unlock(request_slot);
}
