/* Connections of a copy that leads to the others. */
#ifndef OKV_SERVER_COPIES_LINKS_H
#define OKV_SERVER_COPIES_LINKS_H

#include "server/copies/state.h"

/* Opens those that are missing, goes on with the others, and closes those that were lost, or that
 * nobody needs any more. */
void okv_links_run(struct okv_copy *copy, uint64_t now_us);
/* Closes all links. The protocol joins each copy again. */
void okv_links_close(struct okv_copy *copy);
/* Sends a message of the protocol; a SHIP with its frames. What cannot be sent loses the link. */
void okv_links_send(struct okv_copy *copy, uint64_t server, const struct okv_peer_message *message);
/* OKV_ACTION_SNAPSHOT. */
void okv_links_send_snapshot(struct okv_copy *copy, uint64_t server);
/* Adds what to wait for: descriptors from fds[*count] on, and a time. */
void okv_links_wait(const struct okv_copy *copy, struct pollfd *fds, unsigned *count,
                    uint64_t *wake_ns);

#endif
