/* TLS for stream.c: by OpenSSL (tls.c), or none (tls_none.c). */
#ifndef OKV_SHARED_STREAM_TLS_H
#define OKV_SHARED_STREAM_TLS_H

#include "shared/stream/stream.h"

/* Of the stream's descriptor. `peer` as in okv_stream_init(). OKV_ENOMEM. */
int okv_tls_begin(struct okv_tls *tls, struct okv_stream *stream, const char *peer);
void okv_tls_end(void *ssl);
/* Sends the end, once. */
void okv_tls_shut(void *ssl);
/* The stream lies elsewhere now. */
void okv_tls_moved(struct okv_stream *stream);
/* As those of stream.h. */
int okv_tls_handshake(struct okv_stream *stream);
ssize_t okv_tls_read(struct okv_stream *stream, uint8_t *to, size_t room);
ssize_t okv_tls_write(struct okv_stream *stream, const uint8_t *bytes, size_t length);
ssize_t okv_tls_readv(struct okv_stream *stream, const struct iovec *vectors, unsigned count);
ssize_t okv_tls_writev(struct okv_stream *stream, const struct iovec *vectors, unsigned count);
bool okv_tls_is_okv(const struct okv_stream *stream);
int okv_tls_binding(struct okv_stream *stream, uint8_t out[OKV_STREAM_BINDING]);
bool okv_tls_describe(const struct okv_stream *stream, char *out, size_t size);
int okv_tls_explain(const struct okv_stream *stream, const char *where, struct okv_diag *diag);

#endif
