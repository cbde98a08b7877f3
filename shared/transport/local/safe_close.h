/* Closing and unmapping what a hostile peer could make slow. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_SAFE_CLOSE_H
#define OKV_SHARED_TRANSPORT_LOCAL_SAFE_CLOSE_H

#include "shared/transport/local/ring.h"

/* Closes a socket of a peer; never blocks, whatever the peer sent. The descriptor may stay open for
 * a moment, and when the process has no memory for a thread, for good. */
void okv_local_socket_close(int sock);
/* Closes a listening socket, which is non-blocking, and the clients in its queue in the same way.
 */
void okv_local_listening_close(int sock);
/* Closes a connection's values, on a thread of its own when much of them is allocated. Accepts -1.
 */
void okv_local_values_close(int fd);
/* Unmaps rings and closes their descriptor, -1 when they are sealed: on a thread of its own when
 * they are not, or are large. Accepts rings that are not mapped. */
void okv_local_rings_close(struct okv_local_ring *ring, int fd);

#endif
