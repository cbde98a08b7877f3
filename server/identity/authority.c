#include "server/identity/authority.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/base/regular_file.h"

/* This slot and the one before. */
#define SLOTS 2

int okv_authority_init(struct okv_authority *authority, const char *path,
                       const char *const *databases, unsigned count, struct okv_diag *diag)
{
    *authority =
        (struct okv_authority){.path = path, .databases = databases, .database_count = count};
    pthread_mutex_init(&authority->lock, NULL);
    if (okv_user_key_create(&authority->secret) || okv_user_key_create(&authority->dummy) ||
        okv_used_cookies_init(&authority->used, OKV_USERS_MAX)) {
        okv_authority_fini(authority);
        return okv_diag_set(diag, OKV_ENOMEM, "out of memory for the users of %s",
                            okv_file_shown(path));
    }
    int rc = okv_authority_reload(authority, diag);
    if (rc)
        okv_authority_fini(authority);
    return rc;
}

void okv_authority_fini(struct okv_authority *authority)
{
    okv_users_destroy(authority->users);
    okv_used_cookies_fini(&authority->used);
    okv_user_key_destroy(authority->dummy);
    okv_user_key_destroy(authority->secret);
    pthread_mutex_destroy(&authority->lock);
    *authority = (struct okv_authority){0};
}

int okv_authority_reload(struct okv_authority *authority, struct okv_diag *diag)
{
    struct okv_users *users = NULL;
    uint32_t before[OKV_USERS_MAX];

    int rc = okv_users_load(authority->path, authority->databases, authority->database_count,
                            &users, diag);
    if (rc)
        return rc;
    okv_used_cookies_renumber(&authority->used, before,
                              okv_users_compare(users, authority->users, before));
    pthread_mutex_lock(&authority->lock);
    struct okv_users *before_it = authority->users;
    authority->users = users;
    pthread_mutex_unlock(&authority->lock);
    okv_users_destroy(before_it);
    return 0;
}

bool okv_authority_log_in(struct okv_authority *authority, const char *user,
                          const uint8_t *password, size_t length, struct okv_login_grant *out)
{
    pthread_mutex_lock(&authority->lock);
    bool is_in = okv_users_log_in(authority->users, user, password, length, out);
    pthread_mutex_unlock(&authority->lock);
    return is_in;
}

void okv_authority_rights(struct okv_authority *authority, const char *user,
                          const uint8_t fingerprint[OKV_FINGERPRINT_SIZE],
                          uint8_t rights[OKV_DATABASES_MAX])
{
    pthread_mutex_lock(&authority->lock);
    for (unsigned i = 0; i < OKV_DATABASES_MAX; i++)
        rights[i] = okv_users_rights(authority->users, user, fingerprint, i);
    pthread_mutex_unlock(&authority->lock);
}

uint64_t okv_authority_digest(struct okv_authority *authority)
{
    pthread_mutex_lock(&authority->lock);
    uint64_t digest = authority->users ? okv_users_digest(authority->users) : 0;
    pthread_mutex_unlock(&authority->lock);
    return digest;
}

/* From 1, so that each has one before it. */
static uint64_t slot_of(uint64_t now_ns)
{
    return now_ns / OKV_COOKIE_SLOT_NS + 1;
}

static void make_cookie(const struct okv_authority *authority, const struct okv_claimant *claimant,
                        uint64_t slot, uint8_t cookie[OKV_COOKIE_SIZE])
{
    okv_cookie_make(authority->secret, slot, claimant->binding, claimant->binding_length,
                    claimant->client_id, claimant->nonce, cookie);
}

void okv_authority_challenge(const struct okv_authority *authority,
                             const struct okv_claimant *claimant, uint64_t now_ns,
                             uint8_t cookie[OKV_COOKIE_SIZE])
{
    make_cookie(authority, claimant, slot_of(now_ns), cookie);
}

/* How many slots ago the cookie was made with which this user made the proof; SLOTS when none fits.
 * All are tried in any case. */
static unsigned age_of_proof(const struct okv_claimant *claimant,
                             uint8_t cookies[SLOTS][OKV_COOKIE_SIZE], const char *user,
                             const struct okv_user_key *key)
{
    struct okv_exchange exchange = {.hello = claimant->hello,
                                    .binding = claimant->binding,
                                    .binding_length = claimant->binding_length,
                                    .user = user};
    uint8_t expected[OKV_PROOF_SIZE];
    unsigned age = SLOTS;

    for (unsigned i = 0; i < SLOTS; i++) {
        exchange.cookie = cookies[i];
        okv_proof_client(key, &exchange, expected);
        if (okv_proof_equal(expected, claimant->proof))
            age = i;
    }
    return age;
}

static void identify(struct okv_identity *out, const struct okv_user *user,
                     const struct okv_user_key *key)
{
    *out = (struct okv_identity){.key = key, .found = user};
    snprintf(out->user, sizeof out->user, "%s", user->name);
    okv_user_key_fingerprint(key, out->fingerprint);
}

enum okv_verdict okv_authority_decide(struct okv_authority *authority,
                                      const struct okv_claimant *claimant, uint64_t now_ns,
                                      struct okv_identity *out, uint8_t cookie[OKV_COOKIE_SIZE])
{
    const uint64_t slot = slot_of(now_ns);
    const struct okv_user *user;
    const struct okv_user_key *key;
    uint8_t cookies[SLOTS][OKV_COOKIE_SIZE];
    unsigned cursor = 0, tried = 0;

    for (unsigned i = 0; i < SLOTS; i++)
        make_cookie(authority, claimant, slot - i, cookies[i]);
    while ((user = okv_users_next(authority->users, claimant->key_id, &cursor, &key))) {
        unsigned age = age_of_proof(claimant, cookies, user->name, key);
        tried++;
        if (age == SLOTS)
            continue;
        if (!okv_used_cookies_take(&authority->used, slot - age, user->index, cookies[age]))
            return OKV_VERDICT_STALE;
        identify(out, user, key);
        memcpy(cookie, cookies[age], OKV_COOKIE_SIZE);
        return OKV_VERDICT_PROVEN;
    }
    /* An unknown key takes as long as a wrong proof. */
    if (tried == 0)
        age_of_proof(claimant, cookies, "nobody", authority->dummy);
    return OKV_VERDICT_DENIED;
}
