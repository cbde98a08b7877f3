/* Who is let in: the server's side of docs/format.md section 5. */
#ifndef OKV_SERVER_HANDSHAKE_H
#define OKV_SERVER_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a decision depends on besides the hello itself. */
struct okv_handshake_terms {
    uint32_t slot_size; /* bytes of the largest message that we send */
    uint32_t credits;   /* most that a client gets */
    bool stopping;
    bool full;
};

/*
 * Decides on a hello of `length` untrusted bytes. Returns 0 and in *credits what
 * the client gets, or a reason of enum okv_reject_reason.
 */
int okv_handshake_decide(const uint8_t *hello, size_t length,
                         const struct okv_handshake_terms *terms, uint32_t *credits);

#endif
