/*
 * What etcd keeps of a cluster, as JSON (docs/cluster-format.md). Numbers of 64 bits are
 * strings of hexadecimal digits, which every program reads as they are.
 */
#ifndef OKV_SERVER_COPIES_DOCUMENTS_H
#define OKV_SERVER_COPIES_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/cluster/key.h"
#include "server/core/limits.h"
#include "server/wal/copies/copies.h"
#include "shared/base/uri.h"

#define OKV_DOCUMENT_FORMAT 1
#define OKV_ADVERTISED_MAX 8
#define OKV_ADVERTISED_SIZE 384 /* bytes of a URI, with its NUL */
#define OKV_LEASE_LEAST_MS 200
#define OKV_LEASE_MOST_MS 10000
#define OKV_REPLACE_LEAST_MS 1000
#define OKV_REPLACE_MOST_MS (7 * 24 * 3600 * 1000)

/* The key `cluster`: what all servers have in common. */
struct okv_cluster_document {
    uint64_t id;         /* from chance, at its creation; not 0 */
    unsigned copies;     /* of each database, the primary's included */
    unsigned copies_min; /* below it writes are refused */
    uint32_t lease_ms;
    uint32_t replace_ms;    /* a server that is missing for that long is replaced; 0: never */
    bool shares_hosts;      /* one host may have several copies of a database */
    uint64_t began_wall_ms; /* the servers' clocks were 0 then */
    unsigned database_count;
    struct okv_cluster_database {
        char name[OKV_NAME_SIZE];
        struct okv_wal_identity identity;
    } databases[OKV_DATABASES_MAX];
};

/* The log of a database on a server. */
struct okv_server_copy {
    char database[OKV_NAME_SIZE];
    uint64_t incarnation;
};

/* A key `servers/ID`: a server that runs. */
struct okv_server_document {
    uint64_t id;
    uint64_t boot;
    unsigned uri_count;
    char uris[OKV_ADVERTISED_MAX][OKV_ADVERTISED_SIZE]; /* how it is reached */
    char host[64];                                      /* where it runs: another one for each */
    char version[16];
    unsigned copy_count;
    struct okv_server_copy copies[OKV_DATABASES_MAX]; /* that it has */
};

/* Each returns a string to be freed by free(); NULL: there is no memory, or a text is not UTF-8. */
char *okv_document_of_cluster(const struct okv_cluster_document *cluster);
char *okv_document_of_server(const struct okv_server_document *server);
char *okv_document_of_shard(const struct okv_shard_key *key);

/* Each reads `length` bytes. False: they are no such document, or of another format. */
bool okv_document_read_cluster(const void *bytes, size_t length, struct okv_cluster_document *out);
bool okv_document_read_server(const void *bytes, size_t length, struct okv_server_document *out);
bool okv_document_read_shard(const void *bytes, size_t length, struct okv_shard_key *out);

#endif
