#include "server/copies/letter.h"

#include "server/cluster/message.h"
#include "server/core/server.h"
#include "server/identity/authority.h"
#include "server/peers/link.h"
#include "shared/format/opcode.h"

static const unsigned operations[] = {
    [OKV_PEER_JOIN] = OKV_OP_JOIN,      [OKV_PEER_SHIP] = OKV_OP_SHIP,
    [OKV_PEER_BEAT] = OKV_OP_BEAT,      [OKV_PEER_RELEASED] = OKV_OP_RELEASED,
    [OKV_PEER_PIECE] = OKV_OP_SNAPSHOT,
};

static int send_part(struct okv_copy_link *link, const struct okv_peer_message *message,
                     const uint8_t *bytes, size_t length, size_t rest)
{
    const struct okv_copies *copies = link->copy->copies;
    bool is_join = message->type == OKV_PEER_JOIN;
    const struct okv_peer_letter letter = {
        .server = copies->id,
        .options = copies->options,
        .users = is_join ? okv_authority_digest(copies->server->authority) : 0,
        .rest = rest,
        .message = *message,
    };
    uint8_t header[OKV_PEER_MESSAGE_MAX];
    const struct iovec body = {(void *)bytes, length};

    return okv_link_send(link->link, operations[message->type], header,
                         (uint32_t)okv_peer_letter_encode(&letter, header), &body, 1,
                         rest ? 0 : message->type);
}

int okv_letter_send(struct okv_copy_link *link, const struct okv_peer_message *message,
                    const uint8_t *bytes, size_t used)
{
    size_t at = 0;
    int rc;

    do {
        size_t length = used - at < OKV_COPIES_SHIP_BYTES ? used - at : OKV_COPIES_SHIP_BYTES;
        rc = send_part(link, message, bytes + at, length, used - at - length);
        at += length;
    } while (rc == 0 && at < used);
    return rc;
}
