#include "server/command/long_transfer.h"

#include "server/command/change.h"
#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/wal/blob/blobs.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"

int okv_long_transfer_reserve(struct okv_long_transfer *transfer,
                              const struct okv_executor *executor, uint64_t *own,
                              uint32_t key_length, uint32_t value_length)
{
    struct okv_database *database = executor->database;
    struct okv_change change;

    if (value_length > database->store.max_value)
        return OKV_EVALUESIZE;
    if (!okv_reserve(database, own, &transfer->reservation, (uint64_t)key_length + value_length))
        return OKV_EAGAIN;
    bool is_in_batch = okv_change_begin_batch(&change, database); /* where it may evict */
    int rc = okv_store_long_reserve(&database->store, executor->work, &transfer->value, key_length,
                                    value_length, !is_in_batch);
    if (is_in_batch)
        okv_change_end(&change, false);
    if (rc)
        okv_unreserve(database, own, &transfer->reservation);
    return rc;
}

int okv_long_transfer_store(struct okv_long_transfer *transfer, struct okv_database *database)
{
    struct okv_store_long_value *value = &transfer->value;

    if (!database->wal || value->value_length < okv_wal_blob_min(database->wal))
        return 0;
    struct okv_blobs *blobs = okv_wal_blobs(database->wal);
    if (!transfer->stored)
        transfer->stored = okv_blob_write(blobs, okv_store_long_bytes(&database->store, value),
                                          value->value_length);
    if (!transfer->stored)
        return 0; /* no memory: the record takes the value */
    int rc = okv_blob_state(blobs, transfer->stored, &value->copy);
    return rc == 0 || rc == OKV_EAGAIN || rc == OKV_EDISKFULL ? rc : OKV_EREADONLY;
}

void okv_long_transfer_keep(struct okv_long_transfer *transfer, struct okv_database *database,
                            const void *key, uint32_t key_length, uint64_t version)
{
    if (transfer->stored)
        okv_blob_reference(okv_wal_blobs(database->wal), transfer->stored, key, key_length,
                           version);
    transfer->stored = NULL;
}

void okv_long_transfer_release(struct okv_long_transfer *transfer, struct okv_database *database,
                               uint64_t *own)
{
    if (transfer->stored)
        okv_blob_release(okv_wal_blobs(database->wal), transfer->stored, &transfer->value);
    transfer->stored = NULL;
    okv_store_long_release(&database->store, &transfer->value);
    okv_unreserve(database, own, &transfer->reservation);
}
