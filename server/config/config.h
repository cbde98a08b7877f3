/* The configuration of okv-server(1), from its command line, a file and the environment. */
#ifndef OKV_SERVER_CONFIG_CONFIG_H
#define OKV_SERVER_CONFIG_CONFIG_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/config/settings.h"
#include "server/core/limits.h"
#include "server/core/log.h"
#include "server/store/heap.h"
#include "server/store/region.h"
#include "shared/base/uri.h"

#define OKV_CLIENTS_MAX 10000
#define OKV_CLIENTS_HALF UINT32_MAX

#define OKV_MEMORY_MIN (UINT64_C(1) << 20) /* of a database */
#define OKV_MEMORY_MAX (UINT64_C(1) << 47)

struct okv_database_config {
    const char *text; /* of --database */
    char name[OKV_NAME_SIZE];
    uint64_t memory;         /* bytes of the region */
    uint32_t max_value;      /* bytes of the largest value */
    uint32_t bucket_size;    /* bytes */
    uint32_t inline_max;     /* bytes of the largest entry kept in a bucket; 0: a third of it */
    uint32_t extra_reads;    /* READs beyond the first, per 1000 gets, at which the index grows; 0:
                                the store chooses */
    uint32_t index_percent;  /* largest share of the region for the index, in percent */
    uint64_t sync_within_ns; /* okv_wal_params, with --data */
    enum okv_store_full full;
};

struct okv_config_address {
    char host[256]; /* "": none */
    char port[6];
};

/* The cluster that the server belongs to. NULL, or "" as a name: not given. */
struct okv_cluster_config {
    char name[OKV_NAME_SIZE];                     /* "": none, and nothing else is given */
    const char *etcd;                             /* URLs of its members, with commas between */
    const char *etcd_ca, *etcd_cert, *etcd_key;   /* PEM files, for https:// */
    const char *etcd_user, *etcd_password_file;   /* both, or none */
    struct okv_uri advertise[OKV_ADVERTISED_MAX]; /* where clients and other servers reach it */
    const char *advertise_texts[OKV_ADVERTISED_MAX];
    unsigned advertise_count;
    char peer_user[OKV_NAME_SIZE]; /* that this server is at the others */
    const char *peer_key;          /* its file */
};

/* What is atomic may change while the server runs (reload.h). */
struct okv_config {
    struct okv_uri listen[OKV_LISTENERS_MAX];
    unsigned listen_count;
    struct okv_uri resp[OKV_RESP_LISTENERS_MAX]; /* for clients of Redis */
    unsigned resp_count;
    const char *reachable;            /* the last URI that other hosts may reach; NULL: none */
    const char *loopback;             /* the last one that every user of this host reaches */
    bool is_open;                     /* without users, all clients may do everything */
    struct okv_database_config table; /* the options of all databases */
    bool has_sync;                    /* --sync was given */
    struct okv_database_config databases[OKV_DATABASES_MAX];
    unsigned database_count;
    bool names_databases; /* --database was given */
    uint32_t credits;     /* outstanding requests per client */
    uint32_t workers;
    cpu_set_t usable_cpus;        /* of the process at its start */
    cpu_set_t worker_cpus;        /* one for each worker; empty: any */
    _Atomic uint32_t max_clients; /* on all listeners together */
    /* 0: as max_clients; OKV_CLIENTS_HALF: half of them, per address with users as max_clients */
    _Atomic uint32_t max_clients_per_user, max_clients_per_address;
    _Atomic uint32_t max_silent; /* clients before their hello or log-in: of one
                                            listener, of all RESP listeners */
    _Atomic uint32_t hello_ms;   /* time limit of a hello, over RDMA of a connection's confirmation;
                                    0: the transport's default */
    uint32_t keepalive_ms;       /* a dead client is disconnected within this time */
    _Atomic uint32_t alone_ms;   /* work of a command that runs alone (core/turn.h) */
    _Atomic uint32_t idle_s;     /* clients idle for this long are disconnected; 0: never */
    uint32_t remember_s;         /* lifetime of a reply cache after its session */
    _Atomic uint32_t report_percent; /* of a core, for the hits that clients of a database report */
    double snapshot_ratio;           /* okv_wal_start() */
    _Atomic uint32_t drain_ms;       /* time for clients to leave at shutdown */
    _Atomic uint32_t spin_us;        /* an idle worker polls this long before it sleeps */
    enum okv_region_pages pages;
    bool prefault;
    bool wipe;                         /* zero freed memory of the regions */
    char group[OKV_GROUP_SIZE];        /* multicast group of announcements; "": none */
    char name[OKV_NAME_SIZE];          /* of the server */
    const char *data;                  /* directory; NULL: in memory only */
    const char *restore;               /* snapshot to create the only database from; NULL: none */
    const char *check;                 /* directory to verify; NULL: serve */
    const char *salvage;               /* directory to salvage; NULL: serve */
    const char *to;                    /* directory for the salvaged data */
    const char *users;                 /* file; NULL: no authentication */
    const char *tls_cert, *tls_key;    /* PEM files, for resps://; NULL: none */
    const char *tls_ca;                /* CA file for client certificates; NULL: none */
    struct okv_cluster_config cluster; /* of which it is a server */
    enum okv_log_format log_format;    /* of the configuration; the log has a copy */
    struct okv_config_address metrics; /* of metrics over HTTP */
    bool has_to_print;                 /* print the configuration instead of serving */
    struct okv_settings settings;      /* their sources; owns the strings above */
};

/* Fills `config` from the command line, the environment and a file. On an error prints it with its
 * correction and exits with 2. OKV_ENOMEM. */
int okv_config_parse(int argc, char **argv, struct okv_config *config);
/* Fills `out` from the same command line and environment, and from the file as it is now.
 * OKV_EINVAL: out->settings.wrong has the error; OKV_ENOMEM. `out` needs okv_config_fini() either
 * way. */
int okv_config_reread(const struct okv_config *config, struct okv_config *out);
void okv_config_fini(struct okv_config *config);

#endif
