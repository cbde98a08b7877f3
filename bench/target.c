#include "bench/target.h"

#include <stdio.h>
#include <string.h>

/* Every kind of target that was built in. */
static const struct target_ops *const kinds[] = {
    &target_okv_ops,
#ifdef OKV_WITH_HIREDIS
    &target_redis_ops,
#endif
#ifdef OKV_WITH_VALKEY
    &target_valkey_ops,
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

static const char *list_schemes(void)
{
    return "rdma://, local://"
#ifdef OKV_WITH_HIREDIS
           ", redis://"
#endif
#ifdef OKV_WITH_VALKEY
           ", valkey+rdma://"
#endif
           ", memcached://"
#ifdef OKV_WITH_LMDB
           ", lmdb://"
#endif
        ;
}

/* Those that may have been left out, and what they need to be built. */
static const struct {
    const char *scheme;
    const char *needs;
} optional[] = {
    {"redis", "libhiredis"},
    {"valkey+rdma", "libhiredis and libvalkey, built with RDMA, from 0.3 on (valkey_rdma.pc)"},
    {"lmdb", "liblmdb"},
};

void target_refuse(const char *uri, char *why, size_t why_size)
{
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        if (has_scheme(uri, optional[i].scheme)) {
            snprintf(why, why_size,
                     "this kv-bench was built without %s://: install %s and build okv again",
                     optional[i].scheme, optional[i].needs);
            return;
        }
    }
    snprintf(why, why_size, "not a URI of a server: give one that begins with %s", list_schemes());
}
