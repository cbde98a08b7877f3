#include "shared/stream/tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/base/regular_file.h"

/* A KeyUpdate costs as much as a dozen requests, and has 27 bytes. Those that a peer has a reason
 * for come rarely: it may send some for each MiB of data. */
#define EMPTY_RECORDS_MAX 16
#define FORGOTTEN_AFTER (1u << 20)

static SSL_CTX *context_of(struct okv_tls *tls)
{
    return (SSL_CTX *)tls;
}

static const char *why(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    return reason ? reason : "it cannot be read";
}

/* A key with a password would be asked for at the terminal. */
static int no_password(char *out, int size, int is_new, void *user)
{
    (void)out;
    (void)size;
    (void)is_new;
    (void)user;
    return -1;
}

static bool use_certificate(SSL_CTX *context, const char *path)
{
    return SSL_CTX_use_certificate_chain_file(context, path) == 1;
}

static bool use_key(SSL_CTX *context, const char *path)
{
    return SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1 &&
           SSL_CTX_check_private_key(context) == 1;
}

static bool use_authorities(SSL_CTX *context, const char *path)
{
    if (SSL_CTX_load_verify_locations(context, path, NULL) != 1)
        return false;
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(path));
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return true;
}

/* What an option names, in the order in which it is loaded. */
static const struct part {
    const char *option, *fix;
    enum okv_file_trust trust;
    bool (*use)(SSL_CTX *context, const char *path);
} parts[] = {
    {"--tls-cert", "give a certificate, with those that signed it, as PEM", OKV_FILE_OTHERS_READ,
     use_certificate},
    {"--tls-key", "give the key of the certificate, as PEM", OKV_FILE_OTHERS_NEVER, use_key},
    {"--tls-ca", "give certificates as PEM", OKV_FILE_OTHERS_READ, use_authorities},
};

/* OpenSSL opens the file that was checked: the path may lead elsewhere by now. */
static int load(SSL_CTX *context, const struct part *part, const char *file, struct okv_diag *diag)
{
    struct okv_diag failure;
    char path[32];
    int rc = 0, fd = okv_trusted_file_open(file, part->trust, &failure);

    if (fd < 0)
        return okv_diag_set(diag, fd, "%s: %s", part->option, failure.text);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!part->use(context, path))
        rc = okv_diag_set(diag, OKV_EINVAL, "%s %s: %s: %s", part->option, file, why(), part->fix);
    close(fd);
    return rc;
}

int okv_tls_create(const char *cert, const char *key, const char *ca, struct okv_tls **out,
                   struct okv_diag *diag)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());

    if (!context)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for TLS");
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CLEANSE_PLAINTEXT);
    SSL_CTX_set_session_id_context(context, (const unsigned char *)"okv", 3);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    /* What could not be sent is sent later, and may lie elsewhere then. */
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    /* A read returns after each record. */
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
    const char *const files[] = {cert, key, ca};
    int rc = 0;
    for (unsigned i = 0; i < 3 && rc == 0; i++)
        if (files[i])
            rc = load(context, &parts[i], files[i], diag);
    if (rc) {
        SSL_CTX_free(context);
        return rc;
    }
    *out = (struct okv_tls *)context;
    return 0;
}

void okv_tls_destroy(struct okv_tls *tls)
{
    SSL_CTX_free(context_of(tls));
}

/* Each record begins with a head. */
static void on_message(int is_sent, int version, int type, const void *bytes, size_t length,
                       SSL *ssl, void *stream)
{
    (void)version, (void)bytes, (void)length, (void)ssl;
    if (!is_sent && type == SSL3_RT_HEADER)
        ((struct okv_stream *)stream)->empty_records++;
}

int okv_tls_begin(struct okv_tls *tls, struct okv_stream *stream)
{
    SSL *ssl = SSL_new(context_of(tls));

    if (!ssl || SSL_set_fd(ssl, stream->fd) != 1) {
        SSL_free(ssl);
        return OKV_ENOMEM;
    }
    SSL_set_msg_callback(ssl, on_message);
    SSL_set_msg_callback_arg(ssl, stream);
    SSL_set_accept_state(ssl);
    stream->ssl = ssl;
    return 0;
}

void okv_tls_end(void *ssl)
{
    SSL_shutdown(ssl); /* as far as it does not block */
    SSL_free(ssl);
}

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
    stream->has_unread = SSL_pending(stream->ssl) > 0;
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

    return n > 0 ? n : outcome(stream, n);
}
