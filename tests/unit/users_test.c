/* Users files: what they say, what is wrong with them, and that no sentence has a key. */
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/identity/users.h"
#include "shared/base/error.h"

/* Keys of 32 equal bytes. */
#define KEY_A "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
#define KEY_B "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="
#define KEY_C "Q0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0M="
#define KEY_D "REREREREREREREREREREREREREREREREREREREREREQ="
#define KEY_E "RUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUU="

static const char *const DATABASES[] = {"default", "cache", "log"};
#define DATABASE_COUNT 3

static int parse(const char *text, struct okv_users **users, struct okv_diag *diag)
{
    return okv_users_parse("users", text, strlen(text), DATABASES, DATABASE_COUNT, users, diag);
}

static struct okv_users *users_of(const char *text)
{
    struct okv_users *users = NULL;
    struct okv_diag diag = {""};

    if (parse(text, &users, &diag))
        fail_msg("%s", diag.text);
    assert_string_equal(diag.text, "");
    return users;
}

static void fingerprint_of(const char *text, uint8_t fingerprint[OKV_FINGERPRINT_SIZE])
{
    struct okv_user_key *key;

    assert_int_equal(okv_user_key_parse(text, &key), 0);
    okv_user_key_fingerprint(key, fingerprint);
    okv_user_key_destroy(key);
}

/* The user who has the key, found by its id; NULL: nobody. */
static const struct okv_user *holder_of(const struct okv_users *users, const char *text)
{
    uint8_t wanted[OKV_FINGERPRINT_SIZE], found[OKV_FINGERPRINT_SIZE];
    const struct okv_user_key *key;
    const struct okv_user *user;
    unsigned cursor = 0;

    fingerprint_of(text, wanted);
    while ((user = okv_users_next(users, okv_user_key_id(wanted), &cursor, &key))) {
        okv_user_key_fingerprint(key, found);
        if (memcmp(found, wanted, sizeof found) == 0)
            return user;
    }
    return NULL;
}

static void expect_user(const struct okv_users *users, const char *key, const char *name,
                        uint8_t in_default, uint8_t in_cache, uint8_t in_log)
{
    const uint8_t expected[DATABASE_COUNT] = {in_default, in_cache, in_log};
    const struct okv_user *user = holder_of(users, key);
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE];

    assert_non_null(user);
    assert_string_equal(user->name, name);
    fingerprint_of(key, fingerprint);
    for (unsigned i = 0; i < DATABASE_COUNT; i++) {
        assert_int_equal(user->rights[i], expected[i]);
        assert_int_equal(okv_users_rights(users, name, fingerprint, i), expected[i]);
    }
    assert_int_equal(okv_users_rights(users, name, fingerprint, OKV_DATABASES_MAX), 0);
}

TEST(a_file_says_who_may_do_what)
{
    struct okv_users *users = users_of("# people\n"
                                       "[alice]\n"
                                       "key = " KEY_A "\n"
                                       "key = " KEY_B "\n"
                                       "default = read, write\n"
                                       "cache = read, write, admin\n"
                                       "\n"
                                       "[bob.smith_2-x]\n"
                                       "log = read\n"
                                       "key = " KEY_C "\n"
                                       "[carol]\n"
                                       "key = " KEY_D);

    expect_user(users, KEY_A, "alice", 3, 7, 0);
    expect_user(users, KEY_B, "alice", 3, 7, 0);
    expect_user(users, KEY_C, "bob.smith_2-x", 0, 0, 1);
    expect_user(users, KEY_D, "carol", 0, 0, 0);
    assert_null(holder_of(users, KEY_E));
    assert_int_equal(holder_of(users, KEY_A)->index, 0);
    assert_int_equal(holder_of(users, KEY_D)->index, 2);
    okv_users_destroy(users);
    okv_users_destroy(NULL);
}

TEST(servers_replicate_in_all_databases_or_in_some)
{
    struct okv_users *users = users_of("[peer]\nkey = " KEY_A "\n* = replicate\n"
                                       "[other]\nkey = " KEY_B "\nlog = read, replicate\n"
                                       "[reader]\n* = read\nkey = " KEY_C "\n");
    const uint8_t replicate = OKV_RIGHT_READ | OKV_RIGHT_REPLICATE;

    expect_user(users, KEY_A, "peer", replicate, replicate, replicate);
    expect_user(users, KEY_B, "other", 0, 0, replicate);
    expect_user(users, KEY_C, "reader", 1, 1, 1);
    okv_users_destroy(users);
}

TEST(rights_end_with_the_user_and_with_the_key)
{
    struct okv_users *users = users_of("[alice]\nkey = " KEY_A "\ncache = read\n"
                                       "[bob]\nkey = " KEY_B "\ncache = read, write\n");
    uint8_t a[OKV_FINGERPRINT_SIZE], b[OKV_FINGERPRINT_SIZE], c[OKV_FINGERPRINT_SIZE];

    fingerprint_of(KEY_A, a);
    fingerprint_of(KEY_B, b);
    fingerprint_of(KEY_C, c);
    assert_int_equal(okv_users_rights(users, "alice", a, 1), 1);
    assert_int_equal(okv_users_rights(users, "bob", b, 1), 3);
    assert_int_equal(okv_users_rights(users, "bob", a, 1), 0);
    assert_int_equal(okv_users_rights(users, "alice", c, 1), 0);
    assert_int_equal(okv_users_rights(users, "carol", a, 1), 0);
    assert_int_equal(okv_users_rights(users, "alice", a, 0), 0);
    okv_users_destroy(users);
}

/* Ways of writing that mean the same. */
TEST(writing_may_vary)
{
    static const char *const files[] = {
        "[alice]\nkey=" KEY_A "\ncache=read,write\n",
        "  [alice]\n\tkey = " KEY_A "\n    cache =  read ,\twrite  \n",
        "\xef\xbb\xbf[alice]\r\nkey = " KEY_A "\r\ncache = write, read\r\n",
        "; one\n#two\n   # three\n\n[alice] ; four\ncache = read, write\n\nkey = " KEY_A,
        "\n\n[alice]\t# \xc3\xa9\nkey = " KEY_A "\n# [bob]\n#key = x\ncache = read, write, read",
    };

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct okv_users *users = users_of(files[i]);
        expect_user(users, KEY_A, "alice", 0, 3, 0);
        okv_users_destroy(users);
    }
}

#define ALICE "[alice]\nkey = " KEY_A "\n"
#define NAME_OF_32 "a2345678901234567890123456789012"
#define TEN "1234567890"
#define LINE_OF_190 \
    "# " TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "45678901"

struct mistake {
    const char *text, *place, *what;
};

static const struct mistake MISTAKES[] = {
    {"", "users ", "no users"},
    {"\n# nothing\n\n", "users ", "no users"},
    {"key = " KEY_A "\n", "users:1:", "write [NAME] in front"},
    {"# people\ncache = read\n[alice]\n", "users:2:", "write [NAME] in front"},
    {ALICE "[alice]\nkey = " KEY_B, "users:3:", "alice was there before"},
    {ALICE "[bob]\nkey = " KEY_B "\n[alice]\ncache = read\n", "users:5:", "alice was there before"},
    {ALICE "cache = read\nlog = read\ncache = read, write\n", "users:5:", "cache was there before"},
    {ALICE "chache = read\n", "users:3:", "no database chache"},
    {ALICE "Cache = read\n", "users:3:", "no database Cache"},
    {ALICE "Key = " KEY_B "\n", "users:3:", "no database Key"},
    {ALICE "c ache = read\n", "users:3:", "nor the name of a database"},
    {ALICE ".. = read\n", "users:3:", "nor the name of a database"},
    {ALICE "= read\n", "users:3:", "nor the name of a database"},
    {ALICE "cache = read, delete\n", "users:3:", "no rights"},
    {ALICE "cache = read write\n", "users:3:", "no rights"},
    {ALICE "cache = read,\n", "users:3:", "no rights"},
    {ALICE "cache = ,read\n", "users:3:", "no rights"},
    {ALICE "cache = Read\n", "users:3:", "no rights"},
    {ALICE "cache = rea\n", "users:3:", "no rights"},
    {ALICE "cache =\n", "users:3:", "no rights"},
    {ALICE "cache = write\n", "users:3:", "without read"},
    {ALICE "cache = admin, write\n", "users:3:", "without read"},
    {ALICE "cache = replicate, write\n", "users:3:", "replicate with other rights"},
    {ALICE "* = read, admin, replicate\n", "users:3:", "replicate with other rights"},
    {ALICE "* = read\ncache = read, write\n", "users:4:", "cache was there before"},
    {ALICE "log = read\n* = read\n", "users:4:", "* was there before"},
    {ALICE "** = read\n", "users:3:", "nor the name of a database"},
    {"[alice]\nkey =\n", "users:2:", "no key"},
    {"[alice]\nkey = secret\n", "users:2:", "no key"},
    {"[alice]\nkey = " KEY_A "A\n", "users:2:", "no key"},
    {"[alice]\nkey = " KEY_A "," KEY_B "\n", "users:2:", "no key"},
    {"[alice]\nkey = QUFBQUFBQUFBQUFBQUFB\n  QUFBQUFBQUFBQUFBQUFBQUFBQUE=\n", "users:2:", "no key"},
    {ALICE "key = " KEY_A "\n", "users:3:", "alice has this key already"},
    {ALICE "[bob]\nkey = " KEY_A "\n", "users:4:", "alice has this key already"},
    {ALICE "key = " KEY_B "\nkey = " KEY_C "\nkey = " KEY_D "\nkey = " KEY_E "\n",
     "users:6:", "more than 4 keys"},
    {"[alice]\n", "users:1:", "no key"},
    {"[alice]\n\n[bob]\nkey = " KEY_A, "users:1:", "no key"},
    {ALICE "[bob]\ncache = read\n", "users:3:", "bob has no key"},
    {"# people\n[bob]\ncache = read\n" ALICE, "users:2:", "bob has no key"},
    {ALICE "[bob]", "users:3:", "no key"},
    {"[]\nkey = " KEY_A, "users:1:", "no name of a user"},
    {"[ alice ]\nkey = " KEY_A, "users:1:", "no name of a user"},
    {"[.]\nkey = " KEY_A, "users:1:", "no name of a user"},
    {"[..]\nkey = " KEY_A, "users:1:", "no name of a user"},
    {"[alice bob]\nkey = " KEY_A, "users:1:", "no name of a user"},
    {"[al/ice]\nkey = " KEY_A, "users:1:", "no name of a user"},
    {"[\xc3\xa9ve]\nkey = " KEY_A, "users:1:", "no name of a user"},
    {"[" NAME_OF_32 "]\nkey = " KEY_A, "users:1:", "no name of a user"},
    {"[" KEY_A "]\nkey = " KEY_A, "users:1:", "no name of a user"},
    {"[alice\nkey = " KEY_A, "users:1:", "not [NAME] alone"},
    {"[alice] key = " KEY_A "\n", "users:1:", "not [NAME] alone"},
    {"[alice]]\nkey = " KEY_A "\n", "users:1:", "not [NAME] alone"},
    {ALICE "[bob ;]\nkey = " KEY_B "\n", "users:3:", "neither [NAME] nor NAME = VALUE"},
    {ALICE "cache\n", "users:3:", "neither [NAME] nor NAME = VALUE"},
    {"[alice]\nkey " KEY_A "\n", "users:2:", ""},
    {"[alice]\n" KEY_A "\n", "users:2:", ""},
    {ALICE "cache\nlog = reed\n", "users:3:", "neither [NAME] nor NAME = VALUE"},
    {ALICE "log = reed\ncache\n", "users:3:", "no rights"},
    {"[alice]\nkey: \n[bob]\n", "users:2:", "no key"},
    {LINE_OF_190 "x\n" ALICE, "users:1:", "more than 190 bytes"},
    {ALICE "\n" LINE_OF_190 LINE_OF_190 LINE_OF_190, "users:4:", "more than 190 bytes"},
    {"[alice]\nkey = \x1b[1m" KEY_A, "users:2:", "control character"},
    {"[alice]\rkey = " KEY_A "\r", "users:1:", "control character"},
};

TEST(mistakes_name_the_line_and_no_key)
{
    for (size_t i = 0; i < sizeof MISTAKES / sizeof *MISTAKES; i++) {
        const struct mistake *mistake = &MISTAKES[i];
        struct okv_users *users = NULL;
        struct okv_diag diag = {""};
        int rc = parse(mistake->text, &users, &diag);
        bool explained = strncmp(diag.text, mistake->place, strlen(mistake->place)) == 0 &&
                         strstr(diag.text, mistake->what) && strstr(diag.text, ": ");
        if (rc != OKV_EINVAL || users || !explained)
            fail_msg("%zu: %d, '%s'", i, rc, diag.text);
        if (strstr(diag.text, "QUFB") || strstr(diag.text, "QkJC"))
            fail_msg("%zu: a key in '%s'", i, diag.text);
        print_message("%s\n", diag.text);
    }
}

TEST(lines_of_the_longest_kind_are_read)
{
    okv_users_destroy(users_of(LINE_OF_190 "\n" ALICE LINE_OF_190));
}

TEST(a_nul_is_no_text)
{
    static const char *const files[] = {"\0[alice]\nkey = " KEY_A, "[alice\0]\nkey = " KEY_A,
                                        "[alice]\0\nkey = " KEY_A};
    const size_t length = sizeof "\0[alice]\nkey = " KEY_A - 1;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct okv_users *users = NULL;
        struct okv_diag diag = {""};
        assert_int_equal(
            okv_users_parse("users", files[i], length, DATABASES, DATABASE_COUNT, &users, &diag),
            OKV_EINVAL);
        assert_non_null(strstr(diag.text, "users:1: a control character"));
    }
}

TEST(a_database_cannot_be_called_key)
{
    static const char *const databases[] = {"default", "key"};
    struct okv_users *users = NULL;
    struct okv_diag diag = {""};

    assert_int_equal(okv_users_parse("users", ALICE, strlen(ALICE), databases, 2, &users, &diag),
                     OKV_EINVAL);
    assert_non_null(strstr(diag.text, "another name"));
}

/* A file of `count` users with `keys` keys each, of which no two are equal. */
static char *many_users(unsigned count, unsigned keys)
{
    size_t size = (size_t)count * (32 + keys * 64) + 1, used = 0;
    char *text = test_malloc(size), written[OKV_USER_KEY_TEXT];
    struct okv_user_key *key;

    assert_int_equal(okv_user_key_create(&key), 0);
    for (unsigned i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, size - used, "[user-%u]\n", i);
        for (unsigned j = 0; j < keys; j++) {
            okv_put_u32(key->bytes, i);
            okv_put_u32(key->bytes + 4, j);
            okv_user_key_text(key, written);
            used += (size_t)snprintf(text + used, size - used, "key=%s\n", written);
        }
    }
    okv_user_key_destroy(key);
    return text;
}

static uint64_t digest_of(const char *text)
{
    struct okv_users *users = users_of(text);
    uint64_t digest = okv_users_digest(users);

    okv_users_destroy(users);
    return digest;
}

TEST(equal_users_have_one_digest)
{
    uint64_t digest = digest_of("[a]\nkey = " KEY_A "\nkey = " KEY_B "\ncache = read\n"
                                "[b]\nkey = " KEY_C "\n* = read, write\n");
    static const char *const others[] = {
        "[a]\nkey = " KEY_A "\nkey = " KEY_B "\ncache = read, write\n"
        "[b]\nkey = " KEY_C "\n* = read, write\n",
        "[a]\nkey = " KEY_A "\nkey = " KEY_B "\nlog = read\n"
        "[b]\nkey = " KEY_C "\n* = read, write\n",
        "[a]\nkey = " KEY_A "\ncache = read\n[b]\nkey = " KEY_C "\n* = read, write\n",
        "[a]\nkey = " KEY_A "\nkey = " KEY_D "\ncache = read\n"
        "[b]\nkey = " KEY_C "\n* = read, write\n",
        "[a]\nkey = " KEY_A "\nkey = " KEY_B "\ncache = read\n",
        "[c]\nkey = " KEY_A "\nkey = " KEY_B "\ncache = read\n"
        "[b]\nkey = " KEY_C "\n* = read, write\n",
    };

    assert_true(digest != 0);
    assert_int_equal(digest_of("# the same\n[b]\n* = write, read\nkey = " KEY_C
                               "\n[a]\ncache = read\nkey = " KEY_B "\nkey = " KEY_A "\n"),
                     digest);
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(digest_of(others[i]) != digest);
}

TEST(there_is_room_for_the_most_users_and_keys)
{
    char *text = many_users(OKV_USERS_MAX, OKV_USERS_KEYS);
    struct okv_users *users = users_of(text);
    char last[OKV_USER_KEY_TEXT];

    memcpy(last, strrchr(text, '\n') - (sizeof last - 1), sizeof last - 1);
    last[sizeof last - 1] = '\0';
    assert_int_equal(holder_of(users, last)->index, OKV_USERS_MAX - 1);
    okv_users_destroy(users);
    test_free(text);
}

TEST(there_is_no_room_for_more_users)
{
    char *text = many_users(OKV_USERS_MAX + 1, 1);
    struct okv_users *users = NULL;
    struct okv_diag diag = {""};

    assert_int_equal(parse(text, &users, &diag), OKV_EINVAL);
    assert_non_null(strstr(diag.text, "users:2001: more than 1000 users"));
    test_free(text);
}

TEST(files_of_others_are_refused)
{
    char path[] = "/tmp/okv-users.XXXXXX";
    int fd = mkstemp(path);
    struct okv_users *users = NULL;
    struct okv_diag diag = {""};

    assert_true(fd >= 0);
    assert_int_equal(write(fd, ALICE "cache = read\n", strlen(ALICE "cache = read\n")),
                     (int)strlen(ALICE "cache = read\n"));
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_int_equal(okv_users_load(path, DATABASES, DATABASE_COUNT, &users, &diag), OKV_EPERM);
    assert_non_null(strstr(diag.text, "chmod 600"));
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(okv_users_load(path, DATABASES, DATABASE_COUNT, &users, &diag), 0);
    expect_user(users, KEY_A, "alice", 0, 1, 0);
    okv_users_destroy(users);
    users = NULL;

    assert_int_equal(write(fd, "cache\n", 6), 6);
    assert_int_equal(okv_users_load(path, DATABASES, DATABASE_COUNT, &users, &diag), OKV_EINVAL);
    assert_non_null(strstr(diag.text, path));
    assert_non_null(strstr(diag.text, ":4: "));
    close(fd);
    unlink(path);
    assert_int_equal(okv_users_load(path, DATABASES, DATABASE_COUNT, &users, &diag), OKV_EINVAL);
}

static int set_up(void **state)
{
    (void)state;
    return okv_identity_init();
}

TEST_PROGRAM(set_up, NULL)
