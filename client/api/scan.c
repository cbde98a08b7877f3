/* Scans. */
#include "client/scan/scan.h"
#include "client/api/argument_error.h"
#include "shared/base/error.h"

static int scan_from(okv *handle, uint64_t *cursor, okv_visit *visit, void *user)
{
    struct scan scan = {.handle = handle, .visit = visit, .user = user};

    argument_error_clear(handle);
    int rc = scan_begin(&scan, *cursor);
    if (rc == OKV_EINVAL)
        return argument_error(handle, rc, "okv_scan_from",
                              "cursor: it is of another table, or of no scan");
    return rc ? rc : scan_run(&scan, cursor);
}

int okv_scan_from(okv *handle, uint64_t *cursor, okv_visit *visit, void *user)
{
    if (!handle || !cursor || !visit)
        return argument_refuse(handle, __func__, "%s: it is NULL", cursor ? "visit" : "cursor");
    int rc = call_enter(handle, __func__);
    return rc ? rc : call_leave(handle, scan_from(handle, cursor, visit, user));
}

int okv_scan(okv *handle, okv_visit *visit, void *user)
{
    uint64_t cursor = 0;

    if (!handle || !visit)
        return argument_refuse(handle, __func__, "visit: it is NULL");
    int rc = call_enter(handle, __func__);
    return rc ? rc : call_leave(handle, scan_from(handle, &cursor, visit, user));
}
