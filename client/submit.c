/* Commands whose results come later, and many gets at once. */
#include "client/handle.h"

#include "shared/clock.h"
#include "shared/error.h"

int okv_submit(okv *handle, const struct okv_command *commands, size_t count, size_t *accepted)
{
    size_t taken = 0;
    int rc = 0;

    if (accepted)
        *accepted = 0;
    if (!handle || (!commands && count > 0))
        return OKV_EINVAL;
    if (handle->failure)
        return handle->failure;
    while (taken < count) {
        rc = command_start(handle, &commands[taken], DELIVER_TO_POLL, NULL, NULL);
        if (rc)
            break;
        taken++;
    }
    reads_flush(handle);
    if (accepted)
        *accepted = taken;
    return rc;
}

int okv_submit_get(okv *handle, const void *key, size_t key_length, void *buffer, size_t size,
                   uint64_t tag)
{
    struct okv_command command = {
        .kind = OKV_GET,
        .tag = tag,
        .key = key,
        .key_length = key_length,
        .buffer = buffer,
        .buffer_size = size,
    };

    return okv_submit(handle, &command, 1, NULL);
}

int okv_submit_put(okv *handle, const void *key, size_t key_length, const void *value,
                   size_t value_length, uint64_t tag)
{
    struct okv_command command = {
        .kind = OKV_PUT,
        .tag = tag,
        .key = key,
        .key_length = key_length,
        .value = value,
        .value_length = value_length,
    };

    return okv_submit(handle, &command, 1, NULL);
}

int okv_submit_delete(okv *handle, const void *key, size_t key_length, uint64_t tag)
{
    struct okv_command command = {
        .kind = OKV_DELETE, .tag = tag, .key = key, .key_length = key_length};

    return okv_submit(handle, &command, 1, NULL);
}

int okv_submit_ping(okv *handle, uint64_t tag)
{
    struct okv_command command = {.kind = OKV_PING, .tag = tag};

    return okv_submit(handle, &command, 1, NULL);
}

int okv_poll(okv *handle, struct okv_result *results, int max)
{
    if (!handle || !results || max < 1)
        return OKV_EINVAL;
    if (handle->ended.count == 0 && engine_turn(handle))
        handle->watch.stale = true;

    int n = 0;
    for (; n < max && handle->ended.count > 0; n++) {
        struct result_queue *ended = &handle->ended;
        results[n] = ended->results[ended->first];
        ended->first = (ended->first + 1) % handle->depth;
        ended->count--;
        handle->pending--;
    }
    if (n == 0)
        watch_sleeps(handle);
    return n > 0 ? n : handle->failure;
}

uint32_t okv_pending(const okv *handle)
{
    return handle->pending;
}

/* ---- many gets ---- */

/* Starts commands from `next` on while the handle takes them. Returns the first that was
 * not started; those that are wrong have their results. */
static size_t start_some(okv *handle, const struct okv_command *commands,
                         struct okv_result *results, size_t next, size_t count)
{
    while (next < count && handle->active < handle->depth) {
        int rc = command_start(handle, &commands[next], DELIVER_TO_ARRAY, &results[next], NULL);
        /* With none under way, only what came back too late has the slots. */
        if (rc == OKV_EAGAIN && handle->active > 0)
            break;
        if (rc)
            results[next] = (struct okv_result){.tag = commands[next].tag, .status = rc};
        next++;
    }
    reads_flush(handle);
    return next;
}

int okv_get_many(okv *handle, const struct okv_command *commands, struct okv_result *results,
                 size_t count)
{
    struct waiting waiting = {0};
    size_t next = 0;

    if (!handle || ((!commands || !results) && count > 0))
        return OKV_EINVAL;
    for (size_t i = 0; i < count; i++)
        if (commands[i].kind != OKV_GET && commands[i].kind != OKV_HEAD)
            return OKV_EINVAL;
    if (handle->failure)
        return handle->failure;
    if (handle->active > 0)
        return OKV_EAGAIN;
    for (;;) {
        next = start_some(handle, commands, results, next, count);
        if (next == count && handle->active == 0)
            return handle->failure;
        if (handle->active > 0)
            engine_pause(handle, &waiting, handle->earliest_deadline_ns);
    }
}
