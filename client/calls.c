/* The public calls: each becomes one operation. */
#include "client/handle.h"

#include "shared/error.h"
#include "shared/hash.h"

/* Checks that all calls with a key share; takes the operation's slot. */
static int call_begin(okv *handle, enum operation_kind kind, const void *key, size_t key_length,
                      bool synchronous, struct operation **out)
{
    if (!handle || !key)
        return OKV_EINVAL;
    if (key_length < 1 || key_length > handle->table.max_key)
        return OKV_EKEYSIZE;
    if (handle->failure)
        return handle->failure;
    if (!synchronous && handle->pending == handle->depth)
        return OKV_EAGAIN;

    struct operation *operation = operation_take(handle, kind);
    if (!operation)
        return OKV_EAGAIN;
    operation->synchronous = synchronous;
    operation->key = key;
    operation->key_length = (uint32_t)key_length;
    handle->pending += !synchronous;
    *out = operation;
    return 0;
}

/* Likewise for calls without a key. */
static int keyless_begin(okv *handle, enum operation_kind kind, bool synchronous,
                         struct operation **out)
{
    int rc = call_begin(handle, kind, "", 1, synchronous, out);

    if (rc == 0)
        (*out)->key_length = 0;
    return rc;
}

static void request_start(okv *handle, struct operation *operation)
{
    operation->step = STEP_REPLY;
    operation_advance(handle, operation);
}

static int get_start(okv *handle, const void *key, size_t key_length, void *buffer, size_t size,
                     uint64_t tag, bool synchronous, struct operation **out)
{
    if (!buffer && size > 0)
        return OKV_EINVAL;
    int rc = call_begin(handle, OPERATION_GET, key, key_length, synchronous, out);
    if (rc)
        return rc;
    struct operation *operation = *out;
    operation->result.tag = tag;
    operation->buffer = buffer;
    operation->buffer_size = size;
    operation->hash = okv_hash_key(key, key_length, handle->table.hash_seed);
    lookup_start(handle, operation);
    return 0;
}

static int put_start(okv *handle, const void *key, size_t key_length, const void *value,
                     size_t value_length, uint64_t tag, bool synchronous, struct operation **out)
{
    if (!value && value_length > 0)
        return OKV_EINVAL;
    if (handle && value_length > handle->table.max_value)
        return OKV_EVALUESIZE;
    int rc = call_begin(handle, OPERATION_PUT, key, key_length, synchronous, out);
    if (rc)
        return rc;
    (*out)->result.tag = tag;
    (*out)->value = value;
    (*out)->value_length = (uint32_t)value_length;
    request_start(handle, *out);
    return 0;
}

static int delete_start(okv *handle, const void *key, size_t key_length, uint64_t tag,
                        bool synchronous, struct operation **out)
{
    int rc = call_begin(handle, OPERATION_DELETE, key, key_length, synchronous, out);

    if (rc)
        return rc;
    (*out)->result.tag = tag;
    request_start(handle, *out);
    return 0;
}

int okv_submit_get(okv *handle, const void *key, size_t key_length, void *buffer, size_t size,
                   uint64_t tag)
{
    struct operation *operation;

    return get_start(handle, key, key_length, buffer, size, tag, false, &operation);
}

int okv_submit_put(okv *handle, const void *key, size_t key_length, const void *value,
                   size_t value_length, uint64_t tag)
{
    struct operation *operation;

    return put_start(handle, key, key_length, value, value_length, tag, false, &operation);
}

int okv_submit_delete(okv *handle, const void *key, size_t key_length, uint64_t tag)
{
    struct operation *operation;

    return delete_start(handle, key, key_length, tag, false, &operation);
}

int okv_submit_ping(okv *handle, uint64_t tag)
{
    struct operation *operation;
    int rc = keyless_begin(handle, OPERATION_PING, false, &operation);

    if (rc)
        return rc;
    operation->result.tag = tag;
    request_start(handle, operation);
    return 0;
}

int okv_get(okv *handle, const void *key, size_t key_length, void *buffer, size_t size,
            size_t *length, uint64_t *version)
{
    struct operation *operation;

    if (!length)
        return OKV_EINVAL;
    int rc = get_start(handle, key, key_length, buffer, size, 0, true, &operation);
    if (rc)
        return rc;
    rc = engine_wait_for(handle, operation);
    if (rc == OKV_OK || rc == OKV_ETOOSMALL)
        *length = operation->result.length;
    if (rc == OKV_OK && version)
        *version = operation->result.version;
    return rc;
}

int okv_put(okv *handle, const void *key, size_t key_length, const void *value, size_t value_length,
            uint64_t *version)
{
    struct operation *operation;
    int rc = put_start(handle, key, key_length, value, value_length, 0, true, &operation);

    if (rc)
        return rc;
    rc = engine_wait_for(handle, operation);
    if (rc == OKV_OK && version)
        *version = operation->result.version;
    return rc;
}

int okv_delete(okv *handle, const void *key, size_t key_length)
{
    struct operation *operation;
    int rc = delete_start(handle, key, key_length, 0, true, &operation);

    return rc ? rc : engine_wait_for(handle, operation);
}

int okv_ping(okv *handle)
{
    struct operation *operation;
    int rc = keyless_begin(handle, OPERATION_PING, true, &operation);

    if (rc)
        return rc;
    request_start(handle, operation);
    return engine_wait_for(handle, operation);
}

int okv_stat(okv *handle, char *buffer, size_t size, size_t *length)
{
    struct operation *operation;

    if (!length || (!buffer && size > 0))
        return OKV_EINVAL;
    int rc = keyless_begin(handle, OPERATION_STAT, true, &operation);
    if (rc)
        return rc;
    operation->buffer = (uint8_t *)buffer;
    operation->buffer_size = size > 0 ? size - 1 : 0; /* the NUL has its place */
    request_start(handle, operation);
    rc = engine_wait_for(handle, operation);
    if (rc == OKV_OK || rc == OKV_ETOOSMALL)
        *length = operation->result.length;
    if (rc == OKV_OK && size > 0)
        buffer[operation->result.length] = '\0';
    return rc;
}
