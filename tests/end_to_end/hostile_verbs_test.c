/*
 * A client that has said a good hello attacks the table with every verb there
 * is. The device must refuse what is not a READ inside the region; the table
 * stays as it was, the server goes on, a bystander notices nothing.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/format/hash.h"
#include "shared/format/superblock.h"
#include "tests/support/hostile_client.h"
#include "tests/support/hostile_verbs.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"

#define CLOSED_NO_IMMEDIATE "closed_no_immediate"
#define CROWDED_OUT "closed_crowded_out"
#define RENDEZVOUS_FAILED "rendezvous_failed"

#define FLOODERS 4
#define FLOOD 1000
#define FLOOD_NS UINT64_C(4000000000)

static struct bystander *bystander_of(void **state)
{
    return *state;
}

/* Every byte of the region, as any client may read it. Also shows that the
 * attacker's code works where it keeps to the rules. */
static uint64_t table_hash(struct bystander *bystander)
{
    struct attacker reader;
    uint64_t hash = 0;

    attacker_join(&reader, &bystander->server);
    uint64_t length = reader.table.region_length;
    for (uint64_t at = 0; at < length; at += ATTACKER_BYTES) {
        uint64_t left = length - at;
        struct attack read = {
            .opcode = IBV_WR_RDMA_READ,
            .length = left < ATTACKER_BYTES ? (uint32_t)left : ATTACKER_BYTES,
            .offset = at,
            .rkey = reader.table.rkey,
        };
        assert_int_equal(attacker_try(&reader, &read), IBV_WC_SUCCESS);
        if (at == 0)
            assert_memory_equal(reader.bytes, "okvtable", 8);
        hash = okv_hash_checksum(reader.bytes, read.length, hash);
    }
    attacker_leave(&reader);
    bystander_expect_stat(bystander, "sessions", 1);
    return hash;
}

/* Where an attack goes. */
enum target {
    AT_START, /* the superblock */
    AT_STATUS,
    AT_DIRECTORY,
    AT_HEAP,       /* the last bytes */
    A_BYTE_BEYOND, /* all but the last byte is inside */
    BEHIND_THE_END,
    FAR_AWAY,
    AROUND_ZERO, /* the address wraps to the start of the region */
};

static uint64_t target_offset(const struct okv_welcome *table, enum target target, uint32_t length)
{
    switch (target) {
    case AT_STATUS:
        return OKV_STATUS_OFFSET;
    case AT_DIRECTORY:
        return table->directory_offset;
    case AT_HEAP:
        return table->region_length - length;
    case A_BYTE_BEYOND:
        return table->region_length - length + 1;
    case BEHIND_THE_END:
        return table->region_length;
    case FAR_AWAY:
        return UINT64_C(1) << 40;
    case AROUND_ZERO:
        return -(uint64_t)(length / 2);
    default:
        return 0;
    }
}

struct plan {
    const char *what;
    enum ibv_wr_opcode opcode;
    uint32_t length;
    enum target target;
    uint32_t rkey_flip; /* XORed into the right rkey */
};

static const struct plan FORBIDDEN[] = {
    {"WRITE of 64 bytes", IBV_WR_RDMA_WRITE, 64, AT_START, 0},
    {"WRITE of the clock", IBV_WR_RDMA_WRITE, 24, AT_STATUS, 0},
    {"WRITE of 64 bytes of the directory", IBV_WR_RDMA_WRITE, 64, AT_DIRECTORY, 0},
    {"WRITE of 8000 bytes", IBV_WR_RDMA_WRITE, 8000, AT_DIRECTORY, 0},
    {"WRITE of 8000 bytes into the heap", IBV_WR_RDMA_WRITE, 8000, AT_HEAP, 0},
    {"WRITE of nothing", IBV_WR_RDMA_WRITE, 0, AT_START, 0},
    {"WRITE of nothing with another rkey", IBV_WR_RDMA_WRITE, 0, AT_START, 0x100},
    {"WRITE of 64 bytes with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, 64, AT_START, 0},
    {"WRITE of nothing with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, 0, AT_START, 0},
    {"FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, AT_DIRECTORY, 0},
    {"CMP_SWAP", IBV_WR_ATOMIC_CMP_AND_SWP, 8, AT_HEAP, 0},
    {"READ of one byte beyond the end", IBV_WR_RDMA_READ, 64, A_BYTE_BEYOND, 0},
    {"READ behind the end", IBV_WR_RDMA_READ, 1, BEHIND_THE_END, 0},
    {"READ far away", IBV_WR_RDMA_READ, 64, FAR_AWAY, 0},
    {"READ around address 0", IBV_WR_RDMA_READ, 64, AROUND_ZERO, 0},
    {"READ with another rkey", IBV_WR_RDMA_READ, 64, AT_START, 1},
    {"READ with the rkey of another region", IBV_WR_RDMA_READ, 64, AT_START, 0x100},
};

static struct attack attack_of(const struct plan *plan, const struct okv_welcome *table)
{
    return (struct attack){
        .opcode = plan->opcode,
        .length = plan->length,
        .offset = target_offset(table, plan->target, plan->length),
        .rkey = table->rkey ^ plan->rkey_flip,
        .immediate = okv_immediate(OKV_OP_PING, 0),
    };
}

/* What must hold after every attack: nothing of the attacker is left. */
static void expect_calm(struct bystander *bystander, const char *what, uint64_t hash)
{
    bystander_expect_stat(bystander, "sessions", 1);
    if (table_hash(bystander) != hash)
        fail_msg("%s: the table is not what it was", what);
    bystander_check(bystander);
}

/* The server finds out by itself that the attacker's queue pair is of no more use. */
static void expect_gone(struct bystander *bystander)
{
    bystander_expect_stat(bystander, "sessions", 1);
}

TEST(forbidden_verbs)
{
    struct bystander *bystander = bystander_of(state);

    for (size_t i = 0; i < sizeof FORBIDDEN / sizeof *FORBIDDEN; i++) {
        struct attacker attacker;
        uint64_t hash = table_hash(bystander);
        attacker_join(&attacker, &bystander->server);
        struct attack attack = attack_of(&FORBIDDEN[i], &attacker.table);
        memset(attacker.bytes, 0xAA, ATTACKER_BYTES);
        enum ibv_wc_status status = attacker_try(&attacker, &attack);
        print_message("%-38s %s\n", FORBIDDEN[i].what, ibv_wc_status_str(status));
        if (status == IBV_WC_SUCCESS)
            fail_msg("%s: it succeeded", FORBIDDEN[i].what);
        if (attack.opcode == IBV_WR_RDMA_READ)
            for (uint32_t at = 0; at < attack.length; at++)
                assert_int_equal(attacker.bytes[at], 0xAA);
        expect_gone(bystander);
        attacker_leave(&attacker);
        expect_calm(bystander, FORBIDDEN[i].what, hash);
    }
}

/* It did nothing wrong, and nobody is told of its end. */
TEST(a_queue_pair_that_breaks_in_silence)
{
    struct bystander *bystander = bystander_of(state);
    struct attacker attacker;

    attacker_join(&attacker, &bystander->server);
    bystander_expect_stat(bystander, "sessions", 2);
    attacker_break(&attacker);
    expect_gone(bystander);
    attacker_leave(&attacker);
    bystander_check(bystander);
}

TEST(a_client_that_allows_no_rendezvous_read)
{
    struct bystander *bystander = bystander_of(state);
    struct attacker attacker;

    attacker_join_unpulled(&attacker, &bystander->server);
    attacker_leave(&attacker);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

/* The counterpart: the same code, kept to the rules, is served. */
TEST(permitted_reads)
{
    static const struct plan permitted[] = {
        {"READ of the superblock", IBV_WR_RDMA_READ, 64, AT_START, 0},
        {"READ of the directory", IBV_WR_RDMA_READ, 8000, AT_DIRECTORY, 0},
        {"READ up to the end", IBV_WR_RDMA_READ, 64, AT_HEAP, 0},
    };
    struct bystander *bystander = bystander_of(state);
    uint64_t hash = table_hash(bystander);
    struct attacker attacker;

    attacker_join(&attacker, &bystander->server);
    for (size_t i = 0; i < sizeof permitted / sizeof *permitted; i++) {
        struct attack attack = attack_of(&permitted[i], &attacker.table);
        enum ibv_wc_status status = attacker_try(&attacker, &attack);
        if (status != IBV_WC_SUCCESS)
            fail_msg("%s: %s", permitted[i].what, ibv_wc_status_str(status));
    }
    attacker_leave(&attacker);
    expect_calm(bystander, "permitted", hash);
}

/* Fills the attacker's memory with a PING whose header says so. Of those that are sent several
 * times the server drops all but the first, unless their sequence is 0. */
static void write_ping(struct attacker *attacker, uint32_t value_length, uint64_t sequence)
{
    struct okv_wire_request header = {
        .sequence = okv_le64_of(sequence),
        .value_length = okv_le32_of(value_length),
    };

    memset(attacker->bytes, 0, ATTACKER_BYTES);
    memcpy(attacker->bytes, &header, sizeof header);
}

/* It arrives, so its completion says nothing: the server must end the connection. */
TEST(send_without_immediate)
{
    struct bystander *bystander = bystander_of(state);
    uint64_t hash = table_hash(bystander);
    uint64_t before = bystander_stat(bystander, CLOSED_NO_IMMEDIATE);
    struct attacker attacker;

    attacker_join(&attacker, &bystander->server);
    write_ping(&attacker, 0, 1);
    attacker_try(&attacker, &(struct attack){.opcode = IBV_WR_SEND, .length = OKV_REQUEST_HEADER});
    attacker_expect_end(&attacker, "SEND without immediate");
    bystander_expect_stat(bystander, CLOSED_NO_IMMEDIATE, before + 1);
    attacker_leave(&attacker);
    expect_calm(bystander, "SEND without immediate", hash);
}

TEST(send_larger_than_a_slot)
{
    struct bystander *bystander = bystander_of(state);
    uint64_t hash = table_hash(bystander);
    struct attacker attacker;

    attacker_join(&attacker, &bystander->server);
    uint32_t sizes[] = {attacker.table.slot_size + 1, ATTACKER_BYTES};
    attacker_leave(&attacker);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct attack send = {
            .opcode = IBV_WR_SEND_WITH_IMM,
            .length = sizes[i],
            .immediate = okv_immediate(OKV_OP_PING, 0),
        };
        attacker_join(&attacker, &bystander->server);
        write_ping(&attacker, sizes[i] - (uint32_t)OKV_REQUEST_HEADER, 1);
        enum ibv_wc_status status = attacker_try(&attacker, &send);
        print_message("SEND of %u bytes: %s\n", sizes[i], ibv_wc_status_str(status));
        assert_int_not_equal(status, IBV_WC_SUCCESS);
        expect_gone(bystander);
        attacker_leave(&attacker);
        expect_calm(bystander, "SEND larger than a slot", hash);
        hash = table_hash(bystander);
    }
}

/* Far more requests than granted, and no receive for any reply: the server's
 * sends to this client never end. Others must not wait for them. */
TEST(sends_without_end)
{
    enum { SENDS = 1000, CHECKS = 50 };
    struct bystander *bystander = bystander_of(state);
    struct attack send = {
        .opcode = IBV_WR_SEND_WITH_IMM,
        .length = OKV_REQUEST_HEADER,
        .immediate = okv_immediate(OKV_OP_PING, 0),
    };
    uint64_t hash = table_hash(bystander);
    struct attacker attacker;
    unsigned ended, good;

    attacker_join(&attacker, &bystander->server);
    write_ping(&attacker, 0, 0);
    for (int i = 0; i < SENDS; i++)
        attacker_post(&attacker, &send);
    for (int i = 0; i < CHECKS; i++)
        bystander_check(bystander);
    ended = attacker_drain(&attacker, &good);
    print_message("%u of %d sends ended, %u with success\n", ended, SENDS, good);
    attacker_leave(&attacker);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
    assert_int_not_equal(table_hash(bystander), hash); /* the bystander's puts, and nothing stuck */
}

/* ---- many who send more than they may ---- */

/* The process of one who floods the server, is thrown out and comes again, until it is killed. */
static _Noreturn void run_flooder(void)
{
    struct attack send = {
        .opcode = IBV_WR_SEND_WITH_IMM,
        .length = OKV_REQUEST_HEADER,
        .immediate = okv_immediate(OKV_OP_PING, 0),
    };
    struct server_process server = {.pid = -1};
    struct attacker attacker;

    snprintf(server.uri, sizeof server.uri, "%s", getenv("OKV_TEST_URI"));
    for (;;) {
        if (attacker_may_join(&attacker, &server)) {
            write_ping(&attacker, 0, 0);
            for (int i = 0; i < FLOOD; i++)
                attacker_post(&attacker, &send);
            attacker_waits(&attacker, 1000);
        }
        attacker_leave(&attacker);
    }
}

static pid_t start_flooder(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", "hostile_verbs_test", "flood", (char *)NULL);
        _exit(1);
    }
    return pid;
}

/* Each connection has receive buffers of its own: a flood breaks its own queue pair. */
static void a_flood_cuts_nobody_else_off(void **state)
{
    struct bystander *bystander = bystander_of(state);
    uint64_t until = okv_clock_ns() + FLOOD_NS;
    struct okv_counters counters;
    pid_t flooders[FLOODERS];

    for (int i = 0; i < FLOODERS; i++)
        flooders[i] = start_flooder();
    while (okv_clock_ns() < until || bystander_stat(bystander, "closed_credit") == 0)
        bystander_check(bystander);
    for (int i = 0; i < FLOODERS; i++) {
        assert_int_equal(waitpid(flooders[i], NULL, WNOHANG), 0);
        kill(flooders[i], SIGKILL);
        waitpid(flooders[i], NULL, 0);
    }
    bystander_expect_stat(bystander, "sessions", 1);
    okv_counters(bystander->handle, &counters);
    print_message("%u rounds, %llu floods, %llu reconnects\n", bystander->rounds,
                  (unsigned long long)bystander_stat(bystander, "closed_credit"),
                  (unsigned long long)counters.reconnects);
    assert_int_equal(counters.reconnects, 0);
}

static int setup_few_clients(void **state)
{
    static const char *const arguments[] = {
        "--memory", "1M", "--max-clients", "5", "--max-clients-per-address", "0", "--workers",
        "1",        NULL};
    struct bystander *bystander = calloc(1, sizeof *bystander);

    bystander_start(bystander, arguments);
    *state = bystander;
    return 0;
}

/* ---- clients that never confirm their connection ---- */

/* No keepalive ends them, so it is the server that makes room. Clients of this host may have half
 * of the places: those that nobody has confirmed do not count for it. */
static int setup_few_places(void **state)
{
    static const char *const arguments[] = {
        "--memory", "1M", "--max-clients", "12", "--keepalive-ms", "600000", NULL};
    struct bystander *bystander = calloc(1, sizeof *bystander);

    bystander_start(bystander, arguments);
    *state = bystander;
    return 0;
}

/* At the latest when the one that makes room has gone. */
static void expect_place(struct bystander *bystander)
{
    uint64_t end = pace_guard_end();
    okv *other = NULL;
    char why[320];
    int rc;

    while ((rc = patient_open(bystander->server.uri, NULL, &other, why, sizeof why)) != OKV_OK)
        if (rc != OKV_EREFUSED || okv_clock_ns() > end)
            fail_msg("%s", why);
    assert_int_equal(okv_ping(other), OKV_OK);
    okv_close(&other);
    bystander_check(bystander);
}

static void half_open_connections(void **state)
{
    enum { COUNT = 36, NOBODYS_QPN = 0xe00000 };
    struct bystander *bystander = bystander_of(state);
    static struct attacker attackers[COUNT];
    unsigned accepted = 0;

    for (unsigned i = 0; i < COUNT; i++) {
        accepted += attacker_join_half(&attackers[i], &bystander->server, NOBODYS_QPN + i);
        if (i % 6 == 5)
            expect_place(bystander);
    }
    print_message("%u of %d accepted, %llu crowded out\n", accepted, COUNT,
                  (unsigned long long)bystander_stat(bystander, CROWDED_OUT));
    assert_true(accepted >= 11);
    assert_true(bystander_stat(bystander, CROWDED_OUT) > 0);
    bystander_expect_stat(bystander, "sessions", 1); /* the others in 5 s */
    for (unsigned i = 0; i < COUNT; i++)
        attacker_leave(&attackers[i]);
    expect_place(bystander);
    assert_int_equal(bystander_stat(bystander, "rejected_address"), 0);
}

/* ---- values that the server is to READ ---- */

struct rendezvous_plan {
    const char *what;
    int access;         /* of the attacker's memory */
    uint32_t from;      /* where the value begins there */
    uint32_t length;    /* of the value */
    uint32_t rkey_flip; /* XORed into the right rkey */
};

static const struct rendezvous_plan forbidden_rendezvous_reads[] = {
    {"rendezvous read of memory that is for nobody", IBV_ACCESS_LOCAL_WRITE, 0, 1000, 0},
    {"rendezvous read of memory that is for writing",
     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 64, 0},
    {"rendezvous read of a byte too many", IBV_ACCESS_REMOTE_READ, ATTACKER_BYTES - 1000, 1001, 0},
    {"rendezvous read that goes far beyond", IBV_ACCESS_REMOTE_READ, 0, ATTACKER_BYTES * 2, 0},
    {"rendezvous read with another rkey", IBV_ACCESS_REMOTE_READ, 0, 1000, 0x100},
};

/* A PUT of the bystander's "item-0", whose value is in `mr`. Returns the length. */
static uint32_t write_put_by_rendezvous(struct attacker *attacker, const struct ibv_mr *mr,
                                        const struct rendezvous_plan *plan)
{
    const struct okv_request_message put = {
        .opcode = OKV_OP_PUT,
        .sequence = 1,
        .flags = OKV_REQUEST_RENDEZVOUS,
        .key = (const uint8_t *)"item-0",
        .key_length = 6,
        .value_length = plan->length,
        .rendezvous_address = (uintptr_t)mr->addr + plan->from,
        .rendezvous_key = mr->rkey ^ plan->rkey_flip,
    };

    return okv_request_encode(&put, attacker->bytes);
}

/* The server's own READ fails: its queue pair with this client ends, and nothing else. */
static void expect_failed_rendezvous(struct bystander *bystander,
                                     const struct rendezvous_plan *plan)
{
    struct attack send = {.opcode = IBV_WR_SEND_WITH_IMM,
                          .immediate = okv_immediate(OKV_OP_PUT, 0)};
    uint64_t failed = bystander_stat(bystander, RENDEZVOUS_FAILED);
    struct bystander_holdings before = bystander_holdings(bystander);
    struct attacker attacker;
    uint8_t *memory = calloc(1, ATTACKER_BYTES);

    assert_non_null(memory);
    attacker_join(&attacker, &bystander->server);
    struct ibv_mr *mr = ibv_reg_mr(attacker.pd, memory, ATTACKER_BYTES, plan->access);
    assert_non_null(mr);
    send.length = write_put_by_rendezvous(&attacker, mr, plan);
    assert_int_equal(attacker_try(&attacker, &send), IBV_WC_SUCCESS);
    attacker_expect_end(&attacker, plan->what);
    bystander_expect_stat(bystander, RENDEZVOUS_FAILED, failed + 1);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_expect_holdings(bystander, plan->what, &before);
    bystander_expect_accounts(bystander);
    ibv_dereg_mr(mr);
    attacker_leave(&attacker);
    free(memory);
}

/* The reserved extent was not published, so the value is the one that was there. */
TEST(rendezvous_reads_that_the_device_refuses)
{
    struct bystander *bystander = bystander_of(state);
    static uint8_t value[8192], zeros[8192];
    size_t length;

    for (size_t i = 0; i < sizeof forbidden_rendezvous_reads / sizeof *forbidden_rendezvous_reads;
         i++) {
        expect_failed_rendezvous(bystander, &forbidden_rendezvous_reads[i]);
        assert_int_equal(
            okv_get(bystander->handle, "item-0", 6, value, sizeof value, &length, NULL), OKV_OK);
        assert_int_equal(length, sizeof zeros);
        assert_memory_equal(value, zeros, sizeof zeros);
        bystander_check(bystander);
    }
}

static int setup(void **state)
{
    static const char *const arguments[] = {"--memory", "1M", NULL};
    struct bystander *bystander = calloc(1, sizeof *bystander);
    static uint8_t value[8192];
    char key[16];

    bystander_start(bystander, arguments);
    for (int i = 0; i < 100; i++) {
        int length = snprintf(key, sizeof key, "item-%d", i);
        memset(value, i, sizeof value);
        size_t size = i % 10 == 0 ? sizeof value : 32;
        assert_int_equal(okv_put(bystander->handle, key, (size_t)length, value, size, NULL),
                         OKV_OK);
    }
    *state = bystander;
    return 0;
}

TEST_PROGRAM(setup, bystander_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest flood[] = {cmocka_unit_test(a_flood_cuts_nobody_else_off)};

    if (!server_is_rdma()) {
        printf("skipped: verbs need an rdma: URI in OKV_TEST_URI\n");
        return 77;
    }
    if (argc > 1 && strcmp(argv[1], "flood") == 0)
        run_flooder();
    const struct CMUnitTest places[] = {cmocka_unit_test(half_open_connections)};
    int failed = test_run();
    failed += test_run_group("few places", places, setup_few_places, bystander_teardown);
    return failed +
           test_run_group("few receive buffers", flood, setup_few_clients, bystander_teardown);
}
