/*
 * Clients that have said a good hello, and know where the worker's endpoint and the region are,
 * attack with all that libfabric has. The table stays as it was, the server goes on, a bystander
 * notices nothing.
 */
#include <sys/socket.h>

#include "tests/support/test.h"

#include "tests/end_to_end/hostile_ofi_list.h"
#include "tests/support/hostile_ofi.h"

#define CLOSED_MALFORMED "closed_malformed"

/* Where an attack goes. */
enum target {
    AT_START, /* the superblock */
    AT_DIRECTORY,
    AT_END, /* the last bytes */
    BEFORE, /* all but the first byte is inside */
    A_BYTE_BEYOND,
    BEHIND_THE_END,
    FAR_AWAY,
    AROUND_ZERO, /* the end wraps to low addresses */
};

static uint64_t target_address(const struct scene *scene, const struct ofi_attacker *attacker,
                               enum target target, uint64_t length)
{
    uint64_t start = attacker->region, end = start + attacker->region_length;

    switch (target) {
    case AT_DIRECTORY:
        return start + scene->table.directory_offset;
    case AT_END:
        return end - length;
    case BEFORE:
        return start - 1;
    case A_BYTE_BEYOND:
        return end - length + 1;
    case BEHIND_THE_END:
        return end;
    case FAR_AWAY:
        return start + (UINT64_C(1) << 40);
    case AROUND_ZERO:
        return -(length / 2);
    default:
        return start;
    }
}

struct plan {
    const char *what;
    enum ofi_verb verb;
    uint64_t length;
    enum target target;
    uint64_t key_flip; /* XORed into the right key */
};

static const struct plan FORBIDDEN[] = {
    {"write of 64 bytes", OFI_VERB_WRITE, 64, AT_START, 0},
    {"write of a byte", OFI_VERB_WRITE, 1, AT_START, 0},
    {"write of 64 bytes of the directory", OFI_VERB_WRITE, 64, AT_DIRECTORY, 0},
    {"write of 100000 bytes", OFI_VERB_WRITE, 100000, AT_DIRECTORY, 0},
    {"write of the last 8000 bytes", OFI_VERB_WRITE, 8000, AT_END, 0},
    {"write before the start", OFI_VERB_WRITE, 64, BEFORE, 0},
    {"write beyond the end", OFI_VERB_WRITE, 64, A_BYTE_BEYOND, 0},
    {"write with another key", OFI_VERB_WRITE, 64, AT_START, 1},
    {"inject-write of 8 bytes", OFI_VERB_INJECT_WRITE, 8, AT_START, 0},
    {"inject-write of 64 bytes of the directory", OFI_VERB_INJECT_WRITE, 64, AT_DIRECTORY, 0},
    {"inject-write of the last 8 bytes", OFI_VERB_INJECT_WRITE, 8, AT_END, 0},
    {"inject-write before the start", OFI_VERB_INJECT_WRITE, 8, BEFORE, 0},
    {"write of 64 bytes with immediate data", OFI_VERB_WRITE_DATA, 64, AT_START, 0},
    {"write of nothing with immediate data", OFI_VERB_WRITE_DATA, 0, AT_START, 0},
    {"atomic add", OFI_VERB_ATOMIC, 8, AT_DIRECTORY, 0},
    {"atomic add to many", OFI_VERB_ATOMIC, 512, AT_START, 0},
    {"atomic add at the end", OFI_VERB_ATOMIC, 8, AT_END, 0},
    {"atomic fetch and add", OFI_VERB_FETCH_ATOMIC, 8, AT_DIRECTORY, 0},
    {"atomic compare and swap", OFI_VERB_COMPARE_ATOMIC, 8, AT_END, 0},
    {"atomic add with another key", OFI_VERB_ATOMIC, 8, AT_START, 1},
    {"READ before the start", OFI_VERB_READ, 64, BEFORE, 0},
    {"READ of one byte beyond the end", OFI_VERB_READ, 64, A_BYTE_BEYOND, 0},
    {"READ behind the end", OFI_VERB_READ, 1, BEHIND_THE_END, 0},
    {"READ far away", OFI_VERB_READ, 64, FAR_AWAY, 0},
    {"READ around address 0", OFI_VERB_READ, 64, AROUND_ZERO, 0},
    {"READ of 4 GiB", OFI_VERB_READ, UINT64_C(4) << 30, AT_START, 0},
    {"READ of 4 GiB and a page", OFI_VERB_READ, (UINT64_C(4) << 30) + 4096, AT_START, 0},
    {"READ with another key", OFI_VERB_READ, 64, AT_START, 1},
    {"READ with a far key", OFI_VERB_READ, 64, AT_START, UINT64_C(1) << 40},
};

static struct ofi_attack attack_of(const struct scene *scene, const struct ofi_attacker *attacker,
                                   const struct plan *plan)
{
    return (struct ofi_attack){
        .verb = plan->verb,
        .length = plan->length,
        .address = target_address(scene, attacker, plan->target, plan->length),
        .key = attacker->region_key ^ plan->key_flip,
    };
}

TEST(forbidden_verbs)
{
    struct scene *scene = *state;
    uint64_t hash = scene_hash(scene);

    for (size_t i = 0; i < sizeof FORBIDDEN / sizeof *FORBIDDEN; i++) {
        const struct plan *plan = &FORBIDDEN[i];
        struct ofi_attacker *attacker = scene_join(scene);
        struct ofi_attack attack = attack_of(scene, attacker, plan);
        memset(attacker->bytes, 0xAA, OFI_ATTACKER_BYTES);
        if (ofi_attacker_can(attacker, &attack)) {
            int error = ofi_attacker_try(attacker, &attack);
            print_message("%-42s %s\n", plan->what, error ? fi_strerror(error) : "no error");
            /* The provider of an attacker may report success of what it only sent. */
            if (error == 0 && (plan->verb == OFI_VERB_READ || plan->verb >= OFI_VERB_FETCH_ATOMIC))
                fail_msg("%s: it succeeded", plan->what);
        } else {
            print_message("%-42s skipped: not over this provider (docs/fabrics.md)\n", plan->what);
        }
        for (size_t at = 0; plan->verb == OFI_VERB_READ && at < 64; at++)
            assert_int_equal(attacker->bytes[at], 0xAA);
        if (scene_hash(scene) != hash)
            fail_msg("%s: the table is not what it was", plan->what);
        scene_leave(scene);
        hash = scene_expect_calm(scene, plan->what, hash);
    }
}

/* The counterpart: the same code, kept to the rules, is served. Immediate data without a write
 * touches nothing, and nobody asked for it. */
TEST(permitted_verbs)
{
    static const struct plan permitted[] = {
        {"READ of the superblock", OFI_VERB_READ, 64, AT_START, 0},
        {"READ of the directory", OFI_VERB_READ, 8000, AT_DIRECTORY, 0},
        {"READ up to the end", OFI_VERB_READ, 64, AT_END, 0},
        {"immediate data alone", OFI_VERB_SIGNAL, 0, AT_START, 0},
    };
    struct scene *scene = *state;
    uint64_t hash = scene_hash(scene);
    struct ofi_attacker *attacker = scene_join(scene);
    for (size_t i = 0; i < sizeof permitted / sizeof *permitted; i++) {
        struct ofi_attack attack = attack_of(scene, attacker, &permitted[i]);
        int error = ofi_attacker_can(attacker, &attack) ? ofi_attacker_try(attacker, &attack) : 0;
        if (error)
            fail_msg("%s: %s", permitted[i].what, fi_strerror(error));
    }
    scene_leave(scene);
    scene_expect_calm(scene, "permitted verbs", hash);
}

/* Over verbs the server's rxm takes immediate data for a message, and delivers what came into that
 * receive before, here messages of the bystander, who notices nothing. */
TEST(messages_that_are_delivered_again)
{
    enum { FILL = 1500, SIGNALS = 100 }; /* a message came into each receive of rxm before */
    struct scene *scene = *state;
    okv *handle = scene->bystander.handle;
    struct ofi_attacker *attacker = scene_join(scene);
    const struct plan plan = {"immediate data alone", OFI_VERB_SIGNAL, 0, AT_START, 0};
    struct ofi_attack attack = attack_of(scene, attacker, &plan);
    uint64_t repeated = bystander_stat(&scene->bystander, "repeated");
    struct okv_counters before, after;

    for (unsigned i = 0; i < FILL; i++)
        assert_int_equal(okv_ping(handle), OKV_OK);
    okv_counters(handle, &before);
    for (unsigned i = 0; i < SIGNALS; i++) {
        assert_int_equal(okv_ping(handle), OKV_OK);
        assert_int_equal(okv_put(handle, "signal", 6, "value", 5, NULL), OKV_OK);
        if (ofi_attacker_can(attacker, &attack))
            assert_int_equal(ofi_attacker_try(attacker, &attack), 0);
    }
    scene_leave(scene);
    scene_expect_items(scene, "messages that are delivered again");
    okv_counters(handle, &after);
    assert_int_equal(after.reconnects, before.reconnects);
    repeated = bystander_stat(&scene->bystander, "repeated") - repeated;
    print_message("%llu messages came again\n", (unsigned long long)repeated);
    assert_true(repeated > 0 || !scene_is_over_verbs(scene));
}

/* ---- messages ---- */

static void expect_answer(struct scene *scene, struct ofi_attacker *attacker)
{
    uint64_t before = bystander_stat(&scene->bystander, "pings");

    assert_int_equal(ofi_attacker_send(attacker, scene_write_ping(attacker, 0, 0)), 0);
    server_await_stat_from(scene->bystander.handle, "pings", before + 1);
}

/* Anyone may send them, so they are nobody's fault: the connection stays. */
TEST(messages_for_nobody)
{
    static const struct {
        uint64_t key_flip;
        uint32_t connection_flip;
    } flips[] = {{1, 0}, {UINT64_C(1) << 63, 0}, {UINT64_MAX, 0}, {0, 1}, {0, 8}, {0, 1u << 31}};
    struct scene *scene = *state;
    uint64_t hash = scene_hash(scene);
    struct ofi_attacker *attacker = scene_join(scene);
    for (size_t i = 0; i < sizeof flips / sizeof *flips; i++) {
        size_t length = scene_write_ping(attacker, flips[i].key_flip, flips[i].connection_flip);
        assert_int_equal(ofi_attacker_send(attacker, length), 0);
    }
    scene_write_ping(attacker, 0, 0);
    for (size_t length = 0; length < sizeof(struct ofi_message_header); length++)
        assert_int_equal(ofi_attacker_send(attacker, length), 0);
    scene_await_sessions(scene, 1);
    expect_answer(scene, attacker);
    scene_leave(scene);
    scene_expect_calm(scene, "messages for nobody", hash);
}

/* A message of this many bytes behind a good header ends the connection. */
static void expect_malformed(struct scene *scene, size_t length)
{
    uint64_t before = bystander_stat(&scene->bystander, CLOSED_MALFORMED);
    struct ofi_attacker *attacker = scene_join(scene);
    scene_write_ping(attacker, 0, 0);
    if (length > scene->table.slot_size) { /* then nothing else is wrong with it */
        struct okv_wire_request *ping =
            (void *)(attacker->bytes + sizeof(struct ofi_message_header));
        ping->value_length = okv_le32_of((uint32_t)(length - OKV_REQUEST_HEADER));
    }
    assert_int_equal(ofi_attacker_send(attacker, sizeof(struct ofi_message_header) + length), 0);
    ofi_attacker_expect_end(attacker, "a malformed message");
    bystander_expect_stat(&scene->bystander, CLOSED_MALFORMED, before + 1);
    scene_leave(scene);
}

TEST(malformed_messages)
{
    struct scene *scene = *state;
    uint64_t hash = scene_hash(scene);

    expect_malformed(scene, 0);
    expect_malformed(scene, OKV_REQUEST_HEADER - 1);
    expect_malformed(scene, OKV_REQUEST_HEADER + 1);
    expect_malformed(scene, scene->table.slot_size + 1);
    scene_expect_calm(scene, "malformed messages", hash);
}

/* What does not fit a receive at all says nothing of who sent it. */
TEST(messages_far_longer_than_a_receive)
{
    static const size_t lengths[] = {2, 10, 1000, 20000, OFI_ATTACKER_BYTES / 2};
    struct scene *scene = *state;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct ofi_attacker *attacker = scene_join(scene);
        size_t length = scene_write_ping(attacker, 0, 0) + scene->table.slot_size + lengths[i];
        if (!scene_may_send(scene, length))
            continue;
        for (unsigned repeat = 0; repeat < 40; repeat++)
            ofi_attacker_post_send(attacker, length);
        int error = ofi_attacker_send(attacker, length);
        print_message("%zu bytes: %s\n", length, error ? fi_strerror(error) : "no error");
        scene_expect_items(scene, "long messages");
        scene_leave(scene);
        scene_await_sessions(scene, 0);
    }
}

/* After the handshake nothing comes on the control connection. */
TEST(bytes_on_the_control_connection)
{
    struct scene *scene = *state;
    uint64_t before = bystander_stat(&scene->bystander, CLOSED_MALFORMED);
    uint64_t hash = scene_hash(scene);
    struct ofi_attacker *attacker = scene_join(scene);
    scene_await_sessions(scene, 1);
    assert_int_equal(send(attacker->control, "K", 1, MSG_NOSIGNAL), 1);
    ofi_attacker_expect_end(attacker, "a byte on the control connection");
    bystander_expect_stat(&scene->bystander, CLOSED_MALFORMED, before + 1);
    scene_leave(scene);
    scene_expect_calm(scene, "bytes on the control connection", hash);
}

TEST_PROGRAM(scene_setup, scene_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest ends[] = {cmocka_unit_test(a_server_that_is_killed_amid_reads)};
    const char *uri = getenv("OKV_TEST_URI");

    if (!uri || strncmp(uri, "ofi:", 4) != 0) {
        printf("skipped: OKV_TEST_URI is not of ofi\n");
        return 77;
    }
    if (argc > 1)
        run_attacker(argv[1]);
    int failed = test_run();
    return failed + test_run_group("a killed server", ends, scene_setup, NULL);
}
