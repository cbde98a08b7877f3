/* A blocking READ that belongs to no operation: for scans and refreshes. */
#ifndef OKV_CLIENT_ENGINE_READ_BLOCKING_H
#define OKV_CLIENT_ENGINE_READ_BLOCKING_H

#include "client/handle.h"

/* READs `length` bytes at `offset` into registered memory and waits for them. OKV_EDISCONNECTED:
 * the connection was lost, or there is none. */
int read_blocking(okv *handle, enum read_kind kind, uint64_t offset, void *destination,
                  struct okv_memory *memory, uint32_t length);
/* Handles the failure `rc` of a blocking READ. One that is under way may still write to the
 * caller's memory: only the end of the connection stops it. Returns the code for the caller. */
int read_failed(okv *handle, int rc, bool under_way);

#endif
