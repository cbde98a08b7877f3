#include "tests/support/tls_files.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"

const char *test_tls_file(const char *name, char out[256])
{
    const char *directory = getenv("OKV_TEST_TLS");

    assert_non_null(directory);
    snprintf(out, 256, "%s/%s", directory, name);
    return out;
}

struct okv_tls *test_tls_server(const char *ca)
{
    char cert[256], key[256], authority[256];
    struct okv_diag diag = {""};
    struct okv_tls *tls = NULL;
    const struct okv_tls_files files = {test_tls_file("server.pem", cert),
                                        test_tls_file("server.key", key),
                                        ca ? test_tls_file(ca, authority) : NULL};

    if (okv_tls_create(OKV_TLS_TCPS, &files, &tls, &diag))
        fail_msg("%s", diag.text);
    return tls;
}
