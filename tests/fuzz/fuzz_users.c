/* Users files: any text is refused with a sentence or accepted as a whole. */
#include <ctype.h>

#include "server/identity/users.h"
#include "shared/base/error.h"
#include "tests/fuzz/fuzz_input.h"

#define TEXT_MAX 4096
/* A run of this many letters of base64 is a good part of a key, and longer than a name. */
#define KEY_RUN 32

static const char *const databases[] = {"default", "cache", "a", "b.c-d_e"};
#define DATABASE_COUNT 4

static bool shows_a_key(const char *text)
{
    unsigned run = 0;

    for (; *text; text++) {
        run = isalnum((unsigned char)*text) || *text == '+' || *text == '/' ? run + 1 : 0;
        if (run == KEY_RUN)
            return true;
    }
    return false;
}

/* If the text is a key: at most one user has it, with rights that can be. */
static void check_key(const struct okv_users *users, const char *text, size_t length)
{
    uint8_t wanted[OKV_FINGERPRINT_SIZE], found[OKV_FINGERPRINT_SIZE];
    const struct okv_user_key *key;
    const struct okv_user *user;
    struct okv_user_key *given;
    char *copy = strndup(text, length);
    unsigned cursor = 0, times = 0;

    FUZZ_CHECK(copy);
    int rc = okv_user_key_parse(copy, &given);
    free(copy);
    if (rc)
        return;
    okv_user_key_fingerprint(given, wanted);
    okv_user_key_destroy(given);
    while ((user = okv_users_next(users, okv_user_key_id(wanted), &cursor, &key))) {
        FUZZ_CHECK(okv_name_is_valid(user->name) && user->index < OKV_USERS_MAX);
        okv_user_key_fingerprint(key, found);
        times += memcmp(found, wanted, sizeof found) == 0;
        for (unsigned i = 0; i < OKV_DATABASES_MAX; i++) {
            uint8_t rights = user->rights[i];
            FUZZ_CHECK(rights <= OKV_RIGHTS_ALL && (rights == 0 || rights & OKV_RIGHT_READ));
            FUZZ_CHECK(rights == 0 || i < DATABASE_COUNT);
            FUZZ_CHECK(okv_users_rights(users, user->name, found, i) == rights);
        }
    }
    FUZZ_CHECK(times <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct okv_diag diag = {.text = ""};
    struct okv_users *users = NULL;
    size_t length;

    FUZZ_CHECK(okv_identity_init() == 0);
    char *text = (char *)fuzz_bytes(&input, TEXT_MAX, &length);
    int rc = okv_users_parse("users", text, length, databases, DATABASE_COUNT, &users, &diag);

    FUZZ_CHECK(rc == 0 ? users && !diag.text[0] : rc == OKV_EINVAL && !users && diag.text[0]);
    FUZZ_CHECK(!shows_a_key(diag.text));
    for (size_t at = 0; users && at + OKV_USER_KEY_TEXT - 1 <= length; at++)
        if (text[at + OKV_USER_KEY_TEXT - 2] == '=')
            check_key(users, text + at, OKV_USER_KEY_TEXT - 1);
    okv_users_destroy(users);
    free(text);
    return 0;
}
