#include "shared/identity/proof.h"

#include <sodium.h>
#include <string.h>

#define PURPOSE_SIZE crypto_generichash_blake2b_PERSONALBYTES

typedef crypto_generichash_blake2b_state hash_state;

_Static_assert(OKV_PROOF_SIZE == OKV_COOKIE_SIZE && OKV_PROOF_SIZE == OKV_FINGERPRINT_SIZE &&
                   OKV_PROOF_SIZE >= crypto_generichash_blake2b_BYTES_MIN,
               "all hashes have one size");

static void begin(hash_state *state, const struct okv_user_key *key, const char *purpose)
{
    unsigned char personal[PURPOSE_SIZE] = {0};

    memcpy(personal, purpose, strlen(purpose));
    crypto_generichash_blake2b_init_salt_personal(state, key->bytes, sizeof key->bytes,
                                                  OKV_PROOF_SIZE, NULL, personal);
}

static void add(hash_state *state, const void *bytes, size_t length)
{
    crypto_generichash_blake2b_update(state, bytes, length);
}

/* A part of variable length. */
static void add_part(hash_state *state, const void *bytes, size_t length)
{
    uint8_t prefix[4];

    okv_put_u32(prefix, (uint32_t)length);
    add(state, prefix, sizeof prefix);
    if (length)
        add(state, bytes, length);
}

static void end(hash_state *state, uint8_t out[OKV_PROOF_SIZE])
{
    crypto_generichash_blake2b_final(state, out, OKV_PROOF_SIZE);
    sodium_memzero(state, sizeof *state); /* it holds the key */
}

static void add_exchange(hash_state *state, const struct okv_exchange *exchange)
{
    add(state, exchange->cookie, OKV_COOKIE_SIZE);
    add(state, exchange->hello, OKV_HELLO_PROVEN);
    add_part(state, exchange->binding, exchange->binding_length);
    add_part(state, exchange->user, strlen(exchange->user));
}

void okv_proof_client(const struct okv_user_key *key, const struct okv_exchange *exchange,
                      uint8_t out[OKV_PROOF_SIZE])
{
    hash_state state;

    begin(&state, key, "okv2 client");
    add_exchange(&state, exchange);
    end(&state, out);
}

void okv_proof_server(const struct okv_user_key *key, const struct okv_exchange *exchange,
                      const uint8_t *welcome, size_t length, uint8_t out[OKV_PROOF_SIZE])
{
    hash_state state;

    begin(&state, key, "okv2 server");
    add_exchange(&state, exchange);
    add_part(&state, welcome, length);
    end(&state, out);
}

bool okv_proof_equal(const uint8_t a[OKV_PROOF_SIZE], const uint8_t b[OKV_PROOF_SIZE])
{
    return sodium_memcmp(a, b, OKV_PROOF_SIZE) == 0;
}

void okv_user_key_fingerprint(const struct okv_user_key *key, uint8_t out[OKV_FINGERPRINT_SIZE])
{
    hash_state state;

    begin(&state, key, "okv2 key id");
    end(&state, out);
}

void okv_user_key_password(const struct okv_user_key *key, char text[OKV_PASSWORD_TEXT])
{
    uint8_t hash[OKV_PROOF_SIZE];
    hash_state state;

    _Static_assert(OKV_PASSWORD_TEXT ==
                       sodium_base64_ENCODED_LEN(sizeof hash, sodium_base64_VARIANT_ORIGINAL),
                   "the text has the hash");
    begin(&state, key, "okv2 resp");
    end(&state, hash);
    sodium_bin2base64(text, OKV_PASSWORD_TEXT, hash, sizeof hash, sodium_base64_VARIANT_ORIGINAL);
    sodium_memzero(hash, sizeof hash);
}

void okv_cookie_make(const struct okv_user_key *secret, uint64_t slot, const uint8_t *binding,
                     size_t binding_length, const uint8_t client_id[OKV_CLIENT_ID_SIZE],
                     const uint8_t nonce[OKV_NONCE_SIZE], uint8_t out[OKV_COOKIE_SIZE])
{
    uint8_t number[8];
    hash_state state;

    okv_put_u64(number, slot);
    begin(&state, secret, "okv2 cookie");
    add(&state, number, sizeof number);
    add_part(&state, binding, binding_length);
    add(&state, client_id, OKV_CLIENT_ID_SIZE);
    add(&state, nonce, OKV_NONCE_SIZE);
    end(&state, out);
}
