/* Where the extents of large values were when they were last read. */
#ifndef OKV_CLIENT_GET_HINTS_H
#define OKV_CLIENT_GET_HINTS_H

#include "client/handle.h"

/* Forgets all of them. */
void hints_clear(okv *handle);
/* Makes room for `count` hints, rounded up to a power of two, at least 8. OKV_ENOMEM. */
int hints_create(okv *handle, uint32_t count);
/* Whether hints_find() may find something for a key with this hash. */
bool hints_has(const okv *handle, uint64_t hash);
/* True with the reference that a key had when it was last read, but for its checksum: that is for
 * the bucket to say. */
bool hints_find(const okv *handle, const struct operation *operation, struct okv_entry *reference);
/* The reference was right just now. */
void hints_remember(okv *handle, const struct operation *operation,
                    const struct okv_entry *reference);
/* Its key's extent is not, or will not be, where it was. */
void hints_forget(okv *handle, const struct operation *operation);

#endif
