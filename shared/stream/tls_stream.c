#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/stream/tls.h"
#include "shared/stream/tls_state.h"

/* A KeyUpdate costs as much as a dozen requests, and has 27 bytes. Those that a peer has a reason
 * for come rarely: it may send some for each MiB of data. */
#define EMPTY_RECORDS_MAX 16
#define FORGOTTEN_AFTER (1u << 20)

/* ---- begin and end ---- */

/* Each record begins with a head. */
static void on_message(int is_sent, int version, int type, const void *bytes, size_t length,
                       SSL *ssl, void *stream)
{
    (void)version, (void)bytes, (void)length, (void)ssl;
    if (!is_sent && type == SSL3_RT_HEADER)
        ((struct okv_stream *)stream)->empty_records++;
}

/* An address has no zone in a certificate. */
static bool expect_address(SSL *ssl, const char *peer)
{
    size_t length = strcspn(peer, "%");
    char address[INET6_ADDRSTRLEN];

    if (length >= sizeof address)
        return false;
    memcpy(address, peer, length);
    address[length] = '\0';
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), address) == 1;
}

static bool expect(SSL *ssl, const char *peer)
{
    ERR_clear_error();
    if (expect_address(ssl, peer))
        return true;
    return SSL_set_tlsext_host_name(ssl, peer) == 1 && SSL_set1_host(ssl, peer) == 1;
}

int okv_tls_begin(struct okv_tls *tls, struct okv_stream *stream, const char *peer)
{
    pthread_mutex_lock(&tls->lock);
    SSL *ssl = SSL_new(tls->context);
    pthread_mutex_unlock(&tls->lock);
    BIO *socket = ssl ? okv_tls_socket_create(tls->sockets, stream->fd) : NULL;

    if (!socket || (peer && !expect(ssl, peer))) {
        BIO_free(socket);
        SSL_free(ssl);
        return OKV_ENOMEM;
    }
    SSL_set_bio(ssl, socket, socket);
    SSL_set_msg_callback(ssl, on_message);
    if (peer)
        SSL_set_connect_state(ssl);
    else
        SSL_set_accept_state(ssl);
    stream->ssl = ssl;
    okv_tls_moved(stream);
    return 0;
}

void okv_tls_moved(struct okv_stream *stream)
{
    SSL_set_msg_callback_arg(stream->ssl, stream);
}

/* As far as it does not block. */
void okv_tls_shut(void *ssl)
{
    ERR_clear_error();
    SSL_shutdown(ssl);
    SSL_set_quiet_shutdown(ssl, 1);
}

void okv_tls_end(void *ssl)
{
    okv_tls_shut(ssl);
    SSL_free(ssl);
}

/* ---- bytes ---- */

/* What an unsuccessful call means. */
static ssize_t outcome(struct okv_stream *stream, int n)
{
    switch (SSL_get_error(stream->ssl, n)) {
    case SSL_ERROR_WANT_READ:
        return 0;
    case SSL_ERROR_WANT_WRITE:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        stream->has_ended = true;
        return 0;
    default:
        stream->error = ERR_peek_last_error();
        return -1;
    }
}

int okv_tls_handshake(struct okv_stream *stream)
{
    ERR_clear_error();
    int n = SSL_do_handshake(stream->ssl);

    stream->writes_to_read = n <= 0 && SSL_want_write(stream->ssl);
    stream->empty_records = 0;
    if (n == 1)
        return 1;
    return outcome(stream, n) || stream->has_ended ? -1 : 0;
}

/* Some data came, perhaps the rest of a record that was counted before. */
static void count_data(struct okv_stream *stream, uint32_t bytes, bool is_rest)
{
    stream->empty_records -= !is_rest;
    stream->data += bytes;
    if (stream->data >= FORGOTTEN_AFTER)
        stream->data = 0, stream->empty_records = 0;
}

ssize_t okv_tls_read(struct okv_stream *stream, uint8_t *to, size_t room)
{
    bool is_rest = SSL_pending(stream->ssl) > 0;

    ERR_clear_error();
    int n = SSL_read(stream->ssl, to, room < INT_MAX ? (int)room : INT_MAX);
    /* A part of a record is no reason to come again. */
    stream->has_unread = n > 0 && SSL_has_pending(stream->ssl);
    stream->writes_to_read = n <= 0 && SSL_want_write(stream->ssl);
    if (n > 0)
        count_data(stream, (uint32_t)n, is_rest);
    if (stream->empty_records > EMPTY_RECORDS_MAX)
        return -1;
    return n > 0 ? n : outcome(stream, n);
}

ssize_t okv_tls_write(struct okv_stream *stream, const uint8_t *bytes, size_t length)
{
    if (length == 0)
        return 0;
    ERR_clear_error();
    int n = SSL_write(stream->ssl, bytes, length < INT_MAX ? (int)length : INT_MAX);

    stream->reads_to_write = n <= 0 && SSL_want_read(stream->ssl);
    return n > 0 ? n : outcome(stream, n);
}

/* ---- vectors ---- */

/* Behind a record of the largest size there is another one, most likely. */
ssize_t okv_tls_readv(struct okv_stream *stream, const struct iovec *vectors, unsigned count)
{
    ssize_t total = 0, n;
    size_t at = 0; /* in the first vector */

    do {
        while (count > 0 && at == vectors->iov_len)
            vectors++, count--, at = 0;
        if (count == 0)
            break;
        n = okv_tls_read(stream, (uint8_t *)vectors->iov_base + at, vectors->iov_len - at);
        if (total > 0 && (n < 0 || stream->has_ended))
            stream->has_unread = true; /* epoll does not report this end */
        if (n <= 0)
            return total > 0 ? total : n;
        total += n;
        at += (size_t)n;
    } while (stream->has_unread || n == SSL3_RT_MAX_PLAIN_LENGTH);
    return total;
}

/* Copies what fits a record, from where `at` bytes are skipped. */
static size_t gather(const struct iovec *vectors, unsigned count, size_t at,
                     uint8_t record[SSL3_RT_MAX_PLAIN_LENGTH])
{
    size_t length = 0;

    for (unsigned i = 0; i < count && length < SSL3_RT_MAX_PLAIN_LENGTH; i++) {
        size_t skip = at < vectors[i].iov_len ? at : vectors[i].iov_len;
        size_t use = vectors[i].iov_len - skip;
        if (use > SSL3_RT_MAX_PLAIN_LENGTH - length)
            use = SSL3_RT_MAX_PLAIN_LENGTH - length;
        memcpy(record + length, (const uint8_t *)vectors[i].iov_base + skip, use);
        length += use;
        at -= skip;
    }
    return length;
}

/* A record that the socket did not take is encrypted already: OpenSSL goes by its length alone. */
ssize_t okv_tls_writev(struct okv_stream *stream, const struct iovec *vectors, unsigned count)
{
    uint8_t record[SSL3_RT_MAX_PLAIN_LENGTH];
    ssize_t total = 0, n;
    size_t length;

    while ((length = gather(vectors, count, (size_t)total, record)) > 0) {
        n = okv_tls_write(stream, record, length);
        if (n <= 0)
            return total > 0 ? total : n;
        total += n;
    }
    return total;
}

/* ---- */

bool okv_tls_is_okv(const struct okv_stream *stream)
{
    const unsigned char *protocol;
    unsigned length;

    SSL_get0_alpn_selected(stream->ssl, &protocol, &length);
    return length == 3 && memcmp(protocol, "okv", 3) == 0;
}

int okv_tls_binding(struct okv_stream *stream, uint8_t out[OKV_STREAM_BINDING])
{
    static const char label[] = "EXPORTER-Channel-Binding";

    return stream->ssl && SSL_export_keying_material(stream->ssl, out, OKV_STREAM_BINDING, label,
                                                     sizeof label - 1, NULL, 0, 0) == 1
               ? 0
               : OKV_EIO;
}
