#include "client/scan/scan_state.h"

#include "client/engine/read_blocking.h"
#include "shared/base/error.h"

int scan_read(struct scan *scan, uint64_t offset, uint8_t *destination, uint32_t length)
{
    int rc = read_blocking(scan->handle, offset, destination, scan->memory, length);

    scan->unread = 0;
    return rc == OKV_EINVAL ? OKV_EPROTO : rc; /* an offset outside the region */
}
