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

static bool place_is_valid(const struct ofi_place *place)
{
    return place->name_length > 0 && place->name_length <= OFI_NAME_MAX;
}

bool okv_ofi_frame_is_valid(const struct ofi_frame *frame)
{
    switch (frame->header.kind) {
    case OFI_GREETING:
        return memchr(frame->body.greeting.provider, '\0', OFI_PROVIDER_MAX) != NULL;
    case OFI_HELLO:
        return place_is_valid(&frame->body.hello.place) &&
               frame->body.hello.length <= OKV_HELLO_MAX;
    case OFI_WELCOME:
        return place_is_valid(&frame->body.welcome.place) &&
               frame->body.welcome.length <= OKV_WELCOME_MAX;
    case OFI_REJECT:
        return frame->body.reject.length <= OKV_REJECT_MAX;
    default:
        return false;
    }
}
