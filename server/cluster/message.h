/*
 * The bytes of messages between the copies of a shard: docs/protocol-peers.md section 2. A request
 * has them as its header, and a reply as its value.
 */
#ifndef OKV_SERVER_CLUSTER_MESSAGE_H
#define OKV_SERVER_CLUSTER_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "server/cluster/protocol.h"
#include "shared/base/bytes.h"

#define OKV_PEER_FORMAT 1

struct okv_wire_peer_message {
    okv_le16 format;
    uint8_t type;
    uint8_t epoch_count;
    okv_le32 flags;
    okv_le64 server;
    okv_le64 options;
    okv_le64 epoch;
    okv_le64 sent_us;
    okv_le64 from;
    okv_le64 to;
    okv_le64 published;
    okv_le64 incarnation;
    okv_le64 rest;
    okv_le64 users; /* of a JOIN; of others, copy_us */
};
_Static_assert(sizeof(struct okv_wire_peer_message) == 88, "a message without epochs");
_Static_assert(offsetof(struct okv_wire_peer_message, server) == 8, "message.server");
_Static_assert(offsetof(struct okv_wire_peer_message, epoch) == 24, "message.epoch");

struct okv_wire_peer_epoch {
    okv_le64 epoch;
    okv_le64 begin;
};
_Static_assert(sizeof(struct okv_wire_peer_epoch) == 16, "an epoch");

#define OKV_PEER_MESSAGE_MAX \
    (sizeof(struct okv_wire_peer_message) + OKV_EPOCHS_MAX * sizeof(struct okv_wire_peer_epoch))

/* A message, and what its receiver has to know beside. */
struct okv_peer_letter {
    uint64_t server;  /* the sender */
    uint64_t options; /* digest of what all copies must have in common */
    uint64_t users;   /* of a JOIN: digest of the users and their rights */
    uint64_t rest;    /* of a SHIP or a PIECE in several requests: bytes that are still to come */
    struct okv_peer_message message;
};

/* Writes at most OKV_PEER_MESSAGE_MAX bytes; returns how many. */
size_t okv_peer_letter_encode(const struct okv_peer_letter *letter, uint8_t *out);
/* OKV_EVERSION: another format; OKV_EPROTO: the bytes make no sense. */
int okv_peer_letter_decode(const uint8_t *bytes, size_t length, struct okv_peer_letter *out);

#endif
