/* The bytes of a connection: a socket, or TLS over one where okv was built with OpenSSL. */
#ifndef OKV_SHARED_STREAM_STREAM_H
#define OKV_SHARED_STREAM_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shared/base/diag.h"

/* What streams begin TLS with: a certificate and its key, and whom to trust. */
struct okv_tls;

enum okv_tls_use {
    OKV_TLS_RESPS, /* a server's, for clients of Redis: TLS 1.2 and 1.3 */
    OKV_TLS_TCPS,  /* a server's: TLS 1.3 */
    OKV_TLS_SERVER_USES,
    OKV_TLS_CLIENT = OKV_TLS_SERVER_USES, /* TLS 1.3; the server's certificate is verified */
};

/* PEM files, each NULL or a path. A server has a certificate and a key; with `ca`, clients need a
 * certificate that it signed. A client without `ca` trusts what the system trusts. */
struct okv_tls_files {
    const char *cert, *key, *ca;
};

bool okv_tls_is_there(void); /* okv was built with OpenSSL */
/* Reads the files. The caller destroys *out, after all of its streams. OKV_EINVAL, OKV_EPERM,
 * OKV_ENOMEM; OKV_EUNSUPPORTED: okv was built without OpenSSL. With a sentence. */
int okv_tls_create(enum okv_tls_use use, const struct okv_tls_files *files, struct okv_tls **out,
                   struct okv_diag *diag);
/* Exchanges what two of the same use have read, for streams that begin from now on. Any thread. */
void okv_tls_exchange(struct okv_tls *tls, struct okv_tls *other);
void okv_tls_destroy(struct okv_tls *tls); /* accepts NULL */

struct okv_stream {
    int fd;
    void *ssl;           /* NULL: the socket itself */
    bool has_unread;     /* bytes are buffered here, which epoll does not report */
    bool has_ended;      /* the peer sends no more */
    bool writes_to_read; /* TLS has to send something before it can read */
    bool reads_to_write; /* it has to receive something before it can write */
    /* Records of TLS without application data, and bytes of it since they were last forgotten. */
    int empty_records;
    uint32_t data;
    unsigned long error; /* of TLS: why it has ended */
};

/* A handshake that a thread performs (handshakes.h); a part of what its owner has of the client. */
struct okv_handshake {
    struct okv_stream *stream;
    atomic_bool is_unwanted; /* nobody waits for its end */
    uint64_t began_ns;
    TAILQ_ENTRY(okv_handshake) in_list;
};

/* Takes ownership of the descriptor, which is non-blocking, also on failure. `tls` may be NULL. A
 * client's stream expects the certificate of `peer`, a name or an address; a server's has NULL.
 * OKV_ENOMEM. */
int okv_stream_init(struct okv_stream *stream, int fd, struct okv_tls *tls, const char *peer);
void okv_stream_fini(struct okv_stream *stream);
/* Says that nothing more is sent, as far as the socket has room, and ends both directions. */
void okv_stream_shut(struct okv_stream *stream);
/* Moves a stream to another place. */
void okv_stream_move(struct okv_stream *to, struct okv_stream *from);

/* Continues with the handshake of TLS. 1: it is over; 0: not at the moment; -1: the connection has
 * ended. Does not block. */
int okv_stream_handshake(struct okv_stream *stream);
/* All four return the number of bytes; 0: none at the moment; -1: the connection has ended, and
 * errno says why where there is no TLS. None blocks. A server takes at most one record of TLS
 * from the socket for a read, and few without data. */
ssize_t okv_stream_read(struct okv_stream *stream, uint8_t *to, size_t room);
ssize_t okv_stream_write(struct okv_stream *stream, const uint8_t *bytes, size_t length);
/* Vectors that are read are filled one after the other, with what the socket has, or, by TLS, with
 * what one call of the system gets from it. After a write that takes less than all, the next one
 * begins with the bytes that are left: TLS may have encrypted them. */
ssize_t okv_stream_readv(struct okv_stream *stream, const struct iovec *vectors, unsigned count);
ssize_t okv_stream_writev(struct okv_stream *stream, const struct iovec *vectors, unsigned count);

/* Client: the server of TLS is one of tcps://. After the handshake. */
bool okv_stream_is_okv(const struct okv_stream *stream);
/* What both ends of TLS know and no other connection has: "tls-exporter" of RFC 9266. OKV_EIO;
 * only after the handshake. */
#define OKV_STREAM_BINDING 32
int okv_stream_binding(struct okv_stream *stream, uint8_t out[OKV_STREAM_BINDING]);
/* Server: what came instead of a handshake, or why it failed, for the log. "" if nothing came.
 * False: what came was no TLS. */
bool okv_stream_describe(const struct okv_stream *stream, char *out, size_t size);
/* Client: why TLS with the peer, which is called `where`, has failed, and what to do. Returns the
 * code: OKV_EDENIED, OKV_EPROTO, OKV_EREFUSED. */
int okv_stream_explain(const struct okv_stream *stream, const char *where, struct okv_diag *diag);

#endif
