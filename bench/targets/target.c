#include "bench/targets/target.h"

#include <stdio.h>
#include <string.h>

#ifdef OKV_WITH_HIREDIS
#define REDIS_OPS &target_redis_ops
#else
#define REDIS_OPS NULL
#endif
#ifdef OKV_WITH_VALKEY
#define VALKEY_OPS &target_valkey_ops
#else
#define VALKEY_OPS NULL
#endif
#ifdef OKV_WITH_LMDB
#define LMDB_OPS &target_lmdb_ops
#else
#define LMDB_OPS NULL
#endif

/* Kinds of targets, by the prefix of the URI. */
static const struct {
    const char *scheme;
    const struct target_ops *ops; /* NULL: not built in */
    const char *needs;            /* a library; NULL: always built in */
} kinds[] = {
    {"rdma", &target_okv_ops, NULL},
    {"ofi", &target_okv_ops, NULL},
    {"tcp", &target_okv_ops, NULL},
    {"tcps", &target_okv_ops, NULL},
    {"local", &target_okv_ops, NULL},
    {"okv", &target_okv_ops, NULL},
    {"redis", REDIS_OPS, "libhiredis"},
    {"valkey+rdma", VALKEY_OPS,
     "libhiredis and libvalkey, built with RDMA, from 0.3 on (valkey_rdma.pc)"},
    {"memcached", &target_memcached_ops, NULL},
    {"lmdb", LMDB_OPS, "liblmdb"},
    {"lmdb+batch", LMDB_OPS, "liblmdb"},
    {"lmdb+sync", LMDB_OPS, "liblmdb"},
};
#define KIND_COUNT (sizeof kinds / sizeof *kinds)

/* The kind of this URI, or KIND_COUNT. */
static size_t kind_of(const char *uri)
{
    size_t kind = 0;

    for (; kind < KIND_COUNT; kind++) {
        size_t length = strlen(kinds[kind].scheme);
        if (strncmp(uri, kinds[kind].scheme, length) == 0 && strncmp(uri + length, "://", 3) == 0)
            break;
    }
    return kind;
}

const struct target_ops *target_ops_of(const char *uri)
{
    size_t kind = kind_of(uri);

    return kind < KIND_COUNT ? kinds[kind].ops : NULL;
}

void target_refuse(const char *uri, char *why, size_t why_size)
{
    size_t kind = kind_of(uri);
    char schemes[160] = "";

    if (kind < KIND_COUNT && kinds[kind].needs) {
        snprintf(why, why_size,
                 "this kv-bench was built without %s://: install %s and build okv again",
                 kinds[kind].scheme, kinds[kind].needs);
        return;
    }
    for (kind = 0; kind < KIND_COUNT; kind++) {
        size_t length = strlen(schemes);
        if (kinds[kind].ops)
            snprintf(schemes + length, sizeof schemes - length, "%s%s://", length > 0 ? ", " : "",
                     kinds[kind].scheme);
    }
    snprintf(why, why_size, "\"%s\" is not a URI of a server: give one that begins with %s", uri,
             schemes);
}
