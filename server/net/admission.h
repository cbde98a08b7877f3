/*
 * How many clients may be here at once: in all, and from one address.
 *
 * Threads. Any.
 */
#ifndef OKV_SERVER_NET_ADMISSION_H
#define OKV_SERVER_NET_ADMISSION_H

#include <pthread.h>
#include <stdint.h>

/* The clients from one address. */
struct okv_admission_address {
    char name[64];
    uint32_t clients; /* 0: nobody's */
};

struct okv_admission {
    pthread_mutex_t lock;
    uint32_t limit;             /* clients in all */
    uint32_t limit_per_address; /* 0: none of its own */
    uint32_t clients;
    uint32_t reached;                        /* the places from here on were never taken */
    struct okv_admission_address *addresses; /* limit + 1 */
};

/* OKV_ENOMEM. */
int okv_admission_init(struct okv_admission *admission, uint32_t limit, uint32_t limit_per_address);
void okv_admission_fini(struct okv_admission *admission);

/* Lets a client from `address` in and says in *place what to give back when it has gone. `leaving`
 * is the place of one that it replaces, which does not count, or NULL; at most one at a time is so
 * replaced. Returns 0, OKV_REJECT_BUSY or OKV_REJECT_ADDRESS. "" is an address like others. */
int okv_admission_take(struct okv_admission *admission, const char *address,
                       const uint32_t *leaving, uint32_t *place);
void okv_admission_give_back(struct okv_admission *admission, uint32_t place);

#endif
