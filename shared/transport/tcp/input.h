/* Bytes of a socket to frames, and frames to events. */
#ifndef OKV_SHARED_TRANSPORT_TCP_INPUT_H
#define OKV_SHARED_TRANSPORT_TCP_INPUT_H

#include "shared/transport/tcp/tcp.h"

/* Takes what has come, at most OKV_TCP_STEP bytes, and queues the events. Answers READs; they leave
 * with the next write. Ends the connection at the end of the peer, or at a frame that is not
 * valid. */
void okv_tcp_input(struct okv_tcp_conn *conn);

#endif
