#include <errno.h>
#include <sys/socket.h>

#include "shared/stream/tls_state.h"

static int descriptor(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static bool is_temporary(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static int socket_write(BIO *bio, const char *bytes, size_t length, size_t *written)
{
    ssize_t n = send(descriptor(bio), bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    if (n < 0 && is_temporary())
        BIO_set_retry_write(bio);
    *written = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static int socket_read(BIO *bio, char *to, size_t room, size_t *got)
{
    ssize_t n = recv(descriptor(bio), to, room, MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    if (n < 0 && is_temporary())
        BIO_set_retry_read(bio);
    if (n == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    *got = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number, (void)pointer;
    if (command == BIO_CTRL_EOF)
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *okv_tls_sockets_create(void)
{
    BIO_METHOD *sockets = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "okv");

    if (sockets && BIO_meth_set_write_ex(sockets, socket_write) == 1 &&
        BIO_meth_set_read_ex(sockets, socket_read) == 1 &&
        BIO_meth_set_ctrl(sockets, socket_control) == 1)
        return sockets;
    BIO_meth_free(sockets);
    return NULL;
}

void okv_tls_sockets_destroy(BIO_METHOD *sockets)
{
    BIO_meth_free(sockets);
}

BIO *okv_tls_socket_create(BIO_METHOD *sockets, int fd)
{
    BIO *bio = BIO_new(sockets);

    if (!bio)
        return NULL;
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    return bio;
}
