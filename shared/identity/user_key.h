/*
 * The key of a user: 32 random bytes that a client and the server share (docs/users.md).
 *
 * A key lies in memory that is locked as far as the system allows, left out of core dumps and wiped
 * when it is freed. No function copies it elsewhere but okv_user_key_text().
 */
#ifndef OKV_SHARED_IDENTITY_USER_KEY_H
#define OKV_SHARED_IDENTITY_USER_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/diag.h"

#define OKV_USER_KEY_SIZE 32    /* bytes */
#define OKV_FINGERPRINT_SIZE 16 /* bytes of the fingerprint of a key (proof.h) */
#define OKV_USER_KEY_TEXT 45    /* base64 (standard alphabet, padded) with its NUL */

/* Never a local variable: okv_user_key_create() and its like have the memory for it. */
struct okv_user_key {
    uint8_t bytes[OKV_USER_KEY_SIZE];
};

/* Call it before any other function of this folder. Further calls are harmless. Any thread. Returns
 * 0 or OKV_EIO. */
int okv_identity_init(void);

/* Each makes *out, which the caller destroys. OKV_ENOMEM. */
int okv_user_key_create(struct okv_user_key **out); /* random */
/* Also OKV_EINVAL: `text` is not exactly 32 bytes as base64. */
int okv_user_key_parse(const char *text, struct okv_user_key **out);
/* Of a file of one line, read by okv_secret_file_read(). Also its codes, OKV_EINVAL for another
 * content, and OKV_EIO; each with a sentence, which never has a piece of the key. */
int okv_user_key_read(const char *path, struct okv_user_key **out, struct okv_diag *diag);

/* Likewise into memory that the caller has from sodium_malloc(). `text` needs no NUL. */
int okv_user_key_decode(const char *text, size_t length, struct okv_user_key *key);

/* The caller wipes the text. */
void okv_user_key_text(const struct okv_user_key *key, char text[OKV_USER_KEY_TEXT]);
void okv_user_key_destroy(struct okv_user_key *key); /* accepts NULL */

/* Reads all of a file that okv_trusted_file_open() takes for one with secrets into *text, `*length`
 * bytes without a NUL, to be freed by sodium_free(). OKV_EINVAL when it has more than `limit`
 * bytes; OKV_ENOMEM; what opening returns. */
int okv_secret_file_read(const char *path, size_t limit, char **text, size_t *length,
                         struct okv_diag *diag);

#endif
