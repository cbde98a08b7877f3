#include "server/peers/introduction.h"

#include <string.h>

#include <sodium.h>

#include "shared/identity/proof.h"

/* Hellos beyond the first: a proof may be refused because it was made for an earlier start of the
 * server, or because the server has no room to remember it. */
#define ROUNDS_MAX 8

/* Without a proof. */
static void begin_again(struct okv_introduction *introduction, struct okv_wire_hello *out)
{
    struct okv_hello *hello = &introduction->hello;

    introduction->has_proven = false;
    hello->key_id = 0;
    memset(hello->proof, 0, sizeof hello->proof);
    randombytes_buf(hello->nonce, sizeof hello->nonce);
    okv_hello_encode(hello, out);
}

void okv_introduction_begin(struct okv_introduction *introduction, struct okv_wire_hello *out)
{
    introduction->rounds = 0;
    introduction->was_denied = false;
    begin_again(introduction, out);
}

static struct okv_exchange exchange_of(const struct okv_introduction *introduction,
                                       const struct okv_wire_hello *hello)
{
    return (struct okv_exchange){
        .hello = (const uint8_t *)hello,
        .cookie = introduction->cookie,
        .binding = introduction->binding.bytes,
        .binding_length = introduction->binding.length,
        .user = introduction->user,
    };
}

static void prove(struct okv_introduction *introduction, const struct okv_binding *binding,
                  struct okv_wire_hello *out)
{
    struct okv_hello *hello = &introduction->hello;
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE];

    introduction->binding = *binding;
    introduction->has_proven = true;
    okv_user_key_fingerprint(introduction->key, fingerprint);
    hello->key_id = okv_user_key_id(fingerprint);
    okv_hello_encode(hello, out);
    const struct okv_exchange exchange = exchange_of(introduction, out);
    okv_proof_client(introduction->key, &exchange, hello->proof);
    okv_hello_encode(hello, out);
}

/* A server that was restarted since its challenge denies a valid proof, once. */
static bool may_pass(struct okv_introduction *introduction, uint32_t reason)
{
    bool is_first = !introduction->was_denied;

    introduction->was_denied |= reason == OKV_REJECT_DENIED;
    return reason == OKV_REJECT_STALE || (reason == OKV_REJECT_DENIED && is_first);
}

bool okv_introduction_next(void *user, const uint8_t *rejection, size_t length,
                           const struct okv_binding *binding, uint8_t *hello)
{
    struct okv_introduction *introduction = user;
    struct okv_wire_hello bytes;
    struct okv_reject reject;

    if (!rejection) {
        begin_again(introduction, &bytes);
    } else {
        if (!introduction->key || introduction->rounds++ >= ROUNDS_MAX ||
            okv_reject_decode(rejection, length, &reject))
            return false;
        if (okv_challenge_decode(rejection, length, introduction->cookie) == 0)
            prove(introduction, binding, &bytes);
        else if (introduction->rounds < ROUNDS_MAX && may_pass(introduction, reject.reason))
            begin_again(introduction, &bytes);
        else
            return false;
    }
    memcpy(hello, &bytes, sizeof bytes);
    return true;
}

bool okv_introduction_is_answered(const struct okv_introduction *introduction,
                                  const uint8_t *welcome, size_t length)
{
    uint8_t proof[OKV_PROOF_SIZE];
    struct okv_wire_hello hello;

    if (!introduction->key)
        return true;
    if (!introduction->has_proven || length < sizeof(struct okv_wire_welcome))
        return false;
    okv_hello_encode(&introduction->hello, &hello);
    const struct okv_exchange exchange = exchange_of(introduction, &hello);
    okv_proof_server(introduction->key, &exchange, welcome, OKV_WELCOME_PROVEN, proof);
    return okv_proof_equal(proof, welcome + OKV_WELCOME_PROVEN);
}
