/*
 * The short way of okv_submit(): what short_get.c is to okv_get(), for gets whose results
 * okv_poll() gives. Such a get is an operation all the time, so deadlines, lost connections and
 * whatever else becomes of operations are the same for it. But a free slot is as a get's has to be,
 * and only what says which get it is is written at its start; and when its image answers, the
 * result goes straight to where okv_poll() takes it from, and the slot is left as free ones are.
 *
 * Anything else at its end, and it begins lookup.c's way with the same image.
 */
#include "client/get/short_way.h"

bool short_submit(okv *handle, const struct okv_command *command, uint64_t begun_ns)
{
    if (!command_is_plain_get(handle, command) || !link_is_up(handle) || handle->failure ||
        handle->pending == handle->depth || handle->free.count == 0 || reads_room(handle) == 0)
        return false;
    struct operation *operation = operation_next(handle);
    struct short_place place;
    if (!short_aim(handle, command->key, command->key_length, operation, &place,
                   &handle->batch.reads[handle->batch.count]))
        return false;
    handle->batch.count++;
    handle->reads++;
    short_count_reads(handle, 1);
    handle->free.count--;
    handle->pending++;
    operation_begin(handle, operation, OPERATION_GET, DELIVER_TO_POLL,
                    command_deadline_ns(handle, command, begun_ns));
    operation->step = STEP_BUCKET;
    operation->is_short = true;
    operation->reads = 1;
    command_fill_get(operation, command);
    operation->lookup.hash = place.hash;
    operation->lookup.bucket = place.bucket;
    return true;
}

bool short_submit_end(okv *handle, struct operation *operation)
{
    struct get_call call = {operation->key, operation->key_length, operation->buffer,
                            operation->buffer_size};
    struct short_place place = {operation->lookup.hash, operation->lookup.bucket};
    struct result_queue *ended = &handle->ended;
    struct okv_result *result =
        &ended->results[ring_place(ended->first, ended->count, handle->depth)];

    operation->is_short = false;
    if (!short_answer(handle, &call, &place, operation->image, result)) {
        lookup_adopt(operation, place.hash, place.bucket);
        return false;
    }
    result->tag = operation->result.tag;
    ended->count++;
    handle->active--;
    operation->reads = 0;
    operation->step = STEP_FREE;
    handle->free.slots[handle->free.count++] = operation->index;
    return true;
}
