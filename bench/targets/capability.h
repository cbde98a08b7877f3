/* Checks commands for peers, and explains which ones a peer does not support. */
#ifndef OKV_BENCH_TARGETS_CAPABILITY_H
#define OKV_BENCH_TARGETS_CAPABILITY_H

#include <okv.h>
#include <stddef.h>

/* Checks kind and key as okv does: 0, OKV_EINVAL or OKV_EKEYSIZE. */
int capability_check(const struct okv_command *command);

/* Explains an unsupported command in `why`: "redis-server does not offer a put on a version with a
 * key of 16 bytes". Returns OKV_EUNSUPPORTED. */
int capability_decline(const char *server, const struct okv_command *command, char *why,
                       size_t why_size);

#endif
