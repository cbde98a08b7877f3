/*
 * Proofs that client and server know the same key, and the cookie that they are made with.
 *
 * Each is H(key, purpose, content): BLAKE2b with 16 bytes of output, the key, no salt, and the
 * purpose as its personalization, padded with zeros. In the content integers are little endian, and
 * a part of variable length is preceded by its length in 4 bytes.
 *
 *   cookie        "okv2 cookie"   slot (8), binding, client id (8), nonce (8); the server's own key
 *   client proof  "okv2 client"   cookie (16), hello 0..39, binding, user
 *   server proof  "okv2 server"   cookie (16), hello 0..39, binding, user, welcome
 *   fingerprint   "okv2 key id"   nothing
 *   password      "okv2 resp"     nothing; as base64
 *
 * Any thread. Nothing here fails.
 */
#ifndef OKV_SHARED_IDENTITY_PROOF_H
#define OKV_SHARED_IDENTITY_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"
#include "shared/format/wire.h"
#include "shared/identity/user_key.h"

/* What both proofs cover; all borrowed. */
struct okv_exchange {
    const uint8_t *hello;  /* the second hello; its first OKV_HELLO_PROVEN bytes count */
    const uint8_t *cookie; /* OKV_COOKIE_SIZE */
    /* What the transport ties the connection to: GIDs, queue pair number, port. May be empty. */
    const uint8_t *binding;
    size_t binding_length;
    const char *user;
};

void okv_proof_client(const struct okv_user_key *key, const struct okv_exchange *exchange,
                      uint8_t out[OKV_PROOF_SIZE]);
/* `welcome`: its bytes before the proof. */
void okv_proof_server(const struct okv_user_key *key, const struct okv_exchange *exchange,
                      const uint8_t *welcome, size_t length, uint8_t out[OKV_PROOF_SIZE]);
/* In a time that does not depend on the bytes. */
bool okv_proof_equal(const uint8_t a[OKV_PROOF_SIZE], const uint8_t b[OKV_PROOF_SIZE]);

/* Identifies a key without revealing it. */
void okv_user_key_fingerprint(const struct okv_user_key *key, uint8_t out[OKV_FINGERPRINT_SIZE]);

#define OKV_PASSWORD_TEXT 25 /* base64 with its NUL */
/* The password by which a Redis client replaces a proof. It does not reveal the key. The caller
 * wipes it. */
void okv_user_key_password(const struct okv_user_key *key, char text[OKV_PASSWORD_TEXT]);

/* The key id of a hello: the first 4 bytes of the key's fingerprint. Never 0, which a hello without
 * proof has. Two keys may have one id. */
static inline uint32_t okv_user_key_id(const uint8_t fingerprint[OKV_FINGERPRINT_SIZE])
{
    uint32_t id = okv_get_u32(fingerprint);

    return id ? id : 1;
}

/* The cookie of a challenge. `secret` is the server's, `slot` its time. */
void okv_cookie_make(const struct okv_user_key *secret, uint64_t slot, const uint8_t *binding,
                     size_t binding_length, const uint8_t client_id[OKV_CLIENT_ID_SIZE],
                     const uint8_t nonce[OKV_NONCE_SIZE], uint8_t out[OKV_COOKIE_SIZE]);

#endif
