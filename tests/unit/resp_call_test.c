/* RESP commands without a connection: who may give them, transactions, and options at their ends.
 */
#include "tests/support/test.h"

#include "server/resp/commands/commands.h"
#include "server/resp/proto/args.h"
#include "tests/support/resp_fixture.h"

/* Many buckets soon, so that FLUSHDB takes many steps. */
#define MANY 3000u

static const struct okv_store_params params = {
    .length = 16u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 100000};

static struct resp_fixture fixture;
static struct okv_resp_client *one, *other;

static int begin(void **state)
{
    (void)state;
    resp_fixture_open(&fixture, &params);
    one = resp_fixture_client(&fixture);
    other = resp_fixture_client(&fixture);
    return 0;
}

static int end(void **state)
{
    (void)state;
    resp_fixture_end(one);
    resp_fixture_end(other);
    resp_fixture_close(&fixture);
    return 0;
}

static void expect(struct okv_resp_client *client, const char *line, const char *reply)
{
    const char *got = resp_fixture_call(client, line);

    assert_non_null(got);
    assert_string_equal(got, reply);
}

static void expect_error(struct okv_resp_client *client, const char *line, const char *begins)
{
    const char *got = resp_fixture_call(client, line);

    assert_non_null(got);
    if (strncmp(got, begins, strlen(begins)) != 0)
        fail_msg("%s: %s", line, got);
}

#define OK "+OK\r\n"
#define QUEUED "+QUEUED\r\n"

/* ---- the table ---- */

/* As many as a command takes, and one more. */
#define KEYS_MAX 4096u

/* Gives `begin` with so many keys, and expects an error. */
static void expect_too_many(struct okv_resp_client *client, const char *begin, unsigned count)
{
    static char line[1u << 16];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", begin);

    for (unsigned i = 0; i < count; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " k%u", i);
    expect_error(client, line, "-ERR");
}

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

FIXTURE_TEST(every_command_is_found_by_its_name)
{
    const struct okv_resp_command_table *table = &okv_resp_commands;

    for (unsigned i = 0; i < table->count; i++) {
        const struct okv_resp_command *command = &table->commands[i];
        char name[32];
        okv_resp_lower(command->name, name, sizeof name);
        struct okv_resp_arg arg = {(const uint8_t *)name, (uint32_t)strlen(name)};
        assert_ptr_equal(okv_resp_command_find(table, &arg), command);
        arg.length--;
        assert_ptr_not_equal(okv_resp_command_find(table, &arg), command);
        name[arg.length + 1] = 'x';
        arg.length += 2;
        assert_null(okv_resp_command_find(table, &arg));
    }
    assert_true(table->count > 60);
}

FIXTURE_TEST(the_number_of_arguments_is_checked)
{
    expect(one, "get", "-ERR wrong number of arguments for 'get' command\r\n");
    expect(one, "GET a b", "-ERR wrong number of arguments for 'get' command\r\n");
    expect(one, "del", "-ERR wrong number of arguments for 'del' command\r\n");
    expect(one, "mset a b c", "-ERR wrong number of arguments for 'mset' command\r\n");
    expect(one, "nothing x 'y\\r\\n'",
           "-ERR unknown command 'nothing', with args beginning with: "
           "'x' 'y\\r\\n' \r\n");
    expect(one, "\"no\\r\\n+OK\"",
           "-ERR unknown command 'no  +OK', with args beginning with: \r\n");
}

/* Gives `begin` with `count` words more. */
static void expect_refused(const char *begin, unsigned count, const char *reply)
{
    static char line[1u << 14];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", begin);

    for (unsigned i = 0; i < count; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " get");
    expect(one, line, reply);
}

/* A step looks at all of them. */
FIXTURE_TEST(only_keys_may_be_many)
{
    expect_refused("set k v", 997, "$-1\r\n");
    expect_refused("set k v", 998, "-ERR SET takes at most 999 arguments\r\n");
    expect_refused("copy a b", 998, "-ERR COPY takes at most 999 arguments\r\n");
    expect_refused("command docs", 999, "-ERR COMMAND|DOCS takes at most 999 arguments\r\n");
    expect_refused("exists", 1000, ":0\r\n");
    expect(one, "scan 0 match a count 999 type string", "*2\r\n$1\r\n0\r\n*0\r\n");
    expect(one, "scan 0 match a match b match c match d",
           "-ERR SCAN takes at most 7 arguments\r\n");
    expect(one, "hello 2 auth default x auth default x",
           "-ERR HELLO takes at most 6 arguments\r\n");
}

/* ---- rights ---- */

FIXTURE_TEST(rights_are_those_of_the_database)
{
    expect(one, "set k 1", OK);
    one->rights[0] = OKV_RIGHT_READ;
    expect(one, "get k", "$1\r\n1\r\n");
    expect(one, "set k 2",
           "-NOPERM this user has no permissions to run the 'set' command in database default: it "
           "lacks the right write\r\n");
    expect_error(one, "incr k", "-NOPERM");
    expect_error(one, "getdel k", "-NOPERM");
    expect_error(one, "expire k 1", "-NOPERM");
    expect_error(one, "mset k 2", "-NOPERM");
    expect(one, "flushdb",
           "-NOPERM this user has no permissions to run the 'flushdb' command in database default: "
           "it lacks the right admin\r\n");
    expect_error(one, "config get *", "-NOPERM");
    expect_error(one, "client kill id 1", "-NOPERM");
    one->rights[0] = OKV_RIGHT_WRITE;
    expect(one, "set k 3", OK);
    expect_error(one, "get k", "-NOPERM");
    expect_error(one, "watch k", "-NOPERM");
    expect_error(one, "scan 0", "-NOPERM");
    one->rights[0] = 0;
    expect(one, "ping", "+PONG\r\n");
    expect_error(one, "del k", "-NOPERM");
    assert_int_equal(atomic_load(&fixture.core.server->databases[0].counts.denied), 12);
    expect(other, "get k", "$1\r\n3\r\n");
}

FIXTURE_TEST(rights_hold_for_each_database)
{
    expect(one, "set k v", OK);
    one->rights[1] = 0;
    expect_error(one, "flushall", "-NOPERM");
    expect(one, "get k", "$1\r\nv\r\n");
    one->rights[1] = OKV_RIGHT_READ;
    expect(one, "select second", OK);
    expect_error(one, "set k v", "-NOPERM");
    expect(one, "select default", OK);
    expect(one, "copy k k db 1",
           "-NOPERM this user has no permissions in this database: it lacks the right write\r\n");
    expect_error(one, "select 7", "-ERR DB index is out of range");
    expect_error(one, "select -1", "-ERR DB index is out of range");
}

/* A user without a right there gets the reply that it gets for one that does not exist. */
FIXTURE_TEST(a_database_without_a_right_is_not_there)
{
    static const char *const lines[] = {"select %s", "copy k k db %s", "move k %s"};
    static const char *const hidden[] = {"1", "second"}, *const absent[] = {"9", "none"};
    char line[64], reply[256];

    expect(one, "set k v", OK);
    expect(other, "select 1", OK);
    expect(other, "set hidden v", OK);
    one->rights[1] = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        for (size_t k = 0; k < sizeof hidden / sizeof *hidden; k++) {
            snprintf(line, sizeof line, lines[i], absent[k]);
            snprintf(reply, sizeof reply, "%s", resp_fixture_call(one, line));
            snprintf(line, sizeof line, lines[i], hidden[k]);
            expect(one, line, reply);
        }
    }
    one->rights[0] = 0; /* the one that it begins with */
    expect(one, "get k", "-NOPERM this user has no permissions to run the 'get' command\r\n");
}

/* What INFO and CONFIG tell of the databases with `rights` of one: keys and bytes. */
static void expect_about(unsigned of_default, unsigned of_second, bool has_default, bool has_second)
{
    char memory[64];
    const char *text;

    one->rights[0] = (uint8_t)of_default;
    one->rights[1] = (uint8_t)of_second;
    text = resp_fixture_call(one, "info");
    assert_int_equal(strstr(text, "db0:keys=1") != NULL, has_default);
    assert_int_equal(strstr(text, "db1:keys=1") != NULL, has_second);
    snprintf(memory, sizeof memory, "\r\nmaxmemory:%llu\r\n",
             (unsigned long long)params.length * (has_default + has_second));
    assert_non_null(strstr(text, memory));
}

FIXTURE_TEST(info_is_about_databases_with_a_right)
{
    expect(one, "set k v", OK);
    expect(other, "select 1", OK);
    expect(other, "set k v", OK);
    expect_about(OKV_RIGHT_READ, OKV_RIGHT_READ, true, true);
    expect_about(OKV_RIGHT_READ, OKV_RIGHT_ADMIN, true, true);
    expect_about(OKV_RIGHT_READ | OKV_RIGHT_ADMIN, 0, true, false);
    expect(one, "config get databases", "*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n");
    one->rights[1] = OKV_RIGHT_READ;
    expect(one, "select 1", OK);
    expect_about(0, OKV_RIGHT_READ, false, true);
}

FIXTURE_TEST(rights_are_looked_at_again_by_exec)
{
    expect(one, "multi", OK);
    expect(one, "set k 1", QUEUED);
    expect(one, "get k", QUEUED);
    one->rights[0] = OKV_RIGHT_READ;
    expect(one, "exec",
           "*2\r\n-NOPERM this user has no permissions to run the 'set' command in database "
           "default: it lacks the right write\r\n$-1\r\n");
    expect(one, "multi", OK);
    expect_error(one, "set k 1", "-NOPERM");
    expect_error(one, "exec", "-EXECABORT");
}

FIXTURE_TEST(a_stranger_may_say_who_it_is_and_leave)
{
    one->is_authenticated = false;
    expect(one, "get k", "-NOAUTH Authentication required.\r\n");
    expect(one, "ping", "-NOAUTH Authentication required.\r\n");
    expect(one, "unknown", "-NOAUTH Authentication required.\r\n");
    expect_error(one, "hello 3", "-NOAUTH");
    expect(one, "quit", OK);
    assert_int_equal(one->state, OKV_RESP_DRAINING);
}

/* ---- transactions ---- */

/* Several keys have several replies, of which none may be left. */
FIXTURE_TEST(a_client_without_replies_gets_none)
{
    expect(one, "MSET a A b B", OK);
    expect(one, "CLIENT REPLY OFF", "");
    expect(one, "GET a", "");
    expect(one, "MGET a", "");
    expect(one, "MGET a b none", "");
    expect(one, "CLIENT REPLY ON", OK);
    expect(one, "CLIENT REPLY SKIP", "");
    expect(one, "MGET a b", "");
    expect(one, "MGET a b", "*2\r\n$1\r\nA\r\n$1\r\nB\r\n");
    expect(one, "CLIENT REPLY SKIP", "");
    expect(one, "CLIENT REPLY SKIP", "");
    expect(one, "GET a", "");
    expect(one, "GET a", "$1\r\nA\r\n");
    expect(one, "CLIENT REPLY SKIP", "");
    expect(one, "RESET", "");
    expect(one, "CLIENT REPLY OFF", "");
    expect(one, "RESET", "+RESET\r\n");
}

FIXTURE_TEST(a_transaction_runs_at_once)
{
    expect(one, "multi", OK);
    expect(one, "set k 1", QUEUED);
    expect(one, "incr k", QUEUED);
    expect(one, "incr k x", "-ERR wrong number of arguments for 'incr' command\r\n");
    expect(other, "get k", "$-1\r\n");
    expect_error(one, "exec", "-EXECABORT");
    expect(other, "get k", "$-1\r\n");
    expect(one, "multi", OK);
    expect(one, "set k 1", QUEUED);
    expect(one, "incr k", QUEUED);
    expect(one, "append k x", QUEUED);
    expect(one, "incr k", QUEUED);
    expect(one, "multi", "-ERR MULTI calls can not be nested\r\n");
    expect(one, "exec",
           "*4\r\n+OK\r\n:2\r\n:2\r\n-ERR value is not an integer or out of range\r\n");
    expect(one, "exec", "-ERR EXEC without MULTI\r\n");
    expect(one, "discard", "-ERR DISCARD without MULTI\r\n");
}

/* One that looks at many arguments leaves no progress to the next one. */
FIXTURE_TEST(commands_of_a_transaction_do_not_go_on_with_each_other)
{
    expect(one, "set k v", OK);
    expect(one, "multi", OK);
    expect(one, "exists a b k c d e f", QUEUED);
    expect(one, "echo hello", QUEUED);
    expect(one, "mget k a", QUEUED);
    expect(one, "ping hi", QUEUED);
    expect(one, "exec", "*4\r\n:1\r\n$5\r\nhello\r\n*2\r\n$1\r\nv\r\n$-1\r\n$2\r\nhi\r\n");
}

FIXTURE_TEST(what_a_transaction_cannot_have_spoils_it)
{
    static const char *const lines[] = {"select 1", "flushdb",          "hello 3",     "nothing",
                                        "auth a b", "client reply off", "client bogus"};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        expect(one, "multi", OK);
        expect(one, "set k 1", QUEUED);
        expect_error(one, lines[i], "-ERR");
        expect_error(one, "exec", "-EXECABORT");
    }
    expect(one, "multi", OK);
    expect(one, "set k 1", QUEUED);
    expect(one, "exec x",
           "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' "
           "command\r\n");
    expect(one, "exec", "-ERR EXEC without MULTI\r\n");
    expect(one, "multi", OK);
    expect(one, "set k 1", QUEUED);
    expect(one, "reset", "+RESET\r\n");
    expect(one, "exec", "-ERR EXEC without MULTI\r\n");
    expect(one, "get k", "$-1\r\n");
}

/* Watches `key`, has others do `line` (NULL: nothing), and executes. */
static void expect_watched(const char *key, const char *line, bool is_changed)
{
    char watch[64];

    snprintf(watch, sizeof watch, "watch %s", key);
    expect(one, watch, OK);
    if (line)
        assert_non_null(resp_fixture_call(other, line));
    expect(one, "multi", OK);
    expect(one, "ping", QUEUED);
    expect(one, "exec", is_changed ? "*-1\r\n" : "*1\r\n+PONG\r\n");
}

FIXTURE_TEST(exec_does_nothing_when_a_watched_key_changed)
{
    expect(other, "set k v", OK);
    expect_watched("k", NULL, false);
    expect_watched("k", "get k", false);
    expect_watched("k", "set unwatched v", false);
    expect_watched("k", "set k v nx", false);
    expect_watched("k", "set k v", true); /* the same value, another version */
    expect_watched("k", "expire k 1000", true);
    expect_watched("k", "del k", true);
    expect_watched("k", "del k", false);
    expect_watched("k", "set k v", true); /* it was not there */
    expect_watched("k k2", "set k2 v", true);
    expect(one, "watch k", OK);
    expect(other, "del k", ":1\r\n");
    expect(other, "set k v", OK); /* back again */
    expect(one, "multi", OK);
    expect(one, "exec", "*-1\r\n");
}

FIXTURE_TEST(watches_end_and_have_a_database)
{
    expect(one, "watch k", OK);
    expect(one, "unwatch", OK);
    expect(other, "set k v", OK);
    expect(one, "multi", OK);
    expect(one, "exec", "*0\r\n");
    expect(one, "watch k", OK);
    expect(other, "select 1", OK);
    expect(other, "set k v", OK);
    expect(one, "multi", OK);
    expect(one, "exec", "*0\r\n");
    expect(one, "select 1", OK);
    expect(one, "watch k", OK);
    expect(one, "select 0", OK);
    expect(other, "set k w", OK);
    expect(one, "multi", OK);
    expect(one, "exec", "*-1\r\n");
    /* One that expires does not stay as it was. */
    expect(one, "set t v ex 1", OK);
    expect(one, "watch t", OK);
    resp_fixture_pass(&fixture, 2000);
    expect(one, "multi", OK);
    expect(one, "exec", "*-1\r\n");
}

/* ---- ends of ranges ---- */

FIXTURE_TEST(lengths_and_counts_have_ends)
{
    expect(one, "setrange k 9223372036854775807 ''", ":0\r\n");
    expect(one, "set k abc", OK);
    expect(one, "setrange k 9223372036854775807 ''", ":3\r\n");
    expect_error(one, "setrange k 9223372036854775807 x", "-ERR string exceeds");
    expect_error(one, "setrange k 100000 x", "-ERR string exceeds");
    expect(one, "setrange k 99999 x", ":100000\r\n");
    expect_error(one, "append k x", "-ERR string exceeds");
    expect(one, "getrange k -9223372036854775808 9223372036854775807 x",
           "-ERR wrong number of arguments for 'getrange' command\r\n");
    expect(one, "getrange k 0 2", "$3\r\nabc\r\n");
    expect(one, "getrange k 9223372036854775807 -9223372036854775808", "$0\r\n\r\n");
    expect(one, "getrange k -9223372036854775808 0", "$1\r\na\r\n");
    expect(one, "set n 9223372036854775807", OK);
    expect(one, "incr n", "-ERR increment or decrement would overflow\r\n");
    expect(one, "decrby n -9223372036854775808", "-ERR decrement would overflow\r\n");
    expect_error(one, "scan 0 count 9223372036854775807", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\n");
    expect(one, "scan 18446744073709551616", "-ERR invalid cursor\r\n");
}

/* Resets nothing of them: the library is still the same. */
FIXTURE_TEST(a_client_shows_its_name_and_its_library)
{
    static const char no_text[] =
        "-ERR Lib-Name cannot contain spaces, newlines or special characters.\r\n";

    assert_non_null(strstr(resp_fixture_call(one, "client info"), " resp=2 lib-name= lib-ver=\n"));
    expect(one, "client setinfo LIB-NAME jedis", OK);
    expect(one, "client setinfo lib-ver 5.1.0", OK);
    expect(one, "client setinfo lib-age 5", "-ERR Unrecognized option 'lib-age'\r\n");
    expect(one, "client setinfo Lib-Name 'a b'", no_text);
    expect(one, "client setinfo Lib-Name \"a\\x7f\"", no_text);
    expect(one, "client setinfo Lib-Name \"a\\n\"", no_text);
    expect(one, "client setname bob", OK);
    expect(one, "client setname 'a b'",
           "-ERR Client names cannot contain spaces, newlines or special characters.\r\n");
    expect(one, "client setname 0123456789012345678901234567890123456789012345678901234567890123",
           "-ERR Client names: at most 63 characters\r\n");
    assert_non_null(strstr(resp_fixture_call(one, "client info"), " name=bob "));
    expect(one, "reset", "+RESET\r\n");
    assert_non_null(strstr(resp_fixture_call(one, "client info"), " name= "));
    assert_non_null(
        strstr(resp_fixture_call(one, "client info"), " resp=2 lib-name=jedis lib-ver=5.1.0\n"));
    expect(one, "client setinfo lib-ver ''", OK);
    assert_non_null(strstr(resp_fixture_call(one, "client info"), " lib-name=jedis lib-ver=\n"));
}

FIXTURE_TEST(patterns_and_watches_have_ends)
{
    static char line[4096];

    snprintf(line, sizeof line, "keys %02048d", 0);
    expect(one, line, "*0\r\n");
    snprintf(line, sizeof line, "keys %02049d", 0);
    expect_error(one, line, "-ERR a pattern");
    snprintf(line, sizeof line, "scan 0 match %02049d", 0);
    expect_error(one, line, "-ERR a pattern");
    expect(one, "watch k", OK);
    expect_too_many(one, "watch", KEYS_MAX);
    expect_too_many(other, "watch", KEYS_MAX + 1);
}

/* It is built for the other database, while others are served. */
FIXTURE_TEST(a_long_value_moves)
{
    expect(one, "setrange k 70000 x", ":70001\r\n");
    expect(one, "move k 1", ":1\r\n");
    expect(one, "exists k", ":0\r\n");
    expect(one, "select 1", OK);
    expect(one, "getrange k -1 -1", "$1\r\nx\r\n");
    expect(one, "strlen k", ":70001\r\n");
}

/* Nothing is set when one of the pairs cannot be. */
FIXTURE_TEST(pairs_are_set_together)
{
    static char line[2048];

    snprintf(line, sizeof line, "mset a 1 %01025d 2", 0);
    expect_error(one, line, "-ERR a key has");
    snprintf(line, sizeof line, "msetnx a 1 %01025d 2", 0);
    expect_error(one, line, "-ERR a key has");
    expect_error(one, "msetnx a 1 '' 2", "-ERR a key has");
    expect(one, "exists a", ":0\r\n");
    expect(one, "msetnx a 1 b 2 a 3", ":1\r\n");
    expect(one, "mget a b", "*2\r\n$1\r\n3\r\n$1\r\n2\r\n");
    expect(one, "msetnx c 1 b 2", ":0\r\n");
    expect(one, "exists c", ":0\r\n");
    expect_error(one, "msetnx a", "-ERR wrong number of arguments for 'msetnx' command");
}

/* ---- flushing ---- */

static void fill(struct okv_resp_client *client)
{
    char line[64];

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(line, sizeof line, "set key%u a-value-of-thirty-bytes-or-so", i);
        assert_non_null(resp_fixture_call(client, line));
    }
}

static unsigned calls_until(struct okv_resp_client *client, const char *line, const char *reply)
{
    unsigned calls = 1;
    const char *got;

    while (!(got = resp_fixture_call(client, line)) && calls < MANY)
        calls++;
    assert_non_null(got);
    assert_string_equal(got, reply);
    return calls;
}

FIXTURE_TEST(a_flush_empties_its_databases_in_steps)
{
    expect(other, "select 1", OK);
    fill(one);
    fill(other);
    assert_true(calls_until(one, "flushdb", OK) > 1);
    expect(one, "dbsize", ":0\r\n");
    expect(other, "dbsize", ":3000\r\n");
    fill(one);
    assert_true(calls_until(one, "flushall async", OK) > 2);
    expect(one, "dbsize", ":0\r\n");
    expect(other, "dbsize", ":0\r\n");
}

/* The next flush does not go on where one was that had no rights any more. */
FIXTURE_TEST(a_flush_that_is_refused_is_over)
{
    expect(other, "select 1", OK);
    fill(one);
    fill(other);
    while (one->flush.database == 0)
        assert_null(resp_fixture_call(one, "flushall"));
    one->rights[1] = OKV_RIGHT_READ;
    expect_error(one, "flushall", "-NOPERM");
    expect(one, "set k v", OK);
    calls_until(one, "flushdb", OK);
    expect(one, "dbsize", ":0\r\n");
}
