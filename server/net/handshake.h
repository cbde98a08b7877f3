/* The decision about a hello: docs/protocol.md section 1. */
#ifndef OKV_SERVER_NET_HANDSHAKE_H
#define OKV_SERVER_NET_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/database.h"
#include "shared/format/wire.h"

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
    uint64_t resume;   /* id of the last session that it knows of; 0: none */
    uint32_t credits;  /* granted */
    unsigned database; /* index */
};

/*
 * Decides on a hello of `length` untrusted bytes. Returns 0 and fills `client`, or a
 * reason of enum okv_reject_reason.
 */
int okv_handshake_decide(const uint8_t *hello, size_t length,
                         const struct okv_handshake_terms *terms,
                         struct okv_handshake_client *client);

#endif
