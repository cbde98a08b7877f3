#include "server/store/status.h"

#include <string.h>

/* `publishing` is locked. */
static void publish(struct okv_store *store)
{
    const struct okv_table_status status = {
        .clock_ms = atomic_load(&store->clock_ms),
        .bucket_count = atomic_load(&store->bucket_count),
        .lease = store->lease.table,
    };
    struct okv_wire_status wire;

    okv_status_encode(&status, store->table.boot_id, &wire);
    memcpy(store->table.base + OKV_STATUS_OFFSET, &wire, sizeof wire);
}

void okv_store_publish_status(struct okv_store *store)
{
    pthread_mutex_lock(&store->publishing);
    publish(store);
    pthread_mutex_unlock(&store->publishing);
}

void okv_store_set_lease(struct okv_store *store, const struct okv_store_lease *lease)
{
    bool is_member = lease->table.flags & OKV_LEASE_MEMBER;

    pthread_mutex_lock(&store->publishing);
    store->lease = *lease;
    atomic_store(&store->valid_until_us, is_member ? lease->table.valid_until_us : OKV_STORE_ALONE);
    publish(store);
    pthread_mutex_unlock(&store->publishing);
}

struct okv_store_lease okv_store_get_lease(struct okv_store *store)
{
    pthread_mutex_lock(&store->publishing);
    struct okv_store_lease lease = store->lease;
    pthread_mutex_unlock(&store->publishing);
    return lease;
}
