/* The hashes of shared/identity/proof.h. The bytes were made with Python's
 * hashlib.blake2b(content, digest_size=16, key=key, person=purpose). */
#include "tests/support/test.h"

#include "shared/identity/proof.h"

#define HELLO_SIZE 56
#define WELCOME_SIZE 120
#define BINDING_SIZE 11

struct fixture {
    struct okv_user_key *key;
    uint8_t hello[HELLO_SIZE], cookie[OKV_COOKIE_SIZE], binding[BINDING_SIZE];
    uint8_t welcome[WELCOME_SIZE];
    struct okv_exchange exchange;
};

static const uint8_t FINGERPRINT[OKV_FINGERPRINT_SIZE] = {
    0xea, 0xbf, 0x50, 0xca, 0xae, 0x09, 0xe0, 0xd4, 0x11, 0xcf, 0x33, 0xff, 0x8b, 0x09, 0xe8, 0x08};
static const uint8_t COOKIE[OKV_COOKIE_SIZE] = {0x01, 0x67, 0xe1, 0x4c, 0x37, 0xb4, 0x53, 0x1f,
                                                0x33, 0x9f, 0x9a, 0x9a, 0x57, 0x4c, 0x85, 0x12};
static const uint8_t COOKIE_UNBOUND[OKV_COOKIE_SIZE] = {
    0x11, 0x6f, 0xb6, 0xa1, 0x3b, 0x02, 0xe5, 0xd0, 0x97, 0xb6, 0xf9, 0x8b, 0xb9, 0x55, 0x18, 0x4e};
static const uint8_t CLIENT[OKV_PROOF_SIZE] = {0xd6, 0x7d, 0xbc, 0x62, 0x96, 0xf8, 0x78, 0x06,
                                               0xd4, 0xf6, 0x2c, 0x24, 0xd0, 0x40, 0xda, 0xa5};
static const uint8_t CLIENT_UNBOUND[OKV_PROOF_SIZE] = {
    0x61, 0x28, 0xa3, 0x47, 0x99, 0x39, 0x8c, 0xe6, 0x3d, 0x0b, 0xfe, 0x36, 0xd3, 0xc7, 0x30, 0x10};
static const uint8_t SERVER[OKV_PROOF_SIZE] = {0xa7, 0xb8, 0xf6, 0x28, 0x11, 0xc3, 0xfd, 0x15,
                                               0xe7, 0xd7, 0x0d, 0x16, 0x03, 0xcb, 0x5a, 0x88};

static void count_from(uint8_t first, uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(first + i);
}

static struct fixture fixture;

static int set_up(void **state)
{
    struct fixture *f = &fixture;

    if (okv_identity_init() || okv_user_key_create(&f->key))
        return -1;
    count_from(0, f->key->bytes, sizeof f->key->bytes);
    count_from(0x40, f->hello, sizeof f->hello);
    count_from(0x60, f->cookie, sizeof f->cookie);
    count_from(0xa0, f->binding, sizeof f->binding);
    count_from(0, f->welcome, sizeof f->welcome);
    f->exchange = (struct okv_exchange){.hello = f->hello,
                                        .cookie = f->cookie,
                                        .binding = f->binding,
                                        .binding_length = sizeof f->binding,
                                        .user = "alice"};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    okv_user_key_destroy(f->key);
    return 0;
}

TEST_WITH(proofs_have_these_bytes, set_up, tear_down)
{
    struct fixture *f = *state;
    uint8_t out[OKV_PROOF_SIZE];

    okv_user_key_fingerprint(f->key, out);
    assert_memory_equal(out, FINGERPRINT, sizeof out);
    assert_int_equal(okv_user_key_id(out), 0xca50bfea);
    okv_proof_client(f->key, &f->exchange, out);
    assert_memory_equal(out, CLIENT, sizeof out);
    okv_proof_server(f->key, &f->exchange, f->welcome, sizeof f->welcome, out);
    assert_memory_equal(out, SERVER, sizeof out);
    f->exchange.binding = NULL;
    f->exchange.binding_length = 0;
    okv_proof_client(f->key, &f->exchange, out);
    assert_memory_equal(out, CLIENT_UNBOUND, sizeof out);
}

TEST_WITH(cookies_have_these_bytes, set_up, tear_down)
{
    struct fixture *f = *state;
    const uint64_t slot = UINT64_C(0x0102030405060708);
    uint8_t client_id[OKV_CLIENT_ID_SIZE], nonce[OKV_NONCE_SIZE], out[OKV_COOKIE_SIZE];

    count_from(0x10, client_id, sizeof client_id);
    count_from(0x20, nonce, sizeof nonce);
    okv_cookie_make(f->key, slot, f->binding, sizeof f->binding, client_id, nonce, out);
    assert_memory_equal(out, COOKIE, sizeof out);
    okv_cookie_make(f->key, slot, NULL, 0, client_id, nonce, out);
    assert_memory_equal(out, COOKIE_UNBOUND, sizeof out);
}

/* Both proofs of the exchange are unlike those above. */
static void expect_others(const struct fixture *f)
{
    uint8_t out[OKV_PROOF_SIZE];

    okv_proof_client(f->key, &f->exchange, out);
    assert_false(okv_proof_equal(out, CLIENT));
    okv_proof_server(f->key, &f->exchange, f->welcome, sizeof f->welcome, out);
    assert_false(okv_proof_equal(out, SERVER));
}

static void expect_covered(const struct fixture *f, uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bytes[i] ^= 1;
        expect_others(f);
        bytes[i] ^= 1;
    }
}

TEST_WITH(proofs_cover_every_byte, set_up, tear_down)
{
    struct fixture *f = *state;
    uint8_t out[OKV_PROOF_SIZE];

    expect_covered(f, f->key->bytes, sizeof f->key->bytes);
    expect_covered(f, f->hello, OKV_HELLO_PROVEN);
    expect_covered(f, f->cookie, sizeof f->cookie);
    expect_covered(f, f->binding, sizeof f->binding);
    for (size_t i = 0; i < sizeof f->welcome; i++) {
        f->welcome[i] ^= 1;
        okv_proof_server(f->key, &f->exchange, f->welcome, sizeof f->welcome, out);
        assert_false(okv_proof_equal(out, SERVER));
        f->welcome[i] ^= 1;
    }
    /* The proof itself lies in the rest of a hello. */
    f->hello[OKV_HELLO_PROVEN] ^= 1;
    okv_proof_client(f->key, &f->exchange, out);
    assert_true(okv_proof_equal(out, CLIENT));
}

/* No byte can move from one part to the next. */
TEST_WITH(parts_have_ends, set_up, tear_down)
{
    struct fixture *f = *state;
    uint8_t out[OKV_PROOF_SIZE];

    f->exchange.user = "\xaa"
                       "alice";
    f->exchange.binding_length--; /* by 0xaa */
    expect_others(f);
    f->exchange.binding_length++;
    f->exchange.user = "alic";
    expect_others(f);
    memmove(f->welcome + 1, f->welcome, sizeof f->welcome - 1);
    f->welcome[0] = 'e';
    okv_proof_server(f->key, &f->exchange, f->welcome, sizeof f->welcome, out);
    assert_false(okv_proof_equal(out, SERVER));
}

TEST(a_difference_in_any_byte_is_seen)
{
    uint8_t other[OKV_PROOF_SIZE];

    memcpy(other, CLIENT, sizeof other);
    assert_true(okv_proof_equal(other, CLIENT));
    for (unsigned i = 0; i < sizeof other; i++) {
        other[i] ^= 0x80;
        assert_false(okv_proof_equal(other, CLIENT));
        other[i] ^= 0x80;
    }
}

TEST(no_key_id_is_0)
{
    const uint8_t fingerprint[OKV_FINGERPRINT_SIZE] = {0, 0, 0, 0, 7};

    assert_int_equal(okv_user_key_id(fingerprint), 1);
}
