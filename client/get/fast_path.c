#include "client/get/fast_path.h"

#include "client/connection/hits.h"
#include "client/connection/report.h"
#include "client/connection/wait.h"
#include "client/engine/lease_check.h"
#include "client/engine/operation.h"
#include "client/engine/progress.h"
#include "client/engine/read_batch.h"
#include "client/get/deliver.h"
#include "client/get/directory.h"
#include "client/get/hints.h"
#include "client/get/lookup.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

/* Polls for the READ of okv_get(), back to back: a few microseconds, as long as a READ takes. After
 * that an operation waits with a deadline, and yields the CPU. */
#define POLL_SPINS 64
/* Events of one poll: the READ's, and any others that came. */
#define EVENTS 4

/* ---- from a key to the READ of its bucket, and from the image to the result ---- */

/* The likely bucket of a key. */
struct locator {
    uint64_t hash;
    uint64_t bucket;
};

/* Fills in the READ of the key's bucket to the image of a slot. False: the key has a hint, its
 * segment is unknown, or the status is to be READ with it. */
static inline bool locate(okv *handle, const void *key, size_t key_length,
                          const struct operation *slot, struct locator *locator,
                          struct okv_read *read)
{
    locator->hash = okv_hash_key(key, key_length, handle->table.hash_seed);
    locator->bucket = okv_linear_bucket(locator->hash, handle->bucket_count);
    if (handle->lease.is_due || (handle->hints_kept > 0 && hints_has(handle, locator->hash)))
        return false;
    read->destination = slot->image;
    read->memory = handle->memory;
    read->length = handle->table.bucket_size;
    read->cookie = read_cookie(slot, READ_IMAGE);
    return directory_locate(handle, locator->bucket, &read->offset);
}

/* True when the image decides the get: *result is filled in, except the tag, and counted. False
 * also for an item that expires, as that takes the clock. */
static inline bool answer(okv *handle, const struct get_call *call, const struct locator *locator,
                          const uint8_t *image, struct okv_result *result)
{
    struct okv_entry entry;
    uint32_t position = 0;

    if (okv_bucket_check(image, handle->table.bucket_size, handle->table.boot_id, locator->bucket,
                         0))
        return false;
    unsigned depth = okv_bucket_depth(image);
    if (okv_hash_bucket(locator->hash, depth) != locator->bucket)
        return false;
    if (!okv_linear_agrees(handle->bucket_count, locator->bucket, depth))
        handle->bucket_count = okv_linear_learn(handle->bucket_count, locator->bucket, depth);
    int found = okv_bucket_find(image, locator->hash, call->key, (uint32_t)call->key_length,
                                &position, &entry);
    if (found < 0 || (found == 0 && okv_bucket_chain(image) != 0) ||
        (found == 1 && (entry.is_reference || entry.expiry_ms)))
        return false;
    handle->counters.gets++;
    handle->counters.misses += found == 0;
    handle->counters.hits += found == 1;
    *result = (struct okv_result){.status = OKV_ENOTFOUND};
    if (found == 0)
        return true;
    hits_note_found(handle, locator->hash, entry.is_quiet);
    result->status = item_deliver(&entry, entry.value, call->buffer, call->size, result);
    if (result->status == OKV_OK)
        result->ttl_ms = OKV_TTL_NONE;
    return true;
}

/* ---- okv_get() ---- */

struct fast_get {
    const struct get_call *call;
    struct locator locator;
    uint64_t begun_ns;      /* of a get that is timed; else 0 */
    struct operation *slot; /* the next free one: take_over() acquires it with its image */
};

/* Nothing is under way or waits to be posted, so the next event is the READ's. */
static inline bool is_idle(const okv *handle)
{
    return link_is_up(handle) && handle->free.count == handle->slot_count && handle->reads == 0 &&
           !handle->unflushed && !handle->lost && !handle->failure;
}

/* The only event is the success of the READ. */
static bool is_read_done(const struct fast_get *get, const struct okv_event *event, int count)
{
    return count == 1 && event->type == OKV_EVENT_READ && event->status == 0 &&
           event->cookie == read_cookie(get->slot, READ_IMAGE);
}

/* Turns the get into an operation of the general path, which owns the READ from here on. A READ
 * that has not completed may be on a connection that ended while the handle was idle. So a stale
 * handle catches up, and the get starts again on the next connection. */
static int take_over(okv *handle, const struct fast_get *get, const struct okv_event *events,
                     int count, struct okv_result *result)
{
    uint64_t now = okv_clock_ns();
    bool stale = count == 0 && engine_is_stale(handle, now);
    struct operation *operation;
    int rc = operation_acquire(handle, OPERATION_GET, DELIVER_TO_CALLER, now + handle->timeout_ns,
                               &operation);

    if (rc)
        return rc;
    /* Before the events: the image alone may end it. */
    operation->begun_ns = get->begun_ns ? get->begun_ns : now;
    operation->key = get->call->key;
    operation->key_length = (uint32_t)get->call->key_length;
    operation->buffer = get->call->buffer;
    operation->buffer_size = get->call->size;
    operation->reads = 1;
    handle->reads++;
    lookup_take_over(operation, get->locator.hash, get->locator.bucket);
    engine_dispatch(handle, events, count);
    if (stale)
        engine_catch_up(handle);
    handle->begun_ns = now;
    return wait_operation(handle, operation, result);
}

/* Polls until something comes, at most POLL_SPINS times. */
static int spin(const okv *handle, struct okv_event events[EVENTS])
{
    int count = 0;

    for (int i = 0; i < POLL_SPINS && count == 0; i++)
        count = handle->transport->poll(handle->conn->endpoint, events, EVENTS);
    return count;
}

_Static_assert(OKV_READ_BEGINNING == OKV_BUCKET_LINE, "whole lines, the first with the header");

/* True when the transport has completed the READ at once, without an event. */
static bool read_now(okv *handle, const struct okv_read *read)
{
    const struct okv_transport_ops *transport = handle->transport;

    return transport->read_now && transport->read_now(handle->conn, read, okv_bucket_used_bytes);
}

static inline bool is_leased(okv *handle)
{
    lease_look(handle);
    return lease_covers(handle);
}

/* On a handle that only makes fast gets no other call reads the clock. */
static __attribute__((noinline)) void timed_end(okv *handle, uint64_t begun_ns, uint64_t now)
{
    get_time(handle, begun_ns, now);
    report_if_due(handle, now);
}

bool fast_get(okv *handle, const struct get_call *call, struct okv_result *result)
{
    struct okv_event events[EVENTS];
    struct fast_get get;
    struct okv_read read;
    int count = 1;

    if (!is_idle(handle))
        return false;
    get.call = call;
    get.begun_ns = get_is_timed(handle) ? okv_clock_ns() : 0;
    get.slot = operation_next(handle);
    if (!locate(handle, call->key, call->key_length, get.slot, &get.locator, &read))
        return false;
    bool done = read_now(handle, &read);
    if (!done) {
        if (handle->transport->post_read(handle->conn, &read, 1))
            return false;
        count = spin(handle, events);
        done = is_read_done(&get, events, count);
    }
    read_count(handle, READ_IMAGE, handle->table.bucket_size);
    if (done && is_leased(handle) && answer(handle, call, &get.locator, get.slot->image, result)) {
        if (get.begun_ns)
            timed_end(handle, get.begun_ns, okv_clock_ns());
        return true;
    }
    if (done)
        events[0] = (struct okv_event){.type = OKV_EVENT_READ, .cookie = read.cookie};
    result->status = take_over(handle, &get, events, count, result);
    return true;
}

/* ---- okv_submit() and okv_call_many() ---- */

bool fast_get_start(okv *handle, const struct okv_command *command, uint64_t begun_ns,
                    enum operation_delivery delivery, struct okv_result *out)
{
    bool polled = delivery == DELIVER_TO_POLL;

    if (!command_is_plain_get(handle, command) || !link_is_up(handle) || handle->failure ||
        (polled && handle->pending == handle->depth) || handle->free.count == 0 ||
        reads_room(handle) == 0)
        return false;
    struct operation *operation = operation_next(handle);
    struct locator locator;
    if (!locate(handle, command->key, command->key_length, operation, &locator,
                &handle->batch.reads[handle->batch.count]))
        return false;
    handle->batch.count++;
    handle->reads++;
    read_count(handle, READ_IMAGE, handle->table.bucket_size);
    handle->free.count--;
    handle->pending += polled;
    operation_begin(handle, operation, OPERATION_GET, delivery,
                    command_deadline_ns(handle, command, begun_ns));
    command_fill_get(operation, command);
    operation->step = STEP_BUCKET;
    operation->is_fast = true;
    operation->reads = 1;
    operation->out = out;
    operation->lookup.hash = locator.hash;
    operation->lookup.bucket = locator.bucket;
    return true;
}

/* Ends the get if its image decides it. */
static bool fast_get_end(okv *handle, struct operation *operation)
{
    struct get_call call = {operation->key, operation->key_length, operation->buffer,
                            operation->buffer_size};
    struct locator locator = {operation->lookup.hash, operation->lookup.bucket};
    bool polled = operation->delivery == DELIVER_TO_POLL;
    bool timed = polled && get_is_timed(handle);
    struct okv_result *result = polled ? result_next(handle) : operation->out;

    if (!lease_covers(handle) || !answer(handle, &call, &locator, operation->image, result))
        return false;
    if (timed)
        get_time(handle, operation->begun_ns, okv_clock_ns());
    result->tag = operation->result.tag;
    handle->ended.count += polled;
    handle->active--;
    operation->is_fast = false;
    operation->step = STEP_FREE;
    handle->free.slots[handle->free.count++] = operation->index;
    return true;
}

void get_read_done(okv *handle, struct operation *operation, enum read_kind kind)
{
    if (operation->is_fast) {
        if (fast_get_end(handle, operation))
            return;
        operation->is_fast = false;
        lookup_take_over(operation, operation->lookup.hash, operation->lookup.bucket);
    }
    lookup_read_done(handle, operation, kind);
}
