#include "shared/stream/tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/base/regular_file.h"
#include "shared/stream/tls_state.h"

bool okv_tls_is_there(void)
{
    return true;
}

static const char *why(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    return reason ? reason : "it cannot be read";
}

/* A key with a password would be asked for at the terminal. */
static int no_password(char *out, int size, int is_new, void *user)
{
    (void)out, (void)size, (void)is_new, (void)user;
    return -1;
}

/* ---- files ---- */

static bool use_certificate(SSL_CTX *context, enum okv_tls_use use, const char *path)
{
    (void)use;
    return SSL_CTX_use_certificate_chain_file(context, path) == 1;
}

static bool use_key(SSL_CTX *context, enum okv_tls_use use, const char *path)
{
    (void)use;
    return SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1 &&
           SSL_CTX_check_private_key(context) == 1;
}

static bool use_authorities(SSL_CTX *context, enum okv_tls_use use, const char *path)
{
    if (SSL_CTX_load_verify_locations(context, path, NULL) != 1)
        return false;
    if (use == OKV_TLS_CLIENT)
        return true;
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(path));
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return true;
}

/* What a server's option, or a client's, names, in the order in which it is loaded. */
static const struct part {
    const char *option, *client_option, *fix;
    enum okv_file_trust trust;
    bool (*use)(SSL_CTX *context, enum okv_tls_use use, const char *path);
} parts[] = {
    {"--tls-cert", "cert=", "give a certificate, with those that signed it, as PEM",
     OKV_FILE_OTHERS_READ, use_certificate},
    {"--tls-key", "key=", "give the key of the certificate, as PEM", OKV_FILE_OTHERS_NEVER,
     use_key},
    {"--tls-ca", "ca=", "give certificates as PEM", OKV_FILE_OTHERS_READ, use_authorities},
};

/* OpenSSL opens the file that was checked: the path may lead elsewhere by now. */
static int load(SSL_CTX *context, enum okv_tls_use use, const struct part *part, const char *file,
                struct okv_diag *diag)
{
    const char *option = use == OKV_TLS_CLIENT ? part->client_option : part->option;
    struct okv_diag failure;
    char path[32];
    int rc = 0, fd = okv_trusted_file_open(file, part->trust, &failure);

    if (fd < 0)
        return okv_diag_set(diag, fd, "%s: %s", option, failure.text);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ERR_clear_error();
    if (!part->use(context, use, path))
        rc = okv_diag_set(diag, OKV_EINVAL, "%s %s: %s: %s", option, file, why(), part->fix);
    close(fd);
    return rc;
}

static int load_all(SSL_CTX *context, enum okv_tls_use use, const struct okv_tls_files *files,
                    struct okv_diag *diag)
{
    const char *const paths[] = {files->cert, files->key, files->ca};
    int rc = 0;

    for (unsigned i = 0; i < sizeof paths / sizeof *paths && rc == 0; i++)
        if (paths[i])
            rc = load(context, use, &parts[i], paths[i], diag);
    return rc;
}

/* ---- contexts ---- */

/* The name of the protocol inside of TLS (RFC 7301), with its length. A client learns by it that a
 * server with a valid certificate is none of okv. */
static const unsigned char protocol[] = {3, 'o', 'k', 'v'};

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                           const unsigned char *offered, unsigned offered_length, void *user)
{
    unsigned char *chosen;
    int rc = SSL_select_next_proto(&chosen, out_length, protocol, sizeof protocol, offered,
                                   offered_length);

    (void)ssl, (void)user;
    *out = chosen;
    return rc == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

/* A stranger chooses the group of the key exchange among these. Each costs a server some 0.1 ms,
 * and ffdhe8192, which OpenSSL has by itself, a hundred. */
#define GROUPS "X25519:P-256"
/* Bytes of a client's certificates: verifying many takes as long. */
#define CERTIFICATES_MAX (16 << 10)

static int configure(SSL_CTX *context, enum okv_tls_use use)
{
    if (SSL_CTX_set1_groups_list(context, GROUPS) != 1)
        return OKV_EUNSUPPORTED;
    if (use != OKV_TLS_CLIENT)
        SSL_CTX_set_max_cert_list(context, CERTIFICATES_MAX);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CLEANSE_PLAINTEXT);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    /* What could not be sent is sent later, and may lie elsewhere then. */
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* A read returns after each record. */
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
    /* A server has many connections that are idle. A client polls one, and each poll would allocate
     * a buffer anew. */
    if (use != OKV_TLS_CLIENT)
        SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    if (use == OKV_TLS_RESPS) {
        SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
        SSL_CTX_set_session_id_context(context, (const unsigned char *)"okv", 3);
        return 0;
    }
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF); /* frames have lengths */
    SSL_CTX_set_num_tickets(context, 0);                        /* each connection verifies anew */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    if (use == OKV_TLS_CLIENT) {
        /* The shorter key takes less time for a short record, and is as good. */
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                          "TLS_CHACHA20_POLY1305_SHA256");
        /* Head and data of a record by one call of the system. A server does not: a buffer has room
         * for hundreds of records without data, which one read would go through. */
        SSL_CTX_set_read_ahead(context, 1);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_alpn_protos(context, protocol, sizeof protocol);
    } else {
        SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    }
    return 0;
}

static int create_context(enum okv_tls_use use, const struct okv_tls_files *files, SSL_CTX **out,
                          struct okv_diag *diag)
{
    SSL_CTX *context =
        SSL_CTX_new(use == OKV_TLS_CLIENT ? TLS_client_method() : TLS_server_method());

    if (!context)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for TLS");
    int rc = configure(context, use);
    if (rc)
        okv_diag_set(diag, rc, "this OpenSSL has neither X25519 nor P-256 for TLS");
    else
        rc = load_all(context, use, files, diag);
    if (rc == 0 && use == OKV_TLS_CLIENT && !files->ca &&
        SSL_CTX_set_default_verify_paths(context) != 1)
        rc = okv_diag_set(diag, OKV_ENOMEM, "no memory for the certificates of the system");
    if (rc) {
        SSL_CTX_free(context);
        return rc;
    }
    *out = context;
    return 0;
}

int okv_tls_create(enum okv_tls_use use, const struct okv_tls_files *files, struct okv_tls **out,
                   struct okv_diag *diag)
{
    struct okv_tls *tls = calloc(1, sizeof *tls);

    if (!tls)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for TLS");
    tls->use = use;
    tls->sockets = okv_tls_sockets_create();
    int rc = tls->sockets ? create_context(use, files, &tls->context, diag)
                          : okv_diag_set(diag, OKV_ENOMEM, "no memory for TLS");
    if (rc) {
        okv_tls_sockets_destroy(tls->sockets);
        free(tls);
        return rc;
    }
    pthread_mutex_init(&tls->lock, NULL);
    *out = tls;
    return 0;
}

void okv_tls_exchange(struct okv_tls *tls, struct okv_tls *other)
{
    pthread_mutex_lock(&tls->lock);
    SSL_CTX *context = tls->context; /* its streams have references */
    tls->context = other->context;
    other->context = context;
    pthread_mutex_unlock(&tls->lock);
}

void okv_tls_destroy(struct okv_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    okv_tls_sockets_destroy(tls->sockets);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}
