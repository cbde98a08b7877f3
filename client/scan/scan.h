/* A scan of the table. */
#ifndef OKV_CLIENT_SCAN_SCAN_H
#define OKV_CLIENT_SCAN_SCAN_H

#include "client/scan/scan_state.h"

/* Begins at `cursor`, for a scan whose handle, visitor and user are set. 0: scan_run() must follow.
 * OKV_EINVAL: not a cursor of this start of the server; OKV_EPROTO: an impossible size of the
 * table. Also the errors of link_await_idle(), status_read_blocking() and of registering memory. */
int scan_begin(struct scan *scan, uint64_t cursor);
/* Visits items to the end of the table, or until the visitor stops it, and frees the scan's memory.
 * *cursor continues the scan; 0: it has ended. Returns the visitor's result, or a code. */
int scan_run(struct scan *scan, uint64_t *cursor);

#endif
