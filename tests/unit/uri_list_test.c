/* Which servers the URI of a cluster names, and what is said of a wrong one. */
#include <stdlib.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/base/uri_list.h"

static void assert_server(const struct okv_uri_list *list, const char *server, const char *uri)
{
    char *text = okv_uri_list_server(list, server);

    assert_non_null(text);
    assert_string_equal(text, uri);
    free(text);
}

/* `cluster` is "" for the URI of one server; `uris` are those of the servers. */
struct accepted {
    const char *text, *cluster;
    const char *uris[4];
};

TEST(each_server_has_a_uri)
{
    static const struct accepted cases[] = {
        {"okv://10.0.0.1/a", "a", {"tcp://10.0.0.1"}},
        {"okv://h1:7,h2,[fd00::1]:8/a.b-c",
         "a.b-c",
         {"tcp://h1:7", "tcp://h2", "tcp://[fd00::1]:8"}},
        {"okv://h1,h2/a?database=b", "a", {"tcp://h1?database=b", "tcp://h2?database=b"}},
        {"okv://h/a?transport=tcp", "a", {"tcp://h"}},
        {"okv://h/a?transport=tcps&ca=/etc/a/b.pem&server-name=s",
         "a",
         {"tcps://h?ca=/etc/a/b.pem&server-name=s"}},
        {"okv://h/a?source=10.0.0.2&transport=rdma&device=mlx5_0",
         "a",
         {"rdma://h?source=10.0.0.2&device=mlx5_0"}},
        {"okv://h/a?provider=tcp&transport=ofi", "a", {"ofi://h?provider=tcp"}},
        {"okv:///run/okv.sock/a", "a", {"local:///run/okv.sock"}},
        {"okv:///a,/b/c/d?database=e", "d", {"local:///a?database=e", "local:///b/c?database=e"}},
        {"rdma://10.0.0.1:80?tos=1", "", {"rdma://10.0.0.1:80?tos=1"}},
        {"local:///a,/b/c", "", {"local:///a,/b/c"}},
        {"tcp://discover/cache", "", {"tcp://discover/cache"}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct okv_uri_list list;
        struct okv_diag diag = {""};
        unsigned count = 0;
        if (okv_uri_list_parse(cases[i].text, &list, &diag))
            fail_msg("%s: %s", cases[i].text, diag.text);
        assert_string_equal(list.cluster, cases[i].cluster);
        for (; cases[i].uris[count]; count++)
            assert_server(&list, list.servers[count], cases[i].uris[count]);
        assert_int_equal(list.count, count);
        okv_uri_list_free(&list);
    }
}

/* A copy names the primary, and anyone may be behind its address. */
TEST(another_server_has_the_same_options_and_adds_none)
{
    struct okv_uri_list list;

    assert_int_equal(okv_uri_list_parse("okv://h/a?transport=tcps&ca=/c", &list, NULL), 0);
    assert_server(&list, "h2:7", "tcps://h2:7?ca=/c");
    assert_null(okv_uri_list_server(&list, "h2?ca=/d"));
    assert_null(okv_uri_list_server(&list, "/run/okv.sock"));
    assert_null(okv_uri_list_server(&list, "discover/a"));
    okv_uri_list_free(&list);
    assert_int_equal(okv_uri_list_parse("okv:///a/n", &list, NULL), 0);
    assert_server(&list, "/b", "local:///b");
    assert_null(okv_uri_list_server(&list, "h2"));
    okv_uri_list_free(&list);
}

TEST(wrong_uris_are_explained)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"okv://", "name of a cluster"},
        {"okv://10.0.0.1", "name of a cluster"},
        {"okv://10.0.0.1/", "name of a cluster"},
        {"okv://10.0.0.1/..", "name of a cluster"},
        {"okv://10.0.0.1/a b", "\"a b\" is not the name of a cluster"},
        {"okv://10.0.0.1/a#", "\"a#\" is not the name of a cluster"},
        {"okv://10.0.0.1/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1 to 31 letters"},
        {"okv:///a", "the host is missing"},
        {"okv://a,,b/n", "the host is missing"},
        {"okv://a,/n", "the host is missing"},
        {"okv://a:0/n", "\"0\" is not a port"},
        {"okv://a/b/n", "\"a/b\" is not HOST"},
        {"okv://discover/cache/n", "\"discover/cache\" is not HOST"},
        {"okv://a,/b/n", "a host and a socket"},
        {"okv:///b,a/n", "a host and a socket"},
        {"okv:///b/?/n", "name of a cluster"},
        {"okv://a/n?transport=local", "\"local\" is not a transport"},
        {"okv://a/n?transport=", "\"\" is not a transport"},
        {"okv://a/n?transport=tcpsx", "\"tcpsx\" is not a transport"},
        {"okv:///b/n?transport=tcp", "\"/b\" is a socket"},
        {"okv://a/n?transport=tcp&transport=rdma", "\"transport=rdma\" is not an option"},
        {"okv://a/n?transport=tcp&", "\"\" is not an option"},
        {"okv://a/n?device=mlx5_0", "\"device=mlx5_0\" is not an option of a tcp URI"},
        {"okv:///b/n?source=10.0.0.1", "not an option of a local URI"},
        {"okv://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/n", "more than 16"},
        {"okv:/a/n", "does not begin with"},
        {"tcp://a,b/n", "not a host name"},
        {"", "empty"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct okv_uri_list list;
        struct okv_diag diag = {""};
        assert_int_equal(okv_uri_list_parse(cases[i].text, &list, &diag), OKV_EURI);
        if (!strstr(diag.text, cases[i].says) || strlen(diag.text) >= sizeof diag.text - 1)
            fail_msg("\"%s\" gives \"%s\"", cases[i].text, diag.text);
        assert_null(list.text);
        assert_int_equal(okv_uri_list_parse(cases[i].text, &list, NULL), OKV_EURI);
    }
    struct okv_uri_list list;
    assert_int_equal(
        okv_uri_list_parse("okv://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16/n", &list, NULL), 0);
    assert_int_equal(list.count, OKV_SERVERS_MAX);
    okv_uri_list_free(&list);
}
