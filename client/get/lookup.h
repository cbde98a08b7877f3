/* A get or head by READs: the general path. */
#ifndef OKV_CLIENT_GET_LOOKUP_H
#define OKV_CLIENT_GET_LOOKUP_H

#include "client/handle.h"

/* Starts a get or head whose key and buffer are set. */
void lookup_start(okv *handle, struct operation *operation);
/* The same for one whose READ of this bucket, to its image, was posted, and counted in
 * handle->reads, before there was the operation; its event is still to come. */
void lookup_take_over(struct operation *operation, uint64_t hash, uint64_t bucket);
/* Goes on after the server had no room for the value in its answer. */
void lookup_resume(okv *handle, struct operation *operation);
/* Adds what READs of the current step are left to the batch. 0, or OKV_EAGAIN for no room. */
int lookup_post(okv *handle, struct operation *operation);
/* A READ of the current step ended well. */
void lookup_read_done(okv *handle, struct operation *operation, enum read_kind kind);

#endif
