/*
 * The fast path of a get, which nearly every get takes. One READ brings a whole image of the key's
 * bucket, and the image decides: the item is inline and does not expire, or it is absent.
 *
 * okv_get() on an idle handle uses no operation, no queue and no clock. Gets of okv_submit() and
 * okv_call_many() are operations, but they write few members of their slots. In every other case
 * the get continues in lookup.c, with the image that it has.
 */
#ifndef OKV_CLIENT_GET_FAST_PATH_H
#define OKV_CLIENT_GET_FAST_PATH_H

#include "client/handle.h"

/* The arguments of okv_get(), checked. */
struct get_call {
    const void *key;
    size_t key_length;
    void *buffer;
    size_t size;
};

/* Runs the get to its end, with status, length and version in *result. False: nothing has happened,
 * and the get must take the general path from its start. */
bool fast_get(okv *handle, const struct get_call *call, struct okv_result *result);

/* A valid get without any option. */
static inline bool command_is_plain_get(const okv *handle, const struct okv_command *command)
{
    uint64_t rest = command->flags | (uintptr_t)command->value | command->value_length |
                    command->version | (uint64_t)command->ttl_ms | (uint64_t)command->delta |
                    command->reserved[0] | command->reserved[1] | command->reserved[2] |
                    command->offset | command->reserved2[0] | command->reserved2[1];

    return command->kind == OKV_GET && rest == 0 && command->key &&
           command->key_length - 1 < handle->table.max_key &&
           (command->buffer || command->buffer_size == 0);
}
_Static_assert(sizeof((struct okv_command *)0)->reserved == 3 * sizeof(uint32_t) &&
                   sizeof((struct okv_command *)0)->reserved2 == 2 * sizeof(uint64_t),
               "all are zero");

/* Starts a plain get that began at `begun_ns` as an operation, with its READ in the batch. `out` is
 * for DELIVER_TO_ARRAY, else NULL. False: nothing has happened, and the get must take the general
 * path. */
bool fast_get_start(okv *handle, const struct okv_command *command, uint64_t begun_ns,
                    enum operation_delivery delivery, struct okv_result *out);

/* A READ of a get or head succeeded: for struct engine_ops. */
void get_read_done(okv *handle, struct operation *operation, enum read_kind kind);

#endif
