/* The bytes of an extent: where they go, in pieces, and whether they are whole. */
#ifndef OKV_CLIENT_GET_EXTENT_H
#define OKV_CLIENT_GET_EXTENT_H

#include "client/handle.h"

/* Gets ready to READ the whole extent of a reference, which was checked with
 * extent_is_possible(), into the caller's buffer, the operation's or a bounce buffer.
 * On OKV_ENOMEM, or what else bounce_acquire() says, nothing of it is to be READ. */
int extent_begin(okv *handle, struct operation *operation, const struct okv_entry *reference);
/* Likewise only the key that the extent begins with, into the operation's buffer. */
void extent_begin_key(struct operation *operation, const struct okv_entry *reference);
/* Adds READs of pieces to the batch. 0 when as many as wanted are under way, or OKV_EAGAIN. */
int extent_post(okv *handle, struct operation *operation);
static inline bool extent_is_posted(const struct operation *operation)
{
    return operation->extent_read.posted == operation->extent_read.length;
}
/* Nothing more of it is wanted. */
static inline void extent_stop(struct operation *operation)
{
    operation->extent_read.posted = operation->extent_read.length;
}
/* As okv_extent_check, for the bytes that were read. */
int extent_check(const okv *handle, const struct operation *operation,
                 const struct okv_entry *reference);
/* The value that was read; it may be where the caller wants it. */
const uint8_t *extent_value(const struct operation *operation, const struct okv_entry *reference);
/* False for a reference that no server with this table makes, or that leaves the region. */
bool extent_is_possible(const okv *handle, const struct okv_entry *reference);

#endif
