#include "shared/stream/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/stream/tls.h"

int okv_stream_init(struct okv_stream *stream, int fd, struct okv_tls *tls)
{
    *stream = (struct okv_stream){.fd = fd};
    int rc = tls ? okv_tls_begin(tls, stream) : 0;

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

int okv_stream_handshake(struct okv_stream *stream)
{
    return stream->ssl ? okv_tls_handshake(stream) : 1;
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
    return n >= 0 ? n : errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
}

ssize_t okv_stream_write(struct okv_stream *stream, const uint8_t *bytes, size_t length)
{
    ssize_t n;

    if (stream->ssl)
        return okv_tls_write(stream, bytes, length);
    do
        n = send(stream->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n >= 0 ? n : errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
}
