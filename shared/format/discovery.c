#include "shared/format/discovery.h"

#include <string.h>

#include "shared/base/error.h"

/* Printable ASCII in `size` bytes, then NULs, at least one. */
static bool text_is_clean(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return length < size && okv_bytes_are_zero((const uint8_t *)text + length, size - length);
}

bool okv_discovery_uri_fits(const char *uri)
{
    size_t length = strlen(uri);

    for (size_t i = 0; i < length; i++)
        if (uri[i] < 0x20 || uri[i] > 0x7e)
            return false;
    return length > 0 && length < OKV_DISCOVERY_URI_SIZE;
}

uint64_t okv_discovery_coarse(uint64_t number)
{
    uint64_t unit = 1;

    while (number / unit >= 100)
        unit *= 10;
    return number / unit * unit;
}

/* `out` starts as zeros, so unwritten bytes and the ends of texts are zero. */
static void begin(struct okv_wire_discovery *out, enum okv_discovery_kind kind, uint64_t nonce,
                  const char *name)
{
    memset(out, 0, sizeof *out);
    out->magic = okv_le32_of(OKV_DISCOVERY_MAGIC);
    out->version = okv_le16_of(OKV_DISCOVERY_VERSION);
    out->length = okv_le16_of(sizeof *out);
    out->kind = okv_le32_of(kind);
    out->nonce = okv_le64_of(nonce);
    memcpy(out->name, name, strnlen(name, sizeof out->name - 1));
}

void okv_discovery_query_encode(const struct okv_discovery_query *query,
                                struct okv_wire_discovery *out)
{
    begin(out, OKV_DISCOVERY_QUERY, query->nonce, query->name);
}

void okv_discovery_answer_encode(const struct okv_discovery_answer *answer,
                                 struct okv_wire_discovery *out)
{
    begin(out, OKV_DISCOVERY_ANSWER, answer->nonce, answer->name);
    out->boot_id = okv_le64_of(answer->boot_id);
    out->items = okv_le64_of(answer->items);
    out->memory_used = okv_le64_of(answer->memory_used);
    memcpy(out->release, answer->release, strnlen(answer->release, sizeof out->release - 1));
    for (unsigned i = 0; i < answer->uri_count; i++)
        memcpy(out->uris[i], answer->uris[i], strnlen(answer->uris[i], OKV_DISCOVERY_URI_SIZE - 1));
}

/* What both kinds have in common. The name is checked by the caller. */
static int check(const uint8_t *bytes, size_t length, enum okv_discovery_kind kind,
                 struct okv_wire_discovery *wire)
{
    if (length != sizeof *wire)
        return OKV_EPROTO;
    memcpy(wire, bytes, sizeof *wire);
    if (okv_le32_get(wire->magic) != OKV_DISCOVERY_MAGIC)
        return OKV_EPROTO;
    if (okv_le16_get(wire->version) != OKV_DISCOVERY_VERSION)
        return OKV_EVERSION;
    if (okv_le16_get(wire->length) != sizeof *wire || okv_le32_get(wire->kind) != kind ||
        !okv_bytes_are_zero(wire->reserved, sizeof wire->reserved) ||
        !text_is_clean(wire->name, sizeof wire->name))
        return OKV_EPROTO;
    return wire->name[0] == '\0' || okv_name_is_valid(wire->name) ? 0 : OKV_EPROTO;
}

int okv_discovery_query_decode(const uint8_t *bytes, size_t length, struct okv_discovery_query *out)
{
    const size_t answer = offsetof(struct okv_wire_discovery, boot_id);
    struct okv_wire_discovery wire;
    int rc = check(bytes, length, OKV_DISCOVERY_QUERY, &wire);

    if (rc)
        return rc;
    if (!okv_bytes_are_zero(bytes + answer, length - answer))
        return OKV_EPROTO;
    out->nonce = okv_le64_get(wire.nonce);
    memcpy(out->name, wire.name, sizeof out->name);
    return 0;
}

/* One URI or more, without a gap. */
static int decode_uris(const struct okv_wire_discovery *wire, struct okv_discovery_answer *out)
{
    out->uri_count = 0;
    for (unsigned i = 0; i < OKV_DISCOVERY_URIS; i++) {
        if (!text_is_clean(wire->uris[i], OKV_DISCOVERY_URI_SIZE))
            return OKV_EPROTO;
        if (wire->uris[i][0] && out->uri_count++ != i)
            return OKV_EPROTO;
    }
    memcpy(out->uris, wire->uris, sizeof out->uris);
    return out->uri_count ? 0 : OKV_EPROTO;
}

int okv_discovery_answer_decode(const uint8_t *bytes, size_t length,
                                struct okv_discovery_answer *out)
{
    struct okv_wire_discovery wire;
    int rc = check(bytes, length, OKV_DISCOVERY_ANSWER, &wire);

    if (rc)
        return rc;
    if (!wire.name[0] || okv_le64_get(wire.boot_id) == 0 ||
        !text_is_clean(wire.release, sizeof wire.release) ||
        !okv_bytes_are_zero(wire.reserved_answer, sizeof wire.reserved_answer))
        return OKV_EPROTO;
    out->nonce = okv_le64_get(wire.nonce);
    out->boot_id = okv_le64_get(wire.boot_id);
    out->items = okv_le64_get(wire.items);
    out->memory_used = okv_le64_get(wire.memory_used);
    memcpy(out->name, wire.name, sizeof out->name);
    memcpy(out->release, wire.release, sizeof out->release);
    return decode_uris(&wire, out);
}
