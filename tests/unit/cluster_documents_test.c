/* The JSON of docs/cluster-format.md, and what etcd may have in its place. */
#include "tests/support/test.h"

#include "server/copies/documents.h"

static struct okv_cluster_document cluster_of(void)
{
    return (struct okv_cluster_document){
        .id = 0xabc,
        .copies = 3,
        .copies_min = 2,
        .lease_ms = 1000,
        .replace_ms = 60000,
        .shares_hosts = true,
        .began_wall_ms = 1700000000123,
        .database_count = 2,
        .databases =
            {
                {"cache",
                 {"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\xff", 7, 8}},
                {"default", {"0123456789abcde", 0xfedcba9876543210, 0x1000}},
            },
    };
}

static const char cluster_text[] =
    "{\"began_ms\":1700000000123,\"copies\":3,\"databases\":{"
    "\"cache\":{\"hash_seed\":\"0000000000000007\",\"id\":\"0102030405060708090a0b0c0d0e0fff\","
    "\"position\":\"0000000000000008\"},"
    "\"default\":{\"hash_seed\":\"fedcba9876543210\",\"id\":\"30313233343536373839616263646500\","
    "\"position\":\"0000000000001000\"}},"
    "\"format\":1,\"id\":\"0000000000000abc\",\"lease_ms\":1000,\"min_copies\":2,"
    "\"replace_ms\":60000,\"shares_hosts\":true}";

static const char server_text[] =
    "{\"boot\":\"0000000000000002\",\"copies\":{\"cache\":\"0000000000000009\",\"default\":"
    "\"00000000000000ab\"},\"format\":1,\"host\":\"rack 7\",\"id\":\"00000000000000aa\","
    "\"uris\":[\"rdma://10.0.0.1\",\"tcps://a.example:7000\"],\"version\":\"0.3.0\"}";

static const char shard_text[] =
    "{\"by\":\"0123456789abcdef\",\"epoch\":5,\"format\":1,"
    "\"isr\":[{\"incarnation\":\"0000000000000001\",\"server\":\"00000000000000aa\"},"
    "{\"incarnation\":\"0000000000000002\",\"server\":\"00000000000000bb\"}],"
    "\"primary\":{\"incarnation\":\"0000000000000001\",\"server\":\"00000000000000aa\"},"
    "\"wanted\":[\"00000000000000aa\",\"00000000000000bb\",\"00000000000000cc\"]}";

static void expect_text(char *text, const char *expected)
{
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

/* ---- round trips ---- */

TEST(a_cluster)
{
    const struct okv_cluster_document cluster = cluster_of();
    struct okv_cluster_document back;

    expect_text(okv_document_of_cluster(&cluster), cluster_text);
    assert_true(okv_document_read_cluster(cluster_text, strlen(cluster_text), &back));
    assert_int_equal(back.id, 0xabc);
    assert_int_equal(back.copies, 3);
    assert_int_equal(back.copies_min, 2);
    assert_int_equal(back.lease_ms, 1000);
    assert_int_equal(back.replace_ms, 60000);
    assert_true(back.shares_hosts);
    assert_int_equal(back.began_wall_ms, 1700000000123);
    assert_int_equal(back.database_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct okv_cluster_database *database = &back.databases[i];
        const struct okv_cluster_database *same = &cluster.databases[i];
        assert_string_equal(database->name, same->name);
        assert_memory_equal(database->identity.database_id, same->identity.database_id,
                            OKV_WAL_ID_SIZE);
        assert_int_equal(database->identity.hash_seed, same->identity.hash_seed);
        assert_int_equal(database->identity.position, same->identity.position);
    }
}

TEST(a_server)
{
    const struct okv_server_document server = {
        .id = 0xaa,
        .boot = 2,
        .uri_count = 2,
        .uris = {"rdma://10.0.0.1", "tcps://a.example:7000"},
        .host = "rack 7",
        .version = "0.3.0",
        .copy_count = 2,
        .copies = {{"cache", 9}, {"default", 0xab}},
    };
    struct okv_server_document back;

    expect_text(okv_document_of_server(&server), server_text);
    assert_true(okv_document_read_server(server_text, strlen(server_text), &back));
    assert_memory_equal(&back, &server, sizeof back);
}

TEST(a_shard)
{
    const struct okv_shard_key key = {
        .epoch = 5,
        .by = 0x0123456789abcdef,
        .primary = {0xaa, 1},
        .isr = {{0xaa, 1}, {0xbb, 2}},
        .wanted = {0xaa, 0xbb, 0xcc},
        .isr_count = 2,
        .wanted_count = 3,
    };
    struct okv_shard_key back;

    expect_text(okv_document_of_shard(&key), shard_text);
    assert_true(okv_document_read_shard(shard_text, strlen(shard_text), &back));
    assert_memory_equal(&back, &key, sizeof back);
}

TEST(a_document_that_cannot_be_written)
{
    struct okv_server_document server = {.uri_count = 1, .uris = {"\xff"}, .version = "1"};
    struct okv_cluster_document cluster = cluster_of();

    assert_null(okv_document_of_server(&server)); /* not without the URI */
    strcpy(server.uris[0], "tcp://a");
    free(okv_document_of_server(&server));
    strcpy(server.host, "\xff");
    assert_null(okv_document_of_server(&server));
    strcpy(cluster.databases[1].name, "\xff");
    assert_null(okv_document_of_cluster(&cluster));
}

/* ---- what is refused ---- */

enum kind { CLUSTER, SERVER, SHARD };

static bool is_read(enum kind kind, const char *text, size_t length)
{
    static struct okv_cluster_document cluster;
    static struct okv_server_document server;
    struct okv_shard_key key;
    char *exact = malloc(length ? length : 1); /* for the sanitizer */

    assert_non_null(exact);
    memcpy(exact, text, length);
    bool is_sound = kind == CLUSTER  ? okv_document_read_cluster(exact, length, &cluster)
                    : kind == SERVER ? okv_document_read_server(exact, length, &server)
                                     : okv_document_read_shard(exact, length, &key);
    free(exact);
    return is_sound;
}

static const char *const texts[] = {cluster_text, server_text, shard_text};

/* The document with `from`, which is there, replaced. */
static bool is_read_with(enum kind kind, const char *from, const char *to)
{
    const char *text = texts[kind], *at = strstr(text, from);
    char other[2048];

    assert_non_null(at);
    int length =
        snprintf(other, sizeof other, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_in_range(length, 1, sizeof other - 1);
    return is_read(kind, other, (size_t)length);
}

TEST(pieces_and_other_documents_are_refused)
{
    for (unsigned kind = CLUSTER; kind <= SHARD; kind++) {
        size_t length = strlen(texts[kind]);
        for (unsigned other = CLUSTER; other <= SHARD; other++)
            assert_int_equal(is_read((enum kind)kind, texts[other], strlen(texts[other])),
                             kind == other);
        for (size_t i = 0; i < length; i++)
            assert_false(is_read((enum kind)kind, texts[kind], i));
        assert_false(is_read((enum kind)kind, texts[kind], length + 1)); /* a NUL */
        assert_false(is_read((enum kind)kind, "null", 4));
        assert_false(is_read((enum kind)kind, "[]", 2));
        assert_false(is_read((enum kind)kind, "{}", 2));
        assert_false(is_read_with((enum kind)kind, "\"format\":1,", ""));
        assert_false(is_read_with((enum kind)kind, "\"format\":1,", "\"format\":2,"));
        assert_false(is_read_with((enum kind)kind, "\"format\":1,", "\"format\":0,"));
        assert_false(is_read_with((enum kind)kind, "\"format\":1,", "\"format\":\"1\","));
        assert_false(is_read_with((enum kind)kind, "\"format\":1,", "\"format\":1,\"format\":1,"));
        assert_true(is_read_with((enum kind)kind, "\"format\":1,", "\"format\":1,\"more\":[1],"));
    }
}

struct replacement {
    enum kind kind;
    const char *from, *to;
};

static void expect(const struct replacement *all, size_t count, bool is_sound)
{
    for (size_t i = 0; i < count; i++)
        if (is_read_with(all[i].kind, all[i].from, all[i].to) != is_sound)
            fail_msg("%s in the place of %s", all[i].to, all[i].from);
}

TEST(members_that_are_missing_or_of_another_type)
{
    static const struct replacement all[] = {
        {CLUSTER, "\"copies\":3,", ""},
        {CLUSTER, "\"copies\":3,", "\"copies\":\"3\","},
        {CLUSTER, "\"copies\":3,", "\"copies\":3.0,"},
        {CLUSTER, "\"copies\":3,", "\"copies\":3,\"copies\":3,"},
        {CLUSTER, ",\"min_copies\":2", ""},
        {CLUSTER, ",\"min_copies\":2", ",\"min_copies\":true"},
        {CLUSTER, ",\"lease_ms\":1000", ""},
        {CLUSTER, "\"replace_ms\":60000,", ""},
        {CLUSTER, ",\"shares_hosts\":true", ""},
        {CLUSTER, ",\"shares_hosts\":true", ",\"shares_hosts\":1"},
        {CLUSTER, "\"id\":\"0000000000000abc\",", ""},
        {CLUSTER, "\"0000000000000abc\"", "2748"},
        {CLUSTER, "\"began_ms\":1700000000123,", ""},
        {CLUSTER, "\"databases\"", "\"database\""},
        {CLUSTER, "\"hash_seed\":\"0000000000000007\",", ""},
        {CLUSTER, "\"hash_seed\":\"0000000000000007\",", "\"hash_seed\":7,"},
        {CLUSTER, "\"id\":\"0102030405060708090a0b0c0d0e0fff\",", ""},
        {CLUSTER, ",\"position\":\"0000000000000008\"", ""},
        {CLUSTER, "\"cache\":{", "\"cache\":[],\"other\":{"},
        {SERVER, "\"boot\":\"0000000000000002\",", ""},
        {SERVER, "\"copies\":{", "\"copies\":[],\"other\":{"},
        {SERVER, "\"0000000000000009\"", "9"},
        {SERVER, "\"host\":\"rack 7\",", ""},
        {SERVER, "\"host\":\"rack 7\",", "\"host\":7,"},
        {SERVER, "\"host\":\"rack 7\",", "\"host\":\"rack\\u0000 7\","},
        {SERVER, "\"id\":\"00000000000000aa\",", ""},
        {SERVER, "\"id\":\"00000000000000aa\",", "\"id\":170,"},
        {SERVER, ",\"version\":\"0.3.0\"", ""},
        {SERVER, "\"rdma://10.0.0.1\",", "1,"},
        {SERVER, "[\"rdma://10.0.0.1\",\"tcps://a.example:7000\"]", "[]"},
        {SERVER, "[\"rdma://10.0.0.1\",\"tcps://a.example:7000\"]", "\"rdma://10.0.0.1\""},
        {SHARD, "\"by\":\"0123456789abcdef\",", ""},
        {SHARD, "\"epoch\":5,", ""},
        {SHARD, "\"epoch\":5,", "\"epoch\":\"5\","},
        {SHARD, "\"primary\":{", "\"primary\":[],\"other\":{"},
        {SHARD, "\"isr\":[", "\"isr\":[],\"other\":["},
        {SHARD, "\"isr\":[", "\"isr\":[7,"},
        {SHARD, "\"wanted\":[", "\"wanted\":[],\"other\":["},
        {SHARD, "\"wanted\":[", "\"wanted\":[170,"},
        {SHARD, "\"incarnation\":\"0000000000000002\",", ""},
        {SHARD, "\"server\":\"00000000000000bb\"", "\"other\":1"},
    };

    expect(all, sizeof all / sizeof *all, false);
}

#define TWO "\"00000000000000aa\",\"00000000000000aa\","
#define MEMBER(digits) \
    "{\"incarnation\":\"0000000000000001\",\"server\":\"00000000000000" digits "\"},"

#define MEMBERS MEMBER("01") MEMBER("02") MEMBER("03") MEMBER("04") MEMBER("05") MEMBER("06")

TEST(sets_that_make_no_sense)
{
    static const struct replacement refused[] = {
        {SHARD, "\"isr\":[", "\"isr\":[" MEMBER("aa")}, /* a server twice */
        {SHARD, "\"isr\":[", "\"isr\":[" MEMBER("00")},
        {SHARD, "\"wanted\":[", "\"wanted\":[\"0000000000000000\","},
        {SHARD, "\"primary\":{\"incarnation\":\"0000000000000001\"",
         "\"primary\":{\"incarnation\":\"0000000000000003\""},
    };

    expect(refused, sizeof refused / sizeof *refused, false);
}

TEST(numbers_out_of_range)
{
    static const struct replacement refused[] = {
        {CLUSTER, "\"copies\":3,", "\"copies\":0,"},
        {CLUSTER, "\"copies\":3,", "\"copies\":-1,"},
        {CLUSTER, "\"copies\":3,", "\"copies\":9,"},
        {CLUSTER, "\"copies\":3,", "\"copies\":1,"},
        {CLUSTER, "\"copies\":3,", "\"copies\":4294967299,"},
        {CLUSTER, "\"copies\":3,", "\"copies\":18446744073709551619,"},
        {CLUSTER, "\"min_copies\":2", "\"min_copies\":0"},
        {CLUSTER, "\"min_copies\":2", "\"min_copies\":4"},
        {CLUSTER, "\"lease_ms\":1000", "\"lease_ms\":199"},
        {CLUSTER, "\"lease_ms\":1000", "\"lease_ms\":10001"},
        {CLUSTER, "\"replace_ms\":60000", "\"replace_ms\":999"},
        {CLUSTER, "\"replace_ms\":60000", "\"replace_ms\":604800001"},
        {CLUSTER, "\"began_ms\":1700000000123", "\"began_ms\":-1"},
        {CLUSTER, "\"began_ms\":1700000000123", "\"began_ms\":9223372036854775808"},
        {CLUSTER, "0000000000000abc", "0000000000000000"},
        {CLUSTER, "0000000000000008", "0000000000000009"},
        {CLUSTER, "0000000000000007", "000000000000007"},
        {CLUSTER, "0000000000000007", "00000000000000007"},
        {CLUSTER, "0000000000000007", "000000000000000A"},
        {CLUSTER, "0000000000000007", "00000000000000-7"},
        {CLUSTER, "0d0e0fff", "0d0e0ff"},
        {CLUSTER, "0d0e0fff", "0d0e0fffff"},
        {CLUSTER, "0d0e0fff", "0d0e0ffg"},
        {CLUSTER, "\"cache\"", "\"\""},
        {CLUSTER, "\"cache\"", "\"a b\""},
        {CLUSTER, "\"cache\"", "\"default\""},
        {SERVER, "00000000000000aa", "00000000000000a"},
        {SERVER, "00000000000000aa", "00000000000000AA"},
        {SHARD, "\"epoch\":5,", "\"epoch\":0,"},
        {SHARD, "\"epoch\":5,", "\"epoch\":-5,"},
        {SHARD, "\"epoch\":5,", "\"epoch\":16777216,"},
        {SHARD, "0123456789abcdef", "0123456789abcde"},
        {SHARD, "\"wanted\":[", "\"wanted\":[" TWO TWO TWO},
        {SHARD, "\"isr\":[", "\"isr\":[" MEMBERS MEMBER("07")},
    };
    static const struct replacement accepted[] = {
        {CLUSTER, "\"copies\":3,", "\"copies\":8,"},
        {CLUSTER, "\"copies\":3,", "\"copies\":2,"},
        {CLUSTER, "\"min_copies\":2", "\"min_copies\":3"},
        {CLUSTER, "\"lease_ms\":1000", "\"lease_ms\":200"},
        {CLUSTER, "\"lease_ms\":1000", "\"lease_ms\":10000"},
        {CLUSTER, "\"replace_ms\":60000", "\"replace_ms\":0"},
        {CLUSTER, "\"replace_ms\":60000", "\"replace_ms\":604800000"},
        {CLUSTER, "\"began_ms\":1700000000123", "\"began_ms\":0"},
        {SHARD, "\"epoch\":5,", "\"epoch\":16777215,"},
        {SHARD, "\"wanted\":[", "\"wanted\":[" TWO TWO},
        {SHARD, "\"isr\":[", "\"isr\":[" MEMBERS},
    };

    expect(refused, sizeof refused / sizeof *refused, false);
    expect(accepted, sizeof accepted / sizeof *accepted, true);
}

/* Of a text of `length` letters in the place of another one. */
static bool is_read_with_letters(enum kind kind, const char *from, unsigned length)
{
    char letters[1024];

    assert_in_range(length, 0, sizeof letters - 1);
    memset(letters, 'a', length);
    letters[length] = '\0';
    return is_read_with(kind, from, letters);
}

TEST(texts_that_are_too_long)
{
    assert_true(is_read_with_letters(SERVER, "rack 7", 63));
    assert_false(is_read_with_letters(SERVER, "rack 7", 64));
    assert_true(is_read_with_letters(SERVER, "0.3.0", 15));
    assert_false(is_read_with_letters(SERVER, "0.3.0", 16));
    assert_true(is_read_with_letters(SERVER, "rdma://10.0.0.1", OKV_ADVERTISED_SIZE - 1));
    assert_false(is_read_with_letters(SERVER, "rdma://10.0.0.1", OKV_ADVERTISED_SIZE));
    assert_true(is_read_with_letters(CLUSTER, "cache", OKV_NAME_SIZE - 1));
    assert_false(is_read_with_letters(CLUSTER, "cache", OKV_NAME_SIZE));
}

static bool is_read_with_uris(unsigned count)
{
    char uris[1024] = "[\"rdma://10.0.0.1\"";

    for (unsigned i = 1; i < count; i++)
        strcat(uris, ",\"tcp://a\"");
    strcat(uris, "]");
    return is_read_with(SERVER, "[\"rdma://10.0.0.1\",\"tcps://a.example:7000\"]", uris);
}

static bool is_read_with_databases(unsigned count)
{
    static char text[1 << 16];
    size_t used = 0;

    for (unsigned i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s\"d%u\":{\"hash_seed\":\"0000000000000007\",\"id\":"
                                 "\"30313233343536373839616263646500\","
                                 "\"position\":\"0000000000000008\"}",
                                 i ? "," : "", i);
    static char all[1 << 17];
    int length = snprintf(all, sizeof all,
                          "{\"began_ms\":1,\"copies\":3,\"databases\":{%s},\"format\":1,"
                          "\"id\":\"0000000000000001\","
                          "\"lease_ms\":1000,\"min_copies\":2,\"replace_ms\":0,"
                          "\"shares_hosts\":false}",
                          text);
    return is_read(CLUSTER, all, (size_t)length);
}

TEST(more_than_there_may_be)
{
    assert_true(is_read_with_uris(OKV_ADVERTISED_MAX));
    assert_false(is_read_with_uris(OKV_ADVERTISED_MAX + 1));
    assert_false(is_read_with_databases(0));
    assert_true(is_read_with_databases(OKV_DATABASES_MAX));
    assert_false(is_read_with_databases(OKV_DATABASES_MAX + 1));
}
