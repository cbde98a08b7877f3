/* The bytes of requests to etcd, and what its answers may look like. */
#include "tests/support/test.h"

#include "server/etcd/lines.h"
#include "server/etcd/message.h"

static void check_request(char *request, const char *expected)
{
    assert_non_null(request);
    assert_string_equal(request, expected);
    free(request);
}

TEST(requests_have_the_bytes_of_etcd_3_4)
{
    const struct okv_etcd_change changes[] = {{"/a", 7, "va\0lue", 6, 9}, {"/b", 0, NULL, 0, 0}};

    check_request(okv_etcd_encode_get("/okv/", false),
                  "{\"key\":\"L29rdi8=\",\"range_end\":\"L29rdjA=\",\"keys_only\":false}");
    check_request(okv_etcd_encode_get("/okv/", true),
                  "{\"key\":\"L29rdi8=\",\"range_end\":\"L29rdjA=\",\"keys_only\":true}");
    check_request(
        okv_etcd_encode_swap(changes, 2),
        "{\"compare\":["
        "{\"key\":\"L2E=\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"7\"},"
        "{\"key\":\"L2I=\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"0\"}],"
        "\"success\":["
        "{\"request_put\":{\"key\":\"L2E=\",\"value\":\"dmEAbHVl\",\"lease\":\"9\"}},"
        "{\"request_delete_range\":{\"key\":\"L2I=\"}}],"
        "\"failure\":["
        "{\"request_range\":{\"key\":\"L2E=\"}},{\"request_range\":{\"key\":\"L2I=\"}}]}");
    check_request(okv_etcd_encode_watch("/okv/", UINT64_MAX),
                  "{\"create_request\":{\"key\":\"L29rdi8=\",\"range_end\":\"L29rdjA=\","
                  "\"start_revision\":\"18446744073709551615\"}}");
    check_request(okv_etcd_encode_grant(10), "{\"TTL\":\"10\"}");
    check_request(okv_etcd_encode_lease(7587886284), "{\"ID\":\"7587886284\"}");
    check_request(okv_etcd_encode_login("me", "\"\\"),
                  "{\"name\":\"me\",\"password\":\"\\\"\\\\\"}");
}

static int decode(struct okv_etcd_message *message, const char *text)
{
    size_t length = strlen(text);
    char *exact = malloc(length); /* for the sanitizer */

    assert_non_null(exact);
    memcpy(exact, text, length);
    int rc = okv_etcd_message_decode(message, exact, length);
    free(exact);
    return rc;
}

#define HEADER                                                                    \
    "\"header\":{\"cluster_id\":\"14841639068965178418\",\"member_id\":\"8211\"," \
    "\"revision\":\"9\",\"raft_term\":\"2\"}"

TEST(a_get_has_its_keys)
{
    struct okv_etcd_message message;

    assert_int_equal(decode(&message,
                            "{" HEADER ",\"kvs\":[{\"key\":\"L29rdi9r\",\"create_revision\":\"2\","
                            "\"mod_revision\":\"9\",\"version\":\"1\",\"value\":\"dmEAbHVl\"},"
                            "{\"key\":\"L29rdi9s\",\"mod_revision\":\"3\"}],\"count\":\"2\"}"),
                     OKV_OK);
    assert_true(message.cluster_id == UINT64_C(14841639068965178418));
    assert_int_equal(message.revision, 9);
    assert_int_equal(message.count, 2);
    assert_string_equal(message.items[0].key, "/okv/k");
    assert_int_equal(message.items[0].length, 6);
    assert_memory_equal(message.items[0].value, "va\0lue", 7);
    assert_int_equal(message.items[0].mod_revision, 9);
    assert_string_equal(message.items[1].key, "/okv/l");
    assert_int_equal(message.items[1].length, 0);
    assert_string_equal(message.items[1].value, "");
    okv_etcd_message_fini(&message);
    assert_int_equal(decode(&message, "{" HEADER "}\n"), OKV_OK);
    assert_int_equal(message.count, 0);
    okv_etcd_message_fini(&message);
}

TEST(a_refused_swap_has_the_keys_that_there_are)
{
    struct okv_etcd_message message;

    assert_int_equal(decode(&message, "{" HEADER ",\"responses\":[{\"response_range\":{\"header\":"
                                      "{\"revision\":\"9\"}}},{\"response_range\":{\"kvs\":[{"
                                      "\"key\":\"L2I=\",\"mod_revision\":\"4\",\"value\":\"eA==\"}]"
                                      ",\"count\":\"1\"}}]}"),
                     OKV_OK);
    assert_false(message.succeeded);
    assert_int_equal(message.count, 1);
    assert_string_equal(message.items[0].key, "/b");
    assert_string_equal(message.items[0].value, "x");
    okv_etcd_message_fini(&message);
    assert_int_equal(decode(&message, "{" HEADER ",\"succeeded\":true,\"responses\":["
                                      "{\"response_put\":{\"header\":{\"revision\":\"9\"}}}]}"),
                     OKV_OK);
    assert_true(message.succeeded);
    assert_int_equal(message.count, 0);
    okv_etcd_message_fini(&message);
}

TEST(other_answers)
{
    struct okv_etcd_message message;

    decode(&message, "{\"result\":{" HEADER ",\"ID\":\"77\"}}\n");
    assert_int_equal(message.lease, 77);
    assert_int_equal(message.ttl_s, 0); /* the lease is gone */
    okv_etcd_message_fini(&message);
    decode(&message, "{" HEADER ",\"ID\":\"77\",\"TTL\":\"10\"}");
    assert_int_equal(message.ttl_s, 10);
    okv_etcd_message_fini(&message);
    decode(&message, "{" HEADER ",\"token\":\"abc.12\"}");
    assert_string_equal(message.token, "abc.12");
    okv_etcd_message_fini(&message);
    decode(&message, "{\"result\":{" HEADER ",\"events\":[{\"kv\":{\"key\":\"YQ==\","
                     "\"mod_revision\":\"8\"}},{\"type\":\"DELETE\",\"kv\":{\"key\":\"Yg==\","
                     "\"mod_revision\":\"9\"}},{}]}}");
    assert_int_equal(message.event_revision, 9);
    okv_etcd_message_fini(&message);
    decode(&message, "{\"result\":{" HEADER ",\"created\":true}}");
    assert_true(message.is_created && !message.is_canceled);
    okv_etcd_message_fini(&message);
    decode(&message, "{\"result\":{" HEADER ",\"canceled\":true,\"compact_revision\":\"7\"}}");
    assert_true(message.is_canceled);
    okv_etcd_message_fini(&message);
}

TEST(errors_of_calls_and_of_streams)
{
    static const struct {
        const char *text;
        const char *error;
        int code;
    } cases[] = {
        {"{\"error\":\"no\",\"message\":\"no leader\",\"code\":14}", "no leader", 14},
        {"{\"error\":\"no leader\",\"code\":14}", "no leader", 14},
        {"{\"code\":14,\"message\":\"no leader\",\"details\":[]}", "no leader", 14},
        {"{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"no leader\"}}", "no leader",
         14},
        {"{\"error\":{\"code\":14,\"message\":\"no leader\"}}", "no leader", 14},
        {"{\"error\":\"x\",\"code\":4294967298}", "x", 0},
        {"{\"error\":\"x\",\"code\":-3}", "x", 0},
        {"{\"error\":\"x\",\"code\":\"3\"}", "x", 0},
        {"{\"error\":[]}", "", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct okv_etcd_message message;
        assert_int_equal(decode(&message, cases[i].text), OKV_OK);
        assert_non_null(message.error);
        assert_string_equal(message.error, cases[i].error);
        assert_int_equal(message.error_code, cases[i].code);
        okv_etcd_message_fini(&message);
    }
}

TEST(what_etcd_does_not_send_is_refused)
{
    static const char *const cases[] = {
        "",
        "[]",
        "7",
        "{",
        "{}{}",
        "<html>",
        "{\"header\":{\"cluster_id\":5}}",
        "{\"header\":{\"cluster_id\":\"\"}}",
        "{\"header\":{\"cluster_id\":\"-1\"}}",
        "{\"header\":{\"cluster_id\":\" 1\"}}",
        "{\"header\":{\"cluster_id\":\"1.0\"}}",
        "{\"header\":{\"cluster_id\":\"18446744073709551616\"}}",
        "{\"header\":{\"cluster_id\":\"99999999999999999999999999\"}}",
        "{\"header\":{\"revision\":[]}}",
        "{\"header\":{\"revision\":\"1\",\"revision\":\"2\"}}",
        "{\"TTL\":\"1e3\"}",
        "{\"kvs\":[{}]}",
        "{\"kvs\":[7]}",
        "{\"kvs\":[{\"key\":\"\"}]}",
        "{\"kvs\":[{\"key\":\"YQ\"}]}",
        "{\"kvs\":[{\"key\":\"YQ==YQ==\"}]}",
        "{\"kvs\":[{\"key\":\"!!!!\"}]}",
        "{\"kvs\":[{\"key\":\"YQBi\"}]}",
        "{\"kvs\":[{\"key\":\"YQ==\",\"value\":\"*\"}]}",
        "{\"kvs\":[{\"key\":\"YQ==\",\"value\":7}]}",
        "{\"kvs\":[{\"key\":\"YQ==\",\"mod_revision\":\"x\"}]}",
        "{\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":7}]}}]}",
        "{\"result\":{\"events\":[{\"kv\":{\"mod_revision\":\"x\"}}]}}",
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct okv_etcd_message message;
        if (decode(&message, cases[i]) != OKV_EPROTO)
            fail_msg("not refused: %s", cases[i]);
        okv_etcd_message_fini(&message);
    }
}

TEST(types_of_other_fields_do_not_matter)
{
    struct okv_etcd_message message;

    assert_int_equal(decode(&message, "{\"header\":7,\"kvs\":{},\"responses\":[7,[],{}],"
                                      "\"result\":[],\"succeeded\":\"true\",\"token\":[]}"),
                     OKV_OK);
    assert_true(message.cluster_id == 0 && message.count == 0 && !message.succeeded);
    assert_null(message.token);
    okv_etcd_message_fini(&message);
}

TEST(a_deep_answer_is_refused)
{
    size_t depth = 1000000;
    char *text = malloc(depth + 6);
    struct okv_etcd_message message;

    assert_non_null(text);
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, '[', depth);
    text[depth + 5] = '\0';
    assert_int_equal(decode(&message, text), OKV_EPROTO);
    okv_etcd_message_fini(&message);
    free(text);
}

/* Every beginning of an answer is refused, and read no further than it goes. */
TEST(a_truncated_answer_is_refused)
{
    const char *text = "{" HEADER ",\"kvs\":[{\"key\":\"L2I=\",\"mod_revision\":\"4\"}]}";
    struct okv_etcd_message message;
    char part[256];

    for (size_t length = 0; length < strlen(text); length++) {
        snprintf(part, sizeof part, "%.*s", (int)length, text);
        assert_int_equal(decode(&message, part), OKV_EPROTO);
        okv_etcd_message_fini(&message);
    }
}

/* ---- lines ----------------------------------------------------------------- */

struct seen {
    char text[64];
    size_t longest;
};

static void see(void *context, const char *text, size_t length)
{
    struct seen *seen = context;
    size_t used = strlen(seen->text);

    if (length > seen->longest)
        seen->longest = length;
    snprintf(seen->text + used, sizeof seen->text - used, "<%.*s>", (int)length, text);
}

TEST(lines_do_not_depend_on_the_pieces)
{
    const char *text = "one\n\nthree\nfour";

    for (size_t piece = 1; piece <= strlen(text); piece++) {
        struct okv_etcd_lines lines = {0};
        struct seen seen = {0};
        for (size_t at = 0, left; (left = strlen(text) - at) > 0; at += left) {
            left = left < piece ? left : piece;
            assert_true(okv_etcd_lines_split(&lines, text + at, left, see, &seen));
        }
        assert_string_equal(seen.text, "<one><><three>");
        assert_int_equal(lines.length, 4);
        assert_memory_equal(lines.bytes, "four", 4);
        okv_etcd_lines_fini(&lines);
    }
}

TEST(a_line_is_not_longer_than_an_answer)
{
    static char part[65536];
    struct okv_etcd_lines lines = {0};
    struct seen seen = {0};

    memset(part, 'x', sizeof part);
    for (unsigned round = 0; round < 2; round++) {
        for (size_t length = 0; length < OKV_ETCD_ANSWER_MAX; length += sizeof part)
            assert_true(okv_etcd_lines_split(&lines, part, sizeof part, see, &seen));
        if (round == 0)
            assert_true(okv_etcd_lines_split(&lines, "\n", 1, see, &seen));
    }
    assert_int_equal(seen.longest, OKV_ETCD_ANSWER_MAX);
    assert_false(okv_etcd_lines_split(&lines, "x", 1, see, &seen));
    assert_false(okv_etcd_lines_add(&lines, part, SIZE_MAX));
    okv_etcd_lines_fini(&lines);
}
