#include "client/get/steps.h"

#include <string.h>

#include "client/connection/clock_sync.h"
#include "client/connection/hits.h"
#include "client/connection/lease_wait.h"
#include "client/connection/request.h"
#include "client/engine/lease_check.h"
#include "client/engine/operation.h"
#include "client/get/deliver.h"
#include "client/get/directory.h"
#include "client/get/extent.h"
#include "client/get/hints.h"
#include "client/get/lookup_post.h"
#include "client/get/retry_policy.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

/* So often a part is READ; then the whole value, which does not need the bucket to keep still. */
#define PART_ATTEMPTS 3

/* ---- reading ---- */

/* READs the directory entry of the bucket, then the bucket. */
static void read_entry(okv *handle, struct operation *operation)
{
    lookup_post_image(handle, operation, STEP_DIRECTORY);
}

void lookup_read_bucket(okv *handle, struct operation *operation, uint64_t bucket)
{
    struct lookup *lookup = &operation->lookup;

    lookup->bucket = bucket;
    lookup->page = 0;
    if (directory_locate(handle, bucket, &lookup->page_offset))
        lookup_post_image(handle, operation, STEP_BUCKET);
    else
        read_entry(handle, operation);
}

/* ---- retries ---- */

/* Begins one more attempt. After the last one, sends the get to the server or ends it with
 * OKV_ECORRUPT, and returns false. */
static bool attempt_begin(okv *handle, struct operation *operation)
{
    switch (retry_attempt(&operation->lookup)) {
    case RETRY_READ:
        return true;
    case RETRY_REQUEST:
        handle->counters.fallbacks++;
        request_start(handle, operation);
        return false;
    case RETRY_NONE:
        break;
    }
    operation_end(handle, operation, OKV_ECORRUPT);
    return false;
}

void lookup_read_again(okv *handle, struct operation *operation, uint64_t bucket)
{
    if (attempt_begin(handle, operation))
        lookup_read_bucket(handle, operation, bucket);
}

/* The key's bucket by the present estimate. If that is the bucket that failed, its parent: the
 * bucket that it would have been split from. */
static uint64_t another_bucket(const okv *handle, const struct lookup *lookup)
{
    uint64_t likely = okv_linear_bucket(lookup->hash, handle->bucket_count);

    if (likely < lookup->bucket)
        return likely;
    if (lookup->bucket == 0)
        return 0;
    return okv_hash_bucket(lookup->bucket, okv_linear_level(lookup->bucket));
}

/* The image failed its checks: it was torn, or the bucket has moved or gone. */
static void image_rejected(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    switch (retry_rejected(lookup)) {
    case RETRY_SAME:
        lookup_read_again(handle, operation, lookup->bucket);
        break;
    case RETRY_DIRECTORY:
        status_refresh_soon(handle);
        if (attempt_begin(handle, operation))
            read_entry(handle, operation);
        break;
    case RETRY_OTHER:
        lookup_read_again(handle, operation, another_bucket(handle, lookup));
        break;
    }
}

void lookup_directory_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    uint64_t offset;

    directory_learn(handle, lookup->bucket, operation->extent);
    if (directory_locate(handle, lookup->bucket, &offset))
        lookup_read_bucket(handle, operation, lookup->bucket);
    else
        lookup_read_again(handle, operation, another_bucket(handle, lookup));
}

/* A good image shows that the key is in another bucket. The estimate learnt from it selects which:
 * the depth alone may name a bucket that does not exist yet. */
static void redirect(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    handle->counters.wrong_depths++;
    if (!attempt_begin(handle, operation))
        return;
    lookup->bucket = okv_linear_bucket(lookup->hash, handle->bucket_count);
    lookup->page = 0;
    if (retry_redirected(lookup))
        read_entry(handle, operation);
    else
        lookup_read_bucket(handle, operation, lookup->bucket);
}

/* ---- search ---- */

/* Copies the wanted part of a value to the caller's buffer, unless it was READ there. */
static int part_deliver(struct operation *operation, const struct okv_entry *entry,
                        const uint8_t *part)
{
    uint32_t length = operation_part_length(operation, entry->value_length);

    if (length > 0 && part != operation->buffer)
        memcpy(operation->buffer, part, length);
    operation->result.length = entry->value_length;
    operation->result.version = entry->version;
    return OKV_OK;
}

static int value_deliver(struct operation *operation, const struct okv_entry *entry,
                         const uint8_t *value)
{
    struct okv_result *result = &operation->result;

    switch (operation->kind) {
    case OPERATION_GET:
        return item_deliver(entry, value, operation->buffer, operation->buffer_size, result);
    case OPERATION_GET_RANGE:
        if (operation_part_length(operation, entry->value_length) > 0)
            value += operation->offset;
        return part_deliver(operation, entry, value);
    default:
        return item_deliver(entry, value, NULL, SIZE_MAX, result);
    }
}

/* Ends it once a lease covers the READs that decided it. */
static void end_decided(okv *handle, struct operation *operation, int status)
{
    if (lease_covers(handle))
        operation_end(handle, operation, status);
    else
        lease_hold(handle, operation, status);
}

static void end_found(okv *handle, struct operation *operation, const struct okv_entry *entry,
                      int status)
{
    struct okv_result *result = &operation->result;

    if (status == OKV_OK) {
        int64_t ttl_ms = clock_ttl_ms(handle, entry->expiry_ms);
        result->ttl_ms = ttl_ms > 0 ? ttl_ms : 1; /* it expired during the READ of its extent */
    }
    end_decided(handle, operation, status);
}

void lookup_item_found(okv *handle, struct operation *operation, const struct okv_entry *entry,
                       const uint8_t *value)
{
    hits_note_found(handle, operation->lookup.hash, entry->is_quiet);
    end_found(handle, operation, entry, value_deliver(operation, entry, value));
}

bool lookup_value_is_unwanted(const struct operation *operation, const struct okv_entry *entry)
{
    switch (operation->kind) {
    case OPERATION_GET:
        return entry->value_length > operation->buffer_size;
    case OPERATION_GET_RANGE:
        return operation_part_length(operation, entry->value_length) == 0;
    default:
        return true;
    }
}

/* Chooses what is READ of the extent. STEP_CONFIRM works for the primary page only: an overflow
 * page may be freed with its old bytes in it. */
static int begin_extent(okv *handle, struct operation *operation)
{
    const struct okv_entry *reference = &operation->lookup.reference;
    bool may_confirm =
        operation->lookup.page == 0 && okv_entry_extent_length(reference) > EXTENT_BUFFER_SIZE;

    operation->step = STEP_PART;
    if (may_confirm && lookup_value_is_unwanted(operation, reference)) {
        extent_begin_key(operation, reference);
        return OKV_OK;
    }
    if (may_confirm && operation->lookup.unconfirmed < PART_ATTEMPTS &&
        operation_wants_part(operation, reference->value_length))
        return extent_begin_part(handle, operation, reference);
    operation->step = STEP_EXTENT;
    return extent_begin(handle, operation, reference);
}

static void read_extent(okv *handle, struct operation *operation)
{
    const struct okv_entry *reference = &operation->lookup.reference;

    if (!reference->key_in_extent && lookup_value_is_unwanted(operation, reference)) {
        lookup_item_found(handle, operation, reference, NULL);
        return;
    }
    int rc = begin_extent(handle, operation);
    if (rc)
        operation_end(handle, operation, rc);
    else
        lookup_post(handle, operation);
}

/* The page in operation->image has no further candidate. */
static void follow_chain(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    uint64_t chain = okv_bucket_chain(operation->image);

    if (chain == 0) {
        end_decided(handle, operation, OKV_ENOTFOUND);
        return;
    }
    if (lookup->page + 1 >= OKV_BUCKET_PAGES_MAX ||
        !okv_range_inside(chain, handle->table.bucket_size, handle->table.region_length)) {
        operation_end(handle, operation, OKV_EPROTO);
        return;
    }
    lookup->page++;
    lookup->page_offset = chain;
    lookup_post_image(handle, operation, STEP_BUCKET);
}

/* True unless the entry has expired. Also queues a READ of the status block when the last clock
 * sample is old. */
static bool entry_check_alive(okv *handle, const struct okv_entry *entry)
{
    if (entry->expiry_ms == 0)
        return true;
    status_refresh_if_old(handle);
    return !okv_entry_is_expired(entry, clock_now_ms(handle));
}

/* Finds the next entry that may belong to the key and has not expired. Skips expired ones: if one
 * belongs to the key, the get is a miss. */
static int next_candidate(okv *handle, struct operation *operation, uint32_t *position,
                          struct okv_entry *entry)
{
    int rc;

    while ((rc = okv_bucket_find(operation->image, operation->lookup.hash, operation->key,
                                 operation->key_length, position, entry)) == 1)
        if (entry_check_alive(handle, entry))
            return 1;
    return rc;
}

/* Searches the checked image from lookup.position on. */
static void search_image(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    struct okv_entry *entry = &lookup->reference;
    int rc = next_candidate(handle, operation, &lookup->position, entry);

    operation->step = STEP_BUCKET;
    if (rc < 0)
        operation_end(handle, operation, rc);
    else if (rc == 0)
        follow_chain(handle, operation);
    else if (!entry->is_reference)
        lookup_item_found(handle, operation, entry, entry->value);
    else if (!extent_is_possible(handle, entry))
        operation_end(handle, operation, OKV_EPROTO);
    else
        read_extent(handle, operation);
}

/* ---- steps that ended ---- */

bool lookup_image_is_whole(const okv *handle, const struct lookup *lookup, const uint8_t *image,
                           unsigned page)
{
    return okv_bucket_check(image, handle->table.bucket_size, handle->table.boot_id, lookup->bucket,
                            page) == 0;
}

void lookup_bucket_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    const uint8_t *image = operation->image;
    bool whole = lookup_image_is_whole(handle, lookup, image, lookup->page);
    uint64_t version = okv_bucket_version(image);

    if (!whole || (lookup->page > 0 && version != lookup->image_version)) {
        handle->counters.torn_buckets++;
        if (lookup->page > 0)
            lookup_read_again(handle, operation, lookup->bucket);
        else
            image_rejected(handle, operation);
        return;
    }
    if (lookup->page == 0) {
        unsigned depth = okv_bucket_depth(image);
        handle->bucket_count = okv_linear_learn(handle->bucket_count, lookup->bucket, depth);
        lookup->settled = true;
        if (okv_hash_bucket(lookup->hash, depth) != lookup->bucket) {
            redirect(handle, operation);
            return;
        }
    }
    lookup->image_version = version;
    lookup->position = 0;
    search_image(handle, operation);
}

void lookup_extent_done(okv *handle, struct operation *operation)
{
    const struct okv_entry *reference = &operation->lookup.reference;
    int rc = extent_check(handle, operation, reference);

    switch (rc) {
    case OKV_OK:
        if (operation->kind == OPERATION_GET && operation->lookup.page == 0)
            hints_remember(handle, operation, reference);
        lookup_item_found(handle, operation, reference, extent_value(operation, reference));
        break;
    case OKV_ENOTFOUND: /* another key with the same tag */
        search_image(handle, operation);
        break;
    case OKV_ECORRUPT:
        handle->counters.torn_extents++;
        lookup_read_again(handle, operation, operation->lookup.bucket);
        break;
    default:
        operation_end(handle, operation, rc);
    }
}

bool lookup_image_refers_to(okv *handle, struct operation *operation, const uint8_t *image,
                            struct okv_entry *reference)
{
    struct okv_entry entry;
    uint32_t position = 0;

    while (okv_bucket_find(image, operation->lookup.hash, operation->key, operation->key_length,
                           &position, &entry) == 1) {
        if (entry.is_reference && entry.extent == reference->extent &&
            entry.value_length == reference->value_length &&
            entry.key_in_extent == reference->key_in_extent && entry_check_alive(handle, &entry)) {
            *reference = entry;
            return true;
        }
    }
    return false;
}

/* Without the rest of the extent its checksum cannot be verified. So the lookup READs the bucket
 * again: docs/consistency.md section 3.5. */
void lookup_part_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    if (!directory_locate(handle, lookup->bucket, &lookup->page_offset)) {
        lookup_read_again(handle, operation, lookup->bucket);
        return;
    }
    lookup_post_image(handle, operation, STEP_CONFIRM);
}

/* True when STEP_CONFIRM found the reference unchanged. For a part of the value also the version of
 * the bucket must be the same: an item that was removed and put back may have left its place to
 * others in between. The version alone proves nothing, as removals may leave it unchanged. */
static bool is_confirmed(okv *handle, struct operation *operation, const uint8_t *image)
{
    struct lookup *lookup = &operation->lookup;
    struct okv_entry entry = lookup->reference;

    return lookup_image_refers_to(handle, operation, image, &entry) &&
           entry.checksum == lookup->reference.checksum &&
           entry.version == lookup->reference.version &&
           (lookup_value_is_unwanted(operation, &entry) ||
            okv_bucket_version(image) == lookup->image_version);
}

/* True when the key of the extent, if it has one, is the one that is looked up. */
static bool is_key_right(const struct operation *operation)
{
    const struct okv_entry *reference = &operation->lookup.reference;

    return !reference->key_in_extent ||
           memcmp(operation->extent, operation->key, operation->key_length) == 0;
}

/* Ends it with the item whose key or part was READ. */
static void end_confirmed(okv *handle, struct operation *operation)
{
    const struct okv_entry *reference = &operation->lookup.reference;

    if (lookup_value_is_unwanted(operation, reference))
        lookup_item_found(handle, operation, reference, NULL);
    else
        end_found(handle, operation, reference,
                  part_deliver(operation, reference, operation->extent_read.to));
}

void lookup_confirm_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    const uint8_t *image = operation->extent + CONFIRM_OFFSET;
    bool whole = lookup_image_is_whole(handle, lookup, image, 0);

    if (whole && is_key_right(operation) && is_confirmed(handle, operation, image)) {
        end_confirmed(handle, operation);
    } else if (whole && okv_bucket_version(image) == lookup->image_version) {
        search_image(handle, operation);
    } else {
        handle->counters.torn_buckets += !whole;
        lookup->unconfirmed++;
        lookup_read_again(handle, operation, lookup->bucket);
    }
}
