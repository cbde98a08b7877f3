#include "tests/support/hostile_client.h"

#include <sys/random.h>
#include <time.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/connect_blocking.h"
#include "tests/support/pace.h"

/* Larger than any slot of a server with default options, so that it can be overfilled. */
#define SLOT_SIZE 65536u
/* In which a hello is on its way, and nobody answers it. */
#define PATIENCE_NS 3000000000u

static void nap(void)
{
    nanosleep(&(struct timespec){0, 200000}, NULL);
}

void hostile_hello(struct okv_wire_hello *out)
{
    struct okv_hello hello = {.slot_size = OKV_SLOT_SIZE_DEFAULT,
                              .credits = HOSTILE_CREDITS,
                              .database = okv_database_id(OKV_DATABASE_DEFAULT)};

    assert_int_equal(getrandom(hello.client_id, sizeof hello.client_id, 0), sizeof hello.client_id);
    okv_hello_encode(&hello, out);
}

static int connect_for(struct hostile *hostile, const struct server_process *server,
                       const void *hello, size_t length, uint64_t patience_ns)
{
    struct okv_uri uri;
    struct okv_diag diag = {""};
    struct okv_connect_params params = {
        .hello = hello,
        .hello_length = length,
        .limits = {.slot_size = SLOT_SIZE, .credits = HOSTILE_BURST},
        .deadline_ns = okv_clock_ns() + patience_ns,
    };

    assert_int_equal(okv_uri_parse(server->uri, &uri, &diag), 0);
    *hostile = (struct hostile){.ops = okv_transport_for(uri.scheme), .next_sequence = 1};
    return connect_blocking(hostile->ops, &uri, &params, &hostile->answer, &hostile->conn, &diag);
}

int hostile_connect(struct hostile *hostile, const struct server_process *server, const void *hello,
                    size_t length)
{
    return connect_for(hostile, server, hello, length, PACE_GUARD_NS);
}

void hostile_give_up(const struct server_process *server)
{
    struct okv_wire_hello hello;
    struct hostile hostile;

    hostile_hello(&hello);
    assert_int_equal(connect_for(&hostile, server, &hello, sizeof hello, PATIENCE_NS),
                     OKV_ETIMEDOUT);
}

void hostile_join(struct hostile *hostile, const struct server_process *server)
{
    struct okv_wire_hello hello;

    hostile_hello(&hello);
    hostile_join_as(hostile, server, &hello);
}

void hostile_join_as(struct hostile *hostile, const struct server_process *server,
                     const struct okv_wire_hello *hello)
{
    const struct okv_answer *answer = &hostile->answer;
    struct okv_welcome *table = &hostile->table;

    assert_int_equal(hostile_connect(hostile, server, hello, sizeof *hello), 0);
    assert_int_equal(okv_welcome_decode(answer->bytes, answer->length, table), 0);
    assert_in_range(table->credits, 1, okv_le16_get(hello->credits) % OKV_CREDITS_MAX + 1);
    assert_true(table->slot_size < SLOT_SIZE);
    assert_int_equal(hostile->ops->set_remote(hostile->conn, table->region_address,
                                              table->region_length, table->rkey),
                     0);
}

void hostile_leave(struct hostile *hostile)
{
    if (hostile->conn)
        hostile->ops->conn_destroy(hostile->conn);
    hostile->conn = NULL;
}

void hostile_send(struct hostile *hostile, const void *bytes, uint32_t length, uint32_t immediate)
{
    uint8_t *buffer = hostile->ops->send_buffer(hostile->conn);

    assert_non_null(buffer);
    if (length)
        memcpy(buffer, bytes, length);
    assert_int_equal(hostile->ops->post_send(hostile->conn, length, immediate), 0);
    hostile->ops->flush(hostile->conn);
}

static void post_request(struct hostile *hostile, const struct okv_request_message *request)
{
    uint8_t *buffer = hostile->ops->send_buffer(hostile->conn);

    assert_non_null(buffer);
    uint32_t length = okv_request_encode(request, buffer);
    assert_int_equal(hostile->ops->post_send(hostile->conn, length,
                                             okv_immediate(request->opcode, request->slot)),
                     0);
}

void hostile_request(struct hostile *hostile, const struct okv_request_message *request)
{
    struct okv_request_message message = *request;

    message.sequence = hostile->next_sequence++;
    hostile_request_again(hostile, &message);
}

void hostile_request_again(struct hostile *hostile, const struct okv_request_message *request)
{
    post_request(hostile, request);
    hostile->ops->flush(hostile->conn);
}

unsigned hostile_burst(struct hostile *hostile, const struct okv_request_message *request,
                       bool at_once)
{
    struct okv_request_message message = *request;
    unsigned count = 0;

    for (; count < HOSTILE_BURST && hostile->ops->send_buffer(hostile->conn); count++) {
        message.sequence = hostile->next_sequence++;
        post_request(hostile, &message);
        if (!at_once)
            hostile->ops->flush(hostile->conn);
    }
    hostile->ops->flush(hostile->conn);
    return count;
}

bool hostile_ping(struct hostile *hostile)
{
    const struct okv_request_message ping = {.opcode = OKV_OP_PING};

    hostile_request(hostile, &ping);
    struct okv_event event = hostile_event(hostile);
    if (event.type != OKV_EVENT_RECV)
        return false;
    hostile->ops->recv_release(hostile->conn->endpoint, &event);
    return true;
}

struct okv_event hostile_event(struct hostile *hostile)
{
    uint64_t deadline = pace_guard_end();
    struct okv_event event = {.status = 0};
    int count;

    while ((count = hostile->ops->poll(hostile->conn->endpoint, &event, 1)) == 0) {
        if (okv_clock_ns() > deadline)
            fail_msg("no event came");
        nap();
    }
    assert_int_equal(count, 1);
    return event;
}

void hostile_expect_reply(struct hostile *hostile, uint16_t slot, int status)
{
    struct okv_event event = hostile_event(hostile);
    struct okv_reply_message reply;

    if (event.type != OKV_EVENT_RECV)
        fail_msg("event %d with status %d instead of a reply", event.type, event.status);
    assert_true(event.has_immediate);
    assert_int_equal(okv_reply_decode(event.immediate, event.data, event.length, &reply), 0);
    assert_int_equal(reply.slot, slot);
    assert_int_equal(reply.status, status);
    hostile->ops->recv_release(hostile->conn->endpoint, &event);
}

void hostile_expect_closed(struct hostile *hostile, const char *what)
{
    struct okv_event event = hostile_event(hostile);

    if (event.type == OKV_EVENT_RECV)
        fail_msg("%s: answered (immediate 0x%08x) instead of ended", what, event.immediate);
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    assert_int_not_equal(event.status, 0);
}

void bystander_start(struct bystander *bystander, const char *const *arguments)
{
    *bystander = (struct bystander){.rounds = 0};
    server_start(&bystander->server, arguments);
    bystander->handle = server_connect(&bystander->server, NULL);
}

int bystander_stop(struct bystander *bystander)
{
    okv_close(&bystander->handle);
    return server_stop(&bystander->server);
}

int bystander_setup(void **state)
{
    static const char *const arguments[] = {"--memory", "16M", NULL};
    struct bystander *bystander = calloc(1, sizeof *bystander);

    assert_non_null(bystander);
    *state = bystander; /* so that a server is stopped that nobody can reach */
    bystander_start(bystander, arguments);
    return 0;
}

int bystander_teardown(void **state)
{
    struct bystander *bystander = *state;
    int status = bystander_stop(bystander);

    free(bystander);
    return status;
}

void bystander_check(struct bystander *bystander)
{
    char key[32], value[32];
    size_t length = 0;
    int size = snprintf(key, sizeof key, "bystander-%u", bystander->rounds++);

    assert_true(server_is_running(&bystander->server));
    int rc = okv_put(bystander->handle, key, (size_t)size, key, (size_t)size, NULL);
    if (rc == OKV_OK)
        rc = okv_get(bystander->handle, key, (size_t)size, value, sizeof value, &length, NULL);
    if (rc)
        fail_msg("the bystander: %s: %s", okv_errname(rc), okv_why(bystander->handle));
    assert_int_equal(length, size);
    assert_memory_equal(value, key, length);
}

uint64_t bystander_stat(struct bystander *bystander, const char *name)
{
    return server_stat(bystander->handle, name);
}

void bystander_expect_stat(struct bystander *bystander, const char *name, uint64_t value)
{
    server_await_stat(bystander->handle, name, value);
}

struct bystander_holdings bystander_holdings(struct bystander *bystander)
{
    return (struct bystander_holdings){
        .items = bystander_stat(bystander, "items"),
        .user_bytes = bystander_stat(bystander, "user_bytes"),
        .overflow_bytes = bystander_stat(bystander, "overflow_bytes"),
        .extent_bytes = bystander_stat(bystander, "extent_bytes"),
    };
}

void bystander_expect_holdings(struct bystander *bystander, const char *what,
                               const struct bystander_holdings *before)
{
    uint64_t deadline = pace_guard_end();
    struct bystander_holdings now;

    while (now = bystander_holdings(bystander), memcmp(&now, before, sizeof now) != 0) {
        if (okv_clock_ns() > deadline)
            fail_msg("%s: %llu items of %llu bytes in extents of %llu, not %llu of %llu in %llu",
                     what, (unsigned long long)now.items, (unsigned long long)now.user_bytes,
                     (unsigned long long)now.extent_bytes, (unsigned long long)before->items,
                     (unsigned long long)before->user_bytes,
                     (unsigned long long)before->extent_bytes);
        nap();
    }
}

void bystander_expect_accounts(struct bystander *bystander)
{
    static const char *const parts[] = {"superblock_bytes",  "index_bytes",
                                        "overflow_bytes",    "extent_bytes",
                                        "heap_unused_bytes", "never_used_bytes"};
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sum += bystander_stat(bystander, parts[i]);
    assert_int_equal(sum, bystander_stat(bystander, "region_bytes"));
}
