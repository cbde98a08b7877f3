#include "server/identity/used_cookies.h"

#include <stdlib.h>
#include <string.h>

#include "server/identity/users.h"
#include "shared/base/bytes.h"
#include "shared/base/error.h"

#define TABLE_SIZE (2 * OKV_USED_COOKIES_MAX)

_Static_assert((TABLE_SIZE & (TABLE_SIZE - 1)) == 0, "a power of two");

static uint32_t reserve_among(uint32_t users)
{
    return (OKV_USED_COOKIES_MAX - OKV_USED_COOKIES_COMMON) / users;
}

int okv_used_cookies_init(struct okv_used_cookies *used, uint32_t users)
{
    *used = (struct okv_used_cookies){.users = users, .reserve = reserve_among(users)};
    used->spare = calloc(users, sizeof *used->spare);
    if (!used->spare)
        return OKV_ENOMEM;
    for (unsigned i = 0; i < 2; i++) {
        struct okv_used_slot *at = &used->slots[i];
        at->table = calloc(TABLE_SIZE, sizeof *at->table);
        at->shares = calloc(users, sizeof *at->shares);
        if (!at->table || !at->shares) {
            okv_used_cookies_fini(used);
            return OKV_ENOMEM;
        }
    }
    return 0;
}

void okv_used_cookies_fini(struct okv_used_cookies *used)
{
    for (unsigned i = 0; i < 2; i++) {
        free(used->slots[i].shares);
        free(used->slots[i].table);
    }
    free(used->spare);
    *used = (struct okv_used_cookies){0};
}

static void begin_slot(struct okv_used_cookies *used, struct okv_used_slot *at, uint64_t slot)
{
    at->slot = slot;
    if (at->count == 0)
        return;
    at->count = at->common = 0;
    memset(at->table, 0, TABLE_SIZE * sizeof *at->table);
    memset(at->shares, 0, used->users * sizeof *at->shares);
}

/* Reserves and the common half fit the table together, so that the first condition ends nobody's
 * reserve unless the number of users has changed in this slot. */
static bool has_room(const struct okv_used_cookies *used, const struct okv_used_slot *at,
                     uint32_t user)
{
    if (at->count == OKV_USED_COOKIES_MAX || at->shares[user] == OKV_USED_COOKIES_SHARE)
        return false;
    return at->shares[user] < used->reserve || at->common < OKV_USED_COOKIES_COMMON;
}

bool okv_used_cookies_take(struct okv_used_cookies *used, uint64_t slot, uint32_t user,
                           const uint8_t cookie[OKV_COOKIE_SIZE])
{
    struct okv_used_slot *at = &used->slots[slot & 1];
    /* Half of a cookie: one that looks used by chance costs its client another attempt. Nobody
     * without the server's secret can choose it, so that the table needs no hash. */
    uint64_t mark = okv_get_u64(cookie) ? okv_get_u64(cookie) : 1;
    uint32_t place = (uint32_t)mark & (TABLE_SIZE - 1);

    if (at->slot != slot)
        begin_slot(used, at, slot);
    while (at->table[place] && at->table[place] != mark)
        place = (place + 1) & (TABLE_SIZE - 1);
    if (at->table[place] || !has_room(used, at, user))
        return false;
    at->table[place] = mark;
    at->count++;
    at->common += at->shares[user]++ >= used->reserve;
    return true;
}

static void renumber_slot(struct okv_used_cookies *used, struct okv_used_slot *at,
                          const uint32_t *before, uint32_t count)
{
    uint32_t *shares = used->spare;

    memset(shares, 0, used->users * sizeof *shares);
    at->common = at->count;
    for (uint32_t i = 0; i < count; i++) {
        if (before[i] != OKV_USERS_NEW)
            shares[i] = at->shares[before[i]];
        at->common -= shares[i] < used->reserve ? shares[i] : used->reserve;
    }
    used->spare = at->shares;
    at->shares = shares;
}

void okv_used_cookies_renumber(struct okv_used_cookies *used, const uint32_t *before,
                               uint32_t count)
{
    used->reserve = reserve_among(count);
    for (unsigned i = 0; i < 2; i++)
        renumber_slot(used, &used->slots[i], before, count);
}
