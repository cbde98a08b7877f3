/* Where the index's segments are. */
#ifndef OKV_CLIENT_GET_DIRECTORY_H
#define OKV_CLIENT_GET_DIRECTORY_H

#include "client/handle.h"

/* Where a bucket lies. False when no segment is known for it, or none inside the region. */
bool directory_locate(const okv *handle, uint64_t bucket, uint64_t *offset);
/* Takes the whole of it from `staging`. */
void directory_take(okv *handle);
/* READs the whole directory, blocking; as read_blocking(). */
int directory_read(okv *handle);
/* Where the directory's entry of a bucket's segment lies; the last one for a bucket that
 * cannot be. */
uint64_t directory_entry(const okv *handle, uint64_t bucket);
/* Takes an entry that was READ. */
void directory_learn(okv *handle, uint64_t bucket, const uint8_t *entry);

#endif
