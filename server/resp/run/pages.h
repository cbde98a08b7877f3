/* The work of memory that clients fill and leave (server/core/turn.h). */
#ifndef OKV_SERVER_RESP_RUN_PAGES_H
#define OKV_SERVER_RESP_RUN_PAGES_H

#include "server/core/turn.h"

struct okv_resp;
struct okv_resp_client;

/* Work of this many bytes in pages that are filled for the first time. A part of a page counts as a
 * part. */
static inline uint64_t okv_resp_price_of_filled(uint64_t bytes)
{
    return bytes * OKV_TURN_FILLED_PAGE / OKV_TURN_PAGE;
}

/* Spends it for what was added to the client's buffers, transaction and listing since the last
 * call. */
void okv_resp_spend_filled(struct okv_resp_client *client);
/* Spends the work of pages that were unmapped since the last call. Their step ends. */
void okv_resp_spend_unmapped(struct okv_resp *resp);

#endif
