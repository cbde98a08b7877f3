/*
 * RESP commands of the whole server: CONFIG SET, SHUTDOWN, WAIT, ACL WHOAMI, and the figures of
 * INFO. Which databases they are about, and who may give them.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/clients/admission.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/absent.h"
#include "server/resp/run/rates.h"
#include "server/resp/run/shared.h"
#include "tests/support/resp_fixture.h"

#define PLACES 100u

static const struct okv_store_params params = {
    .length = 1u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 100000};

static struct resp_fixture fixture;
static struct okv_resp_client *one;

static struct okv_server *server_of(void)
{
    return fixture.core.server;
}

static int begin(void **state)
{
    const struct okv_admission_limits limits = {.clients = PLACES};

    (void)state;
    resp_fixture_open(&fixture, &params);
    assert_int_equal(okv_admission_init(server_of()->admission, &limits), 0);
    server_of()->config.max_clients = PLACES;
    signal(OKV_SERVER_END_SIGNAL, SIG_IGN);
    one = resp_fixture_client(&fixture);
    return 0;
}

static int end(void **state)
{
    (void)state;
    resp_fixture_end(one);
    okv_admission_fini(server_of()->admission);
    resp_fixture_close(&fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

static void expect(const char *line, const char *reply)
{
    const char *got = resp_fixture_call(one, line);

    assert_non_null(got);
    if (strcmp(got, reply) != 0)
        fail_msg("%s: %s", line, got);
}

static void expect_error(const char *line, const char *begins)
{
    const char *got = resp_fixture_call(one, line);

    assert_non_null(got);
    if (strncmp(got, begins, strlen(begins)) != 0)
        fail_msg("%s: %s", line, got);
}

#define OK "+OK\r\n"
#define FAILED(setting) "-ERR CONFIG SET failed (possibly related to argument '" setting "') - "

/* ---- CONFIG SET ---- */

FIXTURE_TEST(settings_change_while_the_server_runs)
{
    expect("config set maxclients 50 TIMEOUT 30", OK);
    expect("config get maxclients", "*2\r\n$10\r\nmaxclients\r\n$2\r\n50\r\n");
    expect("config get timeout", "*2\r\n$7\r\ntimeout\r\n$2\r\n30\r\n");
    assert_int_equal(server_of()->config.max_clients, 50);
    assert_int_equal(server_of()->config.idle_s, 30);
    assert_int_equal(server_of()->admission->limits.clients, 50);
    expect("config set timeout 0 maxclients 100", OK);
    assert_int_equal(server_of()->config.idle_s, 0);
    assert_int_equal(server_of()->admission->limits.clients, PLACES);
}

FIXTURE_TEST(settings_change_together_or_not_at_all)
{
    static const struct {
        const char *line, *reply;
    } cases[] = {
        {"timeout 5 maxclients 0",
         FAILED("maxclients") "argument must be between 1 and 10000 inclusive\r\n"},
        {"timeout 5 maxclients x",
         FAILED("maxclients") "argument couldn't be parsed into an integer\r\n"},
        {"timeout 5 maxclients 101",
         FAILED("maxclients") "the start made room for 100: restart with --max-clients\r\n"},
        {"maxclients 5 timeout -1",
         FAILED("timeout") "argument must be between 0 and 31536000 inclusive\r\n"},
        {"maxclients 5 timeout 31536001",
         FAILED("timeout") "argument must be between 0 and 31536000 inclusive\r\n"},
        {"timeout 5 timeout 5", FAILED("timeout") "duplicate parameter\r\n"},
        {"timeout 5 save ''",
         FAILED("save") "can't set immutable config, an option of okv-server sets it\r\n"},
        {"timeout 5 nosuch 1",
         "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'\r\n"},
        {"timeout 5 maxclients", "-ERR syntax error\r\n"},
    };
    char line[64];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line, "config set %s", cases[i].line);
        expect(line, cases[i].reply);
        assert_int_equal(server_of()->config.max_clients, PLACES);
        assert_int_equal(server_of()->config.idle_s, 0);
    }
}

/* ---- SHUTDOWN ---- */

static void expect_end(const char *line, bool ends)
{
    atomic_store(&server_of()->end_is_asked, false);
    one->state = OKV_RESP_READING;
    if (ends)
        expect(line, "");
    else
        expect_error(line, "-ERR");
    assert_int_equal(atomic_load(&server_of()->end_is_asked), ends);
    assert_int_equal(one->state, ends ? OKV_RESP_DRAINING : OKV_RESP_READING);
}

FIXTURE_TEST(a_server_is_asked_to_end)
{
    static const char *const ending[] = {"shutdown", "shutdown nosave", "SHUTDOWN NOW FORCE",
                                         "shutdown save"};
    static const char *const others[] = {"shutdown abort", "shutdown abort now", "shutdown bogus",
                                         "shutdown save nosave", "shutdown now bogus"};

    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        expect_end(ending[i], true);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        expect_end(others[i], false);
    expect("shutdown abort", "-ERR No shutdown in progress.\r\n");
    expect("multi", OK);
    expect("shutdown", "-ERR Command not allowed inside a transaction\r\n");
}

/* Nothing can save what is in memory only. */
FIXTURE_TEST(items_are_not_lost_by_a_shutdown_that_saves)
{
    expect("set k v", OK);
    expect_end("shutdown save", false);
    expect_end("shutdown save force", true);
    expect_end("shutdown nosave", true);
    expect_end("shutdown", true);
    server_of()->config.data = "/somewhere";
    expect_end("shutdown save", true);
    server_of()->config.data = NULL;
}

FIXTURE_TEST(what_is_about_all_needs_admin_everywhere)
{
    static const char *const lines[] = {"shutdown", "config set timeout 5", "flushall"};
    char reply[128], name[16];

    one->rights[1] = OKV_RIGHT_READ | OKV_RIGHT_WRITE;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        expect_error(lines[i], "-NOPERM");
        assert_non_null(strstr(resp_fixture_call(one, lines[i]),
                               "in all databases: it lacks the right admin in at least one"));
    }
    one->rights[0] = OKV_RIGHT_READ;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        sscanf(lines[i], "%15s", name);
        snprintf(reply, sizeof reply, "-NOPERM this user has no permissions to run the '%s", name);
        expect_error(lines[i], reply);
    }
    assert_false(atomic_load(&server_of()->end_is_asked));
    assert_int_equal(server_of()->config.idle_s, 0);
}

/* ---- small ones ---- */

FIXTURE_TEST(there_is_no_replica_to_wait_for)
{
    expect("wait 0 0", ":0\r\n");
    expect("wait 1 100", ":0\r\n");
    expect("wait x 0", "-ERR value is not an integer or out of range\r\n");
    expect("wait 0 x", "-ERR timeout is not an integer or out of range\r\n");
    expect("wait 0 -1", "-ERR timeout is negative\r\n");
}

FIXTURE_TEST(a_user_learns_its_name)
{
    expect("acl whoami", "$7\r\ndefault\r\n");
    snprintf(one->common.user, sizeof one->common.user, "alice");
    expect("acl whoami", "$5\r\nalice\r\n");
}

/* It says what to configure, and no more about those that there are. */
FIXTURE_TEST(a_database_that_is_not_there_says_what_to_do)
{
    static const char *const lines[] = {"select 2", "select -1",     "select nosuch",
                                        "move k 2", "copy k k db 2", "select 1"};
    static const char refusal[] = "-ERR DB index is out of range: okv-server has a database for "
                                  "each --database NAME, from 0, and a user sees those with a "
                                  "right\r\n";

    one->rights[1] = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect(lines[i], refusal);
    expect("move k nosuch", "-ERR value is not an integer or out of range\r\n");
    expect("copy k k db nosuch", "-ERR value is not an integer or out of range\r\n");
}

FIXTURE_TEST(what_okv_lacks_has_a_name)
{
    const struct okv_resp_arg long_name = {
        (const uint8_t *)"LPUSHLPUSHLPUSHLPUSHLPUSHLPUSHLPUSHLPUSH", 40};

    expect("lpush mylist v", "-ERR unknown command 'lpush', with args beginning with: 'mylist' 'v' "
                             "(okv has no lists)\r\n");
    expect("FCALL x 0", "-ERR unknown command 'FCALL', with args beginning with: 'x' '0' (okv has "
                        "no functions)\r\n");
    expect("replicaof no one", "-ERR unknown command 'replicaof', with args beginning with: 'no' "
                               "'one' (okv has no replicas)\r\n");
    expect("lcs a b", "-ERR unknown command 'lcs', with args beginning with: 'a' 'b' (okv has no "
                      "such command)\r\n");
    expect_error("publish a b", "-ERR unknown command 'publish'");
    expect("push x", "-ERR unknown command 'push', with args beginning with: 'x' \r\n");
    expect("'' x", "-ERR unknown command '', with args beginning with: 'x' \r\n");
    expect("'lpush rpush' x",
           "-ERR unknown command 'lpush rpush', with args beginning with: 'x' \r\n");
    assert_null(okv_resp_absent(&long_name));
}

/* ---- INFO ---- */

static const char *info(const char *section)
{
    char line[64];

    snprintf(line, sizeof line, "info %s", section);
    return resp_fixture_call(one, line);
}

/* The number of a line; -1: there is none. */
static double figure(const char *section, const char *name)
{
    char begins[64];

    snprintf(begins, sizeof begins, "\r\n%s:", name);
    const char *at = strstr(info(section), begins);
    return at ? strtod(at + strlen(begins), NULL) : -1;
}

FIXTURE_TEST(memory_is_what_the_databases_have)
{
    static const uint8_t pages[3 * 4096] = {1};
    struct okv_region *region = &server_of()->databases[0].region;
    int fd = memfd_create("region", MFD_CLOEXEC);

    one->rights[1] = 0;
    assert_int_equal(ftruncate(fd, (off_t)params.length), 0);
    assert_int_equal(pwrite(fd, pages, sizeof pages, 0), sizeof pages);
    region->fd = fd;
    double used = figure("memory", "used_memory");
    assert_true(used == (double)okv_heap_used(&fixture.core.database->store.heap));
    assert_true(figure("memory", "used_memory_rss") == sizeof pages);
    assert_true(figure("memory", "maxmemory") == (double)params.length);
    assert_true(figure("memory", "mem_fragmentation_bytes") == sizeof pages - used);
    double ratio = figure("memory", "mem_fragmentation_ratio");
    assert_true(ratio > sizeof pages / used - 0.01 && ratio < sizeof pages / used + 0.01);
    region->fd = -1;
    close(fd);
}

FIXTURE_TEST(the_peak_of_memory_stays)
{
    double before = figure("memory", "used_memory_peak");

    expect("setrange k 99999 x", ":100000\r\n");
    double peak = figure("memory", "used_memory_peak");
    assert_true(peak >= before + 100000);
    assert_true(figure("memory", "used_memory") <= peak);
    expect("del k", ":1\r\n");
    assert_true(figure("memory", "used_memory_peak") == peak);
    assert_true(figure("memory", "used_memory") < peak);
    assert_true(figure("memory", "used_memory_peak_perc") < 100);
}

FIXTURE_TEST(refused_clients_are_counted)
{
    struct okv_stats *stats = &server_of()->stats;

    OKV_STATS_ADD(stats, rejected_busy, 1);
    OKV_STATS_ADD(stats, rejected_user, 2);
    OKV_STATS_ADD(stats, rejected_address, 4);
    OKV_STATS_ADD(stats, bytes_in, 1000);
    OKV_STATS_ADD(stats, bytes_out, 2000);
    assert_true(figure("stats", "rejected_connections") == 7);
    assert_true(figure("stats", "total_net_input_bytes") == 1000);
    assert_true(figure("stats", "total_net_output_bytes") == 2000);
}

/* Of at least half a second, on a clock that the test drives. */
FIXTURE_TEST(rates_are_of_the_last_second)
{
    const uint64_t begin_ns = 10 * OKV_RESP_SAMPLE_NS;
    struct okv_stats *stats = &server_of()->stats;
    struct okv_resp_sample rate;
    uint64_t now_ns = begin_ns;

    okv_resp_rates_note(server_of(), now_ns);
    for (unsigned i = 0; i < 10; i++) {
        OKV_STATS_ADD(stats, resp_commands, 50);
        OKV_STATS_ADD(stats, bytes_in, 500);
        OKV_STATS_ADD(stats, bytes_out, 5000);
        now_ns += OKV_RESP_SAMPLE_NS;
        okv_resp_rates_note(server_of(), now_ns);
        okv_resp_rates_note(server_of(), now_ns + 1); /* none is due */
    }
    okv_resp_rates_get(server_of(), now_ns + OKV_RESP_SAMPLE_NS / 2, &rate);
    assert_int_equal(rate.commands, 66); /* 50 in three quarters of a second */
    assert_int_equal(rate.bytes_in, 666);
    assert_int_equal(rate.bytes_out, 6666);
    okv_resp_rates_get(server_of(), now_ns + 100 * OKV_RESP_SAMPLE_NS, &rate);
    assert_int_equal(rate.commands, 0);
}

/* Whether INFO has a line that begins so. */
static bool has_line(const char *section, const char *begins)
{
    char text[128];

    snprintf(text, sizeof text, "\r\n%s", begins);
    return strstr(info(section), text);
}

FIXTURE_TEST(calls_are_counted_by_command)
{
    expect("set k x", OK);
    expect("get k", "$1\r\nx\r\n");
    expect("get k", "$1\r\nx\r\n");
    expect_error("get", "-ERR");
    expect_error("incr k", "-ERR");
    expect("client getname", "$-1\r\n");
    assert_true(has_line("commandstats", "cmdstat_get:calls=2,usec="));
    const char *get = strstr(info("commandstats"), "cmdstat_get:");
    assert_non_null(strstr(get, ",rejected_calls=1,failed_calls=0\r\n"));
    const char *incr = strstr(info("commandstats"), "cmdstat_incr:calls=1,");
    assert_non_null(incr);
    assert_non_null(strstr(incr, ",rejected_calls=0,failed_calls=1\r\n"));
    assert_true(has_line("all", "cmdstat_client|getname:calls=1,"));
    assert_false(has_line("default", "cmdstat_"));
    assert_false(has_line("commandstats", "cmdstat_del:"));
}

/* Each for itself, however long it takes, and also when a user may not run it any more. */
FIXTURE_TEST(calls_of_a_transaction_are_counted)
{
    expect("setrange k 99999 x", ":100000\r\n");
    expect("bitcount k", ":4\r\n");
    expect("multi", OK);
    expect("get missing", "+QUEUED\r\n");
    expect("get missing", "+QUEUED\r\n");
    expect("del missing", "+QUEUED\r\n");
    struct okv_resp_client *queuing = one;
    one = resp_fixture_client(&fixture); /* INFO of the other one would be queued */
    assert_false(has_line("commandstats", "cmdstat_get:"));
    resp_fixture_end(one);
    one = queuing;
    one->rights[0] = OKV_RIGHT_READ;
    expect_error("exec", "*3\r\n$-1\r\n$-1\r\n-NOPERM");
    assert_true(has_line("commandstats", "cmdstat_get:calls=2,"));
    assert_true(has_line("commandstats", "cmdstat_del:calls=0,"));
    assert_true(has_line("commandstats", "cmdstat_exec:calls=1,"));
    assert_true(has_line("commandstats", "cmdstat_bitcount:calls=1,"));
    assert_true(has_line("errorstats", "errorstat_NOPERM:count=1\r\n"));
}

FIXTURE_TEST(errors_are_counted_by_their_first_word)
{
    expect_error("nosuch", "-ERR");
    expect_error("hello 4", "-NOPROTO");
    expect("multi", OK);
    expect_error("nosuch", "-ERR");
    expect_error("exec", "-EXECABORT");
    one->rights[0] = OKV_RIGHT_WRITE;
    expect_error("get k", "-NOPERM");
    one->is_authenticated = false;
    expect_error("get k", "-NOAUTH");
    one->is_authenticated = true;
    one->rights[0] = OKV_RIGHTS_ALL;
    assert_true(has_line("errorstats", "errorstat_ERR:count=2\r\n"));
    assert_true(has_line("errorstats", "errorstat_NOPROTO:count=1\r\n"));
    assert_true(has_line("errorstats", "errorstat_EXECABORT:count=1\r\n"));
    assert_true(has_line("errorstats", "errorstat_NOPERM:count=1\r\n"));
    assert_true(has_line("errorstats", "errorstat_NOAUTH:count=1\r\n"));
    assert_true(figure("stats", "total_error_replies") == 6);
}

/* What looks like an error in the middle of a reply, with which a turn may begin, is none. */
FIXTURE_TEST(a_value_is_no_error)
{
    static char request[500000], reply[sizeof request];
    size_t head = (size_t)snprintf(request, sizeof request, "*2\r\n$4\r\nECHO\r\n$400000\r\n");
    size_t length = head + 400002, sent = 0;
    int fd = resp_fixture_connect(&fixture);

    memset(request + head, '-', 400000);
    memcpy(request + head + 400000, "\r\n", 2);
    while (sent < length) {
        ssize_t n = send(fd, request + sent, length - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        resp_fixture_poll(&fixture);
    }
    resp_fixture_hear_bytes(&fixture, fd, (uint8_t *)reply, 400000);
    assert_true(figure("stats", "total_error_replies") == 0);
    const char *echo = strstr(info("commandstats"), "cmdstat_echo:calls=1,");
    assert_non_null(echo);
    assert_non_null(strstr(echo, "failed_calls=0\r\n"));
    close(fd);
}

FIXTURE_TEST(info_names_what_monitors_ask_for)
{
    static const char *const names[] = {
        "redis_version",
        "os",
        "arch_bits",
        "multiplexing_api",
        "tcp_port",
        "server_time_usec",
        "cluster_enabled",
        "connected_clients",
        "blocked_clients",
        "total_system_memory",
        "rdb_last_save_time",
        "aof_current_rewrite_time_sec",
        "evicted_keys",
        "used_cpu_sys_children",
        "role",
        "instantaneous_ops_per_sec",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char begins[64];
        snprintf(begins, sizeof begins, "%s:", names[i]);
        if (!has_line("default", begins))
            fail_msg("%s", names[i]);
    }
    assert_true(figure("server", "arch_bits") == 8 * sizeof(void *));
    assert_true(figure("server", "tcp_port") == 0);
    assert_true(figure("cluster", "cluster_enabled") == 0);
}
