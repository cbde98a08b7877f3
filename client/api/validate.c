/* What the public header demands of a command, and how one becomes an operation. */
#include "client/api/validate.h"

#include <string.h>

#include "client/connection/request.h"
#include "client/engine/operation.h"
#include "client/engine/wait.h"
#include "client/get/hints.h"
#include "client/get/lookup.h"
#include "shared/base/error.h"

/* What each kind may say besides kind, tag and timeout; all else is zero. */
struct command_shape {
    enum operation_kind kind;
    uint32_t flags;
    bool key, value, buffer, delta, ttl;
};

static const struct command_shape command_shapes[] = {
    [OKV_GET] = {.kind = OPERATION_GET, .key = true, .buffer = true},
    [OKV_HEAD] = {.kind = OPERATION_HEAD, .key = true},
    [OKV_PUT] = {.kind = OPERATION_PUT,
                 .flags = OKV_IF_ABSENT | OKV_IF_VERSION | OKV_WITH_TTL,
                 .key = true,
                 .value = true},
    [OKV_DELETE] = {.kind = OPERATION_DELETE, .flags = OKV_IF_VERSION, .key = true},
    [OKV_INCR] = {.kind = OPERATION_INCR, .key = true, .delta = true},
    [OKV_APPEND] = {.kind = OPERATION_APPEND, .key = true, .value = true},
    [OKV_TOUCH] = {.kind = OPERATION_TOUCH, .key = true, .ttl = true},
    [OKV_PING] = {.kind = OPERATION_PING, .value = true},
};
#define KINDS (sizeof command_shapes / sizeof *command_shapes)

static const struct command_shape *command_shape(const struct okv_command *command)
{
    if (command->kind < OKV_GET || command->kind >= KINDS)
        return NULL;
    return &command_shapes[command->kind];
}

/* Memory is there where it is used, and nothing is said that the kind does not use. */
static bool memory_is_right(const struct command_shape *shape, const struct okv_command *command)
{
    if (shape->key != (command->key != NULL) || (!shape->key && command->key_length))
        return false;
    if (shape->value ? !command->value && command->value_length
                     : command->value || command->value_length)
        return false;
    return shape->buffer ? command->buffer || !command->buffer_size
                         : !command->buffer && !command->buffer_size;
}

static bool numbers_are_right(const struct command_shape *shape, const struct okv_command *command)
{
    static const uint32_t zeros[sizeof command->reserved / sizeof *command->reserved];
    uint32_t both = OKV_IF_ABSENT | OKV_IF_VERSION;
    bool if_version = command->flags & OKV_IF_VERSION;

    return !(command->flags & ~shape->flags) && (command->flags & both) != both &&
           if_version == (command->version != 0) && (shape->delta || command->delta == 0) &&
           (shape->ttl || command->flags & OKV_WITH_TTL || command->ttl_ms == 0) &&
           memcmp(command->reserved, zeros, sizeof zeros) == 0;
}

static bool ttl_is_right(const struct command_shape *shape, const struct okv_command *command)
{
    bool in_range = command->ttl_ms >= 1 && command->ttl_ms <= OKV_TTL_MAX_MS;

    if (command->flags & OKV_WITH_TTL)
        return in_range;
    return !shape->ttl || in_range || command->ttl_ms == OKV_TTL_NONE;
}

/* Only the value of a put may be longer than a message: that of others goes with it. */
static size_t value_max(const okv *handle, enum operation_kind kind)
{
    uint32_t message = okv_slot_value_max(handle->table.slot_size);
    uint32_t table = handle->table.max_value;

    if (kind == OPERATION_PING) /* nor does it come into the table */
        return message;
    return kind == OPERATION_PUT || table < message ? table : message;
}

int command_check(const okv *handle, const struct okv_command *command)
{
    const struct command_shape *shape = command_shape(command);

    if (!shape || !memory_is_right(shape, command) || !numbers_are_right(shape, command))
        return OKV_EINVAL;
    if (shape->key && (command->key_length < 1 || command->key_length > handle->table.max_key))
        return OKV_EKEYSIZE;
    if (command->value_length > value_max(handle, shape->kind))
        return OKV_EVALUESIZE;
    return ttl_is_right(shape, command) ? 0 : OKV_ETTL;
}

static uint16_t request_flags(const struct okv_command *command)
{
    unsigned flags = 0;

    if (command->flags & OKV_IF_ABSENT)
        flags |= OKV_REQUEST_IF_ABSENT;
    if (command->flags & OKV_IF_VERSION)
        flags |= OKV_REQUEST_IF_VERSION;
    return (uint16_t)flags;
}

static void request_fill(const okv *handle, struct operation *operation,
                         const struct okv_command *command)
{
    operation->value = command->value;
    operation->value_length = (uint32_t)command->value_length;
    operation->flags = request_flags(command);
    if (operation->value_length > okv_slot_value_max(handle->table.slot_size))
        operation->flags |= OKV_REQUEST_RENDEZVOUS;
    operation->argument = command->kind == OKV_INCR ? (uint64_t)command->delta : command->version;
    operation->ttl_ms = command->ttl_ms == OKV_TTL_NONE ? 0 : (uint64_t)command->ttl_ms;
}

/* Whether the values of the operation are within what this server takes, and how it takes them. 0,
 * OKV_EKEYSIZE, OKV_EVALUESIZE. */
static int refit(const okv *handle, struct operation *operation)
{
    bool is_long = operation->value_length > okv_slot_value_max(handle->table.slot_size);

    operation->flags &= (uint16_t)~OKV_REQUEST_RENDEZVOUS;
    if (operation->key_length > handle->table.max_key)
        return OKV_EKEYSIZE;
    if (operation->value_length > value_max(handle, operation->kind))
        return OKV_EVALUESIZE;
    if (is_long)
        operation->flags |= OKV_REQUEST_RENDEZVOUS;
    return 0;
}

/* Starts an operation that is filled in. */
static void start(okv *handle, struct operation *operation)
{
    switch (operation->kind) {
    case OPERATION_GET:
    case OPERATION_HEAD:
        lookup_start(handle, operation);
        break;
    case OPERATION_PUT:
    case OPERATION_APPEND:
    case OPERATION_DELETE: /* where the value was is not where it will be */
        hints_forget(handle, operation);
        request_start(handle, operation);
        break;
    default:
        request_start(handle, operation);
    }
}

int command_begin_again(okv *handle, struct operation *operation)
{
    int rc = refit(handle, operation);

    if (rc == 0)
        start(handle, operation);
    return rc;
}

int command_start(okv *handle, const struct okv_command *command, uint64_t begun_ns,
                  enum operation_delivery delivery, struct okv_result *place,
                  struct operation **started)
{
    uint64_t connection = handle->counters.reconnects;
    struct operation *operation;
    int rc = command_check(handle, command);

    if (rc)
        return rc;
    rc = engine_operation_take(handle, command_shape(command)->kind, delivery,
                               command_deadline_ns(handle, command, begun_ns), &operation);
    if (rc)
        return rc;
    command_fill_get(operation, command);
    request_fill(handle, operation, command);
    operation->out = place;
    if (started)
        *started = operation;
    /* While it waited for a slot another server may have come. */
    if (handle->counters.reconnects != connection)
        rc = refit(handle, operation);
    if (rc)
        operation_end(handle, operation, rc);
    else if (!link_is_up(handle))
        operation->step = STEP_WAITING;
    else
        start(handle, operation);
    return 0;
}
