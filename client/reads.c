/*
 * The batch: READs that one call or one turn decides on are gathered and go out
 * with one doorbell. They take their room when they are added, so a batch always
 * fits.
 */
#include "client/handle.h"

#include "shared/error.h"

struct okv_read *reads_add(okv *handle, struct operation *operation, enum read_kind kind,
                           uint32_t length)
{
    struct okv_read *read = reads_next(handle, read_cookie(operation, kind), length);

    if (!read)
        return NULL;
    operation->reads++;
    handle->counters.bucket_reads += kind == READ_IMAGE;
    handle->counters.extent_reads += kind == READ_EXTENT;
    handle->counters.directory_reads += kind == READ_DIRECTORY;
    return read;
}

void reads_flush(okv *handle)
{
    unsigned count = handle->batch.count;

    if (handle->lost && !handle->failure)
        engine_disconnected(handle);
    handle->lost = false;
    handle->batch.count = 0;
    if (handle->failure)
        return;
    /* A request that was queued before the server's goodbye counts as sent. */
    if (handle->unflushed && (link_is_up(handle) || handle->link.state == LINK_LEAVING))
        handle->transport->flush(handle->conn);
    handle->unflushed = false;
    if (count == 0 || !link_is_up(handle))
        return;
    int rc = handle->transport->post_read(handle->conn, handle->batch.reads, count);
    if (rc == OKV_EDISCONNECTED)
        engine_disconnected(handle);
    else if (rc)
        link_lost(handle, OKV_EIO, "the device did not take a READ");
}
