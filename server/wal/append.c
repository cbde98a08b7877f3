#include "server/wal/append.h"

#include <stdlib.h>

#include "server/store/pending.h"
#include "server/wal/copies/state.h"
#include "server/wal/frame.h"
#include "server/wal/state.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

#define CAPACITY (UINT64_C(1) << 16)

/* ---- one batch ---- */

int okv_wal_batch_init(struct okv_wal_batch *batch)
{
    *batch = (struct okv_wal_batch){
        .bytes = malloc(CAPACITY), .used = OKV_WAL_FRAME_HEADER, .capacity = CAPACITY};
    return batch->bytes ? 0 : OKV_ENOMEM;
}

void okv_wal_batch_fini(struct okv_wal_batch *batch)
{
    free(batch->bytes);
}

static int make_space(struct okv_wal_batch *batch, uint64_t size)
{
    uint64_t needed = batch->used + size;

    if (needed <= batch->capacity)
        return 0;
    uint64_t capacity = needed < 2 * batch->capacity ? 2 * batch->capacity : needed;
    uint8_t *larger = realloc(batch->bytes, capacity);
    if (!larger)
        return OKV_ENOMEM;
    batch->bytes = larger;
    batch->capacity = capacity;
    return 0;
}

void okv_wal_batch_shrink(struct okv_wal_batch *batch)
{
    void *smaller =
        batch->capacity > 2 * OKV_WAL_BATCH_BYTES ? realloc(batch->bytes, CAPACITY) : NULL;

    if (!smaller)
        return;
    batch->bytes = smaller;
    batch->capacity = CAPACITY;
}

int okv_wal_batch_add(struct okv_wal_batch *batch, const struct okv_wal_record *record)
{
    uint64_t size = okv_wal_record_size(record->key_length, record->value_length);
    int rc = make_space(batch, size);

    if (rc)
        return rc;
    okv_wal_record_encode(record, batch->bytes + batch->used);
    batch->used += size;
    return 0;
}

void okv_wal_batch_raise(struct okv_wal_batch *batch, uint64_t by)
{
    struct okv_wal_record record;
    uint64_t at = OKV_WAL_FRAME_HEADER, next = at;

    for (; okv_wal_record_decode(batch->bytes, batch->used, &next, &record) == 0; at = next)
        okv_wal_record_set_version(batch->bytes + at, record.version + by);
}

/* ---- changes ---- */

void okv_wal_wake(void *user)
{
    struct okv_wal *wal = user;

    pthread_mutex_lock(&wal->lock);
    wal->is_wanted = true;
    pthread_cond_signal(&wal->wanted);
    pthread_mutex_unlock(&wal->lock);
}

/* `place` is for the value of one that is long. */
static struct okv_wal_record wire_of(const struct okv_store_record *record,
                                     uint8_t place[OKV_WAL_LONG_SIZE])
{
    struct okv_wal_record wire = {
        .kind = record->value ? OKV_WAL_PUT : OKV_WAL_DELETE,
        .key = record->key,
        .key_length = record->key_length,
        .value = record->value,
        .value_length = record->value_length,
        .version = record->version,
        .expiry_ms = record->expiry_ms,
    };

    if (record->copy) {
        const struct okv_wal_long at = {record->copy->number, record->value_length,
                                        record->copy->checksum};
        okv_wal_long_encode(&at, place);
        wire.kind = OKV_WAL_LONG;
        wire.value = place;
        wire.value_length = OKV_WAL_LONG_SIZE;
    }
    return wire;
}

uint64_t okv_wal_batch_reserve_max(const struct okv_wal *wal)
{
    return wal->space.batch - OKV_WAL_REPLIES_BYTES;
}

/* Parts use what is reserved for them, and more as far as there is room. A long change gets a batch
 * of its own. */
static bool has_room(const struct okv_wal *wal, enum okv_store_log_kind kind, uint64_t size)
{
    const struct okv_wal_batch *batch = &wal->staged;
    bool is_removal = kind == OKV_STORE_LOG_REMOVAL;
    uint64_t most = is_removal ? okv_wal_batch_reserve_max(wal) : OKV_WAL_BATCH_BYTES;

    if (kind == OKV_STORE_LOG_PART)
        return batch->records == 0 || batch->used + size <= okv_wal_batch_reserve_max(wal);
    if (kind != OKV_STORE_LOG_EVICTION && batch->records == 0 && batch->reserved == 0)
        return true;
    return batch->used + batch->reserved + size <= most;
}

int okv_wal_batch_reserve(struct okv_wal *wal, uint64_t bytes)
{
    uint64_t most = okv_wal_batch_reserve_max(wal) - OKV_WAL_FRAME_HEADER;
    int rc = bytes > most ? OKV_EVALUESIZE : 0;

    pthread_mutex_lock(&wal->lock);
    if (rc == 0 && wal->staged.used - OKV_WAL_FRAME_HEADER + bytes > most)
        rc = OKV_EAGAIN;
    wal->staged.is_held = rc == 0;
    if (rc == 0)
        wal->staged.reserved = bytes;
    else if (rc == OKV_EAGAIN)
        wal->reserve_wanted = bytes;
    pthread_mutex_unlock(&wal->lock);
    if (rc == OKV_EAGAIN)
        okv_wal_wake(wal);
    return rc;
}

void okv_wal_batch_unreserve(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    wal->staged.reserved = 0;
    wal->staged.is_held = false;
    pthread_mutex_unlock(&wal->lock);
}

/* If nobody waits for a record, the log's thread writes it when it is due, or with many others.
 * `before`: bytes that were used. Under the lock. */
static void note_added(struct okv_wal *wal, uint64_t before)
{
    struct okv_wal_batch *batch = &wal->staged;
    bool is_first = before == OKV_WAL_FRAME_HEADER;
    bool is_long = before < OKV_WAL_WRITE_BYTES && batch->used >= OKV_WAL_WRITE_BYTES;

    if (is_first)
        batch->since_ns = okv_clock_ns();
    if ((wal->is_direct || batch->records == 0) && (is_first || is_long))
        pthread_cond_signal(&wal->wanted);
    if (batch->used >= OKV_WAL_BATCH_BYTES)
        atomic_store(&wal->is_throttled, true);
}

static uint64_t size_of(const struct okv_store_record *record)
{
    return okv_wal_record_size(record->key_length,
                               record->copy ? OKV_WAL_LONG_SIZE : record->value_length);
}

/* For a set. What the caller holds is for its other changes. Else what is reserved is for a change
 * for which an earlier batch had no room; a smaller one is another, and leaves it alone. */
static int find_space(struct okv_wal *wal, uint64_t size)
{
    struct okv_wal_batch *batch = &wal->staged;
    uint64_t most = okv_wal_batch_reserve_max(wal), held = batch->is_held ? batch->reserved : 0;

    if (OKV_WAL_FRAME_HEADER + held + size > most)
        return OKV_EVALUESIZE;
    uint64_t others = batch->is_held || size < batch->reserved ? batch->reserved : 0;
    if (batch->used + others + size > most) {
        if (held + size > wal->reserve_wanted)
            wal->reserve_wanted = held + size;
        return OKV_EAGAIN;
    }
    batch->reserved = others;
    return 0;
}

static int check(void *user)
{
    const struct okv_wal *wal = user;

    if (atomic_load(&wal->failure))
        return OKV_EREADONLY;
    if (atomic_load(&wal->space.is_full))
        return OKV_EDISKFULL;
    return wal->copies ? atomic_load(&wal->copies->refusal) : 0;
}

/* There is space. */
static void copy_record(struct okv_wal_batch *batch, const struct okv_store_record *record)
{
    uint8_t place[OKV_WAL_LONG_SIZE];
    const struct okv_wal_record wire = wire_of(record, place);

    okv_wal_record_encode(&wire, batch->bytes + batch->used);
    batch->used += size_of(record);
    batch->records += record->kind != OKV_STORE_LOG_EVICTION;
    if (record->kind == OKV_STORE_LOG_PART)
        batch->reserved -= size_of(record) < batch->reserved ? size_of(record) : batch->reserved;
}

static int add_records(void *user, const struct okv_store_record *records, size_t count)
{
    struct okv_wal *wal = user;
    struct okv_wal_batch *batch = &wal->staged;
    enum okv_store_log_kind kind = records[count - 1].kind;
    uint64_t size = 0;
    int rc = check(wal);

    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++)
        size += size_of(&records[i]);
    pthread_mutex_lock(&wal->lock);
    uint64_t before = batch->used;
    if (kind == OKV_STORE_LOG_SET)
        rc = find_space(wal, size);
    else
        rc = has_room(wal, kind, size) ? 0 : OKV_EAGAIN;
    rc = rc ? rc : make_space(batch, size);
    for (size_t i = 0; i < count && rc == 0; i++)
        copy_record(batch, &records[i]);
    if (rc == 0)
        note_added(wal, before);
    pthread_mutex_unlock(&wal->lock);
    if (rc == OKV_EAGAIN)
        okv_wal_wake(wal);
    return rc;
}

static void before_change(void *user, uint64_t number)
{
    struct okv_wal *wal = user;

    if (wal->is_direct)
        okv_snapshot_before_change(&wal->snapshot, number);
    else if (wal->copies->holds)
        okv_snapshot_before_publication(&wal->snapshot, number);
}

static bool is_throttled(void *user)
{
    const struct okv_wal *wal = user;

    return atomic_load(&wal->is_throttled) || atomic_load(&wal->snapshot.is_throttled);
}

void okv_wal_store_log(struct okv_wal *wal, struct okv_store_log *out)
{
    *out = (struct okv_store_log){
        .check = check,
        .add = add_records,
        .before = wal->is_direct || wal->copies ? before_change : NULL,
        .is_throttled = is_throttled,
        .wake = okv_wal_wake,
        .user = wal,
    };
}

void okv_wal_add_reply(struct okv_wal *wal, const struct okv_wal_record *client, bool *knows_client,
                       const struct okv_wal_record *reply)
{
    struct okv_wal_batch *batch = &wal->staged;
    int rc = 0;

    /* Without room there is no change either. */
    if (atomic_load(&wal->failure) || atomic_load(&wal->space.is_full))
        return;
    pthread_mutex_lock(&wal->lock);
    uint64_t before = batch->used;
    if (!*knows_client)
        rc = okv_wal_batch_add(batch, client);
    *knows_client |= rc == 0;
    if (rc == 0)
        rc = okv_wal_batch_add(batch, reply);
    batch->lacks_reply |= rc != 0;
    note_added(wal, before);
    pthread_mutex_unlock(&wal->lock);
}

uint64_t okv_wal_unsynced(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    uint64_t bytes = wal->staged.used - OKV_WAL_FRAME_HEADER + atomic_load(&wal->written_unsynced);
    pthread_mutex_unlock(&wal->lock);
    return bytes;
}

void okv_wal_take_staged(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    struct okv_wal_batch empty = wal->writing;
    wal->writing = wal->staged;
    empty.used = OKV_WAL_FRAME_HEADER;
    empty.records = 0;
    empty.lacks_reply = false;
    empty.reserved = wal->reserve_wanted;
    empty.is_held = false;
    wal->reserve_wanted = 0;
    wal->staged = empty;
    atomic_store(&wal->is_throttled, false);
    atomic_fetch_add(&wal->written_unsynced, wal->writing.used - OKV_WAL_FRAME_HEADER);
    pthread_mutex_unlock(&wal->lock);
}
