/* What COMMAND says of the commands. tests/resp/like_redis.py compares it with what Redis says. */
#include "tests/support/test.h"

#include "server/resp/commands/commands.h"
#include "server/resp/commands/describe.h"
#include "tests/support/resp_count.h"
#include "tests/support/resp_fixture.h"

static const struct okv_store_params params = {
    .length = 1u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 1000};

static struct resp_fixture fixture;
static struct okv_resp_client *client;

static int begin(void **state)
{
    (void)state;
    resp_fixture_open(&fixture, &params);
    client = resp_fixture_client(&fixture);
    return 0;
}

static int end(void **state)
{
    (void)state;
    resp_fixture_end(client);
    resp_fixture_close(&fixture);
    return 0;
}

static void expect(const char *line, const char *reply)
{
    const char *got = resp_fixture_call(client, line);

    assert_non_null(got);
    assert_string_equal(got, reply);
}

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)
#define OK "+OK\r\n"

/* ---- entries ---- */

#define TEXT(length, text) "$" length "\r\n" text "\r\n"

FIXTURE_TEST(an_entry_has_ten_elements)
{
    expect("command info get",
           "*1\r\n*10\r\n" TEXT(
               "3", "get") ":2\r\n*2\r\n+readonly\r\n+fast\r\n"
                           ":1\r\n:1\r\n:1\r\n*3\r\n+@read\r\n+@string\r\n+@fast\r\n*0\r\n"
                           "*1\r\n*6\r\n" TEXT("5", "flags") "*2\r\n+RO\r\n+access\r\n" TEXT(
                               "12", "begin_search") "*4\r\n" TEXT("4", "type") TEXT("5", "index")
                               TEXT("4", "spec") "*2\r\n" TEXT("5", "index") ":1\r\n" TEXT(
                                   "9", "find_keys") "*4\r\n" TEXT("4", "type") TEXT("5", "range")
                                   TEXT("4", "spec") "*6\r\n" TEXT("7", "lastkey") ":0\r\n" TEXT(
                                       "7", "keystep") ":1\r\n" TEXT("5", "limit") ":0\r\n"
                                                                                   "*0\r\n");
    expect("command info Client|SetInfo nosuch client|nosuch",
           "*3\r\n*10\r\n" TEXT("14", "client|setinfo") ":4\r\n*3\r\n+noscript\r\n+loading\r\n"
                                                        "+stale\r\n:0\r\n:0\r\n:0\r\n*2\r\n+@"
                                                        "slow\r\n+@connection\r\n*0\r\n*0\r\n*0\r\n"
                                                        "$-1\r\n$-1\r\n");
}

/* RESP3 has sets and maps. */
FIXTURE_TEST(an_entry_has_the_types_of_resp3)
{
    client->protocol = 3;
    expect("command info dbsize nosuch",
           "*2\r\n*10\r\n" TEXT(
               "6", "dbsize") ":1\r\n~2\r\n+readonly\r\n+fast\r\n:0\r\n:0\r\n:0\r\n"
                              "~3\r\n+@keyspace\r\n+@read\r\n+@fast\r\n~2\r\n" TEXT(
                                  "25", "request_policy:all_shards")
                                  TEXT("23", "response_policy:agg_sum") "~0\r\n~0\r\n_\r\n");
    expect("command getkeysandflags rename a b",
           "*2\r\n*2\r\n" TEXT("1", "a") "~3\r\n+RW\r\n+access\r\n+delete\r\n*2\r\n" TEXT(
               "1", "b") "~2\r\n+OW\r\n+update\r\n");
    expect("command docs ping nosuch",
           "%1\r\n" TEXT("4", "ping") "%2\r\n" TEXT("7", "summary")
               TEXT("20", "Tests the connection") TEXT("5", "group") TEXT("10", "connection"));
}

/* What is not there is said in some way of each command. */
static void expect_complete(const struct okv_resp_command *command)
{
    bool is_whole = okv_resp_command_parts(&okv_resp_commands, command) > 0;
    bool varies =
        command->words || (command->flags & OKV_RESP_FIELDS && command->flags & OKV_RESP_WRITE);
    bool has_keys = command->first_key || command->flags & OKV_RESP_COUNTED;

    if (!command->traits || (!command->traits[0] && !(is_whole && !command->run)) ||
        !command->access == has_keys || !command->summary || !command->group ||
        (command->access_rest && command->last_key == command->first_key) ||
        varies != (command->access_without != NULL))
        fail_msg("%s", command->name);
}

/* One complete reply, in RESP2 and RESP3. Returns its elements. */
static unsigned long elements_of(const char *line)
{
    struct resp_count count = {.replies = 0};
    const char *reply = resp_fixture_call(client, line);

    assert_non_null(reply);
    resp_count_add(&count, reply, strlen(reply));
    assert_int_equal(count.replies, 1);
    assert_int_equal(count.missing, 0);
    assert_true(reply[0] == '*' || reply[0] == '%');
    return strtoul(reply + 1, NULL, 10);
}

FIXTURE_TEST(every_command_is_described_everywhere)
{
    unsigned whole = 0;
    char line[64], count[16];

    for (unsigned i = 0; i < okv_resp_commands.count; i++) {
        const struct okv_resp_command *command = &okv_resp_commands.commands[i];
        expect_complete(command);
        whole += !okv_resp_command_is_subcommand(command);
        for (client->protocol = 2; client->protocol <= 3; client->protocol++) {
            snprintf(line, sizeof line, "command info %s", command->name);
            assert_int_equal(elements_of(line), 1);
            snprintf(line, sizeof line, "command docs %s", command->name);
            assert_int_equal(elements_of(line), client->protocol == 2 ? 2 : 1);
        }
    }
    for (client->protocol = 2; client->protocol <= 3; client->protocol++) {
        assert_int_equal(elements_of("command"), whole);
        assert_int_equal(elements_of("command info"), whole);
        assert_int_equal(elements_of("command docs"), client->protocol == 2 ? 2 * whole : whole);
        assert_int_equal(elements_of("command list"), okv_resp_commands.count);
    }
    snprintf(count, sizeof count, ":%u\r\n", whole);
    expect("command count", count);
}

/* ---- names ---- */

FIXTURE_TEST(names_are_filtered)
{
    expect("command list filterby pattern OBJECT|e*", "*1\r\n" TEXT("15", "object|encoding"));
    expect("command list FilterBy AclCat Transaction",
           "*5\r\n" TEXT("7", "discard") TEXT("4", "exec") TEXT("5", "multi") TEXT("7", "unwatch")
               TEXT("5", "watch"));
    expect("command list filterby aclcat nosuch", "*0\r\n");
    expect("command list filterby aclcat @transaction", "*0\r\n");
    expect("command list filterby module m", "*0\r\n");
    expect("command list filterby name m", "-ERR syntax error\r\n");
    expect("command list filterby pattern", "-ERR syntax error\r\n");
    expect("command list by pattern m", "-ERR syntax error\r\n");
    expect("command list filterby pattern "
           "*****************************************************************",
           "-ERR a pattern has at most 64 bytes\r\n");
}

FIXTURE_TEST(subcommands_are_there_or_not)
{
    expect("client bogus", "-ERR unknown subcommand 'bogus'. Try CLIENT HELP.\r\n");
    expect("command bogus", "-ERR unknown subcommand 'bogus'. Try COMMAND HELP.\r\n");
    expect("client \"id\\x00\"", "-ERR unknown subcommand 'id'. Try CLIENT HELP.\r\n");
    expect("client", "-ERR wrong number of arguments for 'client' command\r\n");
    expect("client id x", "-ERR wrong number of arguments for 'client|id' command\r\n");
    expect(
        "memory help",
        "*5\r\n+MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n+HELP\r\n"
        "+    Lists the subcommands.\r\n+USAGE\r\n+    Returns the size of an item in bytes.\r\n");
    expect("multi", OK);
    expect("command bogus", "-ERR unknown subcommand 'bogus'. Try COMMAND HELP.\r\n");
    expect("exec", "-EXECABORT Transaction discarded because of previous errors.\r\n");
}

/* ---- keys ---- */

FIXTURE_TEST(keys_are_extracted)
{
    expect("command getkeys mset a 1 b 2", "*2\r\n" TEXT("1", "a") TEXT("1", "b"));
    expect("command getkeys memory usage k", "*1\r\n" TEXT("1", "k"));
    expect("command getkeys get",
           "-ERR wrong number of arguments for 'command|getkeys' command\r\n");
    expect("command getkeys ping a", "-ERR The command has no key arguments\r\n");
    expect("command getkeys nosuch a", "-ERR Invalid command specified\r\n");
    expect("command getkeys object bogus a", "-ERR Invalid command specified\r\n");
    expect("command getkeys command bogus", "-ERR Invalid command specified\r\n");
    expect("command getkeys get a b", "-ERR Invalid number of arguments specified for command\r\n");
    expect("command getkeysandflags set k v ex 1",
           "*1\r\n*2\r\n" TEXT("1", "k") "*2\r\n+OW\r\n+update\r\n");
    expect("command getkeysandflags set k v get",
           "*1\r\n*2\r\n" TEXT("1", "k") "*3\r\n+RW\r\n+access\r\n+update\r\n");
    expect("command getkeysandflags bitop not a b",
           "*2\r\n*2\r\n" TEXT("1", "a") "*2\r\n+OW\r\n+update\r\n*2\r\n" TEXT(
               "1", "b") "*2\r\n+RO\r\n+access\r\n");
}

/* BITFIELD reads, unless one of its operations changes or is none. */
FIXTURE_TEST(fields_that_are_read_are_told_apart)
{
    static const char *const reading[] = {"k", "k get u8 0", "get get set incrby overflow sat",
                                          "k overflow fail get u8 #1"};
    static const char *const others[] = {
        "k set u8 0 1", "k get u8 0 incrby i8 0 1", "k overflow sat SET a b c", "k x", "k get u8",
        "k overflow"};
    char line[96];

    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++) {
        snprintf(line, sizeof line, "command getkeysandflags bitfield %s", reading[i]);
        assert_non_null(strstr(resp_fixture_call(client, line), "*2\r\n+RO\r\n+access\r\n"));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(line, sizeof line, "command getkeysandflags bitfield %s", others[i]);
        assert_non_null(
            strstr(resp_fixture_call(client, line), "*3\r\n+RW\r\n+access\r\n+update\r\n"));
    }
}

int main(void)
{
    return test_run();
}
