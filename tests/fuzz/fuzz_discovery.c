/* The decoders of discovery: raw, and with the fields that are compared with something made right,
 * so that what is behind them is reached. */
#include "shared/base/error.h"
#include "shared/format/discovery.h"
#include "tests/fuzz/fuzz_input.h"

#define ROOM 1024

static bool is_clean(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return length < size;
}

/* Each bit of `mask` makes one field right. */
static void repair(uint8_t *bytes, enum okv_discovery_kind kind, uint8_t mask)
{
    struct okv_wire_discovery *wire = (struct okv_wire_discovery *)bytes;

    wire->magic = okv_le32_of(OKV_DISCOVERY_MAGIC);
    wire->version = okv_le16_of(OKV_DISCOVERY_VERSION);
    wire->length = okv_le16_of(sizeof *wire);
    wire->kind = okv_le32_of(kind);
    memset(wire->reserved, 0, sizeof wire->reserved);
    if (mask & 1)
        memset(wire->name, 0, sizeof wire->name);
    if (mask & 2)
        wire->name[0] = 'n';
    if (mask & 4)
        memset(wire->reserved_answer, 0, sizeof wire->reserved_answer);
    if (mask & 8)
        memset(wire->release, 0, sizeof wire->release);
    for (unsigned i = 0; i < OKV_DISCOVERY_URIS; i++)
        if (mask & 16u << i)
            memset(wire->uris[i] + i, 0, OKV_DISCOVERY_URI_SIZE - i);
    if (kind == OKV_DISCOVERY_QUERY && mask & 16)
        memset(bytes + offsetof(struct okv_wire_discovery, boot_id), 0,
               sizeof *wire - offsetof(struct okv_wire_discovery, boot_id));
}

static void fuzz_query(const uint8_t *bytes, size_t length)
{
    struct okv_discovery_query query;
    struct okv_wire_discovery again;
    int rc = okv_discovery_query_decode(bytes, length, &query);

    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO || rc == OKV_EVERSION);
    if (rc)
        return;
    FUZZ_CHECK(is_clean(query.name, sizeof query.name));
    okv_discovery_query_encode(&query, &again);
    FUZZ_CHECK(length == sizeof again && memcmp(&again, bytes, sizeof again) == 0);
}

static void fuzz_answer(const uint8_t *bytes, size_t length)
{
    struct okv_discovery_answer answer;
    struct okv_wire_discovery again;
    int rc = okv_discovery_answer_decode(bytes, length, &answer);

    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO || rc == OKV_EVERSION);
    if (rc)
        return;
    FUZZ_CHECK(okv_name_is_valid(answer.name) && answer.boot_id != 0);
    FUZZ_CHECK(is_clean(answer.release, sizeof answer.release));
    FUZZ_CHECK(answer.uri_count >= 1 && answer.uri_count <= OKV_DISCOVERY_URIS);
    for (unsigned i = 0; i < answer.uri_count; i++)
        FUZZ_CHECK(is_clean(answer.uris[i], OKV_DISCOVERY_URI_SIZE) &&
                   okv_discovery_uri_fits(answer.uris[i]));
    okv_discovery_answer_encode(&answer, &again);
    FUZZ_CHECK(length == sizeof again && memcmp(&again, bytes, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t choice = fuzz_u8(&input);
    uint8_t mask = fuzz_u8(&input);
    enum okv_discovery_kind kind = choice & 1 ? OKV_DISCOVERY_ANSWER : OKV_DISCOVERY_QUERY;
    size_t length;
    uint8_t *bytes;

    if (choice & 2) { /* of the right length */
        length = sizeof(struct okv_wire_discovery);
        bytes = malloc(length);
        FUZZ_CHECK(bytes);
        fuzz_copy(&input, bytes, length);
        repair(bytes, kind, mask);
    } else {
        bytes = fuzz_bytes(&input, ROOM, &length);
    }
    if (kind == OKV_DISCOVERY_QUERY)
        fuzz_query(bytes, length);
    else
        fuzz_answer(bytes, length);
    free(bytes);
    return 0;
}
