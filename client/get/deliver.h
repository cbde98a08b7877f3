/* From an item to its result, on every path of a get. */
#ifndef OKV_CLIENT_GET_DELIVER_H
#define OKV_CLIENT_GET_DELIVER_H

#include "client/handle.h"
#include "shared/base/bytes.h"
#include "shared/base/error.h"

/* Fills *result with an item and copies its value to `buffer`, unless it was READ there. `value` is
 * NULL for a head. OKV_OK, or OKV_ETOOSMALL with only the length. */
static inline int item_deliver(const struct okv_entry *entry, const uint8_t *value, uint8_t *buffer,
                               size_t size, struct okv_result *result)
{
    result->length = entry->value_length;
    if (entry->value_length > size)
        return OKV_ETOOSMALL;
    if (buffer && value && value != buffer && entry->value_length)
        okv_bytes_copy(buffer, value, entry->value_length);
    result->version = entry->version;
    return OKV_OK;
}

#endif
