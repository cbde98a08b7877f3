/* The synchronous calls: each is one command and its result. */
#include <okv_admin.h>
#include <string.h>

#include "client/api/argument_error.h"
#include "client/api/command.h"
#include "client/api/denial.h"
#include "client/connection/request.h"
#include "client/connection/wait.h"
#include "client/engine/operation.h"
#include "client/get/fast_path.h"
#include "shared/base/error.h"

/* The longest command of okv_admin(), bytes. */
#define ADMIN_COMMAND_MAX 128u

/* Runs the command to its end, within `call`; `result` is filled in any case. */
static int command_run_within(okv *handle, const struct okv_command *command,
                              struct okv_result *result, const char *call)
{
    struct operation *operation;
    int rc =
        command_start(handle, command, call_begin(handle), DELIVER_TO_CALLER, NULL, &operation);

    if (rc == 0) {
        rc = denial_wait(handle, operation, result);
        if (rc != OKV_EFULL)
            return rc;
    } else {
        *result = (struct okv_result){.tag = command->tag, .status = rc};
    }
    return command_explain(handle, rc, command, call);
}

/* The same as the whole of `call`. */
static int command_run(okv *handle, const struct okv_command *command, struct okv_result *result,
                       const char *call)
{
    *result = (struct okv_result){.tag = command->tag, .status = OKV_EINVAL};
    if (!handle || call_enter(handle, call))
        return OKV_EINVAL;
    result->status = call_leave(handle, command_run_within(handle, command, result, call));
    return result->status;
}

/* The same for calls whose only output is the version: the new one, or on OKV_ECONFLICT and
 * OKV_EEXISTS the present one. */
static int command_write(okv *handle, const struct okv_command *command, uint64_t *version,
                         const char *call)
{
    struct okv_result result;
    int rc = command_run(handle, command, &result, call);

    if (version && (rc == OKV_OK || rc == OKV_ECONFLICT || rc == OKV_EEXISTS))
        *version = result.version;
    return rc;
}

/* The same for calls that also return the length of a value. */
static int command_measure(okv *handle, const struct okv_command *command, size_t *length,
                           uint64_t *version, const char *call)
{
    struct okv_result result;
    int rc = command_run(handle, command, &result, call);

    if (length && (rc == OKV_OK || rc == OKV_ETOOSMALL))
        *length = result.length;
    if (version && rc == OKV_OK)
        *version = result.version;
    return rc;
}

int okv_call(okv *handle, const struct okv_command *command, struct okv_result *result)
{
    if (!handle || !command || !result)
        return argument_refuse(handle, __func__, "%s: it is NULL", command ? "result" : "command");
    return command_run(handle, command, result, __func__);
}

static struct okv_command get_command(const struct get_call *call)
{
    return (struct okv_command){
        .kind = OKV_GET,
        .key = call->key,
        .key_length = call->key_length,
        .buffer = call->buffer,
        .buffer_size = call->size,
    };
}

/* A get on the general path. */
static int get_run(okv *handle, const struct get_call *call, struct okv_result *result)
{
    struct okv_command command = get_command(call);

    return command_run_within(handle, &command, result, "okv_get");
}

/* Says what is wrong with the arguments, without any work for the connection. */
static __attribute__((cold, noinline)) int get_refuse(okv *handle, const struct get_call *call)
{
    struct okv_command command = get_command(call);

    return command_explain(handle, command_check(handle, &command, NULL), &command, "okv_get");
}

int okv_get(okv *handle, const void *key, size_t key_length, void *buffer, size_t size,
            size_t *length, uint64_t *version)
{
    struct get_call call = {key, key_length, buffer, size};
    struct okv_result result;

    if (!handle || !length)
        return argument_refuse(handle, __func__, "length: it is NULL");
    if (call_enter(handle, __func__))
        return OKV_EINVAL;
    if (!key || (!buffer && size > 0) || key_length < 1 || key_length > handle->table.max_key)
        return call_leave(handle, get_refuse(handle, &call));
    if (!fast_get(handle, &call, &result))
        result.status = get_run(handle, &call, &result);
    result.status = call_leave(handle, result.status);
    if (result.status == OKV_OK || result.status == OKV_ETOOSMALL)
        *length = result.length;
    if (result.status == OKV_OK && version)
        *version = result.version;
    return result.status;
}

int okv_get_range(okv *handle, const void *key, size_t key_length, uint64_t offset, void *buffer,
                  size_t size, size_t *length, uint64_t *version)
{
    struct okv_command command = {
        .kind = OKV_GET_RANGE,
        .key = key,
        .key_length = key_length,
        .buffer = buffer,
        .buffer_size = size,
        .offset = offset,
    };

    return command_measure(handle, &command, length, version, __func__);
}

int okv_head(okv *handle, const void *key, size_t key_length, struct okv_item_info *info)
{
    struct okv_command command = {.kind = OKV_HEAD, .key = key, .key_length = key_length};
    struct okv_result result;
    int rc = command_run(handle, &command, &result, __func__);

    if (rc == OKV_OK && info)
        *info = (struct okv_item_info){
            .length = result.length,
            .version = result.version,
            .ttl_ms = result.ttl_ms,
        };
    return rc;
}

int okv_put(okv *handle, const void *key, size_t key_length, const void *value, size_t value_length,
            uint64_t *version)
{
    struct okv_command command = {
        .kind = OKV_PUT,
        .key = key,
        .key_length = key_length,
        .value = value,
        .value_length = value_length,
    };

    return command_write(handle, &command, version, __func__);
}

/* NULL: the reserved fields are zero. */
static const char *reserved_fault(const struct okv_put_options *options)
{
    static const struct okv_put_options zero;

    if (options->reserved)
        return "options->reserved: it is not zero";
    if (memcmp(options->reserved2, zero.reserved2, sizeof zero.reserved2) != 0)
        return "options->reserved2: it is not zero";
    return NULL;
}

int okv_put_with(okv *handle, const void *key, size_t key_length, const void *value,
                 size_t value_length, const struct okv_put_options *options, uint64_t *version)
{
    const char *fault = options ? reserved_fault(options) : "options: it is NULL";

    if (fault)
        return argument_refuse(handle, __func__, "%s", fault);
    struct okv_command command = {
        .kind = OKV_PUT,
        .flags = options->flags,
        .key = key,
        .key_length = key_length,
        .value = value,
        .value_length = value_length,
        .version = options->version,
        .ttl_ms = options->ttl_ms,
    };
    return command_write(handle, &command, version, __func__);
}

int okv_delete(okv *handle, const void *key, size_t key_length)
{
    struct okv_command command = {.kind = OKV_DELETE, .key = key, .key_length = key_length};

    return command_write(handle, &command, NULL, __func__);
}

int okv_delete_if(okv *handle, const void *key, size_t key_length, uint64_t version)
{
    struct okv_command command = {
        .kind = OKV_DELETE,
        .flags = OKV_IF_VERSION,
        .key = key,
        .key_length = key_length,
        .version = version,
    };

    return command_write(handle, &command, NULL, __func__);
}

static int command_add(okv *handle, const struct okv_command *command, int64_t *result,
                       uint64_t *version, const char *call)
{
    struct okv_result answer;
    int rc = command_run(handle, command, &answer, call);

    if (rc == OKV_OK && result)
        *result = answer.number;
    if (rc == OKV_OK && version)
        *version = answer.version;
    return rc;
}

int okv_incr(okv *handle, const void *key, size_t key_length, int64_t delta, int64_t *result,
             uint64_t *version)
{
    struct okv_command command = {
        .kind = OKV_INCR, .key = key, .key_length = key_length, .delta = delta};

    return command_add(handle, &command, result, version, __func__);
}

int okv_incr_ttl(okv *handle, const void *key, size_t key_length, int64_t delta, int64_t ttl_ms,
                 int64_t *result, uint64_t *version)
{
    struct okv_command command = {
        .kind = OKV_INCR,
        .flags = OKV_WITH_TTL,
        .key = key,
        .key_length = key_length,
        .ttl_ms = ttl_ms,
        .delta = delta,
    };

    return command_add(handle, &command, result, version, __func__);
}

int okv_append(okv *handle, const void *key, size_t key_length, const void *value,
               size_t value_length, size_t *length, uint64_t *version)
{
    struct okv_command command = {
        .kind = OKV_APPEND,
        .key = key,
        .key_length = key_length,
        .value = value,
        .value_length = value_length,
    };

    return command_measure(handle, &command, length, version, __func__);
}

int okv_touch(okv *handle, const void *key, size_t key_length, int64_t ttl_ms, uint64_t *version)
{
    struct okv_command command = {
        .kind = OKV_TOUCH, .key = key, .key_length = key_length, .ttl_ms = ttl_ms};

    return command_write(handle, &command, version, __func__);
}

int okv_get_touch(okv *handle, const void *key, size_t key_length, int64_t ttl_ms, void *buffer,
                  size_t size, size_t *length, uint64_t *version)
{
    struct okv_command command = {
        .kind = OKV_GET_TOUCH,
        .key = key,
        .key_length = key_length,
        .buffer = buffer,
        .buffer_size = size,
        .ttl_ms = ttl_ms,
    };

    if (!handle || !length)
        return argument_refuse(handle, __func__, "length: it is NULL");
    return command_measure(handle, &command, length, version, __func__);
}

int okv_ping(okv *handle)
{
    struct okv_command command = {.kind = OKV_PING};

    return command_write(handle, &command, NULL, __func__);
}

/* A request whose answer is text. */
static int ask_within(okv *handle, enum operation_kind kind, const char *question, char *buffer,
                      size_t size, size_t *length)
{
    struct operation *operation;
    struct okv_result result;

    argument_error_clear(handle);
    int rc = wait_acquire(handle, kind, DELIVER_TO_CALLER, call_begin(handle) + handle->timeout_ns,
                          &operation);
    if (rc)
        return rc;
    operation->value = (const uint8_t *)question;
    operation->value_length = (uint32_t)strlen(question);
    operation->buffer = (uint8_t *)buffer;
    operation->buffer_size = size > 0 ? size - 1 : 0; /* the NUL has its place */
    request_start(handle, operation);
    rc = denial_wait(handle, operation, &result);
    if (rc == OKV_OK || rc == OKV_ETOOSMALL)
        *length = result.length;
    if (rc == OKV_OK && size == 0)
        rc = OKV_ETOOSMALL;
    if (rc == OKV_OK)
        buffer[result.length] = '\0';
    return rc;
}

static int ask(okv *handle, enum operation_kind kind, const char *question, char *buffer,
               size_t size, size_t *length, const char *call)
{
    if (!handle || !length)
        return argument_refuse(handle, call, "length: it is NULL");
    if (!buffer && size > 0)
        return argument_refuse(handle, call, "buffer: it is NULL, and its size is %zu", size);
    if (call_enter(handle, call))
        return OKV_EINVAL;
    return call_leave(handle, ask_within(handle, kind, question, buffer, size, length));
}

int okv_stat(okv *handle, char *buffer, size_t size, size_t *length)
{
    return ask(handle, OPERATION_STAT, "", buffer, size, length, __func__);
}

int okv_admin(okv *handle, const char *command, char *buffer, size_t size, size_t *length)
{
    if (!handle || !command || strlen(command) > ADMIN_COMMAND_MAX)
        return argument_refuse(handle, __func__, "command: it is NULL or longer than %u bytes",
                               ADMIN_COMMAND_MAX);
    return ask(handle, OPERATION_ADMIN, command, buffer, size, length, __func__);
}
