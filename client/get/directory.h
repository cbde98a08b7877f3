/* The directory: offsets of the index's segments. */
#ifndef OKV_CLIENT_GET_DIRECTORY_H
#define OKV_CLIENT_GET_DIRECTORY_H

#include "client/handle.h"

/* The offset of a bucket. False when its segment is unknown or outside the region. */
bool directory_locate(const okv *handle, uint64_t bucket, uint64_t *offset);
/* Copies the whole directory out of `staging`, where a READ left it. */
void directory_load(okv *handle);
/* READs the whole directory, blocking; as read_blocking(). */
int directory_read(okv *handle);
/* The offset of the directory entry for a bucket's segment; of the last entry for an impossible
 * bucket. */
uint64_t directory_entry_offset(const okv *handle, uint64_t bucket);
/* Stores an entry that was READ. */
void directory_learn(okv *handle, uint64_t bucket, const uint8_t *entry);

#endif
