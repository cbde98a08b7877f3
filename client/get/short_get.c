/*
 * The short way of okv_get(): what nearly every get is. Nothing else is under way on the handle,
 * the READ of the bucket is soon done, the image is whole, of the key's bucket, and says all there
 * is to say: the item is in it, or nowhere.
 *
 * That is one course of those that lookup.c has a picture of, taken without an operation, without
 * queues and without reading the clock: with half of the instructions. Where anything is
 * otherwise, what was begun becomes an operation, events that came are the engine's, and the get
 * goes on as any other, with the same image looked at again.
 */
#include "client/get/short_way.h"

#include "shared/base/clock.h"

/* Looks for the end of the READ, one after the other: for a few microseconds, which a READ takes.
 * After that it is waited for with a deadline, and the CPU left to others at times. */
#define LOOKS 64
/* Events of a look: the READ's, and what may have come besides. */
#define EVENTS 4

struct short_get {
    const struct get_call *call;
    struct short_place place;
    struct operation *slot; /* free: its image is what is READ to, and it is taken if need be */
};

/* All that came is the answer to the READ. */
static bool is_read_done(const struct short_get *get, const struct okv_event *event, int count)
{
    return count == 1 && event->type == OKV_EVENT_READ && event->status == 0 &&
           event->cookie == read_cookie(get->slot, READ_IMAGE);
}

/* An operation goes on with the READ, which has ended or not. If not, this is the moment for a
 * handle that was idle to hear what happened: a READ on a connection that has ended meanwhile harms
 * nobody, and the get begins again on the next one. */
static int go_on(okv *handle, const struct short_get *get, const struct okv_event *events,
                 int count, struct okv_result *result)
{
    uint64_t now = okv_clock_ns();
    bool stale = count == 0 && engine_is_stale(handle, now);
    struct operation *operation;
    int rc = operation_take(handle, OPERATION_GET, DELIVER_TO_CALLER, now + handle->timeout_ns,
                            &operation);

    if (rc)
        return rc;
    operation->key = get->call->key;
    operation->key_length = (uint32_t)get->call->key_length;
    operation->buffer = get->call->buffer;
    operation->buffer_size = get->call->size;
    handle->reads++;
    lookup_adopt(operation, get->place.hash, get->place.bucket);
    engine_take(handle, events, count);
    if (stale)
        engine_catch_up(handle);
    handle->begun_ns = now;
    return engine_wait_for(handle, operation, result);
}

/* What the first poll returned that found anything. */
static int look(const okv *handle, struct okv_event events[EVENTS])
{
    int count = 0;

    for (int i = 0; i < LOOKS && count == 0; i++)
        count = handle->transport->poll(handle->conn->endpoint, events, EVENTS);
    return count;
}

_Static_assert(OKV_READ_BEGINNING == OKV_BUCKET_LINE, "whole lines, the first with the header");

/* The READ has ended, without an event. */
static bool read_now(okv *handle, const struct okv_read *read)
{
    const struct okv_transport_ops *transport = handle->transport;

    return transport->read_now && transport->read_now(handle->conn, read, okv_bucket_extent) == 0;
}

bool short_get(okv *handle, const struct get_call *call, struct okv_result *result)
{
    struct okv_event events[EVENTS];
    struct short_get get;
    struct okv_read read;
    int count = 1;

    if (!short_is_free(handle))
        return false;
    get.call = call;
    get.slot = operation_next(handle);
    if (!short_aim(handle, call->key, call->key_length, get.slot, &get.place, &read))
        return false;
    bool done = read_now(handle, &read);
    if (!done) {
        if (handle->transport->post_read(handle->conn, &read, 1))
            return false;
        count = look(handle, events);
        done = is_read_done(&get, events, count);
    }
    short_count_reads(handle, 1);
    if (done && short_answer(handle, call, &get.place, get.slot->image, result))
        return true;
    if (done)
        events[0] = (struct okv_event){.type = OKV_EVENT_READ, .cookie = read.cookie};
    result->status = go_on(handle, &get, events, count, result);
    return true;
}
