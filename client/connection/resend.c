/*
 * Operations across connections: the table in docs/connections.md section 4.
 *
 * Until resend_detach() has unregistered the memory, the device may still write to destinations of
 * READs, and the server may still READ advertised values. So the slot of an abandoned operation
 * stays taken until then: a late READ may land in it, or in the caller's registered buffer. On a
 * later connection none can.
 */
#include "client/connection/resend.h"

#include <stdlib.h>

#include "client/connection/request.h"
#include "client/engine/engine_ops.h"
#include "client/engine/memory.h"
#include "client/engine/operation.h"
#include "client/engine/request_slots.h"
#include "shared/base/error.h"

/* Resets the operation to its start: its lookup may belong to another table. */
static void operation_wait(okv *handle, struct operation *operation)
{
    request_forget(handle, operation);
    operation->step = STEP_WAITING;
    operation->is_fast = false;
    operation->lookup = (struct lookup){.attempts = 0};
    operation->extent_read = (struct extent_read){.length = 0};
    operation->result = (struct okv_result){.tag = operation->result.tag};
}

static void operation_detach(okv *handle, struct operation *operation)
{
    operation->reads = 0;
    if (!operation_is_under_way(operation))
        return;
    if (operation->abandoned) {
        operation_release(handle, operation);
    } else if (!operation->posted || !operation_is_write(operation)) {
        operation_wait(handle, operation);
    } else if (!operation->resend) {
        operation->resend = true;
        handle->request_slots.resends++;
    }
}

void resend_detach(okv *handle)
{
    memory_detach(handle);
    handle->batch.count = 0;
    handle->reads = 0;
    handle->unflushed = false;
    handle->clock.reading = false;
    operation_unblock_all(handle);
    for (uint32_t i = 0; i < handle->slot_count; i++)
        operation_detach(handle, &handle->operations[i]);
}

/* The progress of a flush is a position in the table that it began in. */
static bool flush_is_void(const struct operation *operation, bool same_table)
{
    return operation->kind == OPERATION_FLUSH && !same_table &&
           (operation->argument != 0 || operation->resend);
}

static void operation_begin_again(okv *handle, struct operation *operation, bool same_table)
{
    int rc = OKV_EUNKNOWN;

    if (!flush_is_void(operation, same_table))
        rc = handle->ops->begin_again(handle, operation);
    if (rc)
        operation_end(handle, operation, rc);
}

static int by_age(const void *a, const void *b, void *operations)
{
    const struct operation *first = (struct operation *)operations + *(const uint16_t *)a;
    const struct operation *second = (struct operation *)operations + *(const uint16_t *)b;

    return first->number < second->number ? -1 : first->number > second->number;
}

/* Lists the operations under way, the oldest first. */
static uint32_t operations_order(okv *handle)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < handle->slot_count; i++)
        if (operation_is_under_way(&handle->operations[i]))
            handle->order[count++] = (uint16_t)i;
    qsort_r(handle->order, count, sizeof *handle->order, by_age, handle->operations);
    return count;
}

void resend_resume(okv *handle, bool resumed, bool same_table)
{
    for (uint32_t i = 0; i < handle->slot_count && !resumed; i++)
        if (handle->operations[i].resend)
            operation_end_unanswered(handle, &handle->operations[i], OKV_EDISCONNECTED);
    request_slots_reset(handle);
    uint32_t count = operations_order(handle);
    for (uint32_t i = 0; i < count; i++) {
        struct operation *operation = &handle->operations[handle->order[i]];
        if (operation->resend && !flush_is_void(operation, same_table))
            request_post(handle, operation);
        else
            operation_begin_again(handle, operation, same_table);
    }
}
