/*
 * Limits on connected clients: in all, and per address. Any thread may call.
 */
#ifndef OKV_SERVER_NET_ADMISSION_H
#define OKV_SERVER_NET_ADMISSION_H

#include <pthread.h>
#include <stdint.h>

/* The clients from one address. */
struct okv_admission_address {
    char name[64];
    uint32_t clients; /* 0: the entry is free */
};

struct okv_admission {
    pthread_mutex_t lock;
    uint32_t limit;             /* clients in all */
    uint32_t limit_per_address; /* 0: no such limit */
    uint32_t clients;
    uint32_t reached;                        /* entries from here on were never used */
    struct okv_admission_address *addresses; /* limit + 1 */
};

/* OKV_ENOMEM. */
int okv_admission_init(struct okv_admission *admission, uint32_t limit, uint32_t limit_per_address);
void okv_admission_fini(struct okv_admission *admission);

/* Admits a client from `address`. *index is what okv_admission_release() needs when it has left.
 * `leaving` is the index of a client that this one replaces and that does not count, or NULL; only
 * one such replacement may be under way. Returns 0, OKV_REJECT_BUSY or OKV_REJECT_ADDRESS. "" is a
 * valid address. */
int okv_admission_admit(struct okv_admission *admission, const char *address,
                        const uint32_t *leaving, uint32_t *index);
void okv_admission_release(struct okv_admission *admission, uint32_t index);

#endif
