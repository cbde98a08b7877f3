/* The server's statistics: one line each, and parts that add up to the whole. */
#include "tests/support/test.h"

#include "shared/format/wire.h"
#include "tests/support/server_core.h"

#define REGION_LENGTH (UINT64_C(1) << 20)
#define VALUE_MAX 100000u
#define TEXT_SIZE (OKV_SLOT_SIZE_DEFAULT - sizeof(struct okv_wire_reply))

/* A table with a small index, so that buckets overflow. */
static int setup(void **state)
{
    static const struct okv_store_params params = {.length = REGION_LENGTH,
                                                   .bucket_size = OKV_BUCKET_SIZE_MIN,
                                                   .index_percent = 10,
                                                   .max_value = VALUE_MAX};
    struct server_core *core = calloc(1, sizeof *core);

    assert_non_null(core);
    server_core_open(core, &params);
    *state = core;
    return 0;
}

static int teardown(void **state)
{
    server_core_close(*state);
    free(*state);
    return 0;
}

static size_t render(struct server_core *core, char text[TEXT_SIZE + 1])
{
    size_t length = okv_stats_render(core->server, core->database, true, text, TEXT_SIZE);

    assert_in_range(length, 1, TEXT_SIZE);
    text[length] = '\0';
    return length;
}

static uint64_t figure(struct server_core *core, const char *name)
{
    static char text[TEXT_SIZE + 1];
    char line[64];

    snprintf(line, sizeof line, "\n%s ", name);
    render(core, text);
    const char *found = strstr(text, line);
    if (!found)
        fail_msg("there is no figure %s", name);
    return strtoull(found + strlen(line), NULL, 10);
}

static void expect_sums(struct server_core *core)
{
    assert_int_equal(figure(core, "region_bytes"), REGION_LENGTH);
    assert_int_equal(figure(core, "superblock_bytes") + figure(core, "index_bytes") +
                         figure(core, "overflow_bytes") + figure(core, "extent_bytes") +
                         figure(core, "heap_unused_bytes") + figure(core, "never_used_bytes"),
                     REGION_LENGTH);
}

/* Boot id, version and listeners are text. */
static bool is_text(const char *line)
{
    return strncmp(line, "boot_id ", 8) == 0 || strncmp(line, "version ", 8) == 0 ||
           strncmp(line, "listener_", 9) == 0;
}

#define STATS_TEST(name) TEST_WITH(name, setup, teardown)

STATS_TEST(every_line_is_a_name_and_a_value)
{
    static char text[TEXT_SIZE + 1];
    char *end, *rest;
    unsigned lines = 0;

    render(*state, text);
    for (char *line = text; *line; line = end + 1, lines++) {
        end = strchr(line, '\n');
        assert_non_null(end);
        size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyz_0123456789");
        assert_in_range(name, 1, 40);
        assert_int_equal(line[name], ' ');
        if (is_text(line))
            continue;
        assert_in_range(line[name + 1], '0', '9');
        strtoull(line + name + 1, &rest, 10);
        assert_ptr_equal(rest, end);
    }
    assert_true(lines > 50);
}

/* Who may read one database learns nothing of others. */
STATS_TEST(the_server_has_numbers_of_its_own)
{
    static char text[TEXT_SIZE + 1];
    struct server_core *core = *state;
    size_t length = okv_stats_render(core->server, core->database, false, text, TEXT_SIZE);

    assert_in_range(length, 1, TEXT_SIZE);
    text[length] = '\0';
    assert_non_null(strstr(text, "\nputs "));
    assert_non_null(strstr(text, "\nitems "));
#define ABSENT(name, meaning) assert_null(strstr(text, "\n" #name " "));
    OKV_STATS_LIST(ABSENT)
    OKV_STATS_NOW_LIST(ABSENT)
#undef ABSENT
    assert_null(strstr(text, "\nworkers "));
    assert_null(strstr(text, "\ncpu_ms "));
}

/* The needed size is returned and nothing is written past the buffer. */
STATS_TEST(a_small_buffer_is_reported)
{
    static char text[TEXT_SIZE + 1], small[TEXT_SIZE + 1];
    struct server_core *core = *state;
    size_t length = render(core, text);

    for (size_t size = 0; size < length; size += 100) {
        memset(small, '#', sizeof small);
        assert_true(okv_stats_render(core->server, core->database, true, small, size) > size);
        assert_int_equal(small[size], '#');
    }
}

/* At every step of small items until buckets overflow, large ones, deletions. */
STATS_TEST(the_parts_add_up)
{
    enum { ITEMS = 3000 };
    struct server_core *core = *state;
    char key[24];

    expect_sums(core);
    assert_int_equal(figure(core, "extra_reads_per_1000"), 0); /* not a division by no items */
    for (int i = 0; i < ITEMS; i++) {
        snprintf(key, sizeof key, "small-%d", i);
        server_core_put(core, key, i, 60, 0);
        if (i % 100 == 0)
            expect_sums(core);
    }
    assert_true(figure(core, "overflow_bytes") >=
                figure(core, "overflow_buckets") * OKV_BUCKET_SIZE_MIN);
    assert_true(figure(core, "overflow_buckets") > 0);
    assert_true(figure(core, "extra_reads_per_1000") > 0);
    assert_int_equal(figure(core, "items"), ITEMS);
    server_core_put(core, "large", 'l', VALUE_MAX, 0);
    assert_true(figure(core, "extent_bytes") >= VALUE_MAX);
    expect_sums(core);
    server_core_delete(core, "large");
    for (int i = 0; i < ITEMS; i++) {
        snprintf(key, sizeof key, "small-%d", i);
        server_core_delete(core, key);
        if (i % 100 == 0)
            expect_sums(core);
    }
    expect_sums(core);
    assert_int_equal(figure(core, "items"), 0);
    assert_int_equal(figure(core, "user_bytes"), 0);
    assert_int_equal(figure(core, "entry_bytes"), 0);
    assert_int_equal(figure(core, "overflow_bytes"), 0);
    assert_int_equal(figure(core, "extent_bytes"), 0);
}

/* The server's clock begins where that of the log ended. */
STATS_TEST(the_uptime_is_that_of_the_process)
{
    struct server_core *core = *state;

    core->server->clock_origin_ms -= UINT64_C(1) << 40;
    core->server->start_ms -= 5000;
    assert_in_range(figure(core, "uptime_ms"), 5000, (UINT64_C(1) << 40) - 1);
}
