/* Checks commands and turns them into operations. */
#include "client/api/command.h"

#include <string.h>

#include "client/api/argument_error.h"
#include "client/connection/report.h"
#include "client/connection/request.h"
#include "client/connection/wait.h"
#include "client/engine/operation.h"
#include "client/engine/progress.h"
#include "client/get/hints.h"
#include "client/get/lookup.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* The fields that each kind has besides kind, tag and timeout; all others are zero. */
struct command_shape {
    const char *name;
    enum operation_kind kind;
    uint32_t flags;
    bool key, value, buffer, delta, ttl, offset;
};

static const struct command_shape command_shapes[] = {
    [OKV_GET] = {.name = "OKV_GET", .kind = OPERATION_GET, .key = true, .buffer = true},
    [OKV_HEAD] = {.name = "OKV_HEAD", .kind = OPERATION_HEAD, .key = true},
    [OKV_PUT] = {.name = "OKV_PUT",
                 .kind = OPERATION_PUT,
                 .flags = OKV_IF_ABSENT | OKV_IF_VERSION | OKV_WITH_TTL | OKV_KEEP_TTL,
                 .key = true,
                 .value = true},
    [OKV_DELETE] = {.name = "OKV_DELETE",
                    .kind = OPERATION_DELETE,
                    .flags = OKV_IF_VERSION,
                    .key = true},
    [OKV_INCR] = {.name = "OKV_INCR",
                  .kind = OPERATION_INCR,
                  .flags = OKV_WITH_TTL,
                  .key = true,
                  .delta = true},
    [OKV_APPEND] = {.name = "OKV_APPEND", .kind = OPERATION_APPEND, .key = true, .value = true},
    [OKV_TOUCH] = {.name = "OKV_TOUCH", .kind = OPERATION_TOUCH, .key = true, .ttl = true},
    [OKV_PING] = {.name = "OKV_PING", .kind = OPERATION_PING, .value = true},
    [OKV_GET_TOUCH] = {.name = "OKV_GET_TOUCH",
                       .kind = OPERATION_GET_TOUCH,
                       .key = true,
                       .buffer = true,
                       .ttl = true},
    [OKV_GET_RANGE] = {.name = "OKV_GET_RANGE",
                       .kind = OPERATION_GET_RANGE,
                       .key = true,
                       .buffer = true,
                       .offset = true},
};
#define KINDS (sizeof command_shapes / sizeof *command_shapes)

static const struct command_shape *command_shape(const struct okv_command *command)
{
    if (command->kind < OKV_GET || command->kind >= KINDS)
        return NULL;
    return &command_shapes[command->kind];
}

/* ---- the checks: each writes what is wrong to `fault`, unless that is NULL ---- */

static int wrong_without(struct okv_diag *fault, const struct command_shape *shape,
                         const char *field)
{
    return okv_diag_set(fault, OKV_EINVAL, "%s: %s takes none", field, shape->name);
}

static int wrong_null(struct okv_diag *fault, const char *field, size_t length)
{
    return okv_diag_set(fault, OKV_EINVAL, "%s: it is NULL, and its size is %zu", field, length);
}

/* Checks that the pointers that the kind uses are set, and no others. */
static int memory_check(const struct command_shape *shape, const struct okv_command *command,
                        struct okv_diag *fault)
{
    if (shape->key && !command->key)
        return okv_diag_set(fault, OKV_EINVAL, "key: it is NULL");
    if (!shape->key && (command->key || command->key_length))
        return wrong_without(fault, shape, command->key ? "key" : "key_length");
    if (!shape->value && (command->value || command->value_length))
        return wrong_without(fault, shape, command->value ? "value" : "value_length");
    if (!command->value && command->value_length)
        return wrong_null(fault, "value", command->value_length);
    if (!shape->buffer && (command->buffer || command->buffer_size))
        return wrong_without(fault, shape, command->buffer ? "buffer" : "buffer_size");
    if (!command->buffer && command->buffer_size)
        return wrong_null(fault, "buffer", command->buffer_size);
    return 0;
}

static int condition_check(const struct command_shape *shape, const struct okv_command *command,
                           struct okv_diag *fault)
{
    uint32_t both = OKV_IF_ABSENT | OKV_IF_VERSION;
    uint32_t both_ttls = OKV_WITH_TTL | OKV_KEEP_TTL;
    bool if_version = command->flags & OKV_IF_VERSION;

    if (command->flags & ~shape->flags)
        return okv_diag_set(fault, OKV_EINVAL, "flags: 0x%x is not for %s",
                            command->flags & ~shape->flags, shape->name);
    if ((command->flags & both) == both)
        return okv_diag_set(fault, OKV_EINVAL,
                            "flags: OKV_IF_ABSENT and OKV_IF_VERSION exclude each other");
    if ((command->flags & both_ttls) == both_ttls)
        return okv_diag_set(fault, OKV_EINVAL,
                            "flags: OKV_WITH_TTL and OKV_KEEP_TTL exclude each other");
    if (if_version && command->version == 0)
        return okv_diag_set(fault, OKV_EINVAL, "version: no item has 0: OKV_IF_VERSION needs one");
    if (!if_version && command->version)
        return okv_diag_set(fault, OKV_EINVAL,
                            "version: it is for OKV_IF_VERSION, and flags lack it");
    return 0;
}

static int numbers_check(const struct command_shape *shape, const struct okv_command *command,
                         struct okv_diag *fault)
{
    static const struct okv_command zero;

    if (!shape->delta && command->delta)
        return wrong_without(fault, shape, "delta");
    if (!shape->offset && command->offset)
        return wrong_without(fault, shape, "offset");
    if (!shape->ttl && !(command->flags & OKV_WITH_TTL) && command->ttl_ms)
        return okv_diag_set(fault, OKV_EINVAL, "ttl_ms: %s takes %s", shape->name,
                            shape->flags & OKV_WITH_TTL ? "it with OKV_WITH_TTL" : "none");
    if (memcmp(command->reserved, zero.reserved, sizeof zero.reserved) != 0)
        return okv_diag_set(fault, OKV_EINVAL, "reserved: it is not zero");
    if (memcmp(command->reserved2, zero.reserved2, sizeof zero.reserved2) != 0)
        return okv_diag_set(fault, OKV_EINVAL, "reserved2: it is not zero");
    return 0;
}

static int ttl_check(const struct command_shape *shape, const struct okv_command *command,
                     struct okv_diag *fault)
{
    bool in_range = command->ttl_ms >= 1 && command->ttl_ms <= OKV_TTL_MAX_MS;

    if (in_range || (!shape->ttl && !(command->flags & OKV_WITH_TTL)) ||
        (shape->ttl && command->ttl_ms == OKV_TTL_NONE))
        return 0;
    return okv_diag_set(fault, OKV_ETTL, "ttl_ms: %lld is not 1 to %lld%s",
                        (long long)command->ttl_ms, (long long)OKV_TTL_MAX_MS,
                        shape->ttl ? ", nor OKV_TTL_NONE" : "");
}

/* Only the value of a put may exceed a message; other kinds carry their value in it. */
static size_t value_max(const okv *handle, enum operation_kind kind)
{
    uint32_t message = okv_slot_value_max(handle->table.slot_size);
    uint32_t table = handle->table.max_value;

    if (kind == OPERATION_PING) /* the table does not store it */
        return message;
    return kind == OPERATION_PUT || table < message ? table : message;
}

int command_check(const okv *handle, const struct okv_command *command, struct okv_diag *fault)
{
    const struct command_shape *shape = command_shape(command);

    if (!shape)
        return okv_diag_set(fault, OKV_EINVAL, "kind: %u is none of enum okv_kind", command->kind);
    int rc = memory_check(shape, command, fault);
    if (rc == 0)
        rc = condition_check(shape, command, fault);
    if (rc == 0)
        rc = numbers_check(shape, command, fault);
    if (rc)
        return rc;
    if (shape->key && (command->key_length < 1 || command->key_length > handle->table.max_key))
        return okv_diag_set(fault, OKV_EKEYSIZE, "key_length: %zu is not 1 to %u",
                            command->key_length, handle->table.max_key);
    if (command->value_length > value_max(handle, shape->kind))
        return okv_diag_set(fault, OKV_EVALUESIZE,
                            "value_length: %zu is above %zu, the most that this server takes of %s",
                            command->value_length, value_max(handle, shape->kind), shape->name);
    return ttl_check(shape, command, fault);
}

/* Whether there is a sentence for `rc`, and which. */
static bool find_fault(const okv *handle, int rc, const struct okv_command *command,
                       struct okv_diag *fault)
{
    if (rc != OKV_EFULL)
        return command_check(handle, command, fault) == rc;
    okv_diag_set(fault, rc,
                 "key: %s: delete items, give items a time to live, or start okv-server with a "
                 "larger --memory",
                 okv_error_text(rc));
    return true;
}

int command_explain(okv *handle, int rc, const struct okv_command *command, const char *call)
{
    struct okv_diag fault;

    argument_error_clear(handle);
    if (!find_fault(handle, rc, command, &fault))
        return rc;
    return argument_error(handle, rc, call, "%s", fault.text);
}

int command_explain_nth(okv *handle, int rc, const struct okv_command *commands, size_t n,
                        const char *call)
{
    struct okv_diag fault;

    argument_error_clear(handle);
    if (!find_fault(handle, rc, &commands[n], &fault))
        return rc;
    return argument_error(handle, rc, call, "commands[%zu].%s", n, fault.text);
}

/* ---- starting ---- */

uint64_t call_begin(okv *handle)
{
    uint64_t now = okv_clock_ns();

    if (handle->active == 0 && engine_is_stale(handle, now))
        engine_catch_up(handle);
    report_if_due(handle, now);
    handle->begun_ns = now;
    return now;
}

static uint16_t request_flags(const struct okv_command *command)
{
    unsigned flags = 0;

    if (command->flags & OKV_IF_ABSENT)
        flags |= OKV_REQUEST_IF_ABSENT;
    if (command->flags & OKV_IF_VERSION)
        flags |= OKV_REQUEST_IF_VERSION;
    if (command->flags & OKV_KEEP_TTL)
        flags |= OKV_REQUEST_KEEP_TTL;
    return (uint16_t)flags;
}

/* A value that no message takes is advertised. */
static void form_choose(const okv *handle, struct operation *operation)
{
    operation->flags &= (uint16_t)~OKV_REQUEST_RENDEZVOUS;
    if (operation->value_length > okv_slot_value_max(handle->table.slot_size))
        operation->flags |= OKV_REQUEST_RENDEZVOUS;
}

static void request_fill(const okv *handle, struct operation *operation,
                         const struct okv_command *command)
{
    operation->value = command->value;
    operation->value_length = (uint32_t)command->value_length;
    operation->flags = request_flags(command);
    form_choose(handle, operation);
    operation->offset = command->offset;
    operation->argument = command->kind == OKV_INCR ? (uint64_t)command->delta : command->version;
    operation->ttl_ms = command->ttl_ms == OKV_TTL_NONE ? 0 : (uint64_t)command->ttl_ms;
}

/* Checks the lengths against this server's limits, and decides whether the value is advertised. 0,
 * OKV_EKEYSIZE, OKV_EVALUESIZE. */
static int refit(const okv *handle, struct operation *operation)
{
    if (operation->key_length > handle->table.max_key)
        return OKV_EKEYSIZE;
    if (operation->value_length > value_max(handle, operation->kind))
        return OKV_EVALUESIZE;
    form_choose(handle, operation);
    return 0;
}

/* Starts an operation that is filled in. */
static void start(okv *handle, struct operation *operation)
{
    switch (operation->kind) {
    case OPERATION_GET:
    case OPERATION_HEAD:
    case OPERATION_GET_RANGE:
        lookup_start(handle, operation);
        break;
    case OPERATION_PUT:
    case OPERATION_APPEND:
    case OPERATION_DELETE: /* the value moves */
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
    int rc = command_check(handle, command, NULL);

    if (rc)
        return rc;
    rc = wait_acquire(handle, command_shape(command)->kind, delivery,
                      command_deadline_ns(handle, command, begun_ns), &operation);
    if (rc)
        return rc;
    command_fill_get(operation, command);
    request_fill(handle, operation, command);
    operation->out = place;
    if (started)
        *started = operation;
    /* While it waited for a slot it may have reconnected to another server. */
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
