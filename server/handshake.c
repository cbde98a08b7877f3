#include "server/handshake.h"

#include "shared/error.h"
#include "shared/wire.h"

int okv_handshake_decide(const uint8_t *bytes, size_t length,
                         const struct okv_handshake_terms *terms, uint32_t *credits)
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
    if (terms->full)
        return OKV_REJECT_BUSY;
    *credits = hello.credits < terms->credits ? hello.credits : terms->credits;
    return 0;
}
