#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/stream/tls.h"
#include "shared/stream/tls_state.h"

#define NAME_SIZE 128

/* The first name or address that a certificate is for. */
static void name_of(X509 *certificate, char out[NAME_SIZE])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const GENERAL_NAME *first = names ? sk_GENERAL_NAME_value(names, 0) : NULL;
    char cn[NAME_SIZE / 2];

    snprintf(out, NAME_SIZE, "another host");
    if (!names)
        snprintf(out, NAME_SIZE, "%s, its CN, as it has no subjectAltName",
                 X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, cn,
                                           sizeof cn) < 0
                     ? "nobody"
                     : cn);
    else if (first && first->type == GEN_DNS)
        snprintf(out, NAME_SIZE, "%.*s", ASN1_STRING_length(first->d.dNSName),
                 (const char *)ASN1_STRING_get0_data(first->d.dNSName));
    else if (first && first->type == GEN_IPADD && ASN1_STRING_length(first->d.iPAddress) == 4) {
        const unsigned char *ip = ASN1_STRING_get0_data(first->d.iPAddress);
        snprintf(out, NAME_SIZE, "%u.%u.%u.%u", ip[0], ip[1], ip[2], ip[3]);
    }
    GENERAL_NAMES_free(names);
}

/* The peer chose it. */
static void keep_printable(char *name)
{
    for (; *name; name++)
        if (*name < ' ' || *name > '~')
            *name = '?';
}

static int explain_name(SSL *ssl, const char *where, struct okv_diag *diag)
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
    char name[NAME_SIZE] = "another host";

    if (chain && sk_X509_num(chain) > 0)
        name_of(sk_X509_value(chain, 0), name);
    keep_printable(name);
    return okv_diag_set(diag, OKV_EDENIED,
                        "%s shows a certificate for %s: connect by a name that it is for, or give "
                        "?server-name=NAME",
                        where, name);
}

static int explain_certificate(SSL *ssl, long result, const char *where, struct okv_diag *diag)
{
    const char *text = X509_verify_cert_error_string(result);

    switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return explain_name(ssl, where, diag);
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return okv_diag_set(diag, OKV_EDENIED,
                            "%s shows a certificate that is not valid now (%s): renew it there and "
                            "send SIGHUP to the server, or set the clock of this machine",
                            where, text);
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return okv_diag_set(diag, OKV_EDENIED,
                            "%s shows a certificate that nobody signed who is trusted here (%s): "
                            "name the certificate of its authority by ?ca=FILE or OKV_TLS_CA",
                            where, text);
    default:
        return okv_diag_set(diag, OKV_EDENIED, "%s shows a certificate that does not verify: %s",
                            where, text);
    }
}

/* 0: none of TLS. */
static int reason_of(const struct okv_stream *stream)
{
    return ERR_GET_LIB(stream->error) == ERR_LIB_SSL ? ERR_GET_REASON(stream->error) : 0;
}

int okv_tls_explain(const struct okv_stream *stream, const char *where, struct okv_diag *diag)
{
    long result = SSL_get_verify_result(stream->ssl);
    const char *reason = ERR_reason_error_string(stream->error);

    if (result != X509_V_OK)
        return explain_certificate(stream->ssl, result, where, diag);
    switch (reason_of(stream)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
        return okv_diag_set(diag, OKV_EPROTO,
                            "%s does not speak TLS: use tcp:// if it is okv's tcp listener, or "
                            "check the port",
                            where);
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return okv_diag_set(diag, OKV_EDENIED,
                            "%s wants a certificate of the client: give ?cert=FILE&key=FILE",
                            where);
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return okv_diag_set(diag, OKV_EDENIED,
                            "%s does not take the certificate of the client (%s): give one that "
                            "the authority of its --tls-ca signed",
                            where, reason);
    default:
        if (stream->error == 0)
            return okv_diag_set(diag, OKV_EREFUSED, "%s closed the connection", where);
        return okv_diag_set(diag, OKV_EREFUSED, "TLS with %s failed: %s", where,
                            reason ? reason : "for no known reason");
    }
}

bool okv_tls_describe(const struct okv_stream *stream, char *out, size_t size)
{
    const char *reason = ERR_reason_error_string(stream->error);

    out[0] = '\0';
    switch (reason_of(stream)) {
    case SSL_R_HTTP_REQUEST:
        snprintf(out, size, "it speaks HTTP and not TLS");
        return false;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_BAD_RECORD_TYPE:
        snprintf(out, size, "it does not speak TLS: tcp:// is another listener");
        return false;
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        snprintf(out, size, "it does not take the certificate of this server (%s)", reason);
        return true;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        snprintf(out, size, "it has no certificate, and --tls-ca asks for one");
        return true;
    default:
        if (stream->error)
            snprintf(out, size, "TLS failed: %s", reason ? reason : "for no known reason");
        return true;
    }
}
