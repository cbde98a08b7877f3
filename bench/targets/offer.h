/* Checks of commands for peers, and the sentence about one that a peer does not offer. */
#ifndef OKV_BENCH_TARGETS_OFFER_H
#define OKV_BENCH_TARGETS_OFFER_H

#include <okv.h>
#include <stddef.h>

/* Checks kind and key as okv does: 0, OKV_EINVAL or OKV_EKEYSIZE. */
int offer_check(const struct okv_command *command);

/* Writes to `why`: "redis-server does not offer a put on a version with a key of 16 bytes". Returns
 * OKV_EUNSUPPORTED. */
int offer_decline(const char *server, const struct okv_command *command, char *why,
                  size_t why_size);

#endif
