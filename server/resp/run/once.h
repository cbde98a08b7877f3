/* What a command that runs again from its begin would count again: the same in the same order. Only
 * the first time counts. */
#ifndef OKV_SERVER_RESP_RUN_ONCE_H
#define OKV_SERVER_RESP_RUN_ONCE_H

#include "server/resp/run/client.h"

/* Whether the next one is to be counted. */
static inline bool okv_resp_once_is_new(const struct okv_resp_once *once)
{
    return once->seen >= once->counted;
}

static inline void okv_resp_once_pass(struct okv_resp_once *once)
{
    once->seen++;
    once->counted = once->counted > once->seen ? once->counted : once->seen;
}

#endif
