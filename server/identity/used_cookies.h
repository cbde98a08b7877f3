/*
 * The cookies that were used in a proof of identity: each may be used once. A cookie is valid in
 * the slot of time in which it was made and in the next one, so two slots are remembered. For one
 * thread.
 *
 * Half of a slot's room is divided into reserves, one for each user of the users file: no other
 * user gets what is in it, whatever they do together. With OKV_USERS_MAX users it is 32 cookies.
 * The other half is shared, first come first served.
 */
#ifndef OKV_SERVER_IDENTITY_USED_COOKIES_H
#define OKV_SERVER_IDENTITY_USED_COOKIES_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/identity/proof.h"

#define OKV_USED_COOKIES_MAX 65536u                        /* of one slot */
#define OKV_USED_COOKIES_COMMON (OKV_USED_COOKIES_MAX / 2) /* beyond all reserves */
#define OKV_USED_COOKIES_SHARE                                        \
    16384u /* of one user in one slot: more than --max-clients can be \
            */

struct okv_used_slot {
    uint64_t slot;
    uint32_t count;
    uint32_t common;  /* how many of them no reserve has */
    uint64_t *table;  /* twice the maximum; 0: free */
    uint32_t *shares; /* how many are a user's, by its index */
};

struct okv_used_cookies {
    struct okv_used_slot slots[2]; /* by the lowest bit of their slot */
    uint32_t users;                /* that there is room for */
    uint32_t reserve;              /* cookies of a user in a slot */
    uint32_t *spare;               /* the new shares, while users get other indexes */
};

/* For users with an index below `users`, as many as there are at most. OKV_ENOMEM. */
int okv_used_cookies_init(struct okv_used_cookies *used, uint32_t users);
void okv_used_cookies_fini(struct okv_used_cookies *used); /* accepts one that is all zeros */

/* Remembers a cookie of a slot. Slots only advance, except for one step back. False when it was
 * used before, or when there is no room for this user: a proof that is not remembered could be
 * replayed. */
bool okv_used_cookies_take(struct okv_used_cookies *used, uint64_t slot, uint32_t user,
                           const uint8_t cookie[OKV_COOKIE_SIZE]);

/* There are `count` users from now on. User i was user before[i] and keeps its share; OKV_USERS_NEW
 * begins without one. Cookies of users that are gone stay used, and count for the common half. */
void okv_used_cookies_renumber(struct okv_used_cookies *used, const uint32_t *before,
                               uint32_t count);

#endif
