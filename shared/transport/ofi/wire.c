#include "shared/transport/ofi/wire.h"

static size_t body_length(unsigned kind)
{
    switch (kind) {
    case OFI_GREETING:
        return sizeof(struct ofi_greeting);
    case OFI_HELLO:
        return sizeof(struct ofi_hello);
    case OFI_WELCOME:
        return sizeof(struct ofi_welcome);
    case OFI_REJECT:
        return sizeof(struct ofi_reject);
    default:
        return 0;
    }
}

void okv_ofi_frame_begin(struct ofi_frame *frame, enum ofi_frame_kind kind)
{
    memset(frame, 0, sizeof *frame);
    frame->header.magic = okv_le32_of(OFI_MAGIC);
    frame->header.version = OFI_VERSION;
    frame->header.kind = (uint8_t)kind;
    frame->header.length = okv_le16_of((uint16_t)body_length(kind));
}

size_t okv_ofi_frame_length(const struct ofi_frame_header *header)
{
    size_t body = body_length(header->kind);

    if (okv_le32_get(header->magic) != OFI_MAGIC || header->version != OFI_VERSION || body == 0 ||
        okv_le16_get(header->length) != body)
        return 0;
    return sizeof *header + body;
}

static bool is_zero(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i])
            return false;
    }
    return true;
}

/* `length` bytes are used of a field of `size`. */
static bool field_is_valid(const uint8_t *bytes, size_t length, size_t size)
{
    return length <= size && is_zero(bytes + length, size - length);
}

/* It goes into sentences for people, so it is a name and nothing else. */
static bool provider_is_valid(const uint8_t provider[OFI_PROVIDER_MAX])
{
    if (!memchr(provider, '\0', OFI_PROVIDER_MAX))
        return false;
    size_t length = strspn((const char *)provider, "abcdefghijklmnopqrstuvwxyz0123456789_;");
    return length > 0 && is_zero(provider + length, OFI_PROVIDER_MAX - length);
}

static bool place_is_valid(const struct ofi_place *place)
{
    return place->name_length > 0 &&
           field_is_valid(place->name, place->name_length, sizeof place->name) &&
           is_zero(place->reserved, sizeof place->reserved);
}

static bool hello_is_valid(const struct ofi_hello *hello)
{
    return place_is_valid(&hello->place) && is_zero(hello->reserved, sizeof hello->reserved) &&
           field_is_valid(hello->bytes, hello->length, sizeof hello->bytes);
}

static bool welcome_is_valid(const struct ofi_welcome *welcome)
{
    return place_is_valid(&welcome->place) &&
           is_zero(welcome->reserved, sizeof welcome->reserved) &&
           field_is_valid(welcome->bytes, welcome->length, sizeof welcome->bytes);
}

static bool reject_is_valid(const struct ofi_reject *reject)
{
    return is_zero(reject->reserved, sizeof reject->reserved) &&
           field_is_valid(reject->bytes, reject->length, sizeof reject->bytes);
}

bool okv_ofi_frame_is_valid(const struct ofi_frame *frame)
{
    switch (frame->header.kind) {
    case OFI_GREETING:
        return provider_is_valid(frame->body.greeting.provider);
    case OFI_HELLO:
        return hello_is_valid(&frame->body.hello);
    case OFI_WELCOME:
        return welcome_is_valid(&frame->body.welcome);
    case OFI_REJECT:
        return reject_is_valid(&frame->body.reject);
    default:
        return false;
    }
}
