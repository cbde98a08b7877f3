/* A lookup by a hint: bucket and extent are READ at once. */
#ifndef OKV_CLIENT_GET_LOOKUP_HINTED_H
#define OKV_CLIENT_GET_LOOKUP_HINTED_H

#include "client/handle.h"

/* Starts with bucket and extent at once; false when there is no hint to do so by. */
bool lookup_hinted_start(okv *handle, struct operation *operation);
/* The bucket came, its extent may still be on its way: does the one name the other? */
void lookup_hinted_image_done(okv *handle, struct operation *operation);
/* Both came. */
void lookup_hinted_done(okv *handle, struct operation *operation);

#endif
