/* READs of an extent: destinations, pieces, and the check of the result. */
#ifndef OKV_CLIENT_GET_EXTENT_H
#define OKV_CLIENT_GET_EXTENT_H

#include "client/handle.h"

/* Prepares READs of a whole extent into the caller's buffer, the operation's or a bounce buffer.
 * Check the reference with extent_is_possible() first. Fails as bounce_acquire(). */
int extent_begin(okv *handle, struct operation *operation, const struct okv_entry *reference);
/* Prepares a READ of the key at the start of the extent, into the operation's buffer. */
void extent_begin_key(struct operation *operation, const struct okv_entry *reference);
/* Prepares READs of the key, if the extent has it, to the operation's buffer, and of the wanted
 * part of the value to the caller's, the operation's or a bounce buffer. Fails as bounce_acquire().
 */
int extent_begin_part(okv *handle, struct operation *operation, const struct okv_entry *reference);
/* Adds READs of the next pieces to the batch. OKV_EAGAIN: no room. */
int extent_post(okv *handle, struct operation *operation);
static inline bool extent_is_posted(const struct operation *operation)
{
    return operation->extent_read.posted == operation->extent_read.length;
}
/* Posts no further pieces. */
static inline void extent_stop(struct operation *operation)
{
    operation->extent_read.posted = operation->extent_read.length;
}
/* okv_extent_check() of the bytes that were READ. */
int extent_check(const okv *handle, const struct operation *operation,
                 const struct okv_entry *reference);
/* Where the value was READ to; this may be the caller's buffer. */
const uint8_t *extent_value(const struct operation *operation, const struct okv_entry *reference);
/* False for a reference beyond the limits of the table or outside the region. */
bool extent_is_possible(const okv *handle, const struct okv_entry *reference);

#endif
