/*
 * Limits on connected clients: in all, per user and per address. Any thread may call.
 *
 * A client takes a place when it is let in. From then on it counts in all and for its user. For its
 * address it counts from the moment when it is known to be there: until then somebody else may have
 * named the address. Such a client is half-open.
 */
#ifndef OKV_SERVER_CLIENTS_ADMISSION_H
#define OKV_SERVER_CLIENTS_ADMISSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/config/config.h"

struct okv_admission_limits {
    uint32_t clients;     /* in all */
    uint32_t kept;        /* of these, for users with the right `admin` */
    uint32_t per_user;    /* 0: no such limit */
    uint32_t per_address; /* 0: no such limit */
};

/* A user or an address. */
struct okv_admission_party {
    char name[64];
    uint32_t clients;   /* 0: the entry is free */
    uint32_t half_open; /* of these */
};

struct okv_admission_parties {
    uint32_t reached;                    /* entries from here on were never used */
    struct okv_admission_party *entries; /* [most + 1] */
};

struct okv_admission_place {
    uint32_t user, address; /* indices of their parties */
    uint32_t next_free;
    bool is_half_open;
};

struct okv_admission {
    pthread_mutex_t lock;
    uint32_t most; /* clients that there is room for */
    struct okv_admission_limits limits;
    uint32_t clients;
    uint32_t half_open; /* of these */
    struct okv_admission_parties users, addresses;
    struct okv_admission_place *places; /* [most + 1] */
    uint32_t free;                      /* the first free one */
};

/* Who asks for a place. "" is a valid name. */
struct okv_admission_client {
    const char *user; /* "": the server serves everybody */
    const char *address;
    bool is_admin;     /* in the database that it asks for */
    bool is_half_open; /* okv_admission_establish() comes later */
};

/* What the server was told, and what follows from that. */
struct okv_admission_limits okv_admission_limits_of(const struct okv_config *config);

/* OKV_ENOMEM. */
int okv_admission_init(struct okv_admission *admission, const struct okv_admission_limits *limits);
/* For clients that come from now on; connected clients stay. limits->clients is no more than
 * okv_admission_init() had. */
void okv_admission_set_limits(struct okv_admission *admission,
                              const struct okv_admission_limits *limits);
void okv_admission_fini(struct okv_admission *admission);

/* Gives the client a place; *place is what the other calls need. `leaving` is the place of a client
 * that this one replaces and that does not count, or NULL; only one such replacement may be under
 * way. Returns 0, OKV_REJECT_BUSY, OKV_REJECT_USER or OKV_REJECT_ADDRESS. */
int okv_admission_admit(struct okv_admission *admission, const struct okv_admission_client *client,
                        const uint32_t *leaving, uint32_t *place);
/* The client has left. */
void okv_admission_release(struct okv_admission *admission, uint32_t place);

/* A half-open client has proved its address. False: the address is at its limit; end the client. */
bool okv_admission_establish(struct okv_admission *admission, uint32_t place);
/* Whether half-open clients have most of the places that the others leave, so that some of them
 * have to go. `room`: clients that the listener's device still has room for. */
bool okv_admission_is_short(struct okv_admission *admission, uint32_t room);
/* The number of its user, or without users of the client itself: at most what okv_admission_init()
 * had, and nobody else's while the client has its place. */
uint32_t okv_admission_party(const struct okv_admission *admission, uint32_t place);
/* How many half-open clients there are of the same user, or without users of the same address. */
uint32_t okv_admission_half_open(struct okv_admission *admission, uint32_t place);

#endif
