/* The server's command line: okv-server(1). */
#ifndef OKV_SERVER_CONFIG_H
#define OKV_SERVER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/region.h"
#include "shared/base/uri.h"

#define OKV_LISTENERS_MAX 16
#define OKV_WORKERS_MAX 64
#define OKV_CLIENTS_MAX 10000

struct okv_config {
    struct okv_uri listen[OKV_LISTENERS_MAX];
    unsigned listen_count;
    uint64_t memory;      /* bytes of the region */
    uint32_t max_value;   /* bytes of the largest value */
    uint32_t bucket_size; /* bytes */
    uint32_t inline_max;  /* bytes of the largest entry kept in a bucket; 0: a third of it */
    uint32_t extra_reads; /* READs beyond the first, per 1000 gets, that make the index grow; 0: as
                             the store finds best */
    uint32_t index_percent; /* most of the region that the index takes */
    uint32_t credits;       /* most requests that one client may have under way */
    uint32_t workers;
    uint32_t max_clients;             /* of all listeners together */
    uint32_t max_clients_per_address; /* 0: as many */
    uint32_t keepalive_ms;            /* a dead client is found within this time */
    uint32_t idle_s;                  /* a client without requests may stay; 0: for ever */
    uint32_t remember_s;              /* the results of a client's writes, after it has gone */
    uint32_t drain_ms;                /* what clients get to leave when the server ends */
    uint32_t spin_us;                 /* before an idle worker sleeps */
    enum okv_region_pages pages;
    bool prefault;
};

/* Fills `config`, or prints what is wrong and how it is right and exits with 2. */
void okv_config_parse(int argc, char **argv, struct okv_config *config);

#endif
