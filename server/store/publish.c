#include "server/store/publish.h"

#include <string.h>

#include "shared/base/ordering.h"
#include "shared/format/bucket_edit.h"

void okv_store_publish(const struct okv_table *table, const struct okv_store_images *images)
{
    okv_publish_fence(); /* extents before the images that refer to them */
    for (unsigned page = images->pages; page-- > 1;)
        memcpy(table->base + images->offset[page],
               images->bytes + (size_t)page * table->bucket_size, table->bucket_size);
    okv_publish_fence(); /* overflow pages before the primary page */
    okv_bucket_copy(table->base + images->offset[0], images->bytes, images->primary_lines);
    okv_publish_fence(); /* the primary page before freed memory is written again */
}

void okv_store_publish_empty(const struct okv_table *table, uint64_t number, unsigned depth,
                             uint64_t version)
{
    uint8_t image[OKV_BUCKET_SIZE_MAX];
    uint64_t offset = okv_table_bucket_offset(table, number);
    const struct okv_store_images images = {.number = number,
                                            .pages = 1,
                                            .bytes = image,
                                            .offset = &offset,
                                            .primary_lines = table->bucket_size};

    okv_bucket_begin(image, depth, version, 0, 0);
    okv_bucket_seal(image, table->bucket_size, table->boot_id, number);
    okv_store_publish(table, &images);
}

void okv_store_publish_segment(struct okv_table *table, uint64_t segment, uint64_t offset)
{
    okv_le64 *directory = (okv_le64 *)(table->base + OKV_DIRECTORY_OFFSET);

    table->segments[segment] = offset;
    directory[segment] = okv_le64_of(offset);
    okv_publish_fence();
}
