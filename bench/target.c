#include "bench/target.h"

#include <string.h>

/* Every kind of target that was built in. */
static const struct target_ops *const kinds[] = {
    &target_okv_ops,
#ifdef OKV_WITH_HIREDIS
    &target_redis_ops,
#endif
    &target_memcached_ops,
#ifdef OKV_WITH_LMDB
    &target_lmdb_ops,
#endif
};
#define KIND_COUNT (sizeof kinds / sizeof *kinds)
#define SCHEME_COUNT (sizeof target_okv_ops.schemes / sizeof *target_okv_ops.schemes)

static bool has_scheme(const char *uri, const char *scheme)
{
    size_t length = strlen(scheme);

    return strncmp(uri, scheme, length) == 0 && strncmp(uri + length, "://", 3) == 0;
}

const struct target_ops *target_ops_of(const char *uri)
{
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        for (size_t i = 0; i < SCHEME_COUNT && kinds[kind]->schemes[i]; i++) {
            if (has_scheme(uri, kinds[kind]->schemes[i]))
                return kinds[kind];
        }
    }
    return NULL;
}

const char *target_schemes(void)
{
    return "rdma://, local://"
#ifdef OKV_WITH_HIREDIS
           ", redis://"
#endif
           ", memcached://"
#ifdef OKV_WITH_LMDB
           ", lmdb://"
#endif
        ;
}
