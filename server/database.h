/* A database: a region of its own with a table in it, and the reply caches of its clients. */
#ifndef OKV_SERVER_DATABASE_H
#define OKV_SERVER_DATABASE_H

#include "server/config.h"
#include "server/session/reply_cache.h"
#include "server/stats.h"
#include "server/store/store.h"
#include "shared/transport/transport.h"

struct okv_database {
    const struct okv_database_config *config;
    struct okv_region region;
    struct okv_store store;
    struct okv_reply_caches reply_caches; /* of its clients */
    struct okv_counts counts;
    atomic_uint_fast64_t reserved; /* bytes of extents of long writes under way */
    atomic_bool is_exceeded;       /* besides these, one has more than its share */
    uint32_t id;                   /* okv_database_id() */
};

/* Makes an empty table; `config` is borrowed. Blocks while memory is taken (region.h). `boot_id` is
 * the server's. OKV_EINVAL: too little memory; OKV_EPERM, OKV_ENOMEM, OKV_EIO. */
int okv_database_init(struct okv_database *database, const struct okv_config *config,
                      unsigned index, uint64_t boot_id, struct okv_diag *diag);
void okv_database_fini(struct okv_database *database);

#endif
