/* Times as people write them: "500ms", "60s", "60", "5m", "2h", "7d". */
#ifndef OKV_SHARED_BASE_DURATION_H
#define OKV_SHARED_BASE_DURATION_H

#include <stdint.h>

/*
 * Reads a whole number and its unit: ms, s, m (minutes), h or d. Without a unit it is seconds, as
 * EXPIRE of Redis has them.
 * Returns 0, or OKV_EINVAL for anything else or for 2^64 milliseconds and more; *ms is then
 * unchanged.
 */
int okv_duration_parse(const char *text, uint64_t *ms);

#endif
