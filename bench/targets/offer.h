/* What peers' targets ask of every command, and say about one that their peer does not have. */
#ifndef OKV_BENCH_TARGETS_OFFER_H
#define OKV_BENCH_TARGETS_OFFER_H

#include <okv.h>
#include <stddef.h>

/* Whether okv would take it, as far as its kind and key go: 0, OKV_EINVAL or OKV_EKEYSIZE. */
int offer_check(const struct okv_command *command);

/* "redis-server does not offer a put on a version with a key of 16 bytes", into `why`.
 * Returns OKV_EUNSUPPORTED. */
int offer_decline(const char *server, const struct okv_command *command, char *why,
                  size_t why_size);

#endif
