/* Attacks on the listener with TLS, by strangers. */
#include <openssl/ssl.h>
#include <signal.h>
#include <unistd.h>

#include "tests/chaos/attack.h"
#include "tests/support/certificate.h"

bool attack_has_tls(void)
{
    return true;
}

void attack_write_certificate(const char *cert_path, const char *key_path)
{
    certificate_write(cert_path, key_path);
}

static SSL_CTX *begin(void)
{
    signal(SIGPIPE, SIG_IGN); /* OpenSSL does not ask for no signal */
    return SSL_CTX_new(TLS_client_method());
}

static void leave(SSL *ssl)
{
    close(SSL_get_fd(ssl));
    SSL_free(ssl);
}

/* NULL: turned away. */
static SSL *shake_hands(struct attacker *attacker, SSL_CTX *context)
{
    int sock = attacker_connect_resps(attacker);
    SSL *ssl = sock >= 0 ? SSL_new(context) : NULL;

    if (ssl && SSL_set_fd(ssl, sock) == 1 && SSL_connect(ssl) == 1)
        return ssl;
    SSL_free(ssl);
    if (sock >= 0)
        close(sock);
    attacker_turned_away(attacker);
    return NULL;
}

/* Each costs the server a signature. */
void attack_tls_handshakes(struct attacker *attacker)
{
    SSL_CTX *context = begin();

    for (;;) {
        SSL *ssl = shake_hands(attacker, context);
        if (!ssl)
            continue;
        attacker_count(attacker, false);
        leave(ssl);
    }
}

/* Of TLS 1.3, until the server ends the connection: each makes it derive keys. Returns how many. */
static unsigned update_keys(SSL *ssl)
{
    unsigned count = 0;

    while (SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 && SSL_do_handshake(ssl) == 1)
        count++;
    return count;
}

void attack_tls_updates(struct attacker *attacker)
{
    SSL_CTX *context = begin();

    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    for (;;) {
        SSL *ssl = shake_hands(attacker, context);
        if (!ssl)
            continue;
        if (update_keys(ssl) > 0)
            attacker_count(attacker, false);
        leave(ssl);
    }
}
