#include "client/connection/identity.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "shared/base/error.h"
#include "shared/identity/proof.h"
#include "shared/identity/user_key.h"

/* Hellos of one attempt beyond the first. The server challenges the first one. It may refuse a
 * proof that it has seen or has no room for, that answers the challenge of an earlier start, or
 * that was made with an old key; then the attempt begins again, as long as a hello is left for the
 * proof: a challenge as the last answer would not say whether the user is known. */
#define ROUNDS_MAX 8

int identity_init(okv *handle, const struct okv_options *options)
{
    struct link_identity *identity = &handle->link.identity;

    if (!options->user && !options->key_file)
        return 0;
    if (!options->user || !options->key_file)
        return okv_diag_set(&handle->why, OKV_EINVAL,
                            "options->%s: it is NULL, and a user has a key file",
                            options->user ? "key_file" : "user");
    if (!okv_name_is_valid(options->user))
        return okv_diag_set(&handle->why, OKV_EINVAL,
                            "options->user: \"%.32s\" is not " OKV_NAME_RULE, options->user);
    memcpy(identity->user, options->user, strlen(options->user) + 1);
    identity->key_file = strdup(options->key_file);
    if (!identity->key_file)
        return OKV_ENOMEM;
    int rc = okv_identity_init();
    return rc ? rc : okv_user_key_read(identity->key_file, &identity->key, &handle->why);
}

void identity_fini(okv *handle)
{
    okv_user_key_destroy(handle->link.identity.key);
    free(handle->link.identity.key_file);
}

/* A hello without a proof, with a fresh nonce. */
static void begin_again(struct link_identity *identity, struct okv_wire_hello *out)
{
    struct okv_hello *hello = &identity->hello;

    hello->key_id = 0;
    memset(hello->proof, 0, sizeof hello->proof);
    identity->has_proven = false;
    randombytes_buf(hello->nonce, sizeof hello->nonce);
    okv_hello_encode(hello, out);
}

void identity_begin(okv *handle, const struct okv_hello *hello, struct okv_wire_hello *out)
{
    struct link_identity *identity = &handle->link.identity;

    identity->hello = *hello;
    identity->rounds = 0;
    identity->is_answered = identity->is_second = false;
    begin_again(identity, out);
}

static void exchange_of(const struct link_identity *identity, const struct okv_wire_hello *hello,
                        struct okv_exchange *out)
{
    *out = (struct okv_exchange){
        .hello = (const uint8_t *)hello,
        .cookie = identity->cookie,
        .binding = identity->binding.bytes,
        .binding_length = identity->binding.length,
        .user = identity->user,
    };
}

static uint32_t id_of(const struct okv_user_key *key)
{
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE];

    okv_user_key_fingerprint(key, fingerprint);
    return okv_user_key_id(fingerprint);
}

static void prove(struct link_identity *identity, const struct okv_binding *binding,
                  struct okv_wire_hello *out)
{
    struct okv_hello *hello = &identity->hello;
    struct okv_exchange exchange;

    identity->binding = *binding;
    identity->has_proven = true;
    hello->key_id = id_of(identity->key);
    okv_hello_encode(hello, out);
    exchange_of(identity, out, &exchange);
    okv_proof_client(identity->key, &exchange, hello->proof);
    okv_hello_encode(hello, out);
}

/* Reads the key file again. True when it has another key now. */
static bool has_another_key(struct link_identity *identity)
{
    struct okv_user_key *key;

    if (okv_user_key_read(identity->key_file, &key, NULL))
        return false;
    bool is_another = id_of(key) != id_of(identity->key);
    okv_user_key_destroy(is_another ? identity->key : key);
    if (is_another)
        identity->key = key;
    return is_another;
}

/* True when another hello may succeed. A server that was restarted since its challenge denies a
 * valid proof, once. */
static bool may_pass(struct link_identity *identity, uint32_t reason)
{
    if (reason == OKV_REJECT_STALE)
        return true;
    if (reason != OKV_REJECT_DENIED)
        return false;
    if (has_another_key(identity))
        return true;
    bool is_first = !identity->is_second;
    identity->is_second = true;
    return is_first;
}

bool identity_next_hello(void *user, const uint8_t *rejection, size_t length,
                         const struct okv_binding *binding, uint8_t *hello)
{
    struct link_identity *identity = &((okv *)user)->link.identity;
    struct okv_wire_hello bytes;
    struct okv_reject reject;

    if (!rejection) {
        begin_again(identity, &bytes);
    } else {
        if (!identity->key || identity->rounds >= ROUNDS_MAX ||
            okv_reject_decode(rejection, length, &reject))
            return false;
        identity->rounds++;
        if (okv_challenge_decode(rejection, length, identity->cookie) == 0)
            prove(identity, binding, &bytes);
        else if (identity->rounds < ROUNDS_MAX && may_pass(identity, reject.reason))
            begin_again(identity, &bytes);
        else
            return false;
    }
    memcpy(hello, &bytes, sizeof bytes);
    return true;
}

bool identity_is_doubtful(const okv *handle)
{
    const struct link_identity *identity = &handle->link.identity;

    return identity->key && !identity->is_answered;
}

bool identity_is_known(const okv *handle)
{
    const struct link_identity *identity = &handle->link.identity;

    return identity->key && identity->is_answered;
}

bool identity_renew(okv *handle)
{
    return has_another_key(&handle->link.identity);
}

bool identity_is_proven(okv *handle, const uint8_t *welcome, size_t length)
{
    struct link_identity *identity = &handle->link.identity;
    uint8_t proof[OKV_PROOF_SIZE];
    struct okv_wire_hello hello;
    struct okv_exchange exchange;

    if (!identity->key)
        return true;
    if (!identity->has_proven || length < sizeof(struct okv_wire_welcome))
        return false;
    okv_hello_encode(&identity->hello, &hello);
    exchange_of(identity, &hello, &exchange);
    okv_proof_server(identity->key, &exchange, welcome, OKV_WELCOME_PROVEN, proof);
    identity->is_answered = okv_proof_equal(proof, welcome + OKV_WELCOME_PROVEN);
    return identity->is_answered;
}
