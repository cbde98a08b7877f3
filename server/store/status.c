#include "server/store/status.h"

#include <string.h>

#include "shared/format/superblock.h"

void okv_store_publish_status(struct okv_store *store)
{
    struct okv_wire_status wire;

    pthread_mutex_lock(&store->publishing);
    const struct okv_table_status status = {
        .clock_ms = atomic_load(&store->clock_ms),
        .bucket_count = atomic_load(&store->bucket_count),
    };
    okv_status_encode(&status, store->table.boot_id, &wire);
    memcpy(store->table.base + OKV_STATUS_OFFSET, &wire, sizeof wire);
    pthread_mutex_unlock(&store->publishing);
}
