/* TLS for stream.c: by OpenSSL (tls.c), or none (tls_none.c). */
#ifndef OKV_SERVER_RESP_TLS_H
#define OKV_SERVER_RESP_TLS_H

#include "server/resp/stream.h"

/* OKV_ENOMEM. */
int okv_resp_tls_begin(struct okv_resp_tls *tls, int fd, void **ssl);
void okv_resp_tls_end(void *ssl);
/* As okv_resp_stream_read() and okv_resp_stream_write(). The first ones shake hands. */
ssize_t okv_resp_tls_read(struct okv_resp_stream *stream, uint8_t *to, size_t room);
ssize_t okv_resp_tls_write(struct okv_resp_stream *stream, const uint8_t *bytes, size_t length);

#endif
