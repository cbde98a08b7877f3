#include "server/cluster/message.h"

#include <string.h>

#include "shared/base/error.h"

static size_t encode_epochs(const struct okv_epochs *epochs, uint8_t *out)
{
    struct okv_wire_peer_epoch wire;

    for (unsigned i = 0; i < epochs->count; i++) {
        wire.epoch = okv_le64_of(epochs->of[i].epoch);
        wire.begin = okv_le64_of(epochs->of[i].begin);
        memcpy(out + i * sizeof wire, &wire, sizeof wire);
    }
    return epochs->count * sizeof wire;
}

size_t okv_peer_letter_encode(const struct okv_peer_letter *letter, uint8_t *out)
{
    const struct okv_peer_message *message = &letter->message;
    const struct okv_wire_peer_message wire = {
        .format = okv_le16_of(OKV_PEER_FORMAT),
        .type = (uint8_t)message->type,
        .epoch_count = (uint8_t)message->epochs.count,
        .flags = okv_le32_of(message->flags),
        .server = okv_le64_of(letter->server),
        .options = okv_le64_of(letter->options),
        .epoch = okv_le64_of(message->epoch),
        .sent_us = okv_le64_of(message->sent_us),
        .from = okv_le64_of(message->from),
        .to = okv_le64_of(message->to),
        .published = okv_le64_of(message->published),
        .incarnation = okv_le64_of(message->incarnation),
        .rest = okv_le64_of(letter->rest),
        .users = okv_le64_of(message->type == OKV_PEER_JOIN ? letter->users : message->copy_us),
    };

    memcpy(out, &wire, sizeof wire);
    return sizeof wire + encode_epochs(&message->epochs, out + sizeof wire);
}

static void decode_epochs(const uint8_t *bytes, unsigned count, struct okv_epochs *out)
{
    struct okv_wire_peer_epoch wire;

    out->count = count;
    for (unsigned i = 0; i < count; i++) {
        memcpy(&wire, bytes + i * sizeof wire, sizeof wire);
        out->of[i].epoch = okv_le64_get(wire.epoch);
        out->of[i].begin = okv_le64_get(wire.begin);
    }
}

int okv_peer_letter_decode(const uint8_t *bytes, size_t length, struct okv_peer_letter *out)
{
    struct okv_wire_peer_message wire;

    if (length < sizeof wire)
        return OKV_EPROTO;
    memcpy(&wire, bytes, sizeof wire);
    if (okv_le16_get(wire.format) != OKV_PEER_FORMAT)
        return OKV_EVERSION;
    if (wire.type > OKV_PEER_PIECE || wire.epoch_count > OKV_EPOCHS_MAX ||
        length != sizeof wire + wire.epoch_count * sizeof(struct okv_wire_peer_epoch))
        return OKV_EPROTO;
    *out = (struct okv_peer_letter){
        .server = okv_le64_get(wire.server),
        .options = okv_le64_get(wire.options),
        .rest = okv_le64_get(wire.rest),
        .users = okv_le64_get(wire.users),
        .message =
            {
                .type = (enum okv_peer_message_type)wire.type,
                .flags = okv_le32_get(wire.flags),
                .epoch = okv_le64_get(wire.epoch),
                .sent_us = okv_le64_get(wire.sent_us),
                .from = okv_le64_get(wire.from),
                .to = okv_le64_get(wire.to),
                .published = okv_le64_get(wire.published),
                .incarnation = okv_le64_get(wire.incarnation),
            },
    };
    if (wire.type != OKV_PEER_JOIN) {
        out->message.copy_us = out->users;
        out->users = 0;
    }
    decode_epochs(bytes + sizeof wire, wire.epoch_count, &out->message.epochs);
    return 0;
}
