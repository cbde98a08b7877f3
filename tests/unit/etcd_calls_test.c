/* Calls of the client of etcd, to members that answer as they are told. */
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/etcd_actor.h"
#include "tests/support/etcd_client.h"
#include "tests/support/pace.h"

#define HEADER_OF(cluster, revision) \
    "\"header\":{\"cluster_id\":\"" cluster "\",\"revision\":\"" revision "\"}"
#define HEADER HEADER_OF("5", "9")
#define GOT "{" HEADER ",\"kvs\":[{\"key\":\"L2I=\",\"mod_revision\":\"4\",\"value\":\"eA==\"}]}"
#define DONE "{" HEADER ",\"succeeded\":true}"
#define NO_LEADER "{\"error\":\"etcdserver: no leader\",\"code\":14}"
#define TIMED_OUT "{\"error\":\"etcdserver: request timed out\",\"code\":14}"
#define NO_TOKEN "{\"error\":\"etcdserver: invalid auth token\",\"code\":16}"
#define TOKEN "{" HEADER ",\"token\":\"token.1\"}"

struct play {
    struct etcd_actor actor;
    struct okv_etcd *etcd;
};

#define ACTS(...)                           \
    (const struct etcd_act[]){__VA_ARGS__}, \
        sizeof((struct etcd_act[]){__VA_ARGS__}) / sizeof(struct etcd_act)

static void begin(struct play *play, const char *user, const struct etcd_act *acts, size_t count)
{
    etcd_actor_start(&play->actor, acts, count, NULL);
    play->etcd = etcd_client(&(struct okv_etcd_options){.urls = play->actor.url,
                                                        .user = user,
                                                        .password = user ? "secret" : NULL,
                                                        .cluster_id = 5,
                                                        .revision = 9,
                                                        .member_ms = pace_ms(300)});
}

/* Returns how many requests came. */
static unsigned end(struct play *play)
{
    okv_etcd_destroy(&play->etcd);
    etcd_actor_stop(&play->actor);
    return play->actor.request_count;
}

static bool asks(const struct play *play, unsigned request, const char *what)
{
    return strstr(play->actor.requests[request], what);
}

TEST(a_request_is_a_post_with_headers)
{
    struct play play;
    struct etcd_result result;

    begin(&play, NULL, ACTS({200, GOT}));
    assert_int_equal(etcd_get(play.etcd, "/", &result), OKV_OK);
    assert_int_equal(result.cluster_id, 5);
    assert_int_equal(result.revision, 9);
    assert_string_equal(result.items[0].value, "x");
    assert_int_equal(end(&play), 1);
    assert_true(asks(&play, 0, "POST /v3/kv/range HTTP/1.1\r\n"));
    assert_true(asks(&play, 0, "\r\nGrpc-Metadata-hasleader: true\r\n"));
    assert_true(asks(&play, 0, "\r\n\r\n{\"key\":\"Lw==\","));
    assert_false(asks(&play, 0, "Authorization"));
}

TEST(a_get_is_repeated_until_it_has_an_answer)
{
    struct play play;
    struct etcd_result result;

    begin(&play, NULL,
          ACTS({0, NULL}, {200, NULL}, {503, NO_LEADER}, {504, TIMED_OUT}, {502, "<html>"},
               {200, "{}"}, {200, "{\"header\":"}, {200, GOT}));
    assert_int_equal(etcd_get(play.etcd, "/", &result), OKV_OK);
    assert_int_equal(end(&play), 8);
}

/* libcurl by itself sends a request again if a connection that it kept ends without an answer. */
TEST(a_swap_whose_answer_is_lost_is_unknown_and_sent_once)
{
    static const struct etcd_act lost[] = {
        {0, NULL},
        {200, NULL},
        {503, TIMED_OUT},
        {502, "<html>"},
        {200, "{}"},
        {200, "{\"header\":"},
        {500, "{\"error\":\"x\",\"code\":2}"},
    };

    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        struct play play;
        struct etcd_result result;
        begin(&play, NULL, ACTS({200, GOT}, lost[i], {200, DONE}));
        assert_int_equal(etcd_get(play.etcd, "/", &result), OKV_OK);
        assert_int_equal(etcd_swap(play.etcd, "/b", 4, "y", 0, &result), OKV_EUNKNOWN);
        assert_string_not_equal(result.why, "");
        assert_int_equal(end(&play), 2);
    }
}

TEST(a_swap_is_repeated_if_it_certainly_was_not_done)
{
    struct play play;
    struct etcd_result result;

    begin(&play, NULL, ACTS({503, NO_LEADER}, {503, NO_LEADER}, {200, DONE}));
    assert_int_equal(etcd_swap(play.etcd, "/b", 4, "y", 0, &result), OKV_OK);
    assert_int_equal(result.revision, 9);
    assert_int_equal(end(&play), 3);
    assert_true(asks(&play, 2, "POST /v3/kv/txn "));
}

/* Of ten handles each begins with any of the members. */
TEST(a_member_that_is_gone_is_passed_over)
{
    for (unsigned i = 0; i < 10; i++) {
        struct play play;
        struct etcd_result result;
        char urls[160];
        begin(&play, NULL, ACTS({200, DONE}));
        okv_etcd_destroy(&play.etcd);
        snprintf(urls, sizeof urls, "http://127.0.0.1:1,%s/", play.actor.url);
        play.etcd = etcd_client(&(struct okv_etcd_options){.urls = urls});
        assert_int_equal(etcd_swap(play.etcd, "/b", 4, "y", 0, &result), OKV_OK);
        end(&play);
    }
}

/* Some handles begin with the one that has no leader, which they ask once. */
TEST(a_member_that_answers_is_asked_on)
{
    const unsigned handles = 20;
    struct play play;
    struct etcd_actor other;
    struct etcd_result result;
    char urls[160];

    begin(&play, NULL, ACTS({503, NO_LEADER}));
    etcd_actor_start(&other, ACTS({200, GOT}), NULL);
    snprintf(urls, sizeof urls, "%s,%s", other.url, play.actor.url);
    for (unsigned i = 0; i < handles; i++) {
        okv_etcd_destroy(&play.etcd);
        play.etcd =
            etcd_client(&(struct okv_etcd_options){.urls = urls, .member_ms = PACE_GUARD_MS});
        for (unsigned j = 0; j < 5; j++)
            assert_int_equal(etcd_get(play.etcd, "/", &result), OKV_OK);
    }
    unsigned asked = end(&play);
    etcd_actor_stop(&other);
    assert_in_range(asked, 1, handles - 1);
}

TEST(members_that_fail_are_asked_after_a_pause)
{
    struct play play;
    struct etcd_result result = {0};

    begin(&play, NULL, ACTS({0, NULL}));
    uint64_t start = okv_clock_ns();
    okv_etcd_get(play.etcd, "/", pace_ms(300), etcd_take, &result);
    etcd_await(play.etcd, &result, 0);
    uint64_t pauses = (okv_clock_ns() - start) / 100000000;
    assert_int_equal(result.status, OKV_ETIMEDOUT);
    assert_true(end(&play) <= pauses + 1);
}

TEST(a_deadline_ends_what_nobody_answers)
{
    struct okv_etcd *etcd = etcd_client(&(struct okv_etcd_options){.urls = "http://127.0.0.1:1"});
    const struct okv_etcd_change change = {"/b", 0, "", 0, 0};
    struct etcd_result get = {0}, swap = {0};

    assert_int_equal(okv_etcd_get(etcd, "/", pace_ms(300), etcd_take, &get), OKV_OK);
    assert_int_equal(okv_etcd_swap(etcd, &change, 1, pace_ms(300), etcd_take, &swap), OKV_OK);
    etcd_await(etcd, &get, 0);
    etcd_await(etcd, &swap, 0);
    assert_int_equal(get.status, OKV_ETIMEDOUT);
    assert_int_equal(swap.status, OKV_ETIMEDOUT);
    assert_non_null(strstr(get.why, "http://127.0.0.1:1"));
    assert_non_null(strstr(get.why, "onnect"));
    okv_etcd_destroy(&etcd);
}

TEST(refusals_end_a_call)
{
    static const struct {
        int http;
        const char *body;
        int status;
    } cases[] = {
        {400, "{\"error\":\"etcdserver: too many operations in txn request\",\"code\":3}",
         OKV_EREFUSED},
        {400, "{\"error\":\"etcdserver: user name is empty\",\"code\":3}", OKV_EDENIED},
        {403, "{\"error\":\"etcdserver: permission denied\",\"code\":7}", OKV_EDENIED},
        {401, NO_TOKEN, OKV_EDENIED},
        {404, "{\"error\":\"etcdserver: requested lease not found\",\"code\":5}", OKV_ENOTFOUND},
        {429, "{\"error\":\"etcdserver: mvcc: database space exceeded\",\"code\":8}", OKV_EREFUSED},
        {501, "{\"error\":\"unknown service\",\"code\":12}", OKV_EREFUSED},
        {404, "Not Found\n", OKV_EUNKNOWN},
        {200, "{" HEADER "}", OKV_ECONFLICT},
        {200, "{" HEADER_OF("6", "9") ",\"succeeded\":true}", OKV_ELOST},
        {200, "{" HEADER_OF("5", "8") ",\"succeeded\":true}", OKV_ELOST},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct play play;
        struct etcd_result result;
        begin(&play, NULL, ACTS({cases[i].http, cases[i].body}));
        int status = etcd_swap(play.etcd, "/b", 4, "y", 1, &result);
        if (status != cases[i].status)
            fail_msg("%s: %d", cases[i].body, status);
        assert_int_equal(end(&play), 1);
    }
}

/* Leases are answered by a member that may be behind. What is lost stays so. */
TEST(revisions_of_the_store_never_fall)
{
    struct play play;
    struct etcd_result result = {0};

    begin(&play, NULL,
          ACTS({200, GOT}, {200, "{" HEADER_OF("5", "12") "}"},
               {200, "{" HEADER_OF("5", "3") ",\"ID\":\"1\",\"TTL\":\"10\"}"},
               {200, "{" HEADER_OF("5", "11") "}"}));
    assert_int_equal(etcd_get(play.etcd, "/", &result), OKV_OK);
    assert_int_equal(etcd_get(play.etcd, "/", &result), OKV_OK);
    result = (struct etcd_result){0};
    assert_int_equal(okv_etcd_keepalive(play.etcd, 1, 0, PACE_GUARD_MS, etcd_take, &result),
                     OKV_OK);
    etcd_await(play.etcd, &result, 0);
    assert_int_equal(result.status, OKV_OK);
    assert_int_equal(etcd_get(play.etcd, "/", &result), OKV_ELOST);
    assert_non_null(strstr(result.why, "revision 11"));
    assert_int_equal(etcd_get(play.etcd, "/", &result), OKV_ELOST);
    assert_non_null(strstr(result.why, "revision 11"));
    assert_int_equal(end(&play), 4);
}

TEST(a_token_is_asked_for_and_renewed)
{
    struct play play;
    struct etcd_result result;

    begin(&play, "me",
          ACTS({200, TOKEN}, {200, DONE}, {401, NO_TOKEN}, {200, "{" HEADER ",\"token\":\"t2\"}"},
               {200, DONE},
               {400, "{\"error\":\"etcdserver: revision of auth store is old\",\"code\":3}"},
               {200, TOKEN}, {401, NO_TOKEN}));
    assert_int_equal(etcd_swap(play.etcd, "/b", 4, "y", 0, &result), OKV_OK);
    assert_int_equal(etcd_swap(play.etcd, "/b", 4, "y", 0, &result), OKV_OK);
    assert_int_equal(etcd_swap(play.etcd, "/b", 4, "y", 0, &result), OKV_EDENIED);
    assert_int_equal(end(&play), 8);
    assert_true(asks(&play, 0, "POST /v3/auth/authenticate "));
    assert_true(asks(&play, 0, "{\"name\":\"me\",\"password\":\"secret\"}"));
    assert_false(asks(&play, 0, "Authorization"));
    assert_true(asks(&play, 1, "\r\nAuthorization: token.1\r\n"));
    assert_true(asks(&play, 2, "\r\nAuthorization: token.1\r\n"));
    assert_true(asks(&play, 4, "\r\nAuthorization: t2\r\n"));
}

TEST(a_token_is_no_way_into_the_headers)
{
    static const char *const tokens[] = {"a\\r\\nEvil: 1", "a b", "", "\\u00fc"};

    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        struct play play;
        struct etcd_result result;
        char body[160];
        snprintf(body, sizeof body, "{" HEADER ",\"token\":\"%s\"}", tokens[i]);
        begin(&play, "me", ACTS({200, body}, {200, TOKEN}, {200, DONE}));
        assert_int_equal(etcd_swap(play.etcd, "/b", 4, "y", 0, &result), OKV_OK);
        assert_int_equal(end(&play), 3);
        assert_true(asks(&play, 2, "\r\nAuthorization: token.1\r\n"));
    }
}

TEST(a_wrong_password_ends_a_call)
{
    struct play play;
    struct etcd_result result;

    begin(&play, "me",
          ACTS({400, "{\"error\":\"etcdserver: authentication failed, invalid user ID "
                     "or password\",\"code\":3}"}));
    assert_int_equal(etcd_get(play.etcd, "/", &result), OKV_EDENIED);
    assert_non_null(strstr(result.why, "invalid user ID"));
    assert_int_equal(end(&play), 1);
}

TEST(an_answer_has_a_limit)
{
    char *body = malloc(OKV_ETCD_ANSWER_MAX + 2);
    struct play play;
    struct etcd_result result;

    assert_non_null(body);
    memset(body, ' ', OKV_ETCD_ANSWER_MAX + 1);
    body[OKV_ETCD_ANSWER_MAX + 1] = '\0';
    begin(&play, NULL, ACTS({200, body}));
    assert_int_equal(etcd_swap(play.etcd, "/b", 4, "y", 0, &result), OKV_EUNKNOWN);
    assert_non_null(strstr(result.why, "too long"));
    end(&play);
    free(body);
}

/* ---- ends, and waiting ----------------------------------------------------- */

struct again {
    struct okv_etcd *etcd;
    struct etcd_result result;
    int code;
};

static void begin_again(void *context, const struct okv_etcd_answer *answer)
{
    struct again *again = context;

    etcd_take(&again->result, answer);
    again->code = okv_etcd_get(again->etcd, "/", 1000, etcd_take, &again->result);
}

TEST(destroying_ends_calls)
{
    const struct okv_etcd_change change = {"/b", 0, "", 0, 0};
    struct play play;
    struct again again = {0};
    struct etcd_result sent = {0}, unsent = {0};

    begin(&play, NULL, NULL, 0);
    again.etcd = play.etcd;
    okv_etcd_swap(play.etcd, &change, 1, PACE_GUARD_MS, etcd_take, &sent);
    while (play.actor.request_count == 0 && sent.times == 0)
        okv_etcd_wait(play.etcd, NULL, 0, 1);
    okv_etcd_get(play.etcd, "/", PACE_GUARD_MS, begin_again, &again);
    okv_etcd_swap(play.etcd, &change, 1, PACE_GUARD_MS, etcd_take, &unsent);
    end(&play);
    assert_int_equal(sent.status, OKV_EUNKNOWN);
    assert_int_equal(unsent.status, OKV_ESHUTDOWN);
    assert_int_equal(again.result.status, OKV_ESHUTDOWN);
    assert_int_equal(again.code, OKV_ESHUTDOWN);
    assert_int_equal(again.result.times + unsent.times + sent.times, 3);
}

TEST(a_wait_ends_for_a_descriptor_and_a_wake)
{
    struct okv_etcd *etcd = etcd_client(&(struct okv_etcd_options){.urls = "http://127.0.0.1:1"});
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    struct pollfd fd = {ends[0], POLLIN, 0};
    okv_etcd_wake(etcd);
    assert_int_equal(okv_etcd_wait(etcd, &fd, 1, -1), OKV_OK);
    assert_int_equal(fd.revents, 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(okv_etcd_wait(etcd, &fd, 1, -1), OKV_OK);
    assert_int_equal(fd.revents, POLLIN);
    close(ends[0]);
    close(ends[1]);
    okv_etcd_destroy(&etcd);
}

#define MEMBERS_4 "http://a:1,http://a:1,http://a:1,http://a:1"
#define MEMBERS_16 MEMBERS_4 "," MEMBERS_4 "," MEMBERS_4 "," MEMBERS_4
/* One that is cut to OKV_ETCD_URL_MAX bytes has a port, but a shorter one. */
#define NAME_49 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LONG_NAME NAME_49 NAME_49 NAME_49 NAME_49 NAME_49

TEST(arguments_out_of_range_are_refused)
{
    static const struct okv_etcd_options options[] = {
        {.urls = ""},
        {.urls = ","},
        {.urls = "127.0.0.1:2379"},
        {.urls = "ftp://127.0.0.1:2379"},
        {.urls = "http://"},
        {.urls = "http://a:1/path"},
        {.urls = "http://me:secret@a:1"},
        {.urls = "http://a"},
        {.urls = "http://a:"},
        {.urls = "http://a:0"},
        {.urls = "http://a:65536"},
        {.urls = "http://a:1x"},
        {.urls = "http://:1"},
        {.urls = "http://::1:1"},
        {.urls = "http://[]:1"},
        {.urls = "http://[::1:1"},
        {.urls = "http://a:1, http://b:1"},
        {.urls = "http://" LONG_NAME ":65535"},
        {.urls = MEMBERS_16 ",http://a:1"},
        {.urls = "https://a:1", .cert = "a.pem"},
        {.urls = "https://a:1", .user = "me"},
    };
    struct okv_etcd *etcd;

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        struct okv_diag diag = {""};
        assert_int_equal(okv_etcd_create(&options[i], &etcd, &diag), OKV_EINVAL);
        assert_null(etcd);
        assert_string_not_equal(diag.text, "");
    }
    etcd = etcd_client(&(struct okv_etcd_options){.urls = MEMBERS_16});
    okv_etcd_destroy(&etcd);
    etcd = etcd_client(
        &(struct okv_etcd_options){.urls = "http://a:1,https://b.c:65535/,http://[::1]:2379"});
    struct okv_etcd_change changes[OKV_ETCD_CHANGES_MAX + 1] = {0};
    assert_int_equal(okv_etcd_get(etcd, "", 1, etcd_take, NULL), OKV_EINVAL);
    assert_int_equal(okv_etcd_watch(etcd, "", etcd_take, NULL), OKV_EINVAL);
    assert_int_equal(okv_etcd_swap(etcd, changes, 0, 1, etcd_take, NULL), OKV_EINVAL);
    assert_int_equal(okv_etcd_swap(etcd, changes, OKV_ETCD_CHANGES_MAX + 1, 1, etcd_take, NULL),
                     OKV_EINVAL);
    okv_etcd_destroy(&etcd);
}
