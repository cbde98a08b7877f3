#include "server/net/handshake.h"

#include <string.h>

#include "shared/base/error.h"

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
    if (hello.required != 0)
        return OKV_REJECT_FEATURE;
    if (hello.slot_size < terms->slot_size)
        return OKV_REJECT_SLOT_SIZE;
    if (terms->stopping)
        return OKV_REJECT_STOPPING;
    client->database = 0;
    while (client->database < terms->database_count &&
           terms->databases[client->database].id != hello.database)
        client->database++;
    if (client->database == terms->database_count)
        return OKV_REJECT_DATABASE;
    memcpy(client->client_id, hello.client_id, sizeof client->client_id);
    client->resume = hello.resume;
    client->credits = hello.credits < terms->credits ? hello.credits : terms->credits;
    return 0;
}
