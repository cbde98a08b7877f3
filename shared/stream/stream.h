/* The bytes of a connection: a socket, or TLS over one where okv was built with OpenSSL. */
#ifndef OKV_SHARED_STREAM_STREAM_H
#define OKV_SHARED_STREAM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/diag.h"

struct okv_tls; /* certificate and key of the server */

/* Reads PEM files. The caller destroys *out. OKV_EINVAL, OKV_EPERM, OKV_ENOMEM; OKV_EUNSUPPORTED:
 * okv was built without OpenSSL. With `ca`, clients need a certificate that it signed. */
int okv_tls_create(const char *cert, const char *key, const char *ca, struct okv_tls **out,
                   struct okv_diag *diag);
void okv_tls_destroy(struct okv_tls *tls); /* accepts NULL */

struct okv_stream {
    int fd;
    void *ssl;           /* NULL: the socket itself */
    bool has_unread;     /* bytes are buffered here, which epoll does not report */
    bool has_ended;      /* the peer sends no more */
    bool writes_to_read; /* TLS has to send something before it can read */
    /* Records of TLS without application data, and bytes of it since they were last forgotten. */
    int empty_records;
    uint32_t data;
};

/* Takes ownership of the descriptor, also on failure. `tls` may be NULL. OKV_ENOMEM. */
int okv_stream_init(struct okv_stream *stream, int fd, struct okv_tls *tls);
void okv_stream_fini(struct okv_stream *stream);

/* Continues with the handshake of TLS. 1: it is over; 0: not at the moment; -1: the connection has
 * ended. Does not block. */
int okv_stream_handshake(struct okv_stream *stream);
/* Both return the number of bytes; 0: none at the moment; -1: the connection has ended. Neither
 * blocks. A read takes at most one record of TLS from the socket, and few without data. */
ssize_t okv_stream_read(struct okv_stream *stream, uint8_t *to, size_t room);
ssize_t okv_stream_write(struct okv_stream *stream, const uint8_t *bytes, size_t length);

#endif
