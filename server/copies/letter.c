#include "server/copies/letter.h"

#include <stdlib.h>
#include <string.h>

#include "server/cluster/message.h"
#include "server/core/server.h"
#include "server/identity/authority.h"
#include "server/peers/link.h"
#include "shared/base/error.h"
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
                         rest ? OKV_LETTER_PART : message->type);
}

void okv_letter_drop(struct okv_copy_link *link)
{
    free(link->rest.bytes);
    link->rest = (struct okv_copy_rest){.bytes = NULL};
}

/* One place is left to beats. */
int okv_letter_continue(struct okv_copy_link *link)
{
    struct okv_copy_rest *rest = &link->rest;
    int rc = 0;

    while (rest->bytes && rc == 0 && okv_link_takes_parts(link->link)) {
        size_t left = rest->used - rest->at;
        size_t length = left < OKV_COPIES_SHIP_BYTES ? left : OKV_COPIES_SHIP_BYTES;
        rc = send_part(link, &rest->message, rest->bytes + rest->at, length, left - length);
        rest->at += rc == 0 ? length : 0;
        if (rest->at == rest->used)
            okv_letter_drop(link);
    }
    return rc == OKV_EAGAIN ? 0 : rc;
}

int okv_letter_send(struct okv_copy_link *link, const struct okv_peer_message *message,
                    const uint8_t *bytes, size_t used)
{
    if (message->type == OKV_PEER_JOIN)
        okv_letter_drop(link); /* the receiver drops the parts that it has */
    if (used <= OKV_COPIES_SHIP_BYTES)
        return send_part(link, message, bytes, used, 0);
    if (link->rest.bytes)
        return OKV_EAGAIN;
    uint8_t *copy = malloc(used);
    if (!copy)
        return OKV_ENOMEM;
    memcpy(copy, bytes, used);
    link->rest = (struct okv_copy_rest){.message = *message, .bytes = copy, .used = used};
    return okv_letter_continue(link);
}
