#include "shared/identity/user_key.h"

#include <sodium.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/base/regular_file.h"

/* More than the line of a key file and what may end it. */
#define KEY_FILE_MAX 64

_Static_assert(OKV_USER_KEY_TEXT ==
                   sodium_base64_ENCODED_LEN(OKV_USER_KEY_SIZE, sodium_base64_VARIANT_ORIGINAL),
               "the text of a key");

int okv_identity_init(void)
{
    return sodium_init() < 0 ? OKV_EIO : 0;
}

int okv_user_key_create(struct okv_user_key **out)
{
    struct okv_user_key *key = sodium_malloc(sizeof *key);

    if (!key)
        return OKV_ENOMEM;
    randombytes_buf(key->bytes, sizeof key->bytes);
    *out = key;
    return 0;
}

int okv_user_key_decode(const char *text, size_t length, struct okv_user_key *key)
{
    size_t decoded = 0;

    if (length != OKV_USER_KEY_TEXT - 1 ||
        sodium_base642bin(key->bytes, sizeof key->bytes, text, length, NULL, &decoded, NULL,
                          sodium_base64_VARIANT_ORIGINAL) ||
        decoded != sizeof key->bytes)
        return OKV_EINVAL;
    return 0;
}

static int parse(const char *text, size_t length, struct okv_user_key **out)
{
    struct okv_user_key *key = sodium_malloc(sizeof *key);

    if (!key)
        return OKV_ENOMEM;
    int rc = okv_user_key_decode(text, length, key);
    if (rc)
        sodium_free(key);
    else
        *out = key;
    return rc;
}

int okv_user_key_parse(const char *text, struct okv_user_key **out)
{
    return parse(text, strlen(text), out);
}

int okv_user_key_read(const char *path, struct okv_user_key **out, struct okv_diag *diag)
{
    const char *shown = okv_file_shown(path);
    char *text;
    size_t length;

    int rc = okv_secret_file_read(path, KEY_FILE_MAX, &text, &length, diag);
    if (rc)
        return rc;
    if (length > 0 && text[length - 1] == '\n')
        length--;
    if (length > 0 && text[length - 1] == '\r')
        length--;
    rc = parse(text, length, out);
    sodium_free(text);
    if (rc == OKV_EINVAL)
        return okv_diag_set(
            diag, rc, "%s is not one line with a key: make a key file with okv keygen FILE", shown);
    if (rc)
        return okv_diag_set(diag, rc, "%s cannot be read: %s", shown, okv_error_text(rc));
    return 0;
}

void okv_user_key_text(const struct okv_user_key *key, char text[OKV_USER_KEY_TEXT])
{
    sodium_bin2base64(text, OKV_USER_KEY_TEXT, key->bytes, sizeof key->bytes,
                      sodium_base64_VARIANT_ORIGINAL);
}

void okv_user_key_destroy(struct okv_user_key *key)
{
    sodium_free(key);
}
