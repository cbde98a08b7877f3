/*
 * Whom the local transport talks to: which users a server shares memory with, and which paths lead
 * a client to a server that only a trusted user can have put there.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/transport/local/peer_credentials.h"

#define PATH_SIZE 512

/* Every socket is of this user. */
int __wrap_getsockopt(int sock, int level, int option, void *value, socklen_t *length);
static uid_t owner;
static bool is_unknown;

int __wrap_getsockopt(int sock, int level, int option, void *value, socklen_t *length)
{
    const struct ucred peer = {.uid = owner};

    (void)sock;
    assert_int_equal(level, SOL_SOCKET);
    assert_int_equal(option, SO_PEERCRED);
    assert_int_equal(*length, sizeof peer);
    memcpy(value, &peer, sizeof peer);
    errno = EPERM;
    return is_unknown ? -1 : 0;
}

static char base[PATH_SIZE / 4]; /* an empty directory, and none above it is open to all */

static const char *in_base(const char *name)
{
    static char paths[4][PATH_SIZE];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, PATH_SIZE, "%s/%s", base, name);
    return path;
}

static void make_directory(const char *name, mode_t mode)
{
    assert_int_equal(mkdir(in_base(name), 0700), 0);
    assert_int_equal(chmod(in_base(name), mode), 0);
}

static void make_file(const char *name)
{
    int fd = open(in_base(name), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static void make_link(const char *name, const char *target)
{
    assert_int_equal(symlink(target, in_base(name)), 0);
}

static void trust(const char *path)
{
    struct okv_diag diag = {""};

    if (okv_local_peer_verify(-1, path, &diag))
        fail_msg("%s: %s", path, diag.text);
}

/* The sentence names the path, and has `why`. */
static void refuse(const char *path, const char *why)
{
    struct okv_diag diag = {""};

    if (okv_local_peer_verify(-1, path, &diag) != OKV_EDENIED)
        fail_msg("%s is trusted", path);
    if (!strstr(diag.text, path) || !strstr(diag.text, why))
        fail_msg("no '%s' in: %s", why, diag.text);
}

/* Directories: closed, open to all, and closed in the one that is open to all. */
static int set_up(void **state)
{
    (void)state;
    make_directory("closed", 0755);
    make_directory("open", 01777);
    make_directory("open/closed", 0755);
    make_file("closed/sock");
    make_file("open/sock");
    make_file("open/closed/sock");
    owner = geteuid() + 1;
    return 0;
}

static int tear_down(void **state)
{
    char command[PATH_SIZE];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'/*", base);
    return system(command);
}

TEST_WITH(a_directory_that_is_open_to_all_is_refused, set_up, tear_down)
{
    trust(in_base("closed/sock"));
    trust(in_base("closed/../closed/.//sock"));
    refuse(in_base("open/sock"), "open is open to all");
    refuse(in_base("open/closed/sock"), "open is open to all");
    refuse(in_base("open/../closed/sock"), "open is open to all");
}

TEST_WITH(a_server_of_root_or_of_this_user_may_be_anywhere, set_up, tear_down)
{
    owner = 0;
    trust(in_base("open/sock"));
    owner = geteuid();
    trust(in_base("open/sock"));
}

static bool is_trusted(uid_t uid)
{
    bool is_so = false;

    owner = uid;
    assert_int_equal(okv_local_peer_is_trusted(-1, &is_so), 0);
    return is_so;
}

TEST(only_root_and_this_user_are_trusted)
{
    bool is_so = false;

    assert_true(is_trusted(0));
    assert_true(is_trusted(geteuid()));
    assert_false(is_trusted(geteuid() + 1));
    assert_false(is_trusted(geteuid() + 65534));
    assert_false(is_trusted((uid_t)-1));
    is_unknown = true;
    owner = geteuid();
    assert_int_not_equal(okv_local_peer_is_trusted(-1, &is_so), 0);
    assert_int_not_equal(okv_local_peer_verify(-1, in_base("closed"), NULL), 0);
    assert_false(is_so);
    is_unknown = false;
}

/* Whoever may write to a directory on the way decides where a path leads. */
TEST_WITH(links_are_followed, set_up, tear_down)
{
    make_link("closed/near", "../closed");
    make_link("closed/far", in_base("closed"));
    make_link("closed/next", "sock");
    trust(in_base("closed/near/sock"));
    trust(in_base("closed/far/sock"));
    trust(in_base("closed/far/near/next"));

    make_link("closed/down", in_base("open/closed"));
    make_link("closed/other", "../open/sock");
    make_link("open/up", in_base("closed"));
    make_link("closed/through", "../open/up");
    refuse(in_base("closed/down/sock"), "open is open to all");
    refuse(in_base("closed/other"), "open is open to all");
    refuse(in_base("open/up/sock"), "open is open to all");
    refuse(in_base("closed/through/sock"), "open is open to all");
}

TEST_WITH(a_path_that_cannot_be_followed_is_refused, set_up, tear_down)
{
    char target[PATH_MAX];

    make_link("closed/loop", "loop");
    refuse(in_base("closed/missing"), "missing: No such file");
    refuse(in_base("closed/loop"), "loop: Too many");
    refuse(in_base("closed/sock/sock"), "Not a directory");
    for (size_t i = 0; i + 2 < sizeof target; i += 2)
        memcpy(target + i, "./", 3);
    make_link("closed/long", target); /* the kernel takes it for what it is, closed */
    refuse(in_base("closed/long/sock"), "long: File name too long");
}

/* Their text is that of a path, and need not lead where they do. */
TEST_WITH(links_of_proc_are_not_taken_by_their_text, set_up, tear_down)
{
    char path[64];
    int fd = open(in_base("closed/sock"), O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    trust(path);
    assert_int_equal(unlink(in_base("closed/sock")), 0);
    make_file("closed/sock (deleted)"); /* what the text says now */
    refuse(path, "another file");
    close(fd);
}

static bool is_open_to_all(const char *directory)
{
    struct stat status;

    return stat(directory, &status) || status.st_mode & S_IWOTH;
}

/* Chooses `base`, in the directory where the test runs. False when others may change where that
 * is. */
static bool make_base(void)
{
    char above[PATH_SIZE];
    char *slash;

    if (!getcwd(above, sizeof above) || strlen(above) + 20 > sizeof base)
        return false;
    snprintf(base, sizeof base, "%s/trust-XXXXXX", above);
    for (bool is_root = false; !is_root; *slash = '\0') {
        if (is_open_to_all(above))
            return false;
        slash = strrchr(above, '/');
        is_root = slash == above;
    }
    return !is_open_to_all("/") && mkdtemp(base);
}

int main(void)
{
    if (!make_base()) {
        printf("skipped: run it where no directory on the way is open to all\n");
        return 77;
    }
    int failures = test_run();
    rmdir(base);
    return failures;
}
