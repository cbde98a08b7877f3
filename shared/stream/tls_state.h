/* State of TLS that its files share. */
#ifndef OKV_SHARED_STREAM_TLS_STATE_H
#define OKV_SHARED_STREAM_TLS_STATE_H

#include <openssl/ssl.h>
#include <pthread.h>

#include "shared/stream/stream.h"

struct okv_tls {
    enum okv_tls_use use;
    BIO_METHOD *sockets;
    pthread_mutex_t lock; /* of `context`, which okv_tls_exchange() replaces */
    SSL_CTX *context;
};

/* Sockets as OpenSSL reads and writes them: without SIGPIPE, which a library must not leave to its
 * program, and without blocking. NULL: no memory. */
BIO_METHOD *okv_tls_sockets_create(void);
void okv_tls_sockets_destroy(BIO_METHOD *sockets); /* accepts NULL */
/* One for a socket, which stays the caller's. NULL: no memory. */
BIO *okv_tls_socket_create(BIO_METHOD *sockets, int fd);

#endif
