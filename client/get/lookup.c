/*
 * A one-sided get, head or get_range: docs/consistency.md section 3.
 *
 *            +------- torn, or in another bucket: again (bounded) ------+
 *            v                                                          |
 *   READ bucket -> whole? its depth? -> entry? -- inline ------------> hit
 *     (and the hinted extent)           |----- none, no chain -------> miss
 *            ^                          |----- chain: READ the next page
 *            |                          +----- reference: READ the extent, or the key or a part of
 *            |                                 the value, then the bucket again
 *            +---- extent torn, freed or reused ---------+--- whole, right key -> hit
 *
 * A lookup trusts no bytes before their checksum, and checks every offset against the region before
 * it follows it. The choice of the first bucket and its offset are guesses; the image decides.
 */
#include "client/get/lookup.h"

#include "client/connection/clock_sync.h"
#include "client/get/extent.h"
#include "client/get/hinted.h"
#include "client/get/lookup_post.h"
#include "client/get/retry_policy.h"
#include "client/get/steps.h"
#include "shared/format/hash.h"

/* Initialises the members that are read before they are written. */
static void lookup_init(struct lookup *lookup)
{
    lookup->page = 0;
    lookup->unconfirmed = 0;
    retry_init(lookup);
}

void lookup_start(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    lookup_init(lookup);
    lookup->hash = okv_hash_key(operation->key, operation->key_length, handle->table.hash_seed);
    lookup->bucket = okv_linear_bucket(lookup->hash, handle->bucket_count);
    if (handle->lease.is_due)
        status_refresh_soon(handle);
    if (handle->hints_kept == 0 || !hinted_start(handle, operation))
        lookup_read_bucket(handle, operation, lookup->bucket);
}

void lookup_take_over(struct operation *operation, uint64_t hash, uint64_t bucket)
{
    struct lookup *lookup = &operation->lookup;

    lookup_init(lookup);
    lookup->hash = hash;
    lookup->bucket = bucket;
    lookup->image_wanted = false;
    operation->step = STEP_BUCKET;
}

void lookup_resume(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    retry_extend(lookup);
    lookup_read_again(handle, operation, okv_linear_bucket(lookup->hash, handle->bucket_count));
}

static void step_done(okv *handle, struct operation *operation)
{
    switch (operation->step) {
    case STEP_BUCKET:
        lookup_bucket_done(handle, operation);
        break;
    case STEP_DIRECTORY:
        lookup_directory_done(handle, operation);
        break;
    case STEP_HINTED:
        hinted_done(handle, operation);
        break;
    case STEP_EXTENT:
        lookup_extent_done(handle, operation);
        break;
    case STEP_PART:
        lookup_part_done(handle, operation);
        break;
    case STEP_CONFIRM:
        lookup_confirm_done(handle, operation);
        break;
    case STEP_FREE:
    case STEP_WAITING:
    case STEP_LEASE:
    case STEP_REPLY:
    case STEP_ENDED:
        break;
    }
}

void lookup_read_done(okv *handle, struct operation *operation, enum read_kind kind)
{
    if (operation->step == STEP_HINTED && kind == READ_IMAGE)
        hinted_image_done(handle, operation);
    if (!extent_is_posted(operation))
        lookup_post(handle, operation);
    else if (operation->reads == 0)
        step_done(handle, operation);
}
