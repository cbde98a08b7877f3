/*
 * How a link introduces itself: its hello, its answer to a challenge, and the other server's proof
 * (docs/protocol.md section 1).
 */
#ifndef OKV_SERVER_PEERS_INTRODUCTION_H
#define OKV_SERVER_PEERS_INTRODUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/format/wire.h"
#include "shared/identity/user_key.h"
#include "shared/transport/transport.h"

struct okv_introduction {
    const char *user;               /* NULL: none */
    const struct okv_user_key *key; /* likewise */
    struct okv_hello hello;         /* the last one; the caller sets what is no proof */
    struct okv_binding binding;     /* this and the cookie: of the proof */
    uint8_t cookie[OKV_COOKIE_SIZE];
    unsigned rounds;
    bool has_proven, was_denied;
};

/* The first hello. */
void okv_introduction_begin(struct okv_introduction *introduction, struct okv_wire_hello *out);
/* An okv_next_hello; its user is the introduction. */
okv_next_hello okv_introduction_next;
/* Whether a welcome comes from a server that knows the key; true without one. */
bool okv_introduction_is_answered(const struct okv_introduction *introduction,
                                  const uint8_t *welcome, size_t length);

#endif
