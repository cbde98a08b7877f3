/* What okv_uri_parse accepts, and what it says about the rest. */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/base/uri.h"

struct accepted {
    const char *text;
    const char *host, *port, *source;
};

TEST(rdma_uris_are_parsed)
{
    static const struct accepted cases[] = {
        {"rdma://10.0.0.1", "10.0.0.1", "7471", ""},
        {"rdma://10.0.0.1:1", "10.0.0.1", "1", ""},
        {"rdma://10.0.0.1:65535", "10.0.0.1", "65535", ""},
        {"rdma://node-7.example_1.com:7472", "node-7.example_1.com", "7472", ""},
        {"rdma://*", "*", "7471", ""},
        {"rdma://*:80", "*", "80", ""},
        {"rdma://[fd00::1]", "fd00::1", "7471", ""},
        {"rdma://[::]:7", "::", "7", ""},
        {"rdma://[fe80::1%eth0]:7", "fe80::1%eth0", "7", ""},
        {"rdma://10.9.9.1:7471?source=10.9.9.2", "10.9.9.1", "7471", "10.9.9.2"},
        {"rdma://10.9.9.1?source=10.9.9.2", "10.9.9.1", "7471", "10.9.9.2"},
        {"rdma://[fd00::1]?source=fd00::2", "fd00::1", "7471", "fd00::2"},
        {"rdma://[fd00::1]?source=[fd00::2]", "fd00::1", "7471", "fd00::2"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct okv_uri uri;
        struct okv_diag diag = {""};
        if (okv_uri_parse(cases[i].text, &uri, &diag))
            fail_msg("%s: %s", cases[i].text, diag.text);
        assert_int_equal(uri.scheme, OKV_SCHEME_RDMA);
        assert_string_equal(uri.host, cases[i].host);
        assert_string_equal(uri.port, cases[i].port);
        assert_string_equal(uri.source, cases[i].source);
        assert_string_equal(uri.path, "");
        assert_string_equal(diag.text, "");
    }
}

TEST(tcp_uris_have_a_host_and_a_port)
{
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse("tcp://[fd00::1]?source=fd00::2&database=d", &uri, NULL), 0);
    assert_int_equal(uri.scheme, OKV_SCHEME_TCP);
    assert_string_equal(uri.host, "fd00::1");
    assert_string_equal(uri.port, "7471");
    assert_string_equal(uri.source, "fd00::2");
    assert_string_equal(uri.database, "d");
}

TEST(discover_uris_name_a_server)
{
    static const struct {
        const char *text, *name, *source, *group;
        enum okv_scheme scheme;
    } cases[] = {
        {"rdma://discover/cache", "cache", "", "", OKV_SCHEME_RDMA},
        {"rdma://discover/A-b_c.9", "A-b_c.9", "", "", OKV_SCHEME_RDMA},
        {"rdma://discover/n?source=10.9.9.2", "n", "10.9.9.2", "", OKV_SCHEME_RDMA},
        {"rdma://discover/n?group=224.0.1.0", "n", "", "224.0.1.0", OKV_SCHEME_RDMA},
        {"rdma://discover/n?group=239.255.255.255&source=10.9.9.2", "n", "10.9.9.2",
         "239.255.255.255", OKV_SCHEME_RDMA},
        {"rdma://discover/0123456789012345678901234567890", "0123456789012345678901234567890", "",
         "", OKV_SCHEME_RDMA},
        {"tcp://discover/n?group=224.0.1.0&database=d", "n", "", "224.0.1.0", OKV_SCHEME_TCP},
        {"tcps://discover/n?ca=/ca.pem&source=10.9.9.2", "n", "10.9.9.2", "", OKV_SCHEME_TCP},
    };
    struct okv_uri uri;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct okv_diag diag = {""};
        if (okv_uri_parse(cases[i].text, &uri, &diag))
            fail_msg("%s: %s", cases[i].text, diag.text);
        assert_int_equal(uri.scheme, cases[i].scheme);
        assert_string_equal(uri.name, cases[i].name);
        assert_string_equal(uri.source, cases[i].source);
        assert_string_equal(uri.group, cases[i].group);
        assert_string_equal(uri.host, "");
    }
    /* A host may have that name. */
    assert_int_equal(okv_uri_parse("rdma://discover:7471", &uri, NULL), 0);
    assert_string_equal(uri.host, "discover");
    assert_string_equal(uri.name, "");
}

TEST(local_uris_carry_a_path)
{
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse("local:///run/okv.sock", &uri, NULL), 0);
    assert_int_equal(uri.scheme, OKV_SCHEME_LOCAL);
    assert_string_equal(uri.path, "/run/okv.sock");
    assert_string_equal(uri.host, "");
    assert_int_equal(okv_uri_parse("local:///a b:c", &uri, NULL), 0);
    assert_string_equal(uri.path, "/a b:c");
    assert_string_equal(uri.database, "");
    assert_false(uri.any_uid);
    assert_int_equal(okv_uri_parse("local:///a?uids=any", &uri, NULL), 0);
    assert_string_equal(uri.path, "/a");
    assert_true(uri.any_uid);
    assert_int_equal(okv_uri_parse("local:///a?database=b&uids=any", &uri, NULL), 0);
    assert_true(uri.any_uid);
    assert_int_equal(uri.mode, 0);
    assert_int_equal(okv_uri_parse("local:///a?mode=0660&uids=any", &uri, NULL), 0);
    assert_int_equal(uri.mode, 0660);
    assert_int_equal(okv_uri_parse("local:///a?mode=777", &uri, NULL), 0);
    assert_int_equal(uri.mode, 0777);
}

TEST(resp_uris_are_of_servers)
{
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse("resp://10.0.0.1", &uri, NULL), 0);
    assert_int_equal(uri.scheme, OKV_SCHEME_RESP);
    assert_string_equal(uri.host, "10.0.0.1");
    assert_string_equal(uri.port, "6379");
    assert_string_equal(uri.path, "");
    assert_false(uri.tls);
    assert_int_equal(okv_uri_parse("resps://[::1]:7000", &uri, NULL), 0);
    assert_int_equal(uri.scheme, OKV_SCHEME_RESP);
    assert_string_equal(uri.host, "::1");
    assert_string_equal(uri.port, "7000");
    assert_true(uri.tls);
    assert_int_equal(okv_uri_parse("resp:///run/redis.sock?mode=0660", &uri, NULL), 0);
    assert_string_equal(uri.path, "/run/redis.sock");
    assert_string_equal(uri.host, "");
    assert_int_equal(uri.mode, 0660);
    assert_false(uri.tls);
}

TEST(any_uri_may_name_a_database)
{
    static const char *const texts[] = {
        "local:///run/okv.sock?database=cache-1",    "rdma://h?database=cache-1",
        "rdma://h?source=10.0.0.2&database=cache-1", "ofi://h?database=cache-1&provider=tcp",
        "rdma://discover/a?database=cache-1",
    };
    struct okv_uri uri;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(okv_uri_parse(texts[i], &uri, NULL), 0);
        assert_string_equal(uri.database, "cache-1");
    }
    assert_string_equal(uri.name, "a");
}

/* A refused URI, a word of the sentence that says why, and of its example. */
struct refused {
    const char *text, *says, *example;
};

static void assert_refused(const struct refused *refused)
{
    struct okv_uri uri;
    struct okv_diag diag = {""};
    int status = okv_uri_parse(refused->text, &uri, &diag);

    if (status != OKV_EURI)
        fail_msg("\"%s\" gives %d", refused->text ? refused->text : "NULL", status);
    if (!strstr(diag.text, refused->says) || !strstr(diag.text, refused->example))
        fail_msg("\"%s\" gives \"%s\"", refused->text ? refused->text : "NULL", diag.text);
    if (strlen(diag.text) >= sizeof diag.text - 1)
        fail_msg("\"%s\" gives a sentence that was cut", refused->text);
    assert_int_equal(okv_uri_parse(refused->text, &uri, NULL), OKV_EURI);
}

TEST(wrong_names_are_explained)
{
    static const struct refused cases[] = {
        {"rdma://h?group=239.1.2.3", "has source, device", "?source=10.0.0.2"},
        {"rdma://discover/", "not the name of a server", "rdma://discover/cache"},
        {"rdma://discover/a/b", "a/b", "rdma://discover/cache"},
        {"ofi://discover/a", "tcp://discover/NAME", "ofi://10.0.0.1:7471"},
        {"tcps://discover/", "not the name of a server", "tcps://discover/cache"},
        {"tcp://discover/a?device=b", "source, group and database", "tcp://10.0.0.1"},
        {"tcp://a?group=239.1.2.3", "source and database", "tcp://10.0.0.1"},
        {"tcp://discover/a?group=x", "not a group", "tcp://discover/cache?group=239.1.2.3"},
        {"rdma://discover/a:7471", "a:7471", "rdma://discover/cache"},
        {"rdma://discover/01234567890123456789012345678901", "1 to 31", "rdma://discover/cache"},
        {"rdma://discover/a?", "not an option", "?source=10.0.0.2"},
        {"rdma://discover/a?uid=7", "source, device, port, gid, tos, group and database",
         "rdma://discover/cache?source="},
        {"rdma://discover/a?group=", "not a group", "?group=239.1.2.3"},
        {"rdma://discover/a?group=224.0.0.255", "224.0.1.0", "?group=239.1.2.3"},
        {"rdma://discover/a?group=240.0.0.0", "not a group", "?group=239.1.2.3"},
        {"rdma://discover/a?group=ff02::1", "not a group", "?group=239.1.2.3"},
        {"rdma://discover/a?group=239.1.2.3&group=239.1.2.3", "twice", "?group=239.1.2.3"},
        {"local:///run/okv.sock?source=10.0.0.2", "which has database", "?database=cache"},
        {"local:///run/okv.sock?", "which has database", "?database=cache"},
        {"local:///run/okv.sock?uids", "which has database, and uids and mode", "?database=cache"},
        {"local:///run/okv.sock?uids=", "uids may be any", "?uids=any"},
        {"local:///run/okv.sock?uids=an", "not \"an\"", "?uids=any"},
        {"local:///run/okv.sock?uids=anyone", "not \"anyone\"", "?uids=any"},
        {"local:///run/okv.sock?uids=ANY", "not \"ANY\"", "?uids=any"},
        {"local:///run/okv.sock?uids=1000", "not \"1000\"", "?uids=any"},
        {"local:///run/okv.sock?uids=any&uids=any", "twice", "?uids=any"},
        {"local:///run/okv.sock?mode=", "\"\" is not a mode", "?mode=0660"},
        {"local:///run/okv.sock?mode=66", "\"66\" is not a mode", "?mode=0660"},
        {"local:///run/okv.sock?mode=0680", "\"0680\" is not a mode", "?mode=0660"},
        {"local:///run/okv.sock?mode=1777", "\"1777\" is not a mode", "?mode=0660"},
        {"local:///run/okv.sock?mode=000", "\"000\" is not a mode", "?mode=0660"},
        {"local:///run/okv.sock?mode=00660", "\"00660\" is not a mode", "?mode=0660"},
        {"local:///run/okv.sock?mode=rw-", "\"rw-\" is not a mode", "?mode=0660"},
        {"local:///run/okv.sock?mode=0660&mode=0660", "twice", "?mode=0660"},
        {"rdma://h?mode=0660", "\"mode=0660\" is not an option of an rdma URI", "?source=10.0.0.2"},
        {"rdma://h?uids=any", "\"uids=any\" is not an option of an rdma URI", "?source=10.0.0.2"},
        {"ofi://h?uids=any", "\"uids=any\" is not an option of an ofi URI", "ofi://10.0.0.1"},
        {"rdma://discover/a?uids=any", "\"uids=any\" is not an option", "?source=10.0.0.2"},
        {"local:///run/okv.sock?database=", "not the name of a database", "?database=cache"},
        {"rdma://h?database=a/b", "1 to 31 letters", "?database=cache"},
        {"ofi://h?database=.", "other than '.' and '..'", "?database=cache"},
        {"local:///run/okv.sock?database=..", "other than '.' and '..'", "?database=cache"},
        {"rdma://h?database=01234567890123456789012345678901", "1 to 31", "?database=cache"},
        {"rdma://h?database=a&database=a", "twice", "?database=cache"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(&cases[i]);
}

TEST(a_device_may_have_a_port_and_a_gid)
{
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse("rdma://10.0.0.1", &uri, NULL), 0);
    assert_string_equal(uri.device, "");
    assert_false(uri.has_gid);
    assert_int_equal(okv_uri_parse("rdma://*?device=mlx5_0&port=2&gid=0", &uri, NULL), 0);
    assert_string_equal(uri.device, "mlx5_0");
    assert_int_equal(uri.port_number, 2);
    assert_true(uri.has_gid);
    assert_int_equal(uri.gid, 0);
    assert_int_equal(okv_uri_parse("rdma://discover/a?gid=255&device=bnxt_re-bond.0", &uri, NULL),
                     0);
    assert_string_equal(uri.device, "bnxt_re-bond.0");
    assert_int_equal(uri.port_number, 0);
    assert_int_equal(uri.gid, 255);
}

TEST(packets_may_have_a_traffic_class)
{
    static const struct refused cases[] = {
        {"rdma://h?tos=", "\"\" is not one traffic class", "?tos=106"},
        {"rdma://h?tos=256", "\"256\" is not one traffic class", "?tos=106"},
        {"rdma://h?tos=0x6a", "\"0x6a\" is not one traffic class", "?tos=106"},
        {"rdma://h?tos=1&tos=2", "\"2\" is not one traffic class", "?tos=106"},
        {"tcp://h?tos=1", "not an option of a tcp URI", "tcp://10.0.0.1"},
    };
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse("rdma://h", &uri, NULL), 0);
    assert_false(uri.has_tos);
    assert_int_equal(okv_uri_parse("rdma://h?tos=255", &uri, NULL), 0);
    assert_true(uri.has_tos);
    assert_int_equal(uri.tos, 255);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(&cases[i]);
}

TEST(wrong_devices_are_explained)
{
    static const struct refused cases[] = {
        {"rdma://h?device=", "not one RDMA device", "?device=mlx5_0"},
        {"rdma://h?device=a/b", "\"a/b\" is not one RDMA device", "?device=mlx5_0"},
        {"rdma://h?device=a&device=b", "\"b\" is not one RDMA device", "?device=mlx5_0"},
        {"rdma://h?device="
         "0123456789012345678901234567890123456789012345678901234567890123",
         "not one RDMA device", "?device=mlx5_0"},
        {"rdma://h?device=a&port=0", "\"0\" is not a port", "port=1"},
        {"rdma://h?device=a&port=", "\"\" is not a port", "port=1"},
        {"rdma://h?device=a&gid=-1", "\"-1\" is not a GID index", "gid=3"},
        {"rdma://h?device=a&gid=65536", "\"65536\" is not a GID index", "gid=3"},
        {"rdma://h?device=a&gid=100000", "\"100000\" is not a GID index", "gid=3"},
        {"rdma://h?port=1", "are of a device", "?device=mlx5_0"},
        {"rdma://h?gid=0", "are of a device", "?device=mlx5_0"},
        {"ofi://h?device=a", "not an option of an ofi URI", "ofi://10.0.0.1"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(&cases[i]);
}

TEST(wrong_resp_uris_are_explained)
{
    static const struct refused cases[] = {
        {"redis://10.0.0.1", "does not begin with", "resp://"},
        {"resps:///run/redis.sock", "host is missing", "resps://10.0.0.1:6379"},
        {"resp://h/1", "/1", "resp://10.0.0.1:6379"},
        {"resp://h?database=a", "not an option", "mode=0660"},
        {"resp:///a?uids=any", "not an option", "mode=0660"},
        {"resp:///a#b", "#", "local:///run/okv.sock"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(&cases[i]);
}

TEST(wrong_uris_are_explained)
{
    static const struct refused cases[] = {
        {NULL, "empty", "rdma://10.0.0.1:7471"},
        {"", "empty", "local:///run/okv.sock"},
        {"10.0.0.1:7471", "does not begin with", "rdma://10.0.0.1:7471"},
        {"udp://10.0.0.1", "udp://", "rdma://10.0.0.1:7471"},
        {"tcp://h?device=a", "not an option of a tcp URI", "tcp://10.0.0.1:7471?source=10.0.0.2"},
        {"tcp://h/path", "nothing but ?source=ADDRESS or ?database=NAME", "tcp://10.0.0.1:7471"},
        {"tcp://", "the host is missing after tcp://", "tcp://10.0.0.1:7471"},
        {"RDMA://10.0.0.1", "does not begin with", "rdma://10.0.0.1:7471"},
        {"rdma:/10.0.0.1", "does not begin with", "rdma://10.0.0.1:7471"},
        {"local:/run/okv.sock", "does not begin with", "local:///run/okv.sock"},
        {"rdma://a\nb", "control character", "rdma://"},
        {"local:///a\x7f", "control character", "local:///run/okv.sock"},
        {"rdma://", "host is missing", "rdma://10.0.0.1:7471"},
        {"rdma://:7471", "host is missing", "rdma://*"},
        {"rdma://?source=10.0.0.2", "host is missing", "rdma://"},
        {"rdma://user@host", "user@host", "rdma://10.0.0.1:7471"},
        {"rdma://a b", "not a host name", "rdma://10.0.0.1:7471"},
        {"rdma://*.com", "not a host name", "rdma://10.0.0.1:7471"},
        {"rdma://h:", "not a port", "1 to 65535"},
        {"rdma://h:0", "not a port", "1 to 65535"},
        {"rdma://h:65536", "not a port", "1 to 65535"},
        {"rdma://h:99999", "not a port", "1 to 65535"},
        {"rdma://h:123456", "not a port", "1 to 65535"},
        {"rdma://h:4294967297", "not a port", "1 to 65535"},
        {"rdma://h:-1", "not a port", "1 to 65535"},
        {"rdma://h:+1", "not a port", "1 to 65535"},
        {"rdma://h:1x", "not a port", "1 to 65535"},
        {"rdma://h:007", "not a port", "1 to 65535"},
        {"rdma://h:http", "not a port", "1 to 65535"},
        {"rdma://fd00::1", "brackets", "rdma://[fd00::1]:7471"},
        {"rdma://h:1:2", "more than one colon", "rdma://[fd00::1]:7471"},
        {"rdma://[fd00::1", "not closed", "rdma://[fd00::1]:7471"},
        {"rdma://[]", "not an IPv6 address", "rdma://[fd00::1]:7471"},
        {"rdma://[10.0.0.1]", "not an IPv6 address", "rdma://[fd00::1]:7471"},
        {"rdma://[fe80::1%]", "not an IPv6 address", "rdma://[fd00::1]:7471"},
        {"rdma://[fe80::1%a b]", "not an IPv6 address", "rdma://[fd00::1]:7471"},
        {"rdma://[fd00::1]7471", "only a port", "rdma://[fd00::1]:7471"},
        {"rdma://[fd00::1]:x", "not a port", "1 to 65535"},
        {"rdma://h/", "can follow host and port", "rdma://10.0.0.1:7471"},
        {"rdma://h:1/table", "/table", "rdma://10.0.0.1:7471"},
        {"rdma://h#x", "#x", "rdma://10.0.0.1:7471"},
        {"rdma://h?", "not an option", "?source=10.0.0.2"},
        {"rdma://h?sources=10.0.0.2", "sources", "?source=10.0.0.2"},
        {"rdma://h?source=10.0.0.2&", "not an option", "?source=10.0.0.2"},
        {"rdma://h?source=10.0.0.2&source=10.0.0.3", "twice", "?source=10.0.0.2"},
        {"rdma://h?source=", "not an address", "?source=10.0.0.2"},
        {"rdma://h?source=name", "not an address", "?source=10.0.0.2"},
        {"rdma://h?source=10.0.0", "not an address", "?source=10.0.0.2"},
        {"local://", "path is missing", "local:///run/okv.sock"},
        {"local://run/okv.sock", "three slashes", "local:///run/okv.sock"},
        {"local:///", "names a directory", "local:///run/okv.sock"},
        {"local:///run/", "names a directory", "local:///run/okv.sock"},
        {"local:///run/#", "may not contain #", "local:///run/okv.sock"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(&cases[i]);
}

/* Writes `prefix`, `count` times 'a', and `suffix`. */
static const char *stretched(char *out, size_t size, const char *prefix, size_t count,
                             const char *suffix)
{
    size_t at = strlen(prefix);

    assert_true(at + count + strlen(suffix) < size);
    memcpy(out, prefix, at);
    memset(out + at, 'a', count);
    memcpy(out + at + count, suffix, strlen(suffix) + 1);
    return out;
}

TEST(every_part_has_its_length)
{
    char text[2048];
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse(stretched(text, sizeof text, "local:///", 102, ""), &uri, NULL),
                     0);
    assert_int_equal(strlen(uri.path), 103);
    assert_refused(&(struct refused){stretched(text, sizeof text, "local:///", 103, ""),
                                     "104 bytes long", "local:///run/okv.sock"});
    assert_int_equal(okv_uri_parse(stretched(text, sizeof text, "rdma://", 255, ":1"), &uri, NULL),
                     0);
    assert_int_equal(strlen(uri.host), 255);
    assert_string_equal(uri.port, "1");
    assert_refused(&(struct refused){stretched(text, sizeof text, "rdma://", 256, ":1"),
                                     "256 bytes long", "rdma://10.0.0.1:7471"});

    static const char *const endless[] = {
        "",
        "rdma://[",
        "rdma://[fd00::1]",
        "rdma://h:",
        "rdma://h/",
        "local://",
        "rdma://h?",
        "rdma://h?source=",
        "rdma://h?source=[",
        "rdma://[fe80::1%",
        "rdma://discover/",
        "rdma://discover/n?",
        "rdma://discover/n?group=",
    };
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++)
        assert_refused(
            &(struct refused){stretched(text, sizeof text, endless[i], 1900, ""), "aaaa", "://"});
}

/* Every prefix of a URI ends in an answer: nothing is read behind the end of the text. */
TEST(every_prefix_is_answered)
{
    static const char whole[] = "rdma://[fd00::1%eth0]:7471?source=[fd00::2]&source=10.0.0.1";

    for (size_t length = 0; length < sizeof whole; length++) {
        char *text = test_malloc(length + 1);
        struct okv_uri uri;
        memcpy(text, whole, length);
        text[length] = '\0';
        int status = okv_uri_parse(text, &uri, NULL);
        assert_true(status == 0 || status == OKV_EURI);
        test_free(text);
    }
}
