/* The caller's memory, to which long values are READ without a copy. */
#include "client/api/argument_error.h"
#include "client/engine/memory.h"
#include "shared/base/error.h"

int okv_register(okv *handle, void *base, size_t length, okv_registration **memory)
{
    if (memory)
        *memory = NULL;
    if (!handle || !base || !memory)
        return argument_refuse(handle, __func__, "%s: it is NULL", base ? "memory" : "base");
    if (length == 0 || length > UINTPTR_MAX - (uintptr_t)base)
        return argument_refuse(handle, __func__, "length: %zu %s", length,
                               length ? "leads beyond the end of memory"
                                      : "bytes are nothing to register");
    int rc = call_enter(handle, __func__);
    if (rc)
        return rc;
    argument_error_clear(handle);
    rc = handle->failure ? handle->failure : registration_create(handle, base, length, memory);
    return call_leave(handle, rc);
}

void okv_unregister(okv *handle, okv_registration **memory)
{
    if (!handle || call_enter(handle, __func__))
        return;
    argument_error_clear(handle);
    if (memory && *memory)
        registration_destroy(handle, memory);
    call_leave(handle, 0);
}
