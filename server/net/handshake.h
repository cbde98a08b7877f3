/* The decision about a hello: docs/protocol.md section 1. */
#ifndef OKV_SERVER_NET_HANDSHAKE_H
#define OKV_SERVER_NET_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/core/limits.h"
#include "shared/format/wire.h"

struct okv_database;

/* The server's terms. */
struct okv_handshake_terms {
    uint32_t slot_size; /* bytes of the largest message that the server sends */
    uint32_t credits;   /* the most for one client */
    bool stopping;
    const struct okv_database *databases; /* [database_count] */
    unsigned database_count;
};

/* The client, as its hello describes it. */
struct okv_handshake_client {
    uint8_t client_id[OKV_CLIENT_ID_SIZE];
    uint8_t nonce[OKV_NONCE_SIZE];
    uint32_t resume;   /* low half of the id of the last session that it knows of; 0: none */
    uint32_t credits;  /* granted */
    uint32_t features; /* in force */
    unsigned database; /* index, or OKV_HANDSHAKE_NO_DATABASE */
    uint32_t key_id;   /* 0: the hello has no proof */
    uint8_t proof[OKV_PROOF_SIZE];
};
#define OKV_HANDSHAKE_NO_DATABASE OKV_DATABASES_MAX

/*
 * Decides on a hello of `length` untrusted bytes, before it is known who sent it. Returns 0 and
 * fills `client`, or a reason of enum okv_reject_reason.
 */
int okv_handshake_decide(const uint8_t *hello, size_t length,
                         const struct okv_handshake_terms *terms,
                         struct okv_handshake_client *client);

#endif
