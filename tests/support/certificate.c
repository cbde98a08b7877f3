#include "tests/support/certificate.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include "tests/support/test.h"

static FILE *create(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(chmod(path, 0600), 0);
    return file;
}

static void write_key(EVP_PKEY *key, const char *path)
{
    FILE *file = create(path);

    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
}

static void write_certificate(EVP_PKEY *key, const char *path)
{
    FILE *file = create(path);
    X509 *x509 = X509_new();

    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x509), 36000);
    X509_set_pubkey(x509, key);
    assert_true(X509_sign(x509, key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_X509(file, x509), 1);
    X509_free(x509);
    fclose(file);
}

void certificate_write(const char *cert_path, const char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    assert_non_null(key);
    write_key(key, key_path);
    write_certificate(key, cert_path);
    EVP_PKEY_free(key);
}
