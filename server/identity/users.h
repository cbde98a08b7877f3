/*
 * Users and their rights: an immutable snapshot of a users file (format: docs/users.md). Any thread
 * may read a snapshot.
 */
#ifndef OKV_SERVER_IDENTITY_USERS_H
#define OKV_SERVER_IDENTITY_USERS_H

#include <stddef.h>
#include <stdint.h>

#include "server/config/config.h"
#include "shared/base/diag.h"
#include "shared/base/uri.h"
#include "shared/identity/proof.h"
#include "shared/identity/user_key.h"

#define OKV_USERS_MAX 1000
#define OKV_USERS_KEYS 4               /* of one user */
#define OKV_USERS_LINE 190             /* bytes of a line */
#define OKV_USERS_FILE_MAX (1u << 20u) /* bytes */

struct okv_user {
    char name[OKV_NAME_SIZE];
    uint8_t rights[OKV_DATABASES_MAX]; /* by database: 0, or OKV_RIGHT_READ with others */
    unsigned index;                    /* in this snapshot, below OKV_USERS_MAX */
};

struct okv_users;

/* Reads a file that okv_secret_file_read() takes. `databases` are names by index, borrowed for
 * the call. Returns 0, or OKV_EINVAL, OKV_EPERM, OKV_ENOMEM or OKV_EIO with a sentence that names
 * file and line and never contains a piece of a key. */
int okv_users_load(const char *path, const char *const *databases, unsigned count,
                   struct okv_users **out, struct okv_diag *diag);
/* Reads `length` bytes of text instead of a file; `name` stands for the file in sentences. */
int okv_users_parse(const char *name, const char *text, size_t length, const char *const *databases,
                    unsigned count, struct okv_users **out, struct okv_diag *diag);
void okv_users_destroy(struct okv_users *users); /* accepts NULL */

#define OKV_USERS_NEW UINT32_MAX
/* Finds users of a snapshot by their names in an older one, which may be NULL: before[i] is the
 * index that user i had there, or OKV_USERS_NEW. Returns how many users the snapshot has, 1 to
 * OKV_USERS_MAX. */
unsigned okv_users_compare(const struct okv_users *users, const struct okv_users *old,
                           uint32_t before[OKV_USERS_MAX]);

/* The next key with this id and its user, both the snapshot's; NULL at the end. *cursor starts at
 * 0. */
const struct okv_user *okv_users_next(const struct okv_users *users, uint32_t key_id,
                                      unsigned *cursor, const struct okv_user_key **key);

/* The rights of a user in a database: 0 when the snapshot has no such user, or not with the key of
 * this fingerprint. */
uint8_t okv_users_rights(const struct okv_users *users, const char *name,
                         const uint8_t fingerprint[OKV_FINGERPRINT_SIZE], unsigned database);

/* The same for two snapshots with the same users, keys and rights, in whatever order. */
uint64_t okv_users_digest(const struct okv_users *users);

/* Rights granted by a login with a password. */
struct okv_login_grant {
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE]; /* of the key */
    uint8_t rights[OKV_DATABASES_MAX];
};
/* Compares as many passwords as a user may have keys, whether or not the user exists, so that time
 * does not show which users do. */
bool okv_users_log_in(const struct okv_users *users, const char *name, const uint8_t *password,
                      size_t length, struct okv_login_grant *out);

#endif
