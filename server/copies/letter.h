/* A message of the protocol on its way over a link. */
#ifndef OKV_SERVER_COPIES_LETTER_H
#define OKV_SERVER_COPIES_LETTER_H

#include "server/copies/state.h"

/* The cookie of a request that is not the last one of its message; of others the type is. */
#define OKV_LETTER_PART 255

/* Sends a message with bytes. If they are many it takes several requests, which are sent as places
 * become free: what is left is copied. OKV_EAGAIN: it takes several, and an earlier one has some
 * left; OKV_ENOMEM; and what okv_link_send() returns. */
int okv_letter_send(struct okv_copy_link *link, const struct okv_peer_message *message,
                    const uint8_t *bytes, size_t used);
/* Sends more of what is left, as far as there is room. Fails like okv_link_send(). */
int okv_letter_continue(struct okv_copy_link *link);
/* Drops what is left. */
void okv_letter_drop(struct okv_copy_link *link);

#endif
