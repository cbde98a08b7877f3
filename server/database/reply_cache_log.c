#include "server/database/reply_cache_log.h"

#include <string.h>

#include "server/database/reply_cache_state.h"
#include "server/wal/append.h"
#include "server/wal/format.h"
#include "shared/base/bytes.h"

_Static_assert(sizeof(struct okv_reply_cache_owner) == OKV_WAL_CLIENT_SIZE, "key of a CLIENT");
_Static_assert(OKV_WRITE_REPLY_MAX == OKV_WAL_REPLY_VALUE_MAX, "value of a REPLY");

static struct okv_wal_record client_record(const struct okv_reply_cache *reply_cache,
                                           uint8_t value[OKV_WAL_CLIENT_VALUE_SIZE])
{
    okv_put_u64(value, reply_cache->known_since);
    return (struct okv_wal_record){
        .kind = OKV_WAL_CLIENT,
        .key = &reply_cache->owner,
        .key_length = sizeof reply_cache->owner,
        .value = value,
        .value_length = OKV_WAL_CLIENT_VALUE_SIZE,
        .version = reply_cache->first_session,
        .slots = reply_cache->request_slot_count,
    };
}

static struct okv_wal_record reply_record(const struct okv_reply_cache *reply_cache, uint16_t slot,
                                          uint64_t session_id, uint8_t key[OKV_WAL_REPLY_SIZE])
{
    const struct logged_reply *logged = &reply_cache->logged[slot];
    uint64_t later = session_id - reply_cache->first_session;
    const struct okv_wal_reply reply = {
        .client = reply_cache->first_session,
        .session = later < UINT32_MAX ? (uint32_t)later : UINT32_MAX,
        .slot = slot,
        .opcode = logged->opcode,
    };

    okv_wal_reply_encode(&reply, key);
    return (struct okv_wal_record){
        .kind = OKV_WAL_REPLY,
        .key = key,
        .key_length = OKV_WAL_REPLY_SIZE,
        .value = logged->value,
        .value_length = logged->value_length,
        .version = logged->version,
        .sequence = logged->sequence,
    };
}

static void note_session(struct okv_reply_cache *reply_cache, uint64_t session_id)
{
    uint64_t before = atomic_load(&reply_cache->logged_session);

    while (before < session_id &&
           !atomic_compare_exchange_weak(&reply_cache->logged_session, &before, session_id))
        ;
}

void okv_reply_cache_log(struct okv_reply_cache *reply_cache, struct okv_wal *wal,
                         uint64_t session_id, const struct okv_reply_message *reply)
{
    uint8_t key[OKV_WAL_REPLY_SIZE], value[OKV_WAL_CLIENT_VALUE_SIZE];

    if (reply->status || !reply_cache->logged)
        return;
    struct logged_reply *logged = &reply_cache->logged[reply->slot];
    *logged = (struct logged_reply){
        .sequence = reply->sequence,
        .version = reply->version,
        .opcode = (uint8_t)reply->opcode,
        .value_length = okv_reply_cache_value_length(reply),
    };
    if (logged->value_length)
        memcpy(logged->value, reply->value, logged->value_length);
    note_session(reply_cache, session_id);
    const struct okv_wal_record client = client_record(reply_cache, value);
    const struct okv_wal_record record = reply_record(reply_cache, reply->slot, session_id, key);
    okv_wal_add_reply(wal, &client, &reply_cache->is_logged, &record);
}

static void save(const struct okv_reply_cache *reply_cache,
                 void (*emit)(void *to, const struct okv_wal_record *record), void *to)
{
    uint8_t key[OKV_WAL_REPLY_SIZE], value[OKV_WAL_CLIENT_VALUE_SIZE];
    const struct okv_wal_record client = client_record(reply_cache, value);
    uint64_t session_id = atomic_load(&reply_cache->logged_session);

    emit(to, &client);
    for (uint32_t slot = 0; slot < reply_cache->request_slot_count; slot++) {
        if (reply_cache->logged[slot].sequence == 0)
            continue;
        const struct okv_wal_record record =
            reply_record(reply_cache, (uint16_t)slot, session_id, key);
        emit(to, &record);
    }
}

void okv_reply_caches_save(void *user, void (*emit)(void *to, const struct okv_wal_record *record),
                           void *to)
{
    struct okv_reply_caches *reply_caches = user;
    const struct okv_wal_record forgotten = {.kind = OKV_WAL_FORGOTTEN,
                                             .version = atomic_load(&reply_caches->forgotten)};

    if (reply_caches->is_following) { /* what is published, on whichever copy */
        okv_reply_caches_save_recovered(reply_caches, emit, to);
        return;
    }
    emit(to, &forgotten);
    pthread_mutex_lock(&reply_caches->lock);
    for (uint32_t i = 0; i < reply_caches->bucket_count; i++)
        for (const struct okv_reply_cache *reply_cache = reply_caches->buckets[i]; reply_cache;
             reply_cache = reply_cache->next_in_bucket)
            if (reply_cache->is_logged)
                save(reply_cache, emit, to);
    pthread_mutex_unlock(&reply_caches->lock);
}
