/* Which socket a client takes when no server is named. */
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/default_uri.h"

/* The user, and the two sockets that there may be. */
static struct {
    uid_t uid;
    const char *own; /* NULL: not there */
    bool has_service;
} host;

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
    return host.uid;
}

int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    (void)mode;
    if (host.own && strcmp(path, host.own) == 0)
        return 0;
    return host.has_service && strcmp(path, "/run/okv/okv.sock") == 0 ? 0 : -1;
}

static void expect(bool is_there, const char *uri)
{
    char text[OKV_DEFAULT_URI_TEXT];

    assert_int_equal(okv_default_uri_find(text, sizeof text), is_there);
    assert_string_equal(text, uri);
}

TEST(the_users_own_goes_first)
{
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    host.uid = 7;
    host.own = "/run/user/7/okv.sock";
    host.has_service = true;
    expect(true, "local:///run/user/7/okv.sock");
    host.uid = 0;
    host.own = "/run/okv.sock";
    expect(true, "local:///run/okv.sock");
}

TEST(the_service_is_found_without_it)
{
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    host.own = NULL;
    host.has_service = true;
    host.uid = 0;
    expect(true, "local:///run/okv/okv.sock");
    host.uid = 7;
    expect(true, "local:///run/okv/okv.sock");
}

/* An error names the socket that the user's own server would have. */
TEST(without_either_it_is_the_users_own)
{
    unsetenv("XDG_RUNTIME_DIR");
    host.own = NULL;
    host.has_service = false;
    host.uid = 0;
    expect(false, "local:///run/okv.sock");
    host.uid = 7;
    expect(false, "local:///tmp/okv-7.sock");
}

TEST(a_server_never_takes_that_of_the_service)
{
    char text[OKV_DEFAULT_URI_TEXT];

    host.own = NULL;
    host.has_service = true;
    host.uid = 0;
    okv_default_uri(text, sizeof text);
    assert_string_equal(text, "local:///run/okv.sock");
}
