/* The certificates in the directory OKV_TEST_TLS (tests/support/certificates.sh). */
#ifndef OKV_TESTS_TLS_FILES_H
#define OKV_TESTS_TLS_FILES_H

#include "shared/stream/stream.h"

/* The path of one; `out` has room for 256 bytes. Returns it. */
const char *test_tls_file(const char *name, char out[256]);
/* A server of tcps:// with server.pem; `ca` (NULL: none) is the authority of its clients. Fails the
 * test. */
struct okv_tls *test_tls_server(const char *ca);

#endif
