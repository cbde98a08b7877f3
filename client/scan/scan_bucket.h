/* The items of one bucket, in the order of a scan. */
#ifndef OKV_CLIENT_SCAN_SCAN_BUCKET_H
#define OKV_CLIENT_SCAN_SCAN_BUCKET_H

#include "client/scan/scan_state.h"

/*
 * Shows what a bucket has from the point on, beginning with this image of it, which
 * passed its checks and covers the point; moves the point behind what was shown.
 * SCAN_STOPPED; OKV_ECORRUPT: something did not fit together or has changed, try again
 * with another image.
 */
int scan_bucket_show(struct scan *scan, uint64_t bucket, const uint8_t *image);

#endif
