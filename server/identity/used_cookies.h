/*
 * The cookies with which somebody has proven who he is: each is good once. A cookie is good in its
 * slot of time and in the next one, so two slots are remembered. For one thread.
 */
#ifndef OKV_SERVER_IDENTITY_USED_COOKIES_H
#define OKV_SERVER_IDENTITY_USED_COOKIES_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/identity/proof.h"

#define OKV_USED_COOKIES_MAX 65536u /* of one slot */
#define OKV_USED_COOKIES_SHARE                                        \
    16384u /* of one user in one slot: more than --max-clients can be \
            */

struct okv_used_slot {
    uint64_t slot;
    uint32_t count;
    uint64_t *table;  /* twice the maximum; 0: free */
    uint32_t *shares; /* how many are a user's, by its index */
};

struct okv_used_cookies {
    struct okv_used_slot slots[2]; /* by the lowest bit of their slot */
    uint32_t users;
};

/* For users with an index below `users`. OKV_ENOMEM. */
int okv_used_cookies_init(struct okv_used_cookies *used, uint32_t users);
void okv_used_cookies_fini(struct okv_used_cookies *used); /* accepts one that is all zeros */

/* Remembers a cookie of a slot. Slots go on, but for one step back. False when it was used before,
 * or when there is no room: whoever is not remembered could come twice. */
bool okv_used_cookies_take(struct okv_used_cookies *used, uint64_t slot, uint32_t user,
                           const uint8_t cookie[OKV_COOKIE_SIZE]);

/* Users have other indexes from now on: shares begin anew, cookies stay used. */
void okv_used_cookies_renumber(struct okv_used_cookies *used);

#endif
