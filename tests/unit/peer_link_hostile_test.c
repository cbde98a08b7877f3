/* A link to a server that answers anything, and what a link sends: its bytes. */
#include "tests/support/test.h"

#include <sys/mman.h>
#include <unistd.h>

#include "server/peers/link.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/linear.h"
#include "shared/format/superblock.h"
#include "shared/transport/transport.h"

#define REGION (1u << 20)
#define SLOT OKV_SLOT_SIZE_DEFAULT
#define PATIENCE_NS UINT64_C(60000000000)

/* Both ends, which one thread drives. */
static struct scene {
    struct okv_region region;
    struct okv_listener *listener;
    struct okv_endpoint *endpoint;
    struct okv_conn *conn; /* the server's */
    struct okv_link *link;
    struct okv_welcome welcome;
    bool is_open, is_lost, is_closed;
    int status; /* why it is lost */
    unsigned answers;
    int answer_status;
    uint32_t immediate, length; /* of the last message that the server has */
    uint8_t message[SLOT];
} scene;

static void opened(void *context)
{
    (void)context;
    scene.is_open = true;
}

static void answered(void *context, uint64_t cookie, int status, const uint8_t *bytes,
                     uint32_t length)
{
    (void)context;
    (void)bytes;
    (void)length;
    assert_int_equal(cookie, 77);
    scene.answers++;
    scene.answer_status = status;
}

static void lost(void *context, int status, const char *why)
{
    (void)context;
    assert_false(scene.is_lost);
    assert_true(why[0] != '\0');
    scene.is_lost = true;
    scene.status = status;
}

static const struct okv_link_calls CALLS = {opened, answered, lost};

static void accept_one(struct okv_request *request)
{
    struct okv_wire_welcome bytes;
    const struct okv_accept accept = {
        .endpoint = scene.endpoint, .welcome = (const uint8_t *)&bytes, .length = sizeof bytes};

    okv_welcome_encode(&scene.welcome, &bytes);
    assert_int_equal(request->listener->ops->accept(request, &accept), 0);
}

static void step(void)
{
    struct okv_request *request;
    struct okv_event events[8];

    okv_link_run(scene.link);
    if (scene.listener->ops->next_request(scene.listener, &request) == 1)
        accept_one(request);
    int count = scene.endpoint->ops->poll(scene.endpoint, events, 8);
    for (int i = 0; i < count; i++) {
        scene.conn = events[i].conn;
        if (events[i].type == OKV_EVENT_RECV) {
            scene.immediate = events[i].immediate;
            scene.length = events[i].length;
            memcpy(scene.message, events[i].data, events[i].length);
            scene.endpoint->ops->recv_release(scene.endpoint, &events[i]);
        }
        scene.is_closed = scene.is_closed || events[i].type == OKV_EVENT_CLOSED;
    }
}

static void step_until(const bool *a, const bool *b)
{
    uint64_t deadline_ns = okv_clock_ns() + PATIENCE_NS;

    while (!*a && !*b) {
        assert_true(okv_clock_ns() < deadline_ns);
        step();
    }
}

static int begin(void **state)
{
    const struct okv_message_limits limits = {.slot_size = SLOT, .credits = 4};
    char text[64];
    struct okv_uri uri;
    struct okv_diag diag = {.text = ""};

    (void)state;
    snprintf(text, sizeof text, "local:///tmp/okv-link-%d.sock", (int)getpid());
    assert_int_equal(okv_uri_parse(text, &uri, NULL), 0);
    scene = (struct scene){
        .region = {.length = REGION, .fd = memfd_create("region", MFD_ALLOW_SEALING)}};
    assert_int_equal(ftruncate(scene.region.fd, REGION), 0);
    scene.region.base = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, scene.region.fd, 0);
    assert_int_equal(okv_transport_local.listen(&uri, &scene.region, 1, &scene.listener, &diag), 0);
    assert_int_equal(
        okv_transport_local.endpoint_create(scene.listener, &limits, 8, &scene.endpoint, &diag), 0);
    scene.welcome = (struct okv_welcome){
        .features = OKV_FEATURE_REPLICATE,
        .boot_id = 1,
        .region_length = REGION,
        .directory_offset = OKV_DIRECTORY_OFFSET,
        .bucket_count = 1,
        .bucket_size = 512,
        .segment_buckets = 64,
        .slot_size = SLOT,
        .credits = 4,
        .max_key = OKV_KEY_MAX,
        .max_value = 1000,
        .session_id = 1,
        .clock_ms = 1,
        .rights = OKV_RIGHTS_ALL,
    };
    return 0;
}

static void open_link(void)
{
    char text[64];
    struct okv_uri uri;
    const struct okv_link_params params = {.uri = &uri,
                                           .database = "default",
                                           .client_id = 5,
                                           .messages_max = 4,
                                           .timeout_ns = PATIENCE_NS,
                                           .calls = &CALLS};

    snprintf(text, sizeof text, "local:///tmp/okv-link-%d.sock", (int)getpid());
    assert_int_equal(okv_uri_parse(text, &uri, NULL), 0);
    assert_int_equal(okv_link_open(&params, &scene.link, NULL), 0);
    step_until(&scene.is_open, &scene.is_lost);
}

static int end(void **state)
{
    (void)state;
    okv_link_close(scene.link);
    if (scene.conn && !scene.is_closed)
        okv_transport_local.close(scene.conn);
    for (struct okv_event event; scene.conn && !scene.is_closed;)
        scene.is_closed = okv_transport_local.poll(scene.endpoint, &event, 1) == 1 &&
                          event.type == OKV_EVENT_CLOSED;
    if (scene.conn)
        okv_transport_local.conn_destroy(scene.conn);
    okv_transport_local.endpoint_destroy(scene.endpoint);
    okv_transport_local.unlisten(scene.listener);
    munmap(scene.region.base, REGION);
    close(scene.region.fd);
    return 0;
}

#define HOSTILE_TEST(name) TEST_WITH(name, begin, end)

static void again(void)
{
    end(NULL);
    begin(NULL);
}

/* Sends a message, and waits until the server has it. */
static void send_one(unsigned opcode, const char *body)
{
    const struct iovec part = {(void *)body, strlen(body)};

    scene.length = 0;
    assert_int_equal(okv_link_send(scene.link, opcode, "header", 6, &part, 1, 77), 0);
    while (scene.length == 0)
        step();
}

static void answer(uint32_t immediate, const void *bytes, uint32_t length)
{
    uint8_t *out = scene.conn->ops->send_buffer(scene.conn);

    memcpy(out, bytes, length);
    assert_int_equal(scene.conn->ops->post_send(scene.conn, length, immediate), 0);
    scene.conn->ops->flush(scene.conn);
}

HOSTILE_TEST(messages_have_these_bytes)
{
    static const uint8_t ship[] = "\1\0\0\0\0\0\0\0" /* sequence */
                                  "\0\0\0\0\0\0\0\0" /* argument */
                                  "\0\0\0\0\0\0"     /* ttl_ms */
                                  "\0\0"             /* flags */
                                  "\6\0\0\0"         /* value_length */
                                  "\6\0\0\0"         /* key_length, reserved */
                                  "headerframes";
    const struct okv_wire_reply ok = {.sequence = okv_le64_of(1)};
    char *body = calloc(1, SLOT + 1);

    open_link();
    assert_true(scene.is_open);
    send_one(OKV_OP_SHIP, "frames");
    assert_int_equal(scene.immediate, 0x11000000);
    assert_int_equal(scene.length, sizeof ship - 1);
    assert_memory_equal(scene.message, ship, scene.length);
    answer(OKV_IMMEDIATE_REPLY | 0x11000000, &ok, sizeof ok);
    while (scene.answers == 0)
        step();
    assert_int_equal(scene.answer_status, OKV_OK);
    /* By rendezvous: a flag, and address and key in place of the value. */
    memset(body, 'b', SLOT);
    send_one(OKV_OP_RELEASED, body);
    assert_int_equal(scene.immediate, 0x15000000);
    assert_int_equal(scene.length, OKV_REQUEST_HEADER + 6 + 12);
    assert_memory_equal(scene.message + 22, "\4\0\0\x40\0\0\6\0\0\0header", 16);
    free(body);
}

HOSTILE_TEST(answers_that_make_no_sense_end_a_link)
{
    static const struct {
        uint32_t immediate;
        uint64_t sequence;
        uint32_t status, value_length, length; /* 0: what is right */
    } cases[] = {
        {0x94000001, 1, 0, 0, 24},          /* a slot without a message */
        {0x9400ffff, 1, 0, 0, 24},          /* none at all */
        {0x91000000, 1, 0, 0, 24},          /* of another operation */
        {0x94000000, 2, 0, 0, 24},          /* of another message */
        {0x94000000, 0, 0, 0, 24},          /* likewise */
        {0x14000000, 1, 0, 0, 24},          /* no answer */
        {0x94010000, 1, 0, 0, 24},          /* reserved bits */
        {0x94000000, 1, 0, 1, 24},          /* longer than it is */
        {0x94000000, 1, 0, UINT32_MAX, 24}, /* likewise */
        {0x94000000, 1, 1000, 0, 24},       /* no status */
        {0x94000000, 1, 0, 0, 23},          /* too short */
        {0x94000000, 1, 0, 0, 0},           /* empty */
    };

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct okv_wire_reply reply = {.sequence = okv_le64_of(cases[i].sequence),
                                             .status = okv_le32_of(cases[i].status),
                                             .value_length = okv_le32_of(cases[i].value_length)};
        open_link();
        send_one(OKV_OP_BEAT, "");
        answer(cases[i].immediate, &reply, cases[i].length);
        step_until(&scene.is_lost, &scene.is_lost);
        assert_int_equal(scene.status, OKV_EPROTO);
        assert_int_equal(scene.answers, 0);
        assert_int_equal(okv_link_send(scene.link, OKV_OP_BEAT, "h", 1, NULL, 0, 0),
                         OKV_EDISCONNECTED);
        again();
    }
}

HOSTILE_TEST(an_answer_comes_once)
{
    const struct okv_wire_reply reply = {.sequence = okv_le64_of(1), .status = okv_le32_of(20)};

    open_link();
    send_one(OKV_OP_BEAT, "");
    answer(0x94000000, &reply, sizeof reply);
    answer(0x94000000, &reply, sizeof reply);
    step_until(&scene.is_lost, &scene.is_lost);
    assert_int_equal(scene.answers, 1);
    assert_int_equal(scene.answer_status, -20);
    assert_int_equal(scene.status, OKV_EPROTO);
}

HOSTILE_TEST(a_goodbye_ends_a_link)
{
    const struct okv_wire_reply goodbye = {.status = okv_le32_of((uint32_t)-OKV_EDENIED)};

    open_link();
    send_one(OKV_OP_BEAT, "");
    answer(0xff000000, &goodbye, sizeof goodbye);
    step_until(&scene.is_lost, &scene.is_lost);
    assert_int_equal(scene.status, OKV_EDENIED);
}

HOSTILE_TEST(welcomes_that_make_no_sense_end_a_link)
{
    for (unsigned i = 0; i < 6; i++) {
        scene.welcome.features = i == 0 ? 0 : i == 1 ? 9 : OKV_FEATURE_REPLICATE;
        scene.welcome.credits = i == 2 ? 5 : 4;
        scene.welcome.slot_size = i == 3 ? SLOT + 32 : SLOT;
        scene.welcome.rights = i == 4 ? OKV_RIGHT_READ : OKV_RIGHTS_ALL;
        scene.welcome.region_length = i == 5 ? 2 * REGION : REGION;
        open_link();
        assert_false(scene.is_open);
        assert_int_equal(scene.status, i == 0   ? OKV_EUNSUPPORTED
                                       : i == 4 ? OKV_EDENIED
                                                : OKV_EPROTO);
        again();
    }
}
