/* Events, deadlines and results: what moves operations from step to step. */
#include "client/handle.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>

#include "shared/clock.h"
#include "shared/error.h"

#define EVENTS_PER_TURN 16
/* Turns with events between two looks at the clock for deadlines. */
#define DEADLINE_TURNS 64
/* A waiting call polls this often at full speed, then yields between polls, and
 * after WAIT_SPIN_NS sleeps on the descriptor. */
#define WAIT_HOT_TURNS 32
#define WAIT_SPIN_NS 100000

static void queue_push(const okv *handle, struct slot_queue *queue, uint16_t slot)
{
    queue->slots[(queue->first + queue->count++) % handle->slot_count] = slot;
}

static uint16_t queue_pop(const okv *handle, struct slot_queue *queue)
{
    uint16_t slot = queue->slots[queue->first];
    queue->first = (queue->first + 1) % handle->slot_count;
    queue->count--;
    return slot;
}

struct operation *operation_take(okv *handle, enum operation_kind kind)
{
    if (handle->free.count == 0)
        return NULL;
    struct operation *operation = &handle->operations[queue_pop(handle, &handle->free)];
    *operation = (struct operation){
        .kind = kind,
        .index = operation->index,
        .image = operation->image,
        .extent = operation->extent,
        .deadline_ns = okv_clock_ns() + handle->timeout_ns,
    };
    handle->active++;
    if (operation->deadline_ns < handle->earliest_deadline_ns)
        handle->earliest_deadline_ns = operation->deadline_ns;
    return operation;
}

void operation_release(okv *handle, struct operation *operation)
{
    operation->step = STEP_FREE;
    operation->posted = false;
    queue_push(handle, &handle->free, operation->index);
}

static void result_push(okv *handle, const struct okv_result *result)
{
    struct result_queue *ended = &handle->ended;
    ended->results[(ended->first + ended->count++) % handle->depth] = *result;
}

static void operation_count(okv *handle, const struct operation *operation, int status)
{
    switch (operation->kind) {
    case OPERATION_GET:
        handle->counters.gets++;
        handle->counters.hits += status == OKV_OK || status == OKV_ETOOSMALL;
        handle->counters.misses += status == OKV_ENOTFOUND;
        break;
    case OPERATION_PUT:
        handle->counters.puts++;
        break;
    case OPERATION_DELETE:
        handle->counters.deletes++;
        break;
    case OPERATION_PING:
    case OPERATION_STAT:
        break;
    }
}

void operation_end(okv *handle, struct operation *operation, int status)
{
    operation_count(handle, operation, status);
    handle->active--;
    operation->result.status = status;
    if (operation->synchronous) {
        operation->step = STEP_ENDED;
    } else {
        result_push(handle, &operation->result);
        operation_release(handle, operation);
    }
}

void operation_deliver(okv *handle, struct operation *operation, const uint8_t *value,
                       uint32_t length, uint64_t version)
{
    operation->result.length = length;
    if (length > operation->buffer_size) {
        operation_end(handle, operation, OKV_ETOOSMALL);
        return;
    }
    if (length)
        memcpy(operation->buffer, value, length);
    operation->result.version = version;
    operation_end(handle, operation, OKV_OK);
}

/* A write whose message left may have been applied: only its answer can tell. */
static int status_without_answer(const struct operation *operation, int failure)
{
    bool is_write = operation->kind == OPERATION_PUT || operation->kind == OPERATION_DELETE;

    return is_write && operation->posted ? OKV_EUNKNOWN : failure;
}

void operation_advance(okv *handle, struct operation *operation)
{
    int rc = operation->step == STEP_REPLY ? request_post(handle, operation)
                                           : lookup_post(handle, operation);
    if (rc == 0) {
        operation->posted = true;
    } else if (rc == OKV_EAGAIN) {
        queue_push(handle, &handle->blocked, operation->index);
    } else {
        /* Only OKV_EIO leaves open whether the message left. */
        operation->posted = rc == OKV_EIO;
        operation_end(handle, operation, status_without_answer(operation, rc));
    }
}

static bool operation_is_under_way(const struct operation *operation)
{
    return operation->step != STEP_FREE && operation->step != STEP_ENDED;
}

void engine_fail(okv *handle, int failure, const char *sentence)
{
    if (handle->failure)
        return;
    handle->failure = failure;
    okv_diag_set(&handle->why, failure, "%s", sentence);
    handle->transport->close(handle->conn);
    handle->blocked.count = 0;
    for (uint32_t i = 0; i < handle->slot_count; i++) {
        struct operation *operation = &handle->operations[i];
        if (!operation_is_under_way(operation))
            continue;
        int status = status_without_answer(operation, failure);
        operation->posted = false;
        if (operation->abandoned)
            operation_release(handle, operation);
        else
            operation_end(handle, operation, status);
    }
}

/* With what the device said, which tells the cases apart for whoever looks closer. */
static void connection_lost(okv *handle, const char *what)
{
    const char *failure = handle->conn->failure;
    struct okv_diag sentence;

    okv_diag_set(&sentence, 0, "%s%s%s", what, failure[0] ? ": " : "", failure);
    engine_fail(handle, OKV_EDISCONNECTED, sentence.text);
}

static void read_event(okv *handle, const struct okv_event *event)
{
    if (event->status) {
        connection_lost(handle, "a READ failed: the server is gone or was restarted");
        return;
    }
    if (event->cookie >= handle->slot_count)
        return;
    struct operation *operation = &handle->operations[event->cookie];
    if (!operation->posted || operation->step == STEP_REPLY)
        return;
    operation->posted = false;
    if (operation->abandoned)
        operation_release(handle, operation);
    else
        lookup_read_done(handle, operation);
}

void engine_event(okv *handle, const struct okv_event *event)
{
    switch (event->type) {
    case OKV_EVENT_READ:
        read_event(handle, event);
        break;
    case OKV_EVENT_RECV:
        if (!handle->failure)
            request_message(handle, event);
        handle->transport->recv_release(handle->conn->endpoint, event);
        break;
    case OKV_EVENT_CLOSED:
        handle->closed = true;
        connection_lost(handle, "the server closed the connection or died");
        break;
    case OKV_EVENT_OPENED:
        break;
    }
}

static void retry_blocked(okv *handle)
{
    for (uint32_t n = handle->blocked.count; n > 0 && handle->blocked.count > 0; n--) {
        uint16_t slot = queue_pop(handle, &handle->blocked);
        operation_advance(handle, &handle->operations[slot]);
    }
}

static void blocked_remove(okv *handle, const struct operation *operation)
{
    for (uint32_t n = handle->blocked.count; n > 0; n--) {
        uint16_t slot = queue_pop(handle, &handle->blocked);
        if (slot != operation->index)
            queue_push(handle, &handle->blocked, slot);
    }
}

/* The caller gets its result now. What the transport still has under way keeps
 * the slot, since its event or reply will name it. */
static void operation_expire(okv *handle, struct operation *operation)
{
    handle->counters.timeouts++;
    int status = status_without_answer(operation, OKV_ETIMEDOUT);

    if (!operation->posted) {
        blocked_remove(handle, operation);
        operation_end(handle, operation, status);
        return;
    }
    operation_count(handle, operation, status);
    handle->active--;
    operation->result.status = status;
    operation->abandoned = true;
    if (!operation->synchronous)
        result_push(handle, &operation->result);
}

static void check_deadlines(okv *handle)
{
    uint64_t now = okv_clock_ns();
    uint64_t earliest = UINT64_MAX;

    if (handle->active == 0 || now < handle->earliest_deadline_ns)
        return;
    for (uint32_t i = 0; i < handle->slot_count; i++) {
        struct operation *operation = &handle->operations[i];
        if (!operation_is_under_way(operation) || operation->abandoned)
            continue;
        if (operation->deadline_ns <= now)
            operation_expire(handle, operation);
        else if (operation->deadline_ns < earliest)
            earliest = operation->deadline_ns;
    }
    handle->earliest_deadline_ns = earliest;
}

bool engine_turn(okv *handle)
{
    struct okv_event events[EVENTS_PER_TURN];
    uint32_t active = handle->active;
    int failure = handle->failure;

    if (handle->closed)
        return false;
    int n = handle->transport->poll(handle->conn->endpoint, events, EVENTS_PER_TURN);
    if (n < 0) {
        engine_fail(handle, OKV_EIO, "the device reported a failure of the completion queue");
        handle->closed = true;
        return true;
    }
    for (int i = 0; i < n; i++)
        engine_event(handle, &events[i]);
    if (handle->blocked.count > 0)
        retry_blocked(handle);
    if (n == 0 || ++handle->turns % DEADLINE_TURNS == 0)
        check_deadlines(handle);
    return n > 0 || handle->active != active || handle->failure != failure;
}

/* Sleeps until the endpoint has something, or until a deadline: this or an operation's. */
static int sleep_until(okv *handle, uint64_t deadline_ns)
{
    int rc = handle->transport->arm(handle->conn->endpoint);

    if (rc)
        return rc;
    if (engine_turn(handle)) /* what came before the arm announces nothing */
        return 0;
    if (handle->active > 0 && handle->earliest_deadline_ns < deadline_ns)
        deadline_ns = handle->earliest_deadline_ns;
    struct pollfd fd = {.fd = handle->conn->endpoint->fd, .events = POLLIN};
    if (poll(&fd, 1, okv_clock_ms_until(deadline_ns)) < 0 && errno != EINTR)
        return OKV_EIO;
    return 0;
}

/* One step of waiting: hot, then polite, then asleep. */
static void wait_step(okv *handle, uint32_t idle, uint64_t *spin_until, uint64_t deadline_ns)
{
    if (idle < WAIT_HOT_TURNS)
        return;
    uint64_t now = okv_clock_ns();
    if (*spin_until == 0)
        *spin_until = now + WAIT_SPIN_NS;
    if (now < *spin_until)
        sched_yield();
    else if (sleep_until(handle, deadline_ns))
        engine_fail(handle, OKV_EIO, "the completion queue cannot be armed");
}

int engine_wait_for(okv *handle, struct operation *operation)
{
    uint64_t spin_until = 0;
    uint32_t idle = 0;

    while (operation->step != STEP_ENDED && !operation->abandoned) {
        if (engine_turn(handle)) {
            idle = 0;
            spin_until = 0;
            continue;
        }
        wait_step(handle, ++idle, &spin_until, operation->deadline_ns);
    }
    int status = operation->result.status;
    if (!operation->abandoned)
        operation_release(handle, operation);
    return status;
}

int okv_poll(okv *handle, struct okv_result *results, int max)
{
    if (!handle || !results || max < 1)
        return OKV_EINVAL;
    if (handle->ended.count == 0)
        engine_turn(handle);

    int n = 0;
    for (; n < max && handle->ended.count > 0; n++) {
        struct result_queue *ended = &handle->ended;
        results[n] = ended->results[ended->first];
        ended->first = (ended->first + 1) % handle->depth;
        ended->count--;
        handle->pending--;
    }
    return n > 0 ? n : handle->failure;
}

uint32_t okv_pending(const okv *handle)
{
    return handle->pending;
}

int okv_fd(const okv *handle)
{
    return handle->conn->endpoint->fd;
}

int okv_arm(okv *handle)
{
    if (handle->failure)
        return handle->failure;
    return handle->transport->arm(handle->conn->endpoint);
}

int okv_wait(okv *handle, int timeout_ms)
{
    if (!handle || timeout_ms < 0)
        return OKV_EINVAL;
    uint64_t deadline = okv_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    uint64_t spin_until = 0;

    for (uint32_t idle = 1; handle->ended.count == 0 && !handle->failure; idle++) {
        if (engine_turn(handle)) {
            idle = 0;
            spin_until = 0;
            continue;
        }
        if (idle > WAIT_HOT_TURNS && okv_clock_ns() >= deadline)
            return OKV_ETIMEDOUT;
        wait_step(handle, idle, &spin_until, deadline);
    }
    return OKV_OK;
}
