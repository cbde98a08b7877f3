/* Without OpenSSL there is no TLS. */
#include "shared/base/error.h"
#include "shared/stream/tls.h"

bool okv_tls_is_there(void)
{
    return false;
}

static int is_missing(struct okv_diag *diag)
{
    return okv_diag_set(diag, OKV_EUNSUPPORTED,
                        "okv was built without OpenSSL, and has neither tcps:// nor resps://");
}

int okv_tls_create(enum okv_tls_use use, const struct okv_tls_files *files, struct okv_tls **out,
                   struct okv_diag *diag)
{
    (void)use, (void)files, (void)out;
    return is_missing(diag);
}

void okv_tls_exchange(struct okv_tls *tls, struct okv_tls *other)
{
    (void)tls, (void)other;
}

void okv_tls_destroy(struct okv_tls *tls)
{
    (void)tls;
}

int okv_tls_begin(struct okv_tls *tls, struct okv_stream *stream, const char *peer)
{
    (void)tls, (void)stream, (void)peer;
    return OKV_EUNSUPPORTED;
}

void okv_tls_end(void *ssl)
{
    (void)ssl;
}

void okv_tls_shut(void *ssl)
{
    (void)ssl;
}

void okv_tls_moved(struct okv_stream *stream)
{
    (void)stream;
}

int okv_tls_handshake(struct okv_stream *stream)
{
    (void)stream;
    return -1;
}

ssize_t okv_tls_read(struct okv_stream *stream, uint8_t *to, size_t room)
{
    (void)stream, (void)to, (void)room;
    return -1;
}

ssize_t okv_tls_write(struct okv_stream *stream, const uint8_t *bytes, size_t length)
{
    (void)stream, (void)bytes, (void)length;
    return -1;
}

ssize_t okv_tls_readv(struct okv_stream *stream, const struct iovec *vectors, unsigned count)
{
    (void)stream, (void)vectors, (void)count;
    return -1;
}

ssize_t okv_tls_writev(struct okv_stream *stream, const struct iovec *vectors, unsigned count)
{
    (void)stream, (void)vectors, (void)count;
    return -1;
}

bool okv_tls_is_okv(const struct okv_stream *stream)
{
    (void)stream;
    return false;
}

int okv_tls_binding(struct okv_stream *stream, uint8_t out[OKV_STREAM_BINDING])
{
    (void)stream, (void)out;
    return OKV_EUNSUPPORTED;
}

bool okv_tls_describe(const struct okv_stream *stream, char *out, size_t size)
{
    (void)stream, (void)out, (void)size;
    return true;
}

int okv_tls_explain(const struct okv_stream *stream, const char *where, struct okv_diag *diag)
{
    (void)stream, (void)where;
    return is_missing(diag);
}
