/* Posting the READs of a lookup's step. */
#ifndef OKV_CLIENT_GET_LOOKUP_POST_H
#define OKV_CLIENT_GET_LOOKUP_POST_H

#include "client/handle.h"

/* Adds the remaining READs of the current step to the batch. Without room for them the operation
 * waits and is retried. */
void lookup_post(okv *handle, struct operation *operation);
/* Likewise for a step that READs an image or a directory entry, with or without an extent. */
void lookup_post_image(okv *handle, struct operation *operation, enum operation_step step);

#endif
