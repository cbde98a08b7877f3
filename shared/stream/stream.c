#include "shared/stream/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/stream/tls.h"

int okv_stream_init(struct okv_stream *stream, int fd, struct okv_tls *tls, const char *peer)
{
    *stream = (struct okv_stream){.fd = fd};
    int rc = tls ? okv_tls_begin(tls, stream, peer) : 0;

    if (rc)
        close(fd);
    return rc;
}

void okv_stream_fini(struct okv_stream *stream)
{
    if (stream->ssl)
        okv_tls_end(stream->ssl);
    close(stream->fd);
}

void okv_stream_shut(struct okv_stream *stream)
{
    if (stream->ssl)
        okv_tls_shut(stream->ssl);
    shutdown(stream->fd, SHUT_RDWR);
}

void okv_stream_move(struct okv_stream *to, struct okv_stream *from)
{
    *to = *from;
    if (to->ssl)
        okv_tls_moved(to);
    *from = (struct okv_stream){.fd = -1};
}

int okv_stream_handshake(struct okv_stream *stream)
{
    return stream->ssl ? okv_tls_handshake(stream) : 1;
}

/* What a call of the socket returned. */
static ssize_t outcome(ssize_t n)
{
    return n >= 0 ? n : errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
}

ssize_t okv_stream_readv(struct okv_stream *stream, const struct iovec *vectors, unsigned count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)vectors, .msg_iovlen = count};
    ssize_t n;

    if (stream->ssl)
        return okv_tls_readv(stream, vectors, count);
    do
        n = recvmsg(stream->fd, &message, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    stream->has_ended = n == 0;
    return outcome(n);
}

ssize_t okv_stream_writev(struct okv_stream *stream, const struct iovec *vectors, unsigned count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)vectors, .msg_iovlen = count};
    ssize_t n;

    if (stream->ssl)
        return okv_tls_writev(stream, vectors, count);
    do
        n = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return outcome(n);
}

ssize_t okv_stream_read(struct okv_stream *stream, uint8_t *to, size_t room)
{
    ssize_t n;

    if (stream->ssl)
        return okv_tls_read(stream, to, room);
    do
        n = recv(stream->fd, to, room, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    stream->has_ended = n == 0;
    return outcome(n);
}

ssize_t okv_stream_write(struct okv_stream *stream, const uint8_t *bytes, size_t length)
{
    ssize_t n;

    if (stream->ssl)
        return okv_tls_write(stream, bytes, length);
    do
        n = send(stream->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return outcome(n);
}

bool okv_stream_is_okv(const struct okv_stream *stream)
{
    return okv_tls_is_okv(stream);
}

int okv_stream_binding(struct okv_stream *stream, uint8_t out[OKV_STREAM_BINDING])
{
    return okv_tls_binding(stream, out);
}

bool okv_stream_describe(const struct okv_stream *stream, char *out, size_t size)
{
    return okv_tls_describe(stream, out, size);
}

int okv_stream_explain(const struct okv_stream *stream, const char *where, struct okv_diag *diag)
{
    return okv_tls_explain(stream, where, diag);
}
