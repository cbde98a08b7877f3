#include "client/get/lookup_post.h"

#include "client/engine/operation.h"
#include "client/engine/read_batch.h"
#include "client/get/directory.h"
#include "client/get/extent.h"
#include "shared/base/error.h"

/* Adds the READ of an image or of a directory entry. */
static int post_image(okv *handle, struct operation *operation)
{
    struct lookup *lookup = &operation->lookup;
    bool is_entry = operation->step == STEP_DIRECTORY;
    struct okv_read *read =
        reads_add_for(handle, operation, is_entry ? READ_DIRECTORY : READ_IMAGE,
                      is_entry ? (uint32_t)sizeof(okv_le64) : handle->table.bucket_size);

    lookup->image_wanted = !read;
    if (!read)
        return OKV_EAGAIN;
    read->memory = handle->memory;
    read->offset = is_entry ? directory_entry_offset(handle, lookup->bucket) : lookup->page_offset;
    read->destination = operation->image;
    if (is_entry)
        read->destination = operation->extent;
    else if (operation->step == STEP_CONFIRM)
        read->destination = operation->extent + CONFIRM_OFFSET;
    return 0;
}

static int lookup_try(okv *handle, struct operation *operation)
{
    int rc = operation->lookup.image_wanted ? post_image(handle, operation) : 0;

    return rc ? rc : extent_post(handle, operation);
}

void lookup_post(okv *handle, struct operation *operation)
{
    if (operation_may_post(handle, operation))
        operation_posted(handle, operation, lookup_try(handle, operation));
}

void lookup_post_image(okv *handle, struct operation *operation, enum operation_step step)
{
    operation->step = step;
    operation->lookup.image_wanted = true;
    lookup_post(handle, operation);
}
