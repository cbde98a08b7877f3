#include "server/identity/users.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/identity/users_state.h"
#include "shared/format/hash.h"

void okv_users_destroy(struct okv_users *users)
{
    if (!users)
        return;
    sodium_free(users->keys);
    free(users->held);
    free(users->list);
    free(users);
}

/* Users mostly stay in their order, so that the user after the last one found is the first guess.
 */
unsigned okv_users_compare(const struct okv_users *users, const struct okv_users *old,
                           uint32_t before[OKV_USERS_MAX])
{
    unsigned guess = 0, old_count = old ? old->count : 0;

    for (unsigned i = 0; i < users->count; i++) {
        before[i] = OKV_USERS_NEW;
        for (unsigned k = 0; k < old_count && before[i] == OKV_USERS_NEW; k++) {
            unsigned at = (guess + k) % old_count;
            if (strcmp(users->list[i].name, old->list[at].name) == 0)
                before[i] = at;
        }
        if (before[i] != OKV_USERS_NEW)
            guess = before[i] + 1;
    }
    return users->count;
}

const struct okv_user *okv_users_next(const struct okv_users *users, uint32_t key_id,
                                      unsigned *cursor, const struct okv_user_key **key)
{
    while (*cursor < users->key_count) {
        unsigned at = (*cursor)++;
        if (users->held[at].id != key_id)
            continue;
        *key = &users->keys[at];
        return &users->list[users->held[at].user];
    }
    return NULL;
}

uint8_t okv_users_rights(const struct okv_users *users, const char *name,
                         const uint8_t fingerprint[OKV_FINGERPRINT_SIZE], unsigned database)
{
    if (database >= OKV_DATABASES_MAX)
        return 0;
    for (unsigned i = 0; i < users->key_count; i++) {
        const struct okv_user *user = &users->list[users->held[i].user];
        if (memcmp(users->held[i].fingerprint, fingerprint, OKV_FINGERPRINT_SIZE) == 0)
            return strcmp(user->name, name) == 0 ? user->rights[database] : 0;
    }
    return 0;
}

/* A sum, so that the order does not count. */
uint64_t okv_users_digest(const struct okv_users *users)
{
    uint64_t digest = 0;

    for (unsigned i = 0; i < users->key_count; i++) {
        const struct okv_user *user = &users->list[users->held[i].user];
        uint64_t sum = okv_hash_checksum(user->name, strlen(user->name), 0);
        sum = okv_hash_checksum(user->rights, sizeof user->rights, sum);
        digest += okv_hash_checksum(users->held[i].fingerprint, OKV_FINGERPRINT_SIZE, sum);
    }
    return digest;
}

static bool has_password(const struct okv_user_key *key, const uint8_t *password, size_t length)
{
    char text[OKV_PASSWORD_TEXT];

    okv_user_key_password(key, text);
    bool is_it = length == sizeof text - 1 && sodium_memcmp(text, password, sizeof text - 1) == 0;
    sodium_memzero(text, sizeof text);
    return is_it;
}

bool okv_users_log_in(const struct okv_users *users, const char *name, const uint8_t *password,
                      size_t length, struct okv_login_grant *out)
{
    unsigned tried = 0;
    bool is_in = false;

    for (unsigned i = 0; i < users->key_count; i++) {
        const struct okv_user *user = &users->list[users->held[i].user];
        if (strcmp(user->name, name) != 0)
            continue;
        tried++;
        if (!has_password(&users->keys[i], password, length))
            continue;
        is_in = true;
        memcpy(out->fingerprint, users->held[i].fingerprint, sizeof out->fingerprint);
        memcpy(out->rights, user->rights, sizeof out->rights);
    }
    while (tried++ < OKV_USERS_KEYS && users->key_count > 0)
        has_password(&users->keys[0], password, length);
    return is_in;
}
