/* The general path of a get, head or get_range. */
#ifndef OKV_CLIENT_GET_LOOKUP_H
#define OKV_CLIENT_GET_LOOKUP_H

#include "client/handle.h"

/* Starts one whose key, buffer and offset are set. */
void lookup_start(okv *handle, struct operation *operation);
/* Starts a get whose READ of the bucket, to its image, was posted and counted in handle->reads
 * before the operation existed. The event is still to be handled. */
void lookup_take_over(struct operation *operation, uint64_t hash, uint64_t bucket);
/* Continues after a reply without room for the value. */
void lookup_resume(okv *handle, struct operation *operation);
/* A READ of the current step succeeded. */
void lookup_read_done(okv *handle, struct operation *operation, enum read_kind kind);

#endif
