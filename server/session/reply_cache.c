#include "server/session/reply_cache.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/format/hash.h"

/*
 * The last write on a lane. Who sets `is_taken` has the lane to itself until he clears it: for as
 * long as it takes to look at it, or until the write that came is applied. All else but the
 * sequence is his to touch alone; the sequence may be read without, and never falls but by
 * okv_ledger_undone().
 */
struct lane {
    atomic_uint_fast64_t sequence; /* 0: none yet */
    uint64_t earlier; /* while one is being applied: the sequence that was there before */
    uint64_t version;
    int status;
    atomic_bool is_taken;
    uint8_t opcode;
    uint8_t value_length;
    uint8_t value[OKV_LEDGER_VALUE_MAX];
};

struct okv_ledger {
    uint8_t client_id[OKV_CLIENT_ID_SIZE];
    uint64_t first_session;      /* all writes since then are known */
    atomic_uint_fast64_t holder; /* the session that took it last */
    bool is_held;                /* down to `newer`: under the ledgers' lock */
    bool is_dropped;             /* nobody finds it any more; freed with its last user */
    uint32_t users;              /* sessions that took it and have not given it back */
    uint32_t place;              /* the holder's */
    unsigned worker;             /* the holder's */
    uint64_t replaced;           /* whom the holder replaced, until that one gives back; 0 */
    uint64_t idle_since_ms;
    struct okv_ledger *next_in_bucket;
    struct okv_ledger *older, *newer; /* in the list of idle ones */
    uint32_t lane_count;
    struct lane lanes[];
};

/* ---- all of them, under ledgers->lock ---- */

static struct okv_ledger **bucket_of(const struct okv_ledgers *ledgers, const uint8_t *client_id)
{
    uint64_t hash = okv_hash_key(client_id, OKV_CLIENT_ID_SIZE, ledgers->hash_seed);

    return &ledgers->buckets[hash & (ledgers->bucket_count - 1)];
}

static struct okv_ledger *ledger_find(const struct okv_ledgers *ledgers, const uint8_t *client_id)
{
    struct okv_ledger *ledger = *bucket_of(ledgers, client_id);

    while (ledger && memcmp(ledger->client_id, client_id, OKV_CLIENT_ID_SIZE) != 0)
        ledger = ledger->next_in_bucket;
    return ledger;
}

static void idle_append(struct okv_ledgers *ledgers, struct okv_ledger *ledger)
{
    ledger->newer = NULL;
    ledger->older = ledgers->newest;
    if (ledgers->newest)
        ledgers->newest->newer = ledger;
    else
        ledgers->oldest = ledger;
    ledgers->newest = ledger;
    ledgers->idle_count++;
}

static void idle_remove(struct okv_ledgers *ledgers, struct okv_ledger *ledger)
{
    if (ledger->older)
        ledger->older->newer = ledger->newer;
    else
        ledgers->oldest = ledger->newer;
    if (ledger->newer)
        ledger->newer->older = ledger->older;
    else
        ledgers->newest = ledger->older;
    ledgers->idle_count--;
}

/* Of one that is in no list of idle ones. A session that was replaced may still look at it. */
static void ledger_drop(struct okv_ledgers *ledgers, struct okv_ledger *ledger)
{
    struct okv_ledger **link = bucket_of(ledgers, ledger->client_id);

    while (*link != ledger)
        link = &(*link)->next_in_bucket;
    *link = ledger->next_in_bucket;
    ledgers->count--;
    ledger->is_dropped = true;
    if (ledger->users == 0)
        free(ledger);
}

/* Its session has ended. */
static void ledger_rest(struct okv_ledgers *ledgers, struct okv_ledger *ledger, uint64_t now_ms)
{
    ledger->is_held = false;
    ledger->idle_since_ms = now_ms;
    idle_append(ledgers, ledger);
}

static void drop_oldest(struct okv_ledgers *ledgers)
{
    struct okv_ledger *oldest = ledgers->oldest;

    idle_remove(ledgers, oldest);
    ledger_drop(ledgers, oldest);
}

static int ledger_create(struct okv_ledgers *ledgers, const struct okv_ledger_taker *taker,
                         struct okv_ledger **out)
{
    struct okv_ledger **bucket = bucket_of(ledgers, taker->client_id);

    if (ledgers->count == ledgers->limit) {
        if (!ledgers->oldest)
            return OKV_EAGAIN;
        drop_oldest(ledgers);
    }
    struct okv_ledger *ledger = calloc(1, sizeof *ledger + taker->credits * sizeof *ledger->lanes);
    if (!ledger)
        return OKV_ENOMEM;
    memcpy(ledger->client_id, taker->client_id, OKV_CLIENT_ID_SIZE);
    ledger->first_session = taker->session_id;
    ledger->lane_count = taker->credits;
    ledger->next_in_bucket = *bucket;
    *bucket = ledger;
    ledgers->count++;
    *out = ledger;
    return 0;
}

int okv_ledgers_init(struct okv_ledgers *ledgers, uint32_t limit, uint64_t remember_ms,
                     uint64_t hash_seed)
{
    *ledgers = (struct okv_ledgers){
        .hash_seed = hash_seed,
        .bucket_count = 1,
        .limit = limit,
        .remember_ms = remember_ms,
    };
    while (ledgers->bucket_count < limit)
        ledgers->bucket_count *= 2;
    ledgers->buckets = calloc(ledgers->bucket_count, sizeof *ledgers->buckets);
    if (!ledgers->buckets)
        return OKV_ENOMEM;
    pthread_mutex_init(&ledgers->lock, NULL);
    return 0;
}

void okv_ledgers_fini(struct okv_ledgers *ledgers)
{
    while (ledgers->oldest)
        drop_oldest(ledgers);
    pthread_mutex_destroy(&ledgers->lock);
    free(ledgers->buckets);
}

int okv_ledger_take(struct okv_ledgers *ledgers, const struct okv_ledger_taker *taker,
                    uint64_t now_ms, struct okv_ledger_taken *out)
{
    int rc = 0;

    okv_ledgers_expire(ledgers, now_ms);
    pthread_mutex_lock(&ledgers->lock);
    struct okv_ledger *ledger = ledger_find(ledgers, taker->client_id);
    *out = (struct okv_ledger_taken){
        .resumed =
            ledger && taker->resume >= ledger->first_session && taker->resume < taker->session_id,
        .replaced = ledger && ledger->is_held,
    };
    if (out->replaced) {
        out->replaced_session = atomic_load(&ledger->holder);
        out->replaced_place = ledger->place;
        out->replaced_worker = ledger->worker;
    }
    if (!ledger)
        rc = ledger_create(ledgers, taker, &ledger);
    else if (!ledger->is_held)
        idle_remove(ledgers, ledger);
    if (rc == 0) {
        ledger->is_held = true;
        ledger->users++;
        ledger->place = taker->place;
        ledger->worker = taker->worker;
        ledger->replaced = out->replaced_session;
        atomic_store(&ledger->holder, taker->session_id);
        out->ledger = ledger;
    }
    pthread_mutex_unlock(&ledgers->lock);
    return rc;
}

bool okv_ledger_give_back(struct okv_ledgers *ledgers, struct okv_ledger *ledger,
                          uint64_t session_id, uint64_t now_ms, bool forget)
{
    pthread_mutex_lock(&ledgers->lock);
    bool held = !okv_ledger_is_replaced(ledger, session_id);
    ledger->users--;
    if (ledger->replaced == session_id)
        ledger->replaced = 0;
    if (ledger->is_dropped) {
        if (ledger->users == 0)
            free(ledger);
    } else if (held && forget) {
        ledger_drop(ledgers, ledger);
    } else if (held) {
        ledger_rest(ledgers, ledger, now_ms);
    }
    pthread_mutex_unlock(&ledgers->lock);
    return held;
}

bool okv_ledger_take_back(struct okv_ledgers *ledgers, const struct okv_ledger_taken *taken,
                          uint64_t session_id, uint64_t now_ms)
{
    struct okv_ledger *ledger = taken->ledger;

    pthread_mutex_lock(&ledgers->lock);
    bool restored = !taken->replaced || ledger->replaced == taken->replaced_session;
    ledger->users--;
    if (taken->replaced && restored) {
        atomic_store(&ledger->holder, taken->replaced_session);
        ledger->place = taken->replaced_place;
        ledger->worker = taken->replaced_worker;
        ledger->replaced = 0;
    } else if (ledger->first_session == session_id) {
        ledger_drop(ledgers, ledger);
    } else {
        ledger_rest(ledgers, ledger, now_ms);
    }
    pthread_mutex_unlock(&ledgers->lock);
    return restored;
}

bool okv_ledger_find_holder(struct okv_ledgers *ledgers, const uint8_t *client_id, uint32_t *place)
{
    pthread_mutex_lock(&ledgers->lock);
    const struct okv_ledger *ledger = ledger_find(ledgers, client_id);
    bool held = ledger && ledger->is_held;
    if (held)
        *place = ledger->place;
    pthread_mutex_unlock(&ledgers->lock);
    return held;
}

uint32_t okv_ledgers_count(struct okv_ledgers *ledgers)
{
    pthread_mutex_lock(&ledgers->lock);
    uint32_t count = ledgers->count;
    pthread_mutex_unlock(&ledgers->lock);
    return count;
}

/* now_ms was read before the lock was taken: the ledger may have been given back since. */
static bool is_overdue(const struct okv_ledgers *ledgers, const struct okv_ledger *ledger,
                       uint64_t now_ms)
{
    return now_ms >= ledger->idle_since_ms &&
           now_ms - ledger->idle_since_ms >= ledgers->remember_ms;
}

void okv_ledgers_expire(struct okv_ledgers *ledgers, uint64_t now_ms)
{
    pthread_mutex_lock(&ledgers->lock);
    while (ledgers->oldest && is_overdue(ledgers, ledgers->oldest, now_ms))
        drop_oldest(ledgers);
    pthread_mutex_unlock(&ledgers->lock);
}

bool okv_ledger_is_replaced(const struct okv_ledger *ledger, uint64_t session_id)
{
    return atomic_load(&ledger->holder) != session_id;
}

uint32_t okv_ledger_lanes(const struct okv_ledger *ledger)
{
    return ledger->lane_count;
}

/* ---- the lanes of one ---- */

bool okv_ledger_is_write(unsigned opcode)
{
    switch (opcode) {
    case OKV_OP_PUT:
    case OKV_OP_DELETE:
    case OKV_OP_APPEND:
    case OKV_OP_TOUCH:
    case OKV_OP_INCR:
    case OKV_OP_FLUSH:
        return true;
    default:
        return false;
    }
}

static uint64_t sequence_of(const struct lane *lane)
{
    return atomic_load_explicit(&lane->sequence, memory_order_relaxed);
}

static void sequence_set(struct lane *lane, uint64_t sequence)
{
    atomic_store_explicit(&lane->sequence, sequence, memory_order_relaxed);
}

static bool lane_take(struct lane *lane)
{
    return !atomic_exchange_explicit(&lane->is_taken, true, memory_order_acquire);
}

static void lane_release(struct lane *lane)
{
    atomic_store_explicit(&lane->is_taken, false, memory_order_release);
}

static void recall(const struct lane *lane, uint16_t number, struct okv_reply_message *reply,
                   uint8_t *value)
{
    memcpy(value, lane->value, lane->value_length);
    *reply = (struct okv_reply_message){
        .opcode = lane->opcode,
        .slot = number,
        .status = lane->status,
        .sequence = sequence_of(lane),
        .version = lane->version,
        .value = value,
        .value_length = lane->value_length,
    };
}

enum okv_ledger_verdict okv_ledger_begin(struct okv_ledger *ledger, uint16_t number,
                                         uint64_t sequence, struct okv_reply_message *reply,
                                         uint8_t *value)
{
    struct lane *lane = &ledger->lanes[number];

    /* Also a later one waits: where the earlier one ended is still to be written down. */
    if (!lane_take(lane))
        return sequence < sequence_of(lane) ? OKV_LEDGER_STALE : OKV_LEDGER_WAIT;
    uint64_t last = sequence_of(lane);
    if (sequence > last) {
        lane->earlier = last;
        sequence_set(lane, sequence);
        return OKV_LEDGER_APPLY; /* done or undone releases the lane */
    }
    if (sequence == last)
        recall(lane, number, reply, value);
    lane_release(lane);
    return sequence == last ? OKV_LEDGER_ANSWER : OKV_LEDGER_STALE;
}

void okv_ledger_done(struct okv_ledger *ledger, const struct okv_reply_message *reply)
{
    struct lane *lane = &ledger->lanes[reply->slot];

    lane->version = reply->version;
    lane->status = reply->status;
    lane->opcode = (uint8_t)reply->opcode;
    lane->value_length = (uint8_t)reply->value_length;
    if (reply->value_length)
        memcpy(lane->value, reply->value, reply->value_length);
    lane_release(lane);
}

void okv_ledger_undone(struct okv_ledger *ledger, uint16_t number)
{
    struct lane *lane = &ledger->lanes[number];

    sequence_set(lane, lane->earlier);
    lane_release(lane);
}
