/* Posting the batch of READs. */
#include "client/handle.h"

#include "shared/base/error.h"

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
