/* A certificate of its own for a server with TLS: ECDSA, P-256. Needs OpenSSL. */
#ifndef OKV_TESTS_CERTIFICATE_H
#define OKV_TESTS_CERTIFICATE_H

/* Writes it and its key as PEM; only the user may read them. Fails the test. */
void certificate_write(const char *cert_path, const char *key_path);

#endif
