/* Handshakes of TLS of a listener's clients, before these send their hellos. A thread performs
 * them (shared/stream/handshakes.h); all calls are the listener's thread's. */
#ifndef OKV_SHARED_TRANSPORT_TCP_HANDSHAKE_H
#define OKV_SHARED_TRANSPORT_TCP_HANDSHAKE_H

#include "shared/transport/tcp/tcp.h"

/* Starts the thread. OKV_EIO, OKV_ENOMEM with a sentence. */
int okv_tcp_handshakes_open(struct okv_tcp_listener *listener, struct okv_diag *diag);
/* Ends it, and all handshakes, which return by that. */
void okv_tcp_handshakes_stop(struct okv_tcp_listener *listener);
/* After that. */
void okv_tcp_handshakes_close(struct okv_tcp_listener *listener);
/* Begins with a client, whose request stays where it is until it has returned. */
void okv_tcp_handshakes_begin(struct okv_tcp_listener *listener, struct okv_tcp_request *request);
/* A client whose handshake has ended: `how` says it; NULL: there is none. */
struct okv_tcp_request *okv_tcp_handshakes_next(struct okv_tcp_listener *listener);

#endif
