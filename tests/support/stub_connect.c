#include "tests/support/stub_connect.h"

#include "tests/support/test.h"

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
    if (stub.before_connect)
        stub.before_connect(uri);
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

/* True when the client has another hello for the rejection. */
static bool reject(const struct stub_connecting *connecting, const void *bytes, size_t length,
                   struct okv_answer *answer)
{
    static const struct okv_binding none;
    uint8_t hello[OKV_HELLO_MAX];

    if (!connecting->next_hello(connecting->user, bytes, length, &none, hello)) {
        *answer = (struct okv_answer){.rejected = true, .length = length};
        memcpy(answer->bytes, bytes, length);
        return false;
    }
    assert_int_equal(okv_hello_decode(hello, sizeof hello, &stub.hello), 0);
    return true;
}

/* Answers the client's hello as a server with users does. */
static bool refuse_hello(const struct stub_connecting *connecting, struct okv_answer *answer)
{
    static const struct okv_reject stale = {.reason = OKV_REJECT_STALE};
    static const uint8_t cookie[OKV_COOKIE_SIZE] = {1, 2, 3};
    struct okv_wire_challenge challenge;
    struct okv_wire_reject used;

    if (stub.stale > 0 && stub.hello.key_id) {
        stub.stale--;
        okv_reject_encode(&stale, &used);
        return reject(connecting, &used, sizeof used, answer);
    }
    stub.challenges -= stub.challenges > 0;
    okv_challenge_encode(cookie, &challenge);
    return reject(connecting, &challenge, sizeof challenge, answer);
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
    while (is_let_in && (stub.challenges > 0 || stub.stale > 0))
        is_let_in = refuse_hello(own, welcome);
    stub.connecting--;
    free(own);
    return is_let_in ? stub_connect(welcome, out) : OKV_EREFUSED;
}

void stub_connect_cancel(struct okv_connecting *connecting)
{
    stub.connecting -= connecting != NULL;
    free(connecting);
}
