/* okv_flush: FLUSH requests, each of some buckets, until the server says that it is done. */
#include "client/api/argument_error.h"
#include "client/api/command.h"
#include "client/api/denial.h"
#include "client/connection/request.h"
#include "client/connection/wait.h"
#include "client/engine/operation.h"
#include "shared/base/error.h"

/* One step. *next is where the following one continues, `answer` goes into its request. */
static int flush_step(okv *handle, uint64_t *next, struct okv_wire_flush *answer, bool first)
{
    okv_le64 splits = answer->splits;
    struct operation *operation;
    int rc = wait_acquire(handle, OPERATION_FLUSH, DELIVER_TO_CALLER,
                          call_begin(handle) + handle->timeout_ns, &operation);

    if (rc)
        return rc;
    operation->argument = *next;
    operation->value = (const uint8_t *)&splits;
    operation->value_length = first ? 0 : sizeof splits;
    operation->buffer = (uint8_t *)answer;
    operation->buffer_size = sizeof *answer;
    request_start(handle, operation);
    rc = denial_wait(handle, operation, NULL);
    if (rc == 0)
        *next = okv_le64_get(answer->next);
    return rc;
}

static int flush(okv *handle)
{
    struct okv_wire_flush answer = {0};
    uint64_t next = 0;

    argument_error_clear(handle);
    int rc = flush_step(handle, &next, &answer, true);
    while (rc == 0 && next != 0) {
        rc = flush_step(handle, &next, &answer, false);
        if (rc)
            rc = OKV_EUNKNOWN; /* earlier steps have removed items */
    }
    return rc;
}

int okv_flush(okv *handle)
{
    if (!handle || call_enter(handle, __func__))
        return OKV_EINVAL;
    return call_leave(handle, flush(handle));
}
