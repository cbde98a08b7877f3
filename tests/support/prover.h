/* What a client of the wire says to a server with users: a hello, and after its challenge the same
 * with a proof. */
#ifndef OKV_TESTS_PROVER_H
#define OKV_TESTS_PROVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/format/wire.h"
#include "shared/identity/user_key.h"
#include "shared/transport/transport.h"

/* What is done to a hello with a proof before it is sent. */
typedef void prover_meddle(struct okv_wire_hello *hello, unsigned place);

/* Answers one challenge, and remembers how. */
struct prover {
    const char *user;
    const struct okv_user_key *key;
    struct okv_wire_hello sent; /* the first hello, then that with a proof */
    prover_meddle *meddle;      /* NULL: nothing */
    unsigned place;
    bool has_proven;
};

/* An okv_next_hello; `user` is a prover. */
bool prover_next_hello(void *user, const uint8_t *rejection, size_t length,
                       const struct okv_binding *binding, uint8_t *out);

#endif
