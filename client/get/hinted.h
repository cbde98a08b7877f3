/* A lookup with a hint: READs bucket and extent at once. */
#ifndef OKV_CLIENT_GET_HINTED_H
#define OKV_CLIENT_GET_HINTED_H

#include "client/handle.h"

/* Starts a lookup with its hint. False: it has no usable hint. */
bool hinted_start(okv *handle, struct operation *operation);
/* The image has come: checks that it refers to the hinted extent, which may still be under way. */
void hinted_image_done(okv *handle, struct operation *operation);
/* Image and extent have come. */
void hinted_done(okv *handle, struct operation *operation);

#endif
