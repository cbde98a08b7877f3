/* Frames of a connection that are to leave. One write takes several, with their bodies from where
 * they lie. */
#ifndef OKV_SHARED_TRANSPORT_TCP_OUTPUT_H
#define OKV_SHARED_TRANSPORT_TCP_OUTPUT_H

#include "shared/transport/tcp/tcp.h"

/* Room for `size` frames. OKV_ENOMEM. */
int okv_tcp_output_create(struct okv_tcp_output *output, unsigned size);
void okv_tcp_output_destroy(struct okv_tcp_output *output); /* accepts a zeroed one */

/* Adds a frame, whose body stays where it is until it has left. False: there is no room. */
bool okv_tcp_output_add(struct okv_tcp_output *output, const struct okv_tcp_frame *frame,
                        const uint8_t *body, uint32_t index);

/* The first frame, which the socket has taken as a whole, or NULL. The caller pops it. */
const struct okv_tcp_out *okv_tcp_output_first_that_left(const struct okv_tcp_output *output);
void okv_tcp_output_pop(struct okv_tcp_output *output);

/* Gives the stream up to OKV_TCP_STEP bytes, without TLS by one call of the system, and sets
 * is_blocked if some are left. Returns how many it took; or -1 with the errno that broke the
 * connection. */
ssize_t okv_tcp_output_write(struct okv_tcp_output *output, struct okv_stream *stream);

#endif
