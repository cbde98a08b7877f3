/* Keys of users, and the files that hold secrets. */
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/base/regular_file.h"
#include "shared/identity/user_key.h"

/* The bytes 0 to 31. */
#define TEXT "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

static char folder[] = "/tmp/okv-user-key.XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    if (okv_identity_init() || okv_identity_init() || !mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/key", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

static int remove_file(void **state)
{
    (void)state;
    return remove(path);
}

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void expect_text(struct okv_user_key *key, const char *expected)
{
    char text[OKV_USER_KEY_TEXT];

    okv_user_key_text(key, text);
    assert_string_equal(text, expected);
    okv_user_key_destroy(key);
}

TEST(a_key_is_its_text)
{
    struct okv_user_key *key = NULL;

    assert_int_equal(okv_user_key_parse(TEXT, &key), 0);
    for (unsigned i = 0; i < OKV_USER_KEY_SIZE; i++)
        assert_int_equal(key->bytes[i], i);
    expect_text(key, TEXT);
    okv_user_key_destroy(NULL);
}

TEST(other_texts_are_no_keys)
{
    static const char *const wrong[] = {
        "",
        "=",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",   /* without padding */
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+=",  /* bits behind the last byte */
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==",  /* 31 bytes */
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8A",  /* 33 bytes */
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8==", /* more padding */
        " AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",  /* a blank in front */
        "AAECAwQFBgcICQoLDA0OD AREhMUFRYXGBkaGxwdHh8=",  /* a blank inside */
        "AAECAwQFBgcICQoLDA0OD_AREhMUFRYXGBkaGxwdHh8=",  /* the alphabet of URLs */
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct okv_user_key *key = NULL;
        if (okv_user_key_parse(wrong[i], &key) != OKV_EINVAL || key)
            fail_msg("'%s' was taken for a key", wrong[i]);
    }
}

TEST(created_keys_differ)
{
    struct okv_user_key *one = NULL, *other = NULL;

    assert_int_equal(okv_user_key_create(&one), 0);
    assert_int_equal(okv_user_key_create(&other), 0);
    assert_memory_not_equal(one->bytes, other->bytes, OKV_USER_KEY_SIZE);
    okv_user_key_destroy(other);
    okv_user_key_destroy(one);
}

/* Whether the kernel leaves the page at this address out of core dumps. */
static bool is_left_out_of_dumps(const void *address)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    unsigned long from, to;
    char line[512];
    bool inside = false, found = false;

    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = (uintptr_t)address >= from && (uintptr_t)address < to;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, " dd") != NULL;
    }
    fclose(maps);
    return found;
}

TEST(keys_are_left_out_of_core_dumps)
{
    struct okv_user_key *key = NULL;
    int other = 0;

    assert_int_equal(okv_user_key_create(&key), 0);
    assert_true(is_left_out_of_dumps(key->bytes));
    assert_false(is_left_out_of_dumps(&other));
    okv_user_key_destroy(key);
}

TEST_WITH(a_key_file_is_one_line, NULL, remove_file)
{
    static const struct {
        const char *text;
        int code;
    } files[] = {
        {TEXT "\n", 0},
        {TEXT, 0},
        {TEXT "\r\n", 0},
        {"", OKV_EINVAL},
        {"\n", OKV_EINVAL},
        {TEXT "\n\n", OKV_EINVAL},
        {TEXT " \n", OKV_EINVAL},
        {TEXT "\n" TEXT "\n", OKV_EINVAL},
        {"key = " TEXT "\n", OKV_EINVAL},
    };

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct okv_user_key *key = NULL;
        struct okv_diag diag = {""};
        write_file(files[i].text, 0600);
        assert_int_equal(okv_user_key_read(path, &key, &diag), files[i].code);
        if (files[i].code == 0) {
            assert_string_equal(diag.text, "");
            expect_text(key, TEXT);
        } else {
            assert_null(key);
            assert_non_null(strstr(diag.text, path));
            assert_null(strstr(diag.text, "AAEC"));
        }
    }
}

static void expect_refusal(int code, const char *sentence)
{
    struct okv_diag diag = {""};

    assert_int_equal(okv_trusted_file_open(path, OKV_FILE_OTHERS_NEVER, &diag), code);
    if (!strstr(diag.text, sentence) || !strstr(diag.text, path))
        fail_msg("no '%s' in: %s", sentence, diag.text);
}

TEST_WITH(secrets_are_closed_to_others, NULL, remove_file)
{
    static const mode_t open_to_others[] = {0601, 0602, 0604, 0610, 0620, 0640, 0777};
    static const mode_t closed[] = {0600, 0400, 0700};

    write_file("secret", 0600);
    for (size_t i = 0; i < sizeof open_to_others / sizeof *open_to_others; i++) {
        assert_int_equal(chmod(path, open_to_others[i]), 0);
        expect_refusal(OKV_EPERM, "chmod 600 ");
    }
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        assert_int_equal(chmod(path, closed[i]), 0);
        int fd = okv_trusted_file_open(path, OKV_FILE_OTHERS_NEVER, NULL);
        assert_in_range(fd, 0, 1000);
        close(fd);
    }
}

TEST_WITH(what_others_may_read_they_may_not_change, NULL, remove_file)
{
    static const mode_t refused[] = {0602, 0620, 0666};
    static const mode_t accepted[] = {0644, 0600, 0444};
    struct okv_diag diag;

    write_file("no secret", 0600);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(chmod(path, refused[i]), 0);
        assert_int_equal(okv_trusted_file_open(path, OKV_FILE_OTHERS_READ, &diag), OKV_EPERM);
        assert_non_null(strstr(diag.text, "chmod go-w "));
    }
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        assert_int_equal(chmod(path, accepted[i]), 0);
        int fd = okv_trusted_file_open(path, OKV_FILE_OTHERS_READ, NULL);
        assert_in_range(fd, 0, 1000);
        close(fd);
    }
}

TEST_WITH(a_file_has_a_limit, NULL, remove_file)
{
    struct okv_diag diag;

    write_file("", 0600);
    assert_int_equal(truncate(path, OKV_TRUSTED_FILE_MAX), 0);
    int fd = okv_trusted_file_open(path, OKV_FILE_OTHERS_READ, NULL);
    assert_in_range(fd, 0, 1000);
    close(fd);
    assert_int_equal(truncate(path, OKV_TRUSTED_FILE_MAX + 1), 0);
    expect_refusal(OKV_EINVAL, "has more than 1048576 bytes: name the right file");
    assert_int_equal(okv_trusted_file_open(path, OKV_FILE_OTHERS_READ, &diag), OKV_EINVAL);
}

TEST_WITH(secrets_belong_to_this_user_or_to_root, NULL, remove_file)
{
    write_file("secret", 0600);
    if (chown(path, geteuid() + 1, (gid_t)-1) == 0)
        expect_refusal(OKV_EPERM, "chown ");
    else
        print_message("only root can give a file to another user: left out\n");
}

TEST_WITH(secrets_are_regular_files, NULL, remove_file)
{
    expect_refusal(OKV_EINVAL, "No such file");
    assert_int_equal(mkfifo(path, 0600), 0); /* to open it must not wait for a writer */
    expect_refusal(OKV_EINVAL, "regular file");
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refusal(OKV_EINVAL, "regular file");
}

/* As a mounted secret of Kubernetes is, for a pod with fsGroup. */
TEST_WITH(root_may_give_a_secret_to_a_group, NULL, remove_file)
{
    const uid_t nobody = 65534;
    const gid_t group = getegid();
    struct okv_diag diag = {""};
    char directory[sizeof path];

    if (geteuid() != 0) {
        print_message("only root can give a file to a group: left out\n");
        return;
    }
    write_file("secret", 0640);
    assert_int_equal(chown(path, 0, nobody), 0);
    snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(chmod(directory, 0711), 0);
    assert_true(setegid(nobody) == 0 && seteuid(nobody) == 0);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0); /* its own /proc is closed to it else */
    int given = okv_trusted_file_open(path, OKV_FILE_OTHERS_NEVER, &diag);
    assert_true(seteuid(0) == 0 && setegid(group) == 0);
    if (given < 0)
        fail_msg("%s", diag.text);
    close(given);
    assert_int_equal(chmod(path, 0660), 0);
    assert_int_equal(seteuid(nobody), 0);
    expect_refusal(OKV_EPERM, "chmod 600 ");
    assert_int_equal(seteuid(0), 0);
    /* For root's own programs it is open to others. */
    assert_int_equal(chmod(path, 0640), 0);
    expect_refusal(OKV_EPERM, "chmod 600 ");
}

/* As a mounted secret of Kubernetes is. */
TEST_WITH(secrets_may_be_behind_links, NULL, remove_file)
{
    char target[80];

    write_file("secret", 0600);
    snprintf(target, sizeof target, "%s.moved", path);
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
    int fd = okv_trusted_file_open(path, OKV_FILE_OTHERS_NEVER, NULL);
    assert_in_range(fd, 0, 1000);
    close(fd);
    assert_int_equal(chmod(target, 0640), 0);
    expect_refusal(OKV_EPERM, "chmod 600 ");
    assert_int_equal(remove(target), 0);
    expect_refusal(OKV_EINVAL, "No such file");
}

/* To open a device may have effects: a terminal's other end notices that it was open. */
TEST_WITH(devices_behind_links_are_not_opened, NULL, remove_file)
{
    struct pollfd other = {.fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};

    if (other.fd < 0 || grantpt(other.fd) || unlockpt(other.fd))
        skip();
    assert_int_equal(symlink(ptsname(other.fd), path), 0);
    expect_refusal(OKV_EINVAL, "regular file");
    poll(&other, 1, 0);
    assert_false(other.revents & POLLHUP);

    close(open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)); /* this is how it would show */
    poll(&other, 1, 0);
    assert_true(other.revents & POLLHUP);
    close(other.fd);
}

TEST_WITH(files_have_a_limit, NULL, remove_file)
{
    char *text = NULL;
    size_t length = 0;

    write_file("12345678", 0600);
    assert_int_equal(okv_secret_file_read(path, 7, &text, &length, NULL), OKV_EINVAL);
    assert_null(text);
    assert_int_equal(okv_secret_file_read(path, 8, &text, &length, NULL), 0);
    assert_int_equal(length, 8);
    assert_memory_equal(text, "12345678", 8);
    sodium_free(text);
}

TEST(long_paths_leave_room_for_the_sentence)
{
    char name[2001];
    struct okv_diag diag = {""};
    struct okv_user_key *key;

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(okv_user_key_read(name, &key, &diag), OKV_EINVAL);
    assert_non_null(strstr(diag.text, "name a file"));
}

TEST_PROGRAM(set_up, tear_down)
