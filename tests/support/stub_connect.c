#include "tests/support/stub_connect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/clock.h"
#include "tests/support/stub_transport.h"

struct stub_connecting {
    struct okv_connecting base;
    okv_next_hello *next_hello;
    void *user;
    unsigned steps;
};

int stub_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                       struct okv_connecting **out, struct okv_diag *diag)
{
    (void)diag;
    stub.connects++;
    memcpy(stub.host, uri->host, sizeof stub.host);
    if (stub.start_result)
        return stub.start_result;
    struct stub_connecting *connecting = calloc(1, sizeof *connecting);
    assert_non_null(connecting);
    assert_int_equal(okv_hello_decode(params->hello, params->hello_length, &stub.hello), 0);
    connecting->base.fd = -1;
    connecting->next_hello = params->next_hello;
    connecting->user = params->user;
    connecting->steps = stub.steps;
    stub.connecting++;
    *out = &connecting->base;
    return 0;
}

/* True when the client has an answer to a challenge. */
static bool challenge(const struct stub_connecting *connecting, struct okv_answer *answer)
{
    static const uint8_t cookie[OKV_COOKIE_SIZE] = {1, 2, 3};
    static const struct okv_binding none;
    uint8_t hello[OKV_HELLO_MAX];
    struct okv_wire_challenge bytes;

    stub.challenges--;
    okv_challenge_encode(cookie, &bytes);
    if (!connecting->next_hello(connecting->user, (const uint8_t *)&bytes, sizeof bytes, &none,
                                hello)) {
        *answer = (struct okv_answer){.rejected = true, .length = sizeof bytes};
        memcpy(answer->bytes, &bytes, sizeof bytes);
        return false;
    }
    assert_int_equal(okv_hello_decode(hello, sizeof hello, &stub.hello), 0);
    return true;
}

int stub_connect_step(struct okv_connecting *connecting, struct okv_answer *welcome,
                      struct okv_conn **out, struct okv_diag *diag)
{
    struct stub_connecting *own = (struct stub_connecting *)connecting;

    (void)diag;
    if (own->steps > 0) {
        own->steps--;
        own->base.wake_ns = okv_clock_ns() + 100000;
        return OKV_EAGAIN;
    }
    bool is_let_in = true;
    while (is_let_in && stub.challenges > 0)
        is_let_in = challenge(own, welcome);
    stub.connecting--;
    free(own);
    return is_let_in ? stub_connect(welcome, out) : OKV_EREFUSED;
}

void stub_connect_cancel(struct okv_connecting *connecting)
{
    stub.connecting -= connecting != NULL;
    free(connecting);
}
