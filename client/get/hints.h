/* Hints: the extents of large values, as of their last READ. */
#ifndef OKV_CLIENT_GET_HINTS_H
#define OKV_CLIENT_GET_HINTS_H

#include "client/handle.h"

/* Forgets all hints. */
void hints_clear(okv *handle);
/* Makes room for `count` hints, rounded up to a power of two, at least 8. OKV_ENOMEM. */
int hints_create(okv *handle, uint32_t count);
/* True when hints_find() may find a hint for a key with this hash. */
bool hints_has(const okv *handle, uint64_t hash);
/* Fills in the last known reference of the key, without its checksum: the bucket has that. */
bool hints_find(const okv *handle, const struct operation *operation, struct okv_entry *reference);
/* Stores a reference that was just verified. */
void hints_remember(okv *handle, const struct operation *operation,
                    const struct okv_entry *reference);
/* Drops the hint of the operation's key: its extent has moved, or will. */
void hints_forget(okv *handle, const struct operation *operation);

#endif
