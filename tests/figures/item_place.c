#include "tests/figures/item_place.h"

#include "shared/base/error.h"
#include "shared/format/bucket.h"
#include "shared/format/hash.h"
#include "shared/format/linear.h"
#include "tests/support/bulk.h"

#define EVENTS 8
/* Empty ones, before the READs are given up. */
#define POLLS_MAX 100000000u

int item_place_read(const okv *handle, const struct okv_read *reads, unsigned count)
{
    struct okv_event events[EVENTS];
    unsigned done = 0;
    int rc = handle->transport->post_read(handle->conn, reads, count);

    for (unsigned polls = 0; rc == 0 && done < count; polls++) {
        int n = handle->transport->poll(handle->conn->endpoint, events, EVENTS);
        for (int k = 0; rc == 0 && k < n; k++)
            rc = events[k].type == OKV_EVENT_READ ? events[k].status : OKV_EIO;
        if (n < 0 || polls == POLLS_MAX)
            rc = OKV_EIO;
        done += n > 0 ? (unsigned)n : 0;
    }
    return rc;
}

static uint64_t bucket_offset(const okv *handle, uint64_t bucket)
{
    const struct okv_welcome_fields *table = &handle->table;
    uint64_t segment = handle->directory[bucket / table->segment_buckets];

    return segment + bucket % table->segment_buckets * table->bucket_size;
}

int item_place_find(const okv *handle, uint64_t item, uint8_t *image, struct okv_memory *memory,
                    struct item_place *out)
{
    const struct okv_welcome_fields *table = &handle->table;
    char key[BULK_KEY_BYTES];
    uint32_t position = 0;

    bulk_key(key, item);
    out->item = item;
    out->hash = okv_hash_key(key, sizeof key, table->hash_seed);
    out->number = okv_linear_bucket(out->hash, handle->bucket_count);
    out->offset = bucket_offset(handle, out->number);
    const struct okv_read read = {.offset = out->offset,
                                  .destination = image,
                                  .memory = memory,
                                  .length = table->bucket_size};
    int rc = item_place_read(handle, &read, 1);
    if (rc)
        return rc;
    return okv_bucket_check(image, table->bucket_size, table->boot_id, out->number, 0) == 0 &&
           okv_bucket_find(image, out->hash, key, sizeof key, &position, &out->entry) == 1;
}
