/* What a peer's target says about a command that its peer does not have. */
#ifndef OKV_BENCH_OFFER_H
#define OKV_BENCH_OFFER_H

#include <okv.h>
#include <stddef.h>

/* "redis-server does not offer a put on a version with a key of 16 bytes", into `why`.
 * Returns OKV_EUNSUPPORTED. */
int offer_decline(const char *server, const struct okv_command *command, char *why,
                  size_t why_size);

#endif
