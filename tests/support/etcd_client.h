/* Calls of server/etcd/ that wait for their result. */
#ifndef OKV_TESTS_ETCD_CLIENT_H
#define OKV_TESTS_ETCD_CLIENT_H

#include <stdbool.h>

#include "server/etcd/etcd.h"

#define ETCD_ITEMS 8
#define ETCD_TEXT 64

struct etcd_result {
    unsigned times; /* that it came */
    int status;
    char why[320];
    uint64_t cluster_id;
    uint64_t revision;
    uint64_t lease;
    uint64_t ttl_s;
    size_t count;
    struct {
        char key[ETCD_TEXT];
        char value[ETCD_TEXT];
        uint64_t mod_revision;
    } items[ETCD_ITEMS];
};

/* An okv_etcd_done_fn, whose context is a struct etcd_result. */
void etcd_take(void *result, const struct okv_etcd_answer *answer);
/* Fails the test if it cannot be created. */
struct okv_etcd *etcd_client(const struct okv_etcd_options *options);
/* Until it came more than `times`. */
void etcd_await(struct okv_etcd *etcd, const struct etcd_result *result, unsigned times);

/* Returns the status. */
int etcd_get(struct okv_etcd *etcd, const char *prefix, struct etcd_result *result);
int etcd_swap(struct okv_etcd *etcd, const char *key, uint64_t mod_revision, const char *value,
              uint64_t lease, struct etcd_result *result);

#endif
