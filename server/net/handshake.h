/* Who is let in: the server's side of docs/format.md section 5. */
#ifndef OKV_SERVER_NET_HANDSHAKE_H
#define OKV_SERVER_NET_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/format/wire.h"

/* What a decision depends on besides the hello itself. */
struct okv_handshake_terms {
    uint32_t slot_size; /* bytes of the largest message that we send */
    uint32_t credits;   /* most that a client gets */
    bool stopping;
};

/* Who it is that comes. */
struct okv_handshake_client {
    uint8_t client_id[OKV_CLIENT_ID_SIZE];
    uint64_t resume;  /* the last session that it knows of; 0: none */
    uint32_t credits; /* what it gets */
};

/*
 * Decides on a hello of `length` untrusted bytes. Returns 0 and fills `client`, or a
 * reason of enum okv_reject_reason.
 */
int okv_handshake_decide(const uint8_t *hello, size_t length,
                         const struct okv_handshake_terms *terms,
                         struct okv_handshake_client *client);

#endif
