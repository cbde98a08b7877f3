#include <stdlib.h>
#include <string.h>

#include "server/database/reply_cache_log.h"
#include "server/database/reply_cache_state.h"
#include "server/wal/format.h"
#include "shared/base/bytes.h"
#include "shared/base/error.h"

#define LISTS 4096u
/* So many sessions may come and change nothing until the next start or epoch. */
#define SILENT_SESSIONS (UINT64_C(1) << 20)

struct recovered_reply {
    uint16_t slot;
    struct logged_reply logged;
};

/* A client of the log. Replies may come before it is known who it is. */
struct recovered {
    struct recovered *next;
    uint64_t id;           /* its name: its first session */
    uint64_t last_session; /* that is known */
    uint64_t used;         /* number of its last record after the start; 0: it has none */
    uint64_t known_since;
    bool has_owner;
    bool is_superseded; /* its owner has a later one */
    struct okv_reply_cache_owner owner;
    uint32_t slots; /* of its reply cache */
    uint32_t count; /* of `replies` */
    struct recovered_reply *replies;
};

struct okv_recovered_clients {
    struct recovered *lists[LISTS]; /* by id */
    size_t count;
    uint64_t records; /* after the start */
};

/* The pointer to it, or the one at the end of its list. */
static struct recovered **find(struct okv_recovered_clients *clients, uint64_t id)
{
    struct recovered **link = &clients->lists[id % LISTS];

    while (*link && (*link)->id != id)
        link = &(*link)->next;
    return link;
}

static struct recovered *recovered_at(struct okv_recovered_clients *clients, uint64_t id)
{
    struct recovered **link = find(clients, id), *client = *link;

    if (client)
        return client;
    client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    *client = (struct recovered){.id = id, .last_session = id};
    *link = client;
    clients->count++;
    return client;
}

static void drop(struct okv_recovered_clients *clients, struct recovered *client)
{
    *find(clients, client->id) = client->next;
    clients->count--;
    free(client->replies);
    free(client);
}

static int recover_owner(struct okv_recovered_clients *clients, const struct okv_wal_record *record)
{
    struct recovered *client = recovered_at(clients, record->version);

    if (!client)
        return OKV_ENOMEM;
    memcpy(&client->owner, record->key, sizeof client->owner);
    client->owner.user[sizeof client->owner.user - 1] = '\0';
    client->slots = (uint32_t)record->slots;
    client->known_since = okv_get_u64(record->value);
    client->has_owner = true;
    return 0;
}

/* Of a slot; NULL when there is no memory. */
static struct logged_reply *reply_at(struct recovered *client, uint16_t slot)
{
    for (uint32_t i = 0; i < client->count; i++)
        if (client->replies[i].slot == slot)
            return &client->replies[i].logged;
    struct recovered_reply *more =
        realloc(client->replies, (client->count + 1) * sizeof *client->replies);
    if (!more)
        return NULL;
    client->replies = more;
    more[client->count] = (struct recovered_reply){.slot = slot};
    return &more[client->count++].logged;
}

static int recover_reply(struct okv_recovered_clients *clients, const struct okv_wal_record *record)
{
    struct okv_wal_reply reply;

    okv_wal_reply_decode(record->key, &reply);
    struct recovered *client = recovered_at(clients, reply.client);
    struct logged_reply *logged = client ? reply_at(client, reply.slot) : NULL;
    if (!logged)
        return OKV_ENOMEM;
    if (client->last_session < reply.client + reply.session)
        client->last_session = reply.client + reply.session;
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

static int recover_either(struct okv_recovered_clients *clients,
                          const struct okv_wal_record *record)
{
    return record->kind == OKV_WAL_CLIENT ? recover_owner(clients, record)
                                          : recover_reply(clients, record);
}

/* ---- to another copy ---- */

static void emit_replies(const struct recovered *client,
                         void (*emit)(void *to, const struct okv_wal_record *record), void *to)
{
    uint8_t key[OKV_WAL_REPLY_SIZE];

    for (uint32_t i = 0; i < client->count; i++) {
        const struct logged_reply *logged = &client->replies[i].logged;
        uint64_t later = client->last_session - client->id;
        const struct okv_wal_reply reply = {
            .client = client->id,
            .session = later < UINT32_MAX ? (uint32_t)later : UINT32_MAX,
            .slot = client->replies[i].slot,
            .opcode = logged->opcode,
        };
        const struct okv_wal_record record = {
            .kind = OKV_WAL_REPLY,
            .key = key,
            .key_length = OKV_WAL_REPLY_SIZE,
            .value = logged->value,
            .value_length = logged->value_length,
            .version = logged->version,
            .sequence = logged->sequence,
        };
        okv_wal_reply_encode(&reply, key);
        emit(to, &record);
    }
}

static void emit_client(const struct recovered *client,
                        void (*emit)(void *to, const struct okv_wal_record *record), void *to)
{
    uint8_t value[OKV_WAL_CLIENT_VALUE_SIZE];
    const struct okv_wal_record record = {
        .kind = OKV_WAL_CLIENT,
        .key = &client->owner,
        .key_length = sizeof client->owner,
        .value = value,
        .value_length = sizeof value,
        .version = client->id,
        .slots = client->slots,
    };

    okv_put_u64(value, client->known_since);
    if (client->has_owner)
        emit(to, &record);
    emit_replies(client, emit, to);
}

void okv_reply_caches_save_recovered(struct okv_reply_caches *reply_caches,
                                     void (*emit)(void *to, const struct okv_wal_record *record),
                                     void *to)
{
    const struct okv_wal_record forgotten = {.kind = OKV_WAL_FORGOTTEN,
                                             .version = atomic_load(&reply_caches->forgotten)};

    emit(to, &forgotten);
    pthread_mutex_lock(&reply_caches->lock);
    const struct okv_recovered_clients *clients = reply_caches->recovered;
    for (unsigned i = 0; clients && i < LISTS; i++)
        for (const struct recovered *client = clients->lists[i]; client; client = client->next)
            emit_client(client, emit, to);
    pthread_mutex_unlock(&reply_caches->lock);
}

/* ---- which of them are known ---- */

static int by_last_use(const void *left, const void *right)
{
    const struct recovered *first = *(struct recovered *const *)left;
    const struct recovered *second = *(struct recovered *const *)right;

    if (first->used != second->used)
        return first->used < second->used ? 1 : -1;
    return (first->last_session < second->last_session) -
           (first->last_session > second->last_session);
}

/* Those that wrote last come first. */
static struct recovered **list_of(const struct okv_recovered_clients *clients)
{
    struct recovered **all = calloc(clients->count + 1, sizeof *all);
    size_t count = 0;

    for (unsigned i = 0; all && i < LISTS; i++)
        for (struct recovered *client = clients->lists[i]; client; client = client->next)
            all[count++] = client;
    if (all)
        qsort(all, count, sizeof *all, by_last_use);
    return all;
}

/* Under the lock. Without memory for the list, the next record tries it again. */
static void drop_half(struct okv_reply_caches *reply_caches)
{
    struct okv_recovered_clients *clients = reply_caches->recovered;
    size_t count = clients ? clients->count : 0;
    struct recovered **all = count > 2 * (size_t)reply_caches->limit ? list_of(clients) : NULL;

    for (size_t i = reply_caches->limit; all && i < count; i++) {
        okv_reply_caches_forget(reply_caches, all[i]->last_session);
        drop(clients, all[i]);
        reply_caches->has_dropped = true;
    }
    free(all);
}

void okv_reply_caches_follow(struct okv_reply_caches *reply_caches)
{
    pthread_mutex_lock(&reply_caches->lock);
    reply_caches->is_following = true;
    reply_caches->has_dropped = atomic_load(&reply_caches->forgotten) > 0;
    drop_half(reply_caches);
    pthread_mutex_unlock(&reply_caches->lock);
}

static uint64_t client_of(const struct okv_wal_record *record, uint64_t *session)
{
    struct okv_wal_reply reply;

    if (record->kind == OKV_WAL_CLIENT)
        return *session = record->version;
    okv_wal_reply_decode(record->key, &reply);
    *session = reply.client + reply.session;
    return reply.client;
}

/* A log has a CLIENT once, before its REPLYs. One that is not known was dropped, and what it wrote
 * before is not known either. */
static int follow(struct okv_reply_caches *reply_caches, const struct okv_wal_record *record)
{
    struct okv_recovered_clients *clients = reply_caches->recovered;
    uint64_t session, id = client_of(record, &session);

    if (record->kind == OKV_WAL_REPLY && !*find(clients, id)) {
        okv_reply_caches_forget(reply_caches, session);
        reply_caches->has_dropped = true;
        return 0;
    }
    int rc = recover_either(clients, record);
    if (rc)
        return rc;
    (*find(clients, id))->used = ++clients->records;
    drop_half(reply_caches);
    return 0;
}

static int recover_record(struct okv_reply_caches *reply_caches,
                          const struct okv_wal_record *record)
{
    if (!reply_caches->recovered)
        reply_caches->recovered = calloc(1, sizeof *reply_caches->recovered);
    if (!reply_caches->recovered)
        return OKV_ENOMEM;
    if (record->kind == OKV_WAL_CLIENT || record->kind == OKV_WAL_REPLY)
        return reply_caches->is_following ? follow(reply_caches, record)
                                          : recover_either(reply_caches->recovered, record);
    okv_reply_caches_forget(reply_caches, record->version);
    reply_caches->has_dropped |= reply_caches->is_following && record->version > 0;
    return 0;
}

int okv_reply_caches_recover(void *user, const struct okv_wal_record *record)
{
    struct okv_reply_caches *reply_caches = user;

    pthread_mutex_lock(&reply_caches->lock);
    int rc = recover_record(reply_caches, record);
    pthread_mutex_unlock(&reply_caches->lock);
    return rc;
}

/* ---- reply caches of them ---- */

static void fill(struct okv_reply_cache *reply_cache, const struct recovered *client)
{
    reply_cache->known_since = client->known_since;
    reply_cache->is_logged = true;
    atomic_store(&reply_cache->logged_session, client->last_session);
    for (uint32_t i = 0; i < client->count; i++) {
        const struct logged_reply *logged = &client->replies[i].logged;
        uint16_t slot = client->replies[i].slot;
        if (slot >= client->slots)
            continue;
        struct request_slot *request_slot = &reply_cache->request_slots[slot];
        reply_cache->logged[slot] = *logged;
        atomic_store(&request_slot->sequence, logged->sequence);
        request_slot->version = logged->version;
        request_slot->opcode = logged->opcode;
        request_slot->value_length = logged->value_length;
        memcpy(request_slot->value, logged->value, sizeof logged->value);
    }
}

static int by_owner(const void *left, const void *right)
{
    const struct recovered *first = *(struct recovered *const *)left;
    const struct recovered *second = *(struct recovered *const *)right;
    int order = memcmp(&first->owner, &second->owner, sizeof first->owner);

    return order ? order : (first->id < second->id) - (first->id > second->id);
}

/* A client that came again as if it was another one has two: what it wrote last is in the later
 * one, whichever has the later record. */
static void note_superseded(struct recovered **all, size_t count)
{
    qsort(all, count, sizeof *all, by_owner);
    for (size_t i = 0; i < count; i++)
        all[i]->is_superseded =
            i > 0 && memcmp(&all[i - 1]->owner, &all[i]->owner, sizeof all[i]->owner) == 0;
    qsort(all, count, sizeof *all, by_last_use);
}

/* Under the lock. A client that has a later one has lost this one. Its last session is not known,
 * but was before `first`. */
static void adopt(struct okv_reply_caches *reply_caches, const struct recovered *client,
                  uint64_t first, uint64_t now_ms)
{
    const struct okv_reply_cache_claim claim = {
        .owner = client->owner, .session_id = client->id, .credits = client->slots};
    struct okv_reply_cache *reply_cache;

    if (!client->has_owner || client->is_superseded ||
        okv_reply_cache_find(reply_caches, &client->owner))
        return;
    if (reply_caches->count == reply_caches->limit ||
        okv_reply_cache_create(reply_caches, &claim, &reply_cache)) {
        okv_reply_caches_forget(reply_caches, first);
        return;
    }
    fill(reply_cache, client);
    atomic_store(&reply_cache->holder, first);
    okv_reply_cache_idle(reply_caches, reply_cache, now_ms);
}

/* Under the lock. The highest id that is known, or 0. */
static uint64_t last_session(const struct okv_reply_caches *reply_caches)
{
    const struct okv_recovered_clients *clients = reply_caches->recovered;
    uint64_t last = atomic_load(&reply_caches->forgotten);

    for (unsigned i = 0; clients && i < LISTS; i++)
        for (const struct recovered *client = clients->lists[i]; client; client = client->next)
            if (last < client->last_session)
                last = client->last_session;
    return last;
}

uint64_t okv_reply_caches_next_session(struct okv_reply_caches *reply_caches, uint64_t least)
{
    pthread_mutex_lock(&reply_caches->lock);
    uint64_t last = last_session(reply_caches);
    pthread_mutex_unlock(&reply_caches->lock);
    uint64_t next = last + SILENT_SESSIONS;

    return least > next && (last == 0 || least - last < UINT64_C(1) << 31) ? least : next;
}

/* Under the lock. */
static void adopt_all(struct okv_reply_caches *reply_caches, uint64_t first, uint64_t now_ms)
{
    const struct okv_recovered_clients *clients = reply_caches->recovered;
    struct recovered **all = clients ? list_of(clients) : NULL;

    if (all)
        note_superseded(all, clients->count);
    for (size_t i = 0; all && i < clients->count; i++)
        adopt(reply_caches, all[i], first, now_ms);
    if (reply_caches->has_dropped || (clients && !all)) /* who is not known does not resume */
        okv_reply_caches_forget(reply_caches, first);
    free(all);
}

void okv_reply_caches_adopt(struct okv_reply_caches *reply_caches, uint64_t first, uint64_t now_ms)
{
    pthread_mutex_lock(&reply_caches->lock);
    adopt_all(reply_caches, first, now_ms);
    pthread_mutex_unlock(&reply_caches->lock);
    okv_reply_caches_abandon(reply_caches);
}

void okv_reply_caches_begin_epoch(struct okv_reply_caches *reply_caches, uint64_t first,
                                  uint64_t now_ms)
{
    pthread_mutex_lock(&reply_caches->lock);
    okv_reply_caches_drop_idle(reply_caches);
    adopt_all(reply_caches, first, now_ms);
    pthread_mutex_unlock(&reply_caches->lock);
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
