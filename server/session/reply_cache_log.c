#include "server/session/reply_cache_log.h"

#include <stdlib.h>
#include <string.h>

#include "server/session/reply_cache_state.h"
#include "shared/base/error.h"

_Static_assert(sizeof(struct okv_reply_cache_owner) == OKV_WAL_CLIENT_SIZE, "key of a CLIENT");
_Static_assert(OKV_REPLY_CACHE_VALUE_MAX == OKV_WAL_REPLY_VALUE_MAX, "value of a REPLY");

/* ---- records ---- */

static struct okv_wal_record client_record(const struct okv_reply_cache *reply_cache)
{
    return (struct okv_wal_record){
        .kind = OKV_WAL_CLIENT,
        .key = &reply_cache->owner,
        .key_length = sizeof reply_cache->owner,
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
    uint8_t key[OKV_WAL_REPLY_SIZE];

    if (reply->status || !reply_cache->logged)
        return;
    struct logged_reply *logged = &reply_cache->logged[reply->slot];
    *logged = (struct logged_reply){
        .sequence = reply->sequence,
        .version = reply->version,
        .opcode = (uint8_t)reply->opcode,
        .value_length = (uint8_t)reply->value_length,
    };
    if (reply->value_length)
        memcpy(logged->value, reply->value, reply->value_length);
    note_session(reply_cache, session_id);
    const struct okv_wal_record client = client_record(reply_cache);
    const struct okv_wal_record record = reply_record(reply_cache, reply->slot, session_id, key);
    okv_wal_add_reply(wal, &client, &reply_cache->is_logged, &record);
}

static void save(const struct okv_reply_cache *reply_cache,
                 void (*emit)(void *to, const struct okv_wal_record *record), void *to)
{
    const struct okv_wal_record client = client_record(reply_cache);
    uint64_t session_id = atomic_load(&reply_cache->logged_session);
    uint8_t key[OKV_WAL_REPLY_SIZE];

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

    emit(to, &forgotten);
    pthread_mutex_lock(&reply_caches->lock);
    for (uint32_t i = 0; i < reply_caches->bucket_count; i++)
        for (const struct okv_reply_cache *reply_cache = reply_caches->buckets[i]; reply_cache;
             reply_cache = reply_cache->next_in_bucket)
            if (reply_cache->is_logged)
                save(reply_cache, emit, to);
    pthread_mutex_unlock(&reply_caches->lock);
}

/* ---- recovery ---- */

#define LISTS 4096u

/* A client of the log. Replies may come before it is known who it is. */
struct recovered {
    struct recovered *next;
    uint64_t id;           /* its first session */
    uint64_t last_session; /* that is known */
    bool has_owner;
    struct okv_reply_cache_owner owner;
    uint32_t slots; /* of its reply cache */
    uint32_t count; /* of `replies` */
    struct logged_reply *replies;
};

struct okv_recovered_clients {
    struct recovered *lists[LISTS]; /* by id */
    size_t count;
};

static struct recovered *recovered_at(struct okv_recovered_clients *clients, uint64_t id)
{
    struct recovered **list = &clients->lists[id % LISTS], *client = *list;

    while (client && client->id != id)
        client = client->next;
    if (client)
        return client;
    client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    *client = (struct recovered){.next = *list, .id = id, .last_session = id};
    *list = client;
    clients->count++;
    return client;
}

static int recover_owner(struct okv_recovered_clients *clients, const struct okv_wal_record *record)
{
    struct recovered *client = recovered_at(clients, record->version);

    if (!client)
        return OKV_ENOMEM;
    memcpy(&client->owner, record->key, sizeof client->owner);
    client->owner.user[sizeof client->owner.user - 1] = '\0';
    client->slots = (uint32_t)record->slots;
    client->has_owner = true;
    return 0;
}

static int make_replies(struct recovered *client, uint32_t count)
{
    if (count <= client->count)
        return 0;
    struct logged_reply *larger = realloc(client->replies, count * sizeof *larger);
    if (!larger)
        return OKV_ENOMEM;
    memset(larger + client->count, 0, (count - client->count) * sizeof *larger);
    client->replies = larger;
    client->count = count;
    return 0;
}

static int recover_reply(struct okv_recovered_clients *clients, const struct okv_wal_record *record)
{
    struct okv_wal_reply reply;

    okv_wal_reply_decode(record->key, &reply);
    struct recovered *client = recovered_at(clients, reply.client);
    if (!client || make_replies(client, reply.slot + 1u))
        return OKV_ENOMEM;
    if (client->last_session < reply.client + reply.session)
        client->last_session = reply.client + reply.session;
    struct logged_reply *logged = &client->replies[reply.slot];
    if (record->sequence <= logged->sequence)
        return 0;
    *logged = (struct logged_reply){
        .sequence = record->sequence,
        .version = record->version,
        .opcode = reply.opcode,
        .value_length = (uint8_t)record->value_length,
    };
    if (record->value_length)
        memcpy(logged->value, record->value, record->value_length);
    return 0;
}

int okv_reply_caches_recover(void *user, const struct okv_wal_record *record)
{
    struct okv_reply_caches *reply_caches = user;
    int rc = 0;

    pthread_mutex_lock(&reply_caches->lock);
    if (!reply_caches->recovered)
        reply_caches->recovered = calloc(1, sizeof *reply_caches->recovered);
    if (!reply_caches->recovered)
        rc = OKV_ENOMEM;
    else if (record->kind == OKV_WAL_CLIENT)
        rc = recover_owner(reply_caches->recovered, record);
    else if (record->kind == OKV_WAL_REPLY)
        rc = recover_reply(reply_caches->recovered, record);
    else
        okv_reply_caches_forget(reply_caches, record->version);
    pthread_mutex_unlock(&reply_caches->lock);
    return rc;
}

static int by_last_session(const void *left, const void *right)
{
    const struct recovered *first = *(struct recovered *const *)left;
    const struct recovered *second = *(struct recovered *const *)right;

    return (first->last_session < second->last_session) -
           (first->last_session > second->last_session);
}

static void fill(struct okv_reply_cache *reply_cache, const struct recovered *client)
{
    reply_cache->is_logged = true;
    atomic_store(&reply_cache->logged_session, client->last_session);
    for (uint32_t slot = 0; slot < client->count && slot < client->slots; slot++) {
        const struct logged_reply *logged = &client->replies[slot];
        struct request_slot *request_slot = &reply_cache->request_slots[slot];
        reply_cache->logged[slot] = *logged;
        atomic_store(&request_slot->sequence, logged->sequence);
        request_slot->version = logged->version;
        request_slot->opcode = logged->opcode;
        request_slot->value_length = logged->value_length;
        memcpy(request_slot->value, logged->value, sizeof logged->value);
    }
}

/* Under the lock. A client that has a later one has lost this one. */
static void adopt(struct okv_reply_caches *reply_caches, const struct recovered *client,
                  uint64_t now_ms)
{
    const struct okv_reply_cache_claim claim = {
        .owner = client->owner, .session_id = client->id, .credits = client->slots};
    struct okv_reply_cache *reply_cache;

    if (!client->has_owner || okv_reply_cache_find(reply_caches, &client->owner))
        return;
    if (reply_caches->count == reply_caches->limit ||
        okv_reply_cache_create(reply_caches, &claim, &reply_cache)) {
        okv_reply_caches_forget(reply_caches, client->last_session);
        return;
    }
    fill(reply_cache, client);
    atomic_store(&reply_cache->holder, client->last_session);
    okv_reply_cache_idle(reply_caches, reply_cache, now_ms);
}

static struct recovered **list_of(const struct okv_recovered_clients *clients)
{
    struct recovered **all = calloc(clients->count + 1, sizeof *all);
    size_t count = 0;

    for (unsigned i = 0; all && i < LISTS; i++)
        for (struct recovered *client = clients->lists[i]; client; client = client->next)
            all[count++] = client;
    if (all)
        qsort(all, count, sizeof *all, by_last_session);
    return all;
}

static uint64_t last_session_of(const struct okv_reply_caches *reply_caches)
{
    const struct okv_recovered_clients *clients = reply_caches->recovered;
    uint64_t last = atomic_load(&reply_caches->forgotten);

    for (unsigned i = 0; clients && i < LISTS; i++)
        for (const struct recovered *client = clients->lists[i]; client; client = client->next)
            if (last < client->last_session)
                last = client->last_session;
    return last;
}

uint64_t okv_reply_caches_adopt(struct okv_reply_caches *reply_caches, uint64_t now_ms)
{
    const struct okv_recovered_clients *clients = reply_caches->recovered;
    struct recovered **all = clients ? list_of(clients) : NULL;
    uint64_t last = last_session_of(reply_caches);

    pthread_mutex_lock(&reply_caches->lock);
    for (size_t i = 0; all && i < clients->count; i++)
        adopt(reply_caches, all[i], now_ms);
    if (clients && !all) /* no memory: nobody resumes */
        okv_reply_caches_forget(reply_caches, last);
    pthread_mutex_unlock(&reply_caches->lock);
    free(all);
    okv_reply_caches_abandon(reply_caches);
    return last;
}

void okv_reply_caches_abandon(struct okv_reply_caches *reply_caches)
{
    struct okv_recovered_clients *clients = reply_caches->recovered;
    struct recovered *client;

    for (unsigned i = 0; clients && i < LISTS; i++)
        while ((client = clients->lists[i])) {
            clients->lists[i] = client->next;
            free(client->replies);
            free(client);
        }
    free(clients);
    reply_caches->recovered = NULL;
}
