/* The items of one bucket, in the order of a scan. */
#ifndef OKV_CLIENT_SCAN_SCAN_BUCKET_H
#define OKV_CLIENT_SCAN_SCAN_BUCKET_H

#include "client/scan/scan_state.h"

/*
 * Shows the items of a bucket from the scan's position on, and moves the position past them.
 * `image` is that of the primary page, checked, and covers the position. Returns 0, SCAN_STOPPED,
 * or OKV_ECORRUPT when the bucket has changed meanwhile: try again with another image.
 */
int scan_bucket_show(struct scan *scan, uint64_t bucket, const uint8_t *image);

#endif
