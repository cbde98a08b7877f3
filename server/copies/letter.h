/* A message of the protocol on its way over a link. */
#ifndef OKV_SERVER_COPIES_LETTER_H
#define OKV_SERVER_COPIES_LETTER_H

#include "server/copies/state.h"

/* Sends a message with bytes, in several requests if they are many. Fails like okv_link_send(). */
int okv_letter_send(struct okv_copy_link *link, const struct okv_peer_message *message,
                    const uint8_t *bytes, size_t used);

#endif
