/* The users file: any text is a snapshot that keeps its promises, or a sentence with file and line.
 */
#include "server/identity/users.h"

#include "shared/base/error.h"
#include "tests/fuzz/fuzz_input.h"

#define TEXT_MAX 4096

static const char *const DATABASES[] = {"default", "cache"};

static void check_user(const struct okv_users *users, const struct okv_user *user,
                       const struct okv_user_key *key)
{
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE];
    unsigned cursor = 0, found = 0;
    const struct okv_user_key *other;
    const struct okv_user *at;

    okv_user_key_fingerprint(key, fingerprint);
    FUZZ_CHECK(okv_name_is_valid(user->name));
    FUZZ_CHECK(user->index < OKV_USERS_MAX);
    for (unsigned i = 0; i < OKV_DATABASES_MAX; i++) {
        FUZZ_CHECK(user->rights[i] <= OKV_RIGHTS_ALL);
        FUZZ_CHECK(user->rights[i] == 0 || (user->rights[i] & OKV_RIGHT_READ && i < 2));
        FUZZ_CHECK(okv_users_rights(users, user->name, fingerprint, i) == user->rights[i]);
    }
    while ((at = okv_users_next(users, okv_user_key_id(fingerprint), &cursor, &other)))
        found += at == user && memcmp(other, key, sizeof *key) == 0;
    FUZZ_CHECK(found == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct okv_diag diag = {.text = ""};
    struct okv_users *users = NULL;
    const struct okv_user_key *key;
    const struct okv_user *user;
    unsigned cursor = 0;

    FUZZ_CHECK(okv_identity_init() == 0);
    if (size > TEXT_MAX)
        return 0;
    int rc = okv_users_parse("users", (const char *)data, size, DATABASES, 2, &users, &diag);
    FUZZ_CHECK(memchr(diag.text, '\0', sizeof diag.text));
    if (rc) {
        FUZZ_CHECK(rc == OKV_EINVAL && !users);
        FUZZ_CHECK(strncmp(diag.text, "users", 5) == 0);
        return 0;
    }
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE] = {0};
    for (uint32_t id = 0; id < 2; id++)
        FUZZ_CHECK(!okv_users_next(users, id, &(unsigned){0}, &key));
    FUZZ_CHECK(okv_users_rights(users, "nobody", fingerprint, 0) == 0);
    /* The keys of the corpus. */
    for (int letter = 'A'; letter <= 'D'; letter++) {
        struct okv_user_key *known = NULL;
        FUZZ_CHECK(okv_user_key_create(&known) == 0);
        memset(known->bytes, letter, sizeof known->bytes);
        okv_user_key_fingerprint(known, fingerprint);
        cursor = 0;
        while ((user = okv_users_next(users, okv_user_key_id(fingerprint), &cursor, &key)))
            check_user(users, user, key);
        okv_user_key_destroy(known);
    }
    okv_users_destroy(users);
    return 0;
}
