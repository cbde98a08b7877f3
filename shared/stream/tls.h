/* TLS for stream.c: by OpenSSL (tls.c), or none (tls_none.c). */
#ifndef OKV_SHARED_STREAM_TLS_H
#define OKV_SHARED_STREAM_TLS_H

#include "shared/stream/stream.h"

/* Of the stream's descriptor; the stream stays where it is. OKV_ENOMEM. */
int okv_tls_begin(struct okv_tls *tls, struct okv_stream *stream);
void okv_tls_end(void *ssl);
/* As those of stream.h. */
int okv_tls_handshake(struct okv_stream *stream);
ssize_t okv_tls_read(struct okv_stream *stream, uint8_t *to, size_t room);
ssize_t okv_tls_write(struct okv_stream *stream, const uint8_t *bytes, size_t length);

#endif
