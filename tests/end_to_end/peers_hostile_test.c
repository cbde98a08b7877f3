/* The targets of peers against servers that do not behave, and where there is none. */
#include "tests/support/test.h"

#include "bench/targets/target.h"
#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/peer_process.h"
#include "tests/support/target_steps.h"

#define WAIT_MS 1000

struct play {
    const struct target_ops *ops;
    const char *scheme;
    const char *query;      /* at the end of the URI; NULL: none */
    const char *answers[4]; /* the last of them to a put and a get, the others to open() */
    bool stays;
    uint32_t timeout_ms; /* that is to pass, as pace_ms() has it; 0: none is */
    int open_code;       /* of open(), when it does not come to a get */
    int put_status;
    int get_status;
    int code; /* of the next poll */
    const char *words;
};

static void play_open(const struct play *play, const struct peer_process *process,
                      struct target **target)
{
    char uri[sizeof process->socket_uri + 32];
    struct target_config config = {
        .uri = uri,
        .depth = 4,
        .value_bytes = 64,
        .timeout_ms = play->timeout_ms ? pace_ms(play->timeout_ms) : PACE_GUARD_MS,
    };
    char why[256] = "";

    snprintf(uri, sizeof uri, "%s%s", process->socket_uri, play->query ? play->query : "");
    int rc = play->ops->open(&config, target, why, sizeof why);
    assert_int_equal(rc, play->open_code);
    if (rc != OKV_OK && !strstr(why, play->words))
        fail_msg("'%s' has no '%s'", why, play->words);
}

static void play_operations(const struct play *play, struct target *target)
{
    char value[64] = "value";
    struct okv_command commands[2] = {on_key(OKV_PUT, "key"), on_key(OKV_GET, "key")};
    struct okv_result results[2];

    commands[0].value = value;
    commands[0].value_length = 5;
    commands[1].buffer = value;
    commands[1].buffer_size = sizeof value;
    assert_int_equal(target->ops->submit(target, commands, 2, NULL), OKV_OK);
    collect(target, results, 2);
    assert_int_equal(results[0].status, play->put_status);
    assert_int_equal(results[1].status, play->get_status);
    int code = target->ops->poll(target, results, 1);
    for (uint64_t end = pace_guard_end(); code == OKV_OK && play->code != OKV_OK;) {
        assert_true(okv_clock_ns() < end);
        target->ops->wait(target, WAIT_MS);
        code = target->ops->poll(target, results, 1);
    }
    assert_int_equal(code, play->code);
    if (!strstr(target->ops->why(target), play->words))
        fail_msg("'%s' has no '%s'", target->ops->why(target), play->words);
}

static void run_plays(const struct play *plays, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct peer_process process;
        struct target *target = NULL;
        peer_process_play(&process, plays[i].scheme, plays[i].answers, plays[i].stays);
        play_open(&plays[i], &process, &target);
        if (target) {
            play_operations(&plays[i], target);
            target->ops->close(target);
        }
        peer_process_stop(&process);
    }
}

#ifdef OKV_WITH_HIREDIS
#define REDIS .ops = &target_redis_ops, .scheme = "redis"
#define INFO "$18\r\nredis_version:7.0\n\r\n"

TEST(redis_misbehaves)
{
    static const struct play plays[] = {
        {REDIS, .answers = {NULL}, .open_code = OKV_EDISCONNECTED, .words = "closed"},
        {REDIS, .stays = true, .timeout_ms = 1000, .open_code = OKV_ETIMEDOUT,
         .words = "did not answer"},
        {REDIS, .answers = {"HTTP/1.1 400 Bad Request\r\n"}, .open_code = OKV_EPROTO,
         .words = "redis-server?"},
        {REDIS, .answers = {"-NOAUTH Authentication \x1b required.\r\n"}, .open_code = OKV_EREFUSED,
         .words = "NOAUTH Authentication ? required."},
        {REDIS, .answers = {"+OK\r\n"}, .open_code = OKV_EPROTO, .words = "something else"},
        {REDIS, .answers = {"$-2\r\n"}, .open_code = OKV_EPROTO, .words = "unexpected reply"},
        {REDIS, .answers = {INFO, "+OK\r\n$5\r\nvalue\r\n"}, .stays = true, .words = ""},
        {REDIS, .answers = {INFO, "+OK\r\n"}, .get_status = OKV_EDISCONNECTED,
         .code = OKV_EDISCONNECTED, .words = "closed"},
        {REDIS, .answers = {INFO, "+OK\r\n$5\r\nval"}, .stays = true, .timeout_ms = 3000,
         .get_status = OKV_ETIMEDOUT, .code = OKV_ETIMEDOUT, .words = " ms"},
        {REDIS, .answers = {INFO, "*2\r\n$1\r\na\r\n:1\r\n"}, .put_status = OKV_EUNKNOWN,
         .get_status = OKV_EPROTO, .code = OKV_EPROTO, .words = "another kind"},
        {REDIS, .answers = {INFO, "$5\r\nvalue\r\n"}, .put_status = OKV_EUNKNOWN,
         .get_status = OKV_EPROTO, .code = OKV_EPROTO, .words = "something else"},
        {REDIS, .answers = {INFO, "+OK\r\n$-1\r\n+OK\r\n"}, .get_status = OKV_ENOTFOUND,
         .code = OKV_EPROTO, .words = "nothing had asked"},
        {REDIS, .query = "?wait=2", .answers = {INFO, "+OK\r\n:2\r\n$5\r\nvalue\r\n"},
         .stays = true, .words = ""},
        {REDIS, .query = "?wait=2", .answers = {INFO, "+OK\r\n:1\r\n$5\r\nvalue\r\n"},
         .stays = true, .put_status = OKV_EFEWCOPIES, .words = ""},
        {REDIS, .query = "?wait=1", .answers = {INFO, "-OOM no room\r\n:1\r\n$-1\r\n"},
         .stays = true, .put_status = OKV_EFULL, .get_status = OKV_ENOTFOUND, .words = "OOM"},
        {REDIS, .query = "?wait=0", .answers = {NULL}, .open_code = OKV_EURI, .words = "1 to 999"},
        {REDIS, .query = "?wait=1x", .answers = {NULL}, .open_code = OKV_EURI, .words = "1 to 999"},
        {REDIS, .answers = {INFO, "-OOM no room\r\n-READONLY replica\r\n"}, .stays = true,
         .put_status = OKV_EFULL, .get_status = OKV_EREFUSED, .words = "READONLY"},
    };

    run_plays(plays, sizeof plays / sizeof *plays);
}
#endif

#define MEMCACHED .ops = &target_memcached_ops, .scheme = "memcached"
#define VERSION "VERSION 1.6.18\r\n"
#define SETTINGS "STAT item_size_max 1048576\r\nEND\r\n"

TEST(memcached_misbehaves)
{
    /* A line that never ends; the byte after the last is 0. */
    static const char endless[4096] = {[0 ... 4094] = 'A'};
    static const struct play plays[] = {
        {MEMCACHED, .answers = {endless}, .stays = true, .open_code = OKV_EPROTO,
         .words = "unexpected reply"},
        {MEMCACHED, .answers = {NULL}, .open_code = OKV_EDISCONNECTED, .words = "closed"},
        {MEMCACHED, .answers = {"VERSION 1.4.9\r\n"}, .open_code = OKV_EVERSION,
         .words = "1.6.10 is needed"},
        {MEMCACHED, .answers = {"-ERR unknown command\r\n"}, .open_code = OKV_EPROTO,
         .words = "memcached?"},
        {MEMCACHED, .answers = {VERSION, "STAT item_size_max many\r\nEND\r\n"},
         .open_code = OKV_EPROTO, .words = "item_size_max"},
        {MEMCACHED, .answers = {VERSION, SETTINGS, "HD\r\nVA 5 c7 t9\r\nvalue\r\n"}, .stays = true,
         .words = ""},
        {MEMCACHED, .answers = {VERSION, SETTINGS, "HD\r\nVA 5\r\nvalueEN\r\n"},
         .get_status = OKV_EPROTO, .code = OKV_EPROTO, .words = "unexpected reply"},
        {MEMCACHED, .answers = {VERSION, SETTINGS, "HD\r\nVA -1\r\nvalue\r\n"},
         .get_status = OKV_EPROTO, .code = OKV_EPROTO, .words = "unexpected reply"},
        {MEMCACHED, .answers = {VERSION, SETTINGS, "VA 5\r\nvalue\r\n"}, .put_status = OKV_EUNKNOWN,
         .get_status = OKV_EPROTO, .code = OKV_EPROTO, .words = "unexpected reply"},
        {MEMCACHED, .answers = {VERSION, SETTINGS, "HD\r\nVA 4000000000\r\nval"},
         .get_status = OKV_EDISCONNECTED, .code = OKV_EDISCONNECTED, .words = "closed"},
        {MEMCACHED, .answers = {VERSION, SETTINGS, "HD\nEN\r\n"}, .put_status = OKV_EUNKNOWN,
         .get_status = OKV_EPROTO, .code = OKV_EPROTO, .words = "unexpected reply"},
        {MEMCACHED, .answers = {VERSION, SETTINGS, "HD\r\nEN\r\nEN\r\n"},
         .get_status = OKV_ENOTFOUND, .code = OKV_EPROTO, .words = "nothing had asked"},
        {MEMCACHED, .answers = {VERSION, SETTINGS, "SERVER_ERROR out of memory\r\nERROR\r\n"},
         .stays = true, .put_status = OKV_EFULL, .get_status = OKV_EREFUSED, .words = "ERROR"},
    };

    run_plays(plays, sizeof plays / sizeof *plays);
}

TEST(nobody_is_there)
{
    static const struct {
        const struct target_ops *ops;
        const char *uri;
        int code;
        const char *words;
    } cases[] = {
        {&target_memcached_ops, "memcached:///tmp/okv-test-nobody", OKV_EREFUSED,
         "start memcached"},
        {&target_memcached_ops, "memcached://127.0.0.1:1", OKV_EREFUSED, "start memcached"},
        {&target_memcached_ops, "memcached://[::1]:1", OKV_EREFUSED, "[::1]:1"},
        {&target_memcached_ops, "memcached://", OKV_EURI, "memcached:///PATH"},
        {&target_memcached_ops, "memcached://host:port", OKV_EURI, "HOST[:PORT]"},
        {&target_memcached_ops, "memcached://[::1", OKV_EURI, "HOST[:PORT]"},
#ifdef OKV_WITH_HIREDIS
        {&target_redis_ops, "redis:///tmp", OKV_EREFUSED, "start redis-server"},
#endif
#ifdef OKV_WITH_VALKEY
        {&target_valkey_ops, "valkey+rdma://", OKV_EURI, "give valkey+rdma://HOST[:PORT]"},
        {&target_valkey_ops, "valkey+rdma://host:port", OKV_EURI, "HOST[:PORT]"},
        {&target_valkey_ops, "valkey+rdma://[::1", OKV_EURI, "HOST[:PORT]"},
        {&target_valkey_ops, "valkey+rdma:///tmp/socket", OKV_EURI, "HOST[:PORT]"},
        {&target_valkey_ops, "valkey+rdma://host?source=address", OKV_EURI, "HOST[:PORT]"},
#endif
#ifdef OKV_WITH_LMDB
        {&target_lmdb_ops, "lmdb://relative", OKV_EURI, "lmdb:///DIRECTORY"},
        {&target_lmdb_ops, "lmdb:///no/such/place", OKV_EADDRESS, "create"},
#endif
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct target_config config = {.uri = cases[i].uri, .depth = 1};
        struct target *target = NULL;
        char why[256] = "";
        assert_int_equal(cases[i].ops->open(&config, &target, why, sizeof why), cases[i].code);
        assert_null(target);
        if (!strstr(why, cases[i].words))
            fail_msg("'%s' has no '%s'", why, cases[i].words);
    }
}

/* What was left out is known by name, with what it takes to have it. */
TEST(schemes_are_known)
{
    static const struct {
        const char *uri;
        const char *words[2];
    } cases[] = {
        {"valkey+rdma://10.0.0.1", {"built without valkey+rdma://", "libvalkey"}},
        {"redis:///socket", {"built without redis://", "install libhiredis"}},
        {"lmdb:///directory", {"built without lmdb://", "install liblmdb"}},
        {"valkey://10.0.0.1",
         {"not a URI of a server", "rdma://, ofi://, tcp://, tcps://, local://"}},
        {"valkey+rdma:10.0.0.1", {"not a URI of a server", "memcached://"}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[256] = "";
        target_refuse(cases[i].uri, why, sizeof why);
        for (int word = 0; word < 2; word++)
            if (!strstr(why, cases[i].words[word]))
                fail_msg("'%s' has no '%s'", why, cases[i].words[word]);
    }
    assert_ptr_equal(target_ops_of("memcached://host"), &target_memcached_ops);
    assert_null(target_ops_of("valkey://10.0.0.1"));
#ifdef OKV_WITH_VALKEY
    assert_ptr_equal(target_ops_of("valkey+rdma://10.0.0.1"), &target_valkey_ops);
#else
    assert_null(target_ops_of("valkey+rdma://10.0.0.1"));
#endif
}
