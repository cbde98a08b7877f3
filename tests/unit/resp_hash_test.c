/* Clients choose the keys of the tables that belong to them: watched keys, keys of a transaction.
 * Keys that collide under a seed that a client can know do not under that of the server. */
#include "tests/support/test.h"

#include "shared/format/hash.h"
#include "tests/support/resp_talk.h"

#define KEYS 256u
#define BITS 0xfffu /* low ones, in which the chosen keys agree: those that tables begin with */
#define LINE_SIZE (KEYS * 16)
#define WATCHES 2049u /* an index of a power of two has just grown */

static const struct okv_store_params params = {
    .length = 1u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 1024};

static unsigned collisions;          /* hashes so far with no bit of BITS */
static unsigned hashes, comparisons; /* so far */

uint64_t __real_okv_hash_key(const void *key, size_t length, uint64_t seed);
uint64_t __wrap_okv_hash_key(const void *key, size_t length, uint64_t seed);
uint64_t __wrap_okv_hash_key(const void *key, size_t length, uint64_t seed)
{
    uint64_t hash = __real_okv_hash_key(key, length, seed);

    collisions += (hash & BITS) == 0;
    hashes++;
    return hash;
}

int __real_memcmp(const void *a, const void *b, size_t length);
int __wrap_memcmp(const void *a, const void *b, size_t length);
int __wrap_memcmp(const void *a, const void *b, size_t length)
{
    comparisons++;
    return __real_memcmp(a, b, length);
}

/* Keys whose hashes without a seed have no bit of BITS, as words after a command. Each has `after`
 * behind it. */
static const char *line_of(const char *command, const char *after)
{
    static char line[LINE_SIZE];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", command);
    char key[16];

    for (unsigned count = 0, number = 0; count < KEYS; number++) {
        int length = snprintf(key, sizeof key, "%u", number);
        if (__real_okv_hash_key(key, (size_t)length, 0) & BITS)
            continue;
        count++;
        used += (size_t)snprintf(line + used, sizeof line - used, " %s%s", key, after);
        assert_true(used < sizeof line);
    }
    return line;
}

/* One in BITS + 1 is chance. */
static void expect_no_more_collisions(void)
{
    assert_true(collisions < KEYS / 4);
    collisions = 0;
}

TEST_WITH(keys_that_a_client_chooses_do_not_collide, begin, end)
{
    struct okv_resp_client *client = resp_fixture_client(&fixture);

    collisions = 0;
    assert_string_equal(resp_fixture_call(client, line_of("WATCH", "")), "+OK\r\n");
    expect_no_more_collisions();
    assert_string_equal(resp_fixture_call(client, line_of("MSET", " v")), "+OK\r\n");
    expect_no_more_collisions();
    assert_string_equal(resp_fixture_call(client, "MULTI"), "+OK\r\n");
    assert_string_equal(resp_fixture_call(client, line_of("MGET", "")), "+QUEUED\r\n");
    assert_string_equal(resp_fixture_call(client, "EXEC"), "*-1\r\n"); /* MSET changed them */
    expect_no_more_collisions();
    resp_fixture_end(client);
}

/* However many are watched already: each is hashed for the table, for the check and for the entry.
 */
TEST_WITH(each_watched_key_costs_the_same, begin, end)
{
    struct okv_resp_client *client = resp_fixture_client(&fixture);
    char line[32];

    hashes = comparisons = 0;
    for (unsigned i = 0; i < WATCHES; i++) {
        snprintf(line, sizeof line, "WATCH watched:%u", i);
        assert_string_equal(resp_fixture_call(client, line), "+OK\r\n");
    }
    assert_in_range(hashes, WATCHES, 4 * WATCHES);
    assert_in_range(comparisons, 0, 4 * WATCHES);
    resp_fixture_end(client);
}

TEST(each_server_has_a_seed_of_its_own)
{
    uint64_t seed = 0;

    for (unsigned i = 0; i < 2; i++) {
        resp_fixture_open(&fixture, &params);
        assert_int_not_equal(fixture.resp.hash_seed, seed);
        seed = fixture.resp.hash_seed;
        resp_fixture_close(&fixture);
    }
}
