/* Without OpenSSL there is no TLS. */
#include "shared/base/error.h"
#include "shared/stream/tls.h"

int okv_tls_create(const char *cert, const char *key, const char *ca, struct okv_tls **out,
                   struct okv_diag *diag)
{
    (void)cert;
    (void)key;
    (void)ca;
    (void)out;
    return okv_diag_set(diag, OKV_EUNSUPPORTED,
                        "resps://: this okv-server was built without OpenSSL");
}

void okv_tls_destroy(struct okv_tls *tls)
{
    (void)tls;
}

int okv_tls_begin(struct okv_tls *tls, struct okv_stream *stream)
{
    (void)tls;
    (void)stream;
    return OKV_EUNSUPPORTED;
}

int okv_tls_handshake(struct okv_stream *stream)
{
    (void)stream;
    return -1;
}

void okv_tls_end(void *ssl)
{
    (void)ssl;
}

ssize_t okv_tls_read(struct okv_stream *stream, uint8_t *to, size_t room)
{
    (void)stream;
    (void)to;
    (void)room;
    return -1;
}

ssize_t okv_tls_write(struct okv_stream *stream, const uint8_t *bytes, size_t length)
{
    (void)stream;
    (void)bytes;
    (void)length;
    return -1;
}
