/*
 * A get that READs its bucket and its extent at once, in one round trip. The image of the bucket
 * confirms that the extent still belongs to the key; else the lookup continues from the image.
 */
#include "client/get/hinted.h"

#include "client/get/directory.h"
#include "client/get/extent.h"
#include "client/get/hints.h"
#include "client/get/lookup_post.h"
#include "client/get/steps.h"

void hinted_image_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;

    lookup->confirmed =
        lookup_image_is_whole(handle, lookup, operation->image, 0) &&
        okv_hash_bucket(lookup->hash, okv_bucket_depth(operation->image)) == lookup->bucket &&
        lookup_image_refers_to(handle, operation, operation->image, &lookup->reference);
    if (!lookup->confirmed)
        extent_stop(operation);
}

void hinted_done(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    struct okv_entry *reference = &lookup->reference;

    if (lookup->confirmed && extent_check(handle, operation, reference) == OKV_OK) {
        handle->counters.hints_right++;
        handle->bucket_count = okv_linear_learn(handle->bucket_count, lookup->bucket,
                                                okv_bucket_depth(operation->image));
        hints_remember(handle, operation, reference);
        lookup_item_found(handle, operation, reference, extent_value(operation, reference));
        return;
    }
    handle->counters.hints_wrong++;
    hints_forget(handle, operation);
    operation->step = STEP_BUCKET;
    lookup_bucket_done(handle, operation);
}

bool hinted_start(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    struct okv_entry *reference = &lookup->reference;

    if (operation->kind != OPERATION_GET || !hints_find(handle, operation, reference) ||
        lookup_value_is_unwanted(operation, reference) ||
        !directory_locate(handle, lookup->bucket, &lookup->page_offset) ||
        extent_begin(handle, operation, reference))
        return false;
    lookup->confirmed = false;
    lookup_post_image(handle, operation, STEP_HINTED);
    return true;
}
