/* Addresses as text, for people and for limits. */
#include <arpa/inet.h>
#include <stdbool.h>

#include "tests/support/test.h"

#include "shared/base/resolve.h"

static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
    struct sockaddr_storage address = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address;
    bool is_ipv6 = strchr(text, ':');

    address.ss_family = is_ipv6 ? AF_INET6 : AF_INET;
    void *bytes = is_ipv6 ? (void *)&in6->sin6_addr : (void *)&in->sin_addr;
    assert_int_equal(inet_pton(address.ss_family, text, bytes), 1);
    in->sin_port = htons(port);
    return address;
}

static void expect_group(const char *text, const char *group)
{
    struct sockaddr_storage address = address_of(text, 7471);
    char out[OKV_HOST_TEXT];

    okv_host_group_text((const struct sockaddr *)&address, out);
    assert_string_equal(out, group);
}

TEST(an_address_has_a_text)
{
    static const char *const texts[][3] = {
        {"10.9.9.1", "10.9.9.1", "10.9.9.1:7471"},
        {"::ffff:10.9.9.1", "10.9.9.1", "10.9.9.1:7471"},
        {"fd00::1", "fd00::1", "[fd00::1]:7471"},
    };
    char out[128];

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct sockaddr_storage address = address_of(texts[i][0], 7471);
        okv_host_text((const struct sockaddr *)&address, out, sizeof out);
        assert_string_equal(out, texts[i][1]);
        okv_address_text((const struct sockaddr *)&address, out, sizeof out);
        assert_string_equal(out, texts[i][2]);
    }
}

/* A host of IPv6 has as many of these addresses as it likes. */
TEST(addresses_of_a_network_count_as_one)
{
    expect_group("2001:db8:1:2::1", "2001:db8:1:2::/64");
    expect_group("2001:db8:1:2:ffff:eeee:dddd:cccc", "2001:db8:1:2::/64");
    expect_group("2001:db8:1:3::1", "2001:db8:1:3::/64");
    expect_group("ffff:eeee:dddd:cccc:ffff:eeee:dddd:cccc", "ffff:eeee:dddd:cccc::/64");
    expect_group("fe80::1", "fe80::/64");
    expect_group("::1", "::/64");
}

TEST(each_address_of_ipv4_counts_by_itself)
{
    expect_group("10.9.9.1", "10.9.9.1");
    expect_group("::ffff:10.9.9.1", "10.9.9.1");
    expect_group("::ffff:10.9.9.2", "10.9.9.2");
}

TEST(another_family_has_no_text)
{
    const struct sockaddr address = {.sa_family = AF_UNIX};
    char out[OKV_HOST_TEXT];

    okv_host_group_text(&address, out);
    assert_string_equal(out, "?");
}
