#include "tests/support/prover.h"

#include <string.h>

#include "shared/identity/proof.h"

bool prover_next_hello(void *user, const uint8_t *rejection, size_t length,
                       const struct okv_binding *binding, uint8_t *out)
{
    struct prover *prover = user;
    struct okv_wire_hello *hello = &prover->sent;
    uint8_t cookie[OKV_COOKIE_SIZE], fingerprint[OKV_FINGERPRINT_SIZE];

    if (prover->has_proven || okv_challenge_decode(rejection, length, cookie))
        return false;
    prover->has_proven = true;
    okv_user_key_fingerprint(prover->key, fingerprint);
    hello->key_id = okv_le32_of(okv_user_key_id(fingerprint));
    const struct okv_exchange exchange = {
        .hello = (const uint8_t *)hello,
        .cookie = cookie,
        .binding = binding->bytes,
        .binding_length = binding->length,
        .user = prover->user,
    };
    okv_proof_client(prover->key, &exchange, hello->proof);
    if (prover->meddle)
        prover->meddle(hello, prover->place);
    memcpy(out, hello, sizeof *hello);
    return true;
}
