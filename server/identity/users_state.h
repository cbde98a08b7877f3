/* The inside of a snapshot, for the functions that make it and read it. */
#ifndef OKV_SERVER_IDENTITY_USERS_STATE_H
#define OKV_SERVER_IDENTITY_USERS_STATE_H

#include "server/identity/users.h"

/* What is known of a key without looking at it. */
struct okv_users_key {
    uint32_t id;
    uint32_t user; /* index in `list` */
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE];
};

struct okv_users {
    unsigned count;
    unsigned key_count;
    struct okv_user *list;      /* `count` of them */
    struct okv_users_key *held; /* `key_count` of them */
    struct okv_user_key *keys;  /* one for each of `held`; from sodium_allocarray() */
};

#endif
