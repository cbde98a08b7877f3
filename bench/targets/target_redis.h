/* Redis's protocol, also for a transport other than a socket (target_valkey.c). */
#ifndef OKV_BENCH_TARGETS_TARGET_REDIS_H
#define OKV_BENCH_TARGETS_TARGET_REDIS_H

#include "bench/targets/peer.h"

/* Of its struct peer_protocol. */
int redis_target_encode(struct peer *peer, const struct okv_command *command);
int redis_target_decode(struct peer *peer, const char *bytes, size_t length);

/* Of its struct target_ops. */
int redis_target_open(const struct target_ops *ops, const struct peer_protocol *protocol,
                      const struct target_config *config, struct target **out, char *why,
                      size_t why_size);
void redis_target_close(struct target *target);
/* Says "redis", and "tcp" or "unix". */
void redis_target_info(struct target *target, struct target_info *info);
int redis_target_stat(struct target *target, struct target_stat *stat);

#endif
