/*
 * The short way of okv_get_many(): what short_get.c is to okv_get(), for many READs that are under
 * way at a time. A get takes a free slot for the image that its READ brings, and gives it back when
 * the image has said how the get ends; handle->short_reads has what there is to know of it
 * meanwhile.
 *
 * A get that is anything else than that becomes an operation in the very slot, and goes on beside
 * the others: at its start, when it is no plain get or its bucket's place is not known; at the end
 * of its READ, when the image does not answer. All that are under way become operations as soon as
 * there is anything else to be heard than good READs, or nothing for a while: whatever may happen
 * to a connection, and time itself, is the engine's, which knows operations and nothing else. The
 * rest of the call is then the engine's, too.
 */
#include "client/get/short_way.h"

#include "shared/base/clock.h"

/* Polls that find nothing, one after the other: for a few microseconds, as in short_get.c. */
#define LOOKS 256
#define EVENTS 64

struct short_many {
    struct many *many;
    uint32_t under_way; /* of handle->short_reads */
    uint32_t started;   /* and not counted */
};

_Static_assert(READ_IMAGE == 0, "the cookie of a READ of an image is its slot");

static struct get_call call_of(const struct okv_command *command)
{
    return (struct get_call){command->key, command->key_length, command->buffer,
                             command->buffer_size};
}

/* ---- starting ---- */

/* The next command's READ is in the batch. False when it has to go another way. */
static bool start_short(okv *handle, struct short_many *way, uint64_t now)
{
    struct many *many = way->many;
    const struct okv_command *command = &many->commands[many->next];
    uint16_t slot = handle->free.slots[handle->free.count - 1];
    struct short_read *read = &handle->short_reads[slot];
    struct short_place place;

    if (!command_is_plain_get(handle, command) ||
        command_deadline_ns(handle, command, many->begun_ns) <= now ||
        !short_aim(handle, command->key, command->key_length, &handle->operations[slot], &place,
                   &handle->batch.reads[handle->batch.count]))
        return false;
    handle->batch.count++;
    handle->reads++;
    handle->free.count--;
    *read = (struct short_read){command, &many->results[many->next], place.hash, place.bucket};
    way->under_way++;
    way->started++;
    many->next++;
    return true;
}

/* Slots are more than the depth. */
static bool has_room(const okv *handle, const struct short_many *way)
{
    return handle->active + way->under_way < handle->depth && reads_room(handle) > 0;
}

static void start_some(okv *handle, struct short_many *way, uint64_t now)
{
    struct many *many = way->many;

    bool taken = true;

    while (taken && many->next < many->count && has_room(handle, way))
        taken = start_short(handle, way, now) || many_start_next(handle, many, now);
    short_count_reads(handle, way->started);
    way->started = 0;
}

/* ---- becoming operations ---- */

/* Makes an operation of one that is under way. */
static void adopt(okv *handle, struct short_many *way, uint32_t slot)
{
    struct short_read *read = &handle->short_reads[slot];
    const struct okv_command *command = read->command;
    struct operation *operation = &handle->operations[slot];

    operation_begin(handle, operation, OPERATION_GET, DELIVER_TO_ARRAY,
                    command_deadline_ns(handle, command, way->many->begun_ns));
    command_fill_get(operation, command);
    operation->out = read->result;
    lookup_adopt(operation, read->hash, read->bucket);
    read->command = NULL;
    way->under_way--;
}

static void adopt_all(okv *handle, struct short_many *way)
{
    for (uint32_t slot = 0; way->under_way > 0; slot++)
        if (handle->short_reads[slot].command)
            adopt(handle, way, slot);
}

/* ---- ending ---- */

/* Whether it is the end of a READ on the short way. */
static inline bool is_short(const okv *handle, const struct okv_event *event)
{
    return event->cookie < handle->slot_count && handle->short_reads[event->cookie].command;
}

/* Ends the get when the image says how. */
static inline bool end_short(okv *handle, struct short_many *way, uint32_t slot)
{
    struct short_read *read = &handle->short_reads[slot];
    struct get_call call = call_of(read->command);
    struct short_place place = {read->hash, read->bucket};

    if (!short_answer(handle, &call, &place, handle->operations[slot].image, read->result))
        return false;
    read->result->tag = read->command->tag;
    read->command = NULL;
    way->under_way--;
    handle->reads--;
    handle->free.slots[handle->free.count++] = (uint16_t)slot;
    return true;
}

static void read_ended(okv *handle, struct short_many *way, const struct okv_event *event)
{
    if (is_short(handle, event)) {
        uint32_t slot = (uint32_t)event->cookie;
        if (end_short(handle, way, slot))
            return;
        adopt(handle, way, slot);
    }
    engine_take(handle, event, 1);
}

/* Events up to the first that is not the end of a good READ. Returns how many. */
static int take_reads(okv *handle, struct short_many *way, const struct okv_event *events,
                      int count)
{
    int taken = 0;

    for (; taken < count && events[taken].type == OKV_EVENT_READ && events[taken].status == 0;
         taken++)
        read_ended(handle, way, &events[taken]);
    return taken;
}

/* ---- between ends and starts ---- */

/* In the order in which they have waited. */
static void start_more(okv *handle, struct short_many *way)
{
    if (handle->blocked_reads.count || handle->blocked_requests.count)
        operation_retry_blocked(handle);
    if (way->many->next < way->many->count)
        start_some(handle, way, okv_clock_ns());
}

/* The batch leaves. False when it does not, or there is more than READs: then that is still to be
 * done. */
static bool post(okv *handle)
{
    struct read_batch *batch = &handle->batch;

    if (handle->unflushed || handle->lost)
        return false;
    if (batch->count && handle->transport->post_read(handle->conn, batch->reads, batch->count))
        return false;
    batch->count = 0;
    return true;
}

void short_many(okv *handle, struct many *many)
{
    struct short_many way = {.many = many};
    struct okv_event events[EVENTS];

    if (!short_is_free(handle))
        return;
    start_some(handle, &way, many->begun_ns);
    bool on = post(handle);
    for (int looks = 0; on && way.under_way > 0 && looks < LOOKS; looks++) {
        int count = handle->transport->poll(handle->conn->endpoint, events, EVENTS);
        if (count == 0)
            continue;
        looks = 0;
        int taken = take_reads(handle, &way, events, count);
        if (taken != count) {
            adopt_all(handle, &way);
            engine_take(handle, events + taken, count - taken);
            break;
        }
        start_more(handle, &way);
        on = post(handle);
    }
    adopt_all(handle, &way);
}
