/*
 * A target: a connection to okv, or to a peer that okv is compared with.
 *
 * Commands and results are those of <okv.h> for every target. A peer's target ends a command that
 * the peer does not offer with OKV_EUNSUPPORTED. A target belongs to one thread at a time, like a
 * handle of okv.
 *
 *   rdma://HOST[:PORT][?source=ADDRESS]   okv          target_okv.c
 *   ofi://HOST[:PORT]                     okv
 *   tcp://HOST[:PORT]                     okv
 *   local:///PATH                         okv
 *   okv://SERVER,SERVER/NAME              okv: a cluster
 *   redis://HOST:PORT, redis:///PATH      redis-server, valkey-server: TCP, a Unix socket
 *                                                      target_redis.c
 *   valkey+rdma://HOST[:PORT]             valkey-server: RDMA        target_valkey.c
 *   memcached://HOST:PORT, memcached:///PATH           target_memcached.c
 *   lmdb:///, lmdb+sync:///, lmdb+batch:///DIRECTORY   in process   target_lmdb.c
 */
#ifndef OKV_BENCH_TARGETS_TARGET_H
#define OKV_BENCH_TARGETS_TARGET_H

#include <okv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct target;

struct target_config {
    const char *uri;
    const struct okv_options *okv; /* okv: its database, user and certificates */
    uint32_t timeout_ms;           /* of each operation; 0: the target's own default */
    uint32_t depth;                /* operations under way at once */
    uint32_t credits;              /* okv: to request; 0: the library's default */
    uint32_t value_bytes;          /* of the largest value */
};

/* A description for the report; strings live as long as the target. */
struct target_info {
    const char *kind;      /* "okv", "redis", "valkey", "memcached", "lmdb" */
    const char *transport; /* "rdma", "ofi", "local", "tcp", "unix", "process" */
    const char *path;      /* device, port, GID and MTU; the socket */
    const char *version;   /* the server's, or "" */
    uint32_t bucket_bytes; /* okv: of one READ of a get; else 0 */
    uint32_t max_value;    /* bytes */
    uint64_t region_bytes; /* okv; else 0 */
    bool evicts;           /* okv: what finds no room may take the place of other items */
};

/* The server's own counts; NAN where unknown. */
struct target_stat {
    double cpu_ms;       /* of its process since it began, all threads */
    double items;        /* in the table */
    double user_bytes;   /* of keys and values */
    double memory_bytes; /* in use for them; okv: index and heap */
};

struct target_ops {
    /* Connects; blocks. Returns 0, or an OKV_E code with a sentence in `why`. */
    int (*open)(const struct target_config *config, struct target **out, char *why,
                size_t why_size);
    void (*close)(struct target *target); /* and frees it */
    void (*info)(struct target *target, struct target_info *info);
    /* As the functions of <okv.h> with these names; get_many: okv_call_many() of gets alone, NULL:
     * not offered. */
    int (*submit)(struct target *target, const struct okv_command *commands, size_t count,
                  size_t *accepted);
    int (*poll)(struct target *target, struct okv_result *results, int max);
    int (*wait)(struct target *target, int timeout_ms);
    int (*get_many)(struct target *target, const struct okv_command *commands,
                    struct okv_result *results, size_t count);
    /* One blocking get while nothing else is under way; *result as of a poll. NULL: not offered. */
    void (*get)(struct target *target, const struct okv_command *command,
                struct okv_result *result);
    const char *(*why)(struct target *target); /* "", or a sentence about its failure */
    /* Blocks briefly. Call it while no operation is under way. Returns 0 or an OKV_E code. */
    int (*stat)(struct target *target, struct target_stat *stat);
    /* okv's own counts; NULL: none. */
    void (*counters)(struct target *target, struct okv_counters *counters);
    /* okv's handle, for its floor and for registered memory; NULL: none. */
    okv *(*handle)(struct target *target);
};

/* The first member of every kind of target. */
struct target {
    const struct target_ops *ops;
};

/* The kind of target that a URI names; NULL: unknown or not built in. */
const struct target_ops *target_ops_of(const char *uri);
/* Explains in `why` why target_ops_of() returned NULL. */
void target_refuse(const char *uri, char *why, size_t why_size);

extern const struct target_ops target_okv_ops;
extern const struct target_ops target_redis_ops;  /* with libhiredis */
extern const struct target_ops target_valkey_ops; /* with libhiredis and libvalkey_rdma */
extern const struct target_ops target_memcached_ops;
extern const struct target_ops target_lmdb_ops; /* with liblmdb */

#endif
