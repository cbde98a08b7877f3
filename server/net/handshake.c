#include "server/net/handshake.h"

#include <string.h>

#include "server/database/database.h"
#include "shared/base/error.h"

static unsigned database_of(const struct okv_handshake_terms *terms, uint32_t id)
{
    for (unsigned i = 0; i < terms->database_count; i++)
        if (terms->databases[i].id == id)
            return i;
    return OKV_HANDSHAKE_NO_DATABASE;
}

int okv_handshake_decide(const uint8_t *bytes, size_t length,
                         const struct okv_handshake_terms *terms,
                         struct okv_handshake_client *client)
{
    struct okv_hello hello;
    int rc = okv_hello_decode(bytes, length, &hello);

    if (rc == OKV_EVERSION)
        return OKV_REJECT_VERSION;
    if (rc)
        return OKV_REJECT_MALFORMED;
    if (hello.slot_size < terms->slot_size)
        return OKV_REJECT_SLOT_SIZE;
    if (terms->stopping)
        return OKV_REJECT_STOPPING;
    *client = (struct okv_handshake_client){
        .resume = hello.resume,
        .credits = hello.credits < terms->credits ? hello.credits : terms->credits,
        .features = hello.features & OKV_FEATURES_ALL,
        .database = database_of(terms, hello.database),
        .key_id = hello.key_id,
    };
    memcpy(client->client_id, hello.client_id, sizeof client->client_id);
    memcpy(client->nonce, hello.nonce, sizeof client->nonce);
    memcpy(client->proof, hello.proof, sizeof client->proof);
    return 0;
}
