/* The files that the options of a cluster name: what they may hold, and who may have them. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/copies/cluster_files.h"
#include "shared/base/error.h"
#include "shared/identity/user_key.h"

static char path[] = "/tmp/okv-cluster-files.XXXXXX";

static int make_file(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

TEST_PROGRAM(make_file, remove_file)

static void write_file(const char *bytes, size_t length, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* The sentence begins with `option`, and has `what`. */
static void expect_refused(struct okv_cluster_config config, int code, const char *option,
                           const char *what)
{
    struct okv_cluster_files files;
    struct okv_diag diag = {""};

    memcpy(config.name, "c", 2);
    int rc = okv_cluster_files_open(&config, &files, &diag);
    if (rc != code || strncmp(diag.text, option, strlen(option)) != 0 || !strstr(diag.text, what))
        fail_msg("%d, '%s', and not '%s' '%s'", rc, diag.text, option, what);
    assert_null(files.etcd_password);
    assert_null(files.peer_key);
}

static void expect_password(const char *bytes, size_t length, const char *password)
{
    const struct okv_cluster_config config = {.name = "c", .etcd_password_file = path};
    struct okv_cluster_files files;
    struct okv_diag diag;

    write_file(bytes, length, 0600);
    assert_int_equal(okv_cluster_files_open(&config, &files, &diag), 0);
    assert_string_equal(files.etcd_password, password);
    okv_cluster_files_close(&files);
    assert_null(files.etcd_password);
}

TEST(a_password_is_a_line)
{
    char longest[OKV_ETCD_PASSWORD_MAX + 3], expected[OKV_ETCD_PASSWORD_MAX + 1] = {0};

    expect_password("secret\n", 7, "secret");
    expect_password("secret\r\n", 8, "secret");
    expect_password(" se cret", 8, " se cret");
    memset(longest, 'x', sizeof longest);
    memset(expected, 'x', sizeof expected - 1);
    memcpy(longest + OKV_ETCD_PASSWORD_MAX, "\r\n", 2);
    expect_password(longest, OKV_ETCD_PASSWORD_MAX + 2, expected);
}

TEST(what_is_no_password_is_refused)
{
    static const struct {
        const char *bytes;
        size_t length;
    } none[] = {{"", 0}, {"\n", 1}, {"a\nb\n", 4}, {"secret\n\n", 8}, {"a\0b", 3}};
    const struct okv_cluster_config config = {.etcd_password_file = path};
    char too_long[OKV_ETCD_PASSWORD_MAX + 3];

    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        write_file(none[i].bytes, none[i].length, 0600);
        expect_refused(config, OKV_EINVAL, "--etcd-password-file: ", "is not one line");
    }
    memset(too_long, 'x', sizeof too_long);
    write_file(too_long, OKV_ETCD_PASSWORD_MAX + 1, 0600);
    expect_refused(config, OKV_EINVAL, "--etcd-password-file: ", "is not one line");
    write_file(too_long, OKV_ETCD_PASSWORD_MAX + 3, 0600);
    expect_refused(config, OKV_EINVAL, "--etcd-password-file: ", "has more than");
}

TEST(secrets_are_for_the_server_alone)
{
    static const mode_t open_to_others[] = {0604, 0602, 0640, 0620};

    for (size_t i = 0; i < sizeof open_to_others / sizeof *open_to_others; i++) {
        write_file("secret\n", 7, open_to_others[i]);
        expect_refused((struct okv_cluster_config){.etcd_password_file = path}, OKV_EPERM,
                       "--etcd-password-file: ", "chmod 600");
        expect_refused((struct okv_cluster_config){.peer_key = path}, OKV_EPERM,
                       "--peer-key: ", "chmod 600");
        expect_refused((struct okv_cluster_config){.etcd_key = path}, OKV_EPERM,
                       "--etcd-key: ", "chmod 600");
    }
}

TEST(nobody_else_changes_certificates)
{
    write_file("", 0, 0646);
    expect_refused((struct okv_cluster_config){.etcd_ca = path}, OKV_EPERM,
                   "--etcd-ca: ", "chmod go-w");
    expect_refused((struct okv_cluster_config){.etcd_cert = path}, OKV_EPERM,
                   "--etcd-cert: ", "chmod go-w");
}

TEST(files_that_are_not_there_are_named)
{
    static const char none[] = "/tmp/okv-cluster-files.none/none";

    expect_refused((struct okv_cluster_config){.etcd_ca = none}, OKV_EINVAL,
                   "--etcd-ca: ", "cannot be opened");
    expect_refused((struct okv_cluster_config){.etcd_password_file = none}, OKV_EINVAL,
                   "--etcd-password-file: ", "cannot be opened");
    write_file("secret\n", 7, 0600);
    expect_refused((struct okv_cluster_config){.etcd_password_file = path, .peer_key = none},
                   OKV_EINVAL, "--peer-key: ", "cannot be opened");
}

TEST(a_key_of_a_user_is_kept)
{
    const struct okv_cluster_config config = {
        .name = "c", .etcd_ca = path, .etcd_cert = path, .etcd_key = path, .peer_key = path};
    char text[OKV_USER_KEY_TEXT];
    struct okv_cluster_files files;
    struct okv_user_key *key;
    struct okv_diag diag;

    write_file("secret\n", 7, 0600);
    expect_refused(config, OKV_EINVAL, "--peer-key: ", "okv keygen FILE");
    assert_int_equal(okv_identity_init(), 0);
    assert_int_equal(okv_user_key_create(&key), 0);
    okv_user_key_text(key, text);
    write_file(text, sizeof text - 1, 0600);
    assert_int_equal(okv_cluster_files_open(&config, &files, &diag), 0);
    assert_null(files.etcd_password);
    assert_memory_equal(files.peer_key, key, sizeof *key);
    okv_cluster_files_close(&files);
    okv_user_key_destroy(key);
}

TEST(a_server_without_a_cluster_reads_none)
{
    const struct okv_cluster_config config = {.peer_key = "/tmp/okv-cluster-files.none/none"};
    struct okv_cluster_files files;

    assert_int_equal(okv_cluster_files_open(&config, &files, NULL), 0);
    assert_null(files.peer_key);
    okv_cluster_files_close(&files);
}
