/*
 * Authenticates clients. The first hello is answered with a cookie, for which nothing is kept; the
 * second one has a proof made with it. A cookie is good in the slot of time that it was made in and
 * in the next one, that is for 10 to 20 s, and once. For one thread after okv_authority_init(), but
 * for the last three calls; okv_identity_init() comes before it.
 */
#ifndef OKV_SERVER_IDENTITY_AUTHORITY_H
#define OKV_SERVER_IDENTITY_AUTHORITY_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "server/identity/used_cookies.h"
#include "server/identity/users.h"
#include "shared/base/diag.h"
#include "shared/identity/proof.h"
#include "shared/identity/user_key.h"

#define OKV_COOKIE_SLOT_NS UINT64_C(10000000000)

struct okv_authority {
    const char *path;             /* of the users file; borrowed */
    const char *const *databases; /* names by index; borrowed */
    unsigned database_count;
    pthread_mutex_t lock;        /* with it `users` changes, and other threads read it */
    struct okv_users *users;     /* until the next reload */
    struct okv_user_key *secret; /* of the cookies */
    struct okv_user_key *dummy;  /* of users that do not exist */
    struct okv_used_cookies used;
};

struct okv_identity {
    char user[OKV_NAME_SIZE];
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE];
    const struct okv_user_key *key; /* this and `found`: until the next okv_authority_reload() */
    const struct okv_user *found;
};

/* A hello, and where it came from. All borrowed. */
struct okv_claimant {
    const uint8_t *hello; /* 56 bytes, of which OKV_HELLO_PROVEN count */
    /* What the transport ties the connection to; the same for both hellos. */
    const uint8_t *binding;
    size_t binding_length;
    uint8_t client_id[OKV_CLIENT_ID_SIZE]; /* this, the next two and `proof` are of the hello */
    uint8_t nonce[OKV_NONCE_SIZE];
    uint32_t key_id;
    const uint8_t *proof;
};

enum okv_verdict {
    OKV_VERDICT_PROVEN,
    OKV_VERDICT_DENIED, /* wrong user, key, proof or time; the client is not told which */
    OKV_VERDICT_STALE   /* the proof is right and its cookie was used: begin anew */
};

/* Loads the users file. What okv_users_load() returns, with its sentences. */
int okv_authority_init(struct okv_authority *authority, const char *path,
                       const char *const *databases, unsigned count, struct okv_diag *diag);
void okv_authority_fini(struct okv_authority *authority);

/* Loads the users file again. After an error the users are as before. */
int okv_authority_reload(struct okv_authority *authority, struct okv_diag *diag);

/* Makes the cookie for a first hello. `now_ns` is of a clock that never goes back. */
void okv_authority_challenge(const struct okv_authority *authority,
                             const struct okv_claimant *claimant, uint64_t now_ns,
                             uint8_t cookie[OKV_COOKIE_SIZE]);

/* Judges a second hello. With OKV_VERDICT_PROVEN `*out` says who it is and `cookie` is the one that
 * the proof was made with, for the server's proof; else both are unspecified. STALE is also the
 * verdict while this user has no room for another cookie in this slot. */
enum okv_verdict okv_authority_decide(struct okv_authority *authority,
                                      const struct okv_claimant *claimant, uint64_t now_ns,
                                      struct okv_identity *out, uint8_t cookie[OKV_COOKIE_SIZE]);

/* For clients without hello, who give a user and a password: okv_users_log_in(). Any thread. */
bool okv_authority_log_in(struct okv_authority *authority, const char *user,
                          const uint8_t *password, size_t length, struct okv_login_grant *out);
/* Of the users that it has now, as okv_users_digest(); 0: it has none. Any thread. */
uint64_t okv_authority_digest(struct okv_authority *authority);
/* The rights that a user has now with this key, by database. Any thread. */
void okv_authority_rights(struct okv_authority *authority, const char *user,
                          const uint8_t fingerprint[OKV_FINGERPRINT_SIZE],
                          uint8_t rights[OKV_DATABASES_MAX]);

#endif
