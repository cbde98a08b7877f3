#include "tests/support/stub_transport.h"
#include "tests/support/stub_connect.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"

#define EVENTS_MAX 4096
struct okv_memory {
    uint8_t *base;
    size_t length;
};

/* An event, and when it may be seen. READs hold their destination until then. */
struct held_event {
    struct okv_event event;
    uint8_t *destination;
    uint32_t length;
    unsigned due; /* the first poll that finds it */
};

struct stub stub;
static struct okv_conn conn;
static struct okv_endpoint endpoint;
static struct held_event events[EVENTS_MAX];
static unsigned event_count;
static bool request_slots_used[OKV_CREDITS_MAX];
static uint64_t request_slots_sequence[OKV_CREDITS_MAX]; /* of the latest request */
static uint64_t highest_sequence;
static uint8_t client_id[OKV_CLIENT_ID_SIZE]; /* whose sequences these are */
static uint8_t *send_room;                    /* that send_buffer gives out until it was sent */
static bool armed, closing, armed_since_poll; /* the last one: no poll came since the arm */

/* ---- events ---- */

static void announce(void)
{
    uint64_t one = 1;

    if (armed)
        assert_int_equal(write(endpoint.fd, &one, sizeof one), sizeof one);
    armed = false;
}

static void event_push(const struct okv_event *event, uint8_t *destination, uint32_t length)
{
    assert_true(event_count < EVENTS_MAX);
    events[event_count++] = (struct held_event){
        .event = *event,
        .destination = destination,
        .length = length,
        .due = stub.polls + 1 + stub.delay,
    };
    announce();
}

static void event_remove(unsigned i)
{
    event_count--;
    memmove(&events[i], &events[i + 1], (event_count - i) * sizeof events[i]);
}

static int stub_poll(struct okv_endpoint *polled, struct okv_event *out, int max)
{
    int n = 0;

    assert_ptr_equal(polled, &endpoint);
    assert_true(stub.connections > 0);
    stub.polls++;
    if (stub.poll_result)
        return stub.poll_result;
    if (stub.no_buffers > 0)
        stub.no_buffers--;
    if (stub.stream > 0) {
        stub.stream--;
        out[n++] = (struct okv_event){.type = OKV_EVENT_RENDEZVOUS_DONE, .conn = &conn};
    }
    for (unsigned i = 0; i < event_count && n < max;) {
        bool hidden = stub.shy && !armed_since_poll && events[i].event.type == OKV_EVENT_CLOSED;
        if (events[i].due > stub.polls || hidden) {
            i++;
            continue;
        }
        out[n] = events[i].event;
        event_remove(i);
        if (out[n].type == OKV_EVENT_READ)
            stub.reads_under_way--;
        if (out[n].type == OKV_EVENT_RECV) {
            stub.messages_held++;
            request_slots_used[okv_immediate_slot(out[n].immediate) % OKV_CREDITS_MAX] = false;
            conn.acknowledged++;
        }
        n++;
    }
    armed_since_poll = false;
    return n;
}

/* An event that is due makes no wake-up; one that is held back makes it at once. */
static int stub_arm(struct okv_endpoint *of)
{
    uint64_t ignored;

    if (read(of->fd, &ignored, sizeof ignored) < 0)
        ignored = 0;
    armed = armed_since_poll = true;
    for (unsigned i = 0; i < event_count; i++)
        if (events[i].due > stub.polls + 1)
            announce();
    if (stub.no_buffers > 0)
        announce();
    if (stub.after_arm)
        stub.after_arm();
    return 0;
}

static void stub_recv_release(struct okv_endpoint *of, const struct okv_event *event)
{
    assert_ptr_equal(of, &endpoint);
    assert_true(stub.messages_held > 0);
    stub.messages_held--;
    free((void *)event->data);
}

static void stub_wake(struct okv_endpoint *of)
{
    assert_ptr_equal(of, &endpoint);
    announce();
}

void stub_release_events(int read_status)
{
    for (unsigned i = 0; i < event_count; i++) {
        events[i].due = 0;
        if (events[i].event.type == OKV_EVENT_READ)
            events[i].event.status = read_status;
    }
    stub.delay = 0;
    announce();
}

void stub_release_first(void)
{
    if (event_count > 0)
        events[0].due = 0;
    stub.delay = 0;
    announce();
}

static void drop_events(void)
{
    for (unsigned i = 0; i < event_count; i++)
        free((void *)events[i].event.data);
    event_count = 0;
    stub.reads_under_way = 0;
}

/* ---- connecting ---- */

static void client_check(void)
{
    if (memcmp(client_id, stub.hello.client_id, sizeof client_id) == 0)
        return;
    memcpy(client_id, stub.hello.client_id, sizeof client_id);
    memset(request_slots_sequence, 0, sizeof request_slots_sequence);
    highest_sequence = 0;
    stub.sent = 0;
}

int stub_connect(struct okv_answer *welcome, struct okv_conn **out)
{
    assert_int_equal(stub.connections, 0);
    client_check();
    okv_superblock_encode(&stub.block, (struct okv_wire_superblock *)stub.region);
    if (stub.raw.length || stub.raw.rejected) {
        *welcome = stub.raw;
    } else {
        okv_welcome_encode(&stub.welcome, (struct okv_wire_welcome *)welcome->bytes);
        welcome->length = sizeof(struct okv_wire_welcome);
    }
    if (stub.connect_result)
        return stub.connect_result;
    if (stub.refusals > 0) {
        stub.refusals--;
        return OKV_EREFUSED;
    }
    endpoint.fd = stub.unwatchable ? open("/dev/null", O_RDWR | O_CLOEXEC)
                                   : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(endpoint.fd >= 0);
    conn = (struct okv_conn){
        .endpoint = &endpoint,
        .slot_size = stub.welcome.slot_size,
        .max_reads = stub.max_reads,
        .how = "stub",
    };
    if (stub.peer)
        snprintf(conn.peer, sizeof conn.peer, "%s", stub.peer);
    send_room = NULL;
    memset(request_slots_used, 0, sizeof request_slots_used);
    armed = armed_since_poll = closing = false;
    stub.connections++;
    *out = &conn;
    return 0;
}

static int stub_set_remote(struct okv_conn *of, uint64_t address, uint64_t length, uint32_t rkey)
{
    assert_int_equal(address, stub.welcome.region_address);
    assert_int_equal(rkey, stub.welcome.rkey);
    of->remote_length = length;
    return stub.set_remote_result;
}

/* READs are flushed, messages on their way are lost, CLOSED is the last event. */
static void end_connection(void)
{
    struct okv_event closed = {
        .type = OKV_EVENT_CLOSED, .status = OKV_EDISCONNECTED, .conn = &conn};

    for (unsigned i = closing ? 0 : event_count; i-- > 0;) {
        free((void *)events[i].event.data);
        if (events[i].event.type != OKV_EVENT_READ)
            event_remove(i);
    }
    if (!closing)
        event_push(&closed, NULL, 0);
    closing = true;
    stub_release_events(OKV_EDISCONNECTED);
}

static void stub_close_conn(struct okv_conn *of)
{
    assert_ptr_equal(of, &conn);
    stub.closes++;
    end_connection();
}

void stub_hang_up(void)
{
    assert_true(stub.connections > 0);
    end_connection();
}

static void stub_conn_destroy(struct okv_conn *of)
{
    assert_ptr_equal(of, &conn);
    assert_int_equal(stub.registrations, 0);
    assert_int_equal(stub.adverts, 0);
    drop_events();
    close(endpoint.fd);
    armed = false;
    free(send_room);
    send_room = NULL;
    stub.connections--;
}

static int stub_register(struct okv_endpoint *of, void *base, size_t length,
                         struct okv_memory **out)
{
    (void)of;
    if (stub.register_result)
        return stub.register_result;
    *out = malloc(sizeof **out);
    assert_non_null(*out);
    **out = (struct okv_memory){.base = base, .length = length};
    stub.registrations++;
    return 0;
}

static void stub_unregister(struct okv_memory *memory)
{
    /* READs under way may no longer write to it. */
    for (unsigned i = 0; i < event_count; i++)
        if (events[i].destination >= memory->base &&
            events[i].destination < memory->base + memory->length)
            events[i].length = 0;
    stub.registrations--;
    free(memory);
}

/* ---- READs and requests ---- */

/* Into registered memory that no other READ owns. */
static void read_begin(const struct okv_read *read)
{
    uint8_t *to = read->destination;

    assert_true(to >= read->memory->base &&
                to + read->length <= read->memory->base + read->memory->length);
    for (unsigned i = 0; i < event_count; i++)
        if (events[i].event.type == OKV_EVENT_READ)
            assert_true(events[i].length == 0 || to >= events[i].destination + events[i].length ||
                        events[i].destination >= to + read->length);
    stub.reads++;
    stub.last_read = read->offset;
    stub.last_destination = to;
    if (stub.before_read)
        stub.before_read(stub.reads);
}

static void post_one(const struct okv_read *read)
{
    struct okv_event event = {
        .type = OKV_EVENT_READ, .status = stub.read_status, .conn = &conn, .cookie = read->cookie};

    stub.reads_under_way++;
    read_begin(read);
    if (!stub.read_status)
        memcpy(read->destination, stub.region + read->offset, read->length);
    event_push(&event, read->destination, read->length);
    if (stub.after_read)
        stub.after_read(stub.reads);
}

static int stub_post_read(struct okv_conn *of, const struct okv_read *reads, unsigned count)
{
    assert_ptr_equal(of, &conn);
    stub.posts++;
    if (closing && !stub.shy)
        return OKV_EDISCONNECTED;
    if (stub.read_result)
        return stub.read_result;
    for (unsigned i = 0; i < count; i++) {
        if (!okv_range_inside(reads[i].offset, reads[i].length, conn.remote_length)) {
            stub.reads_outside++;
            return OKV_EINVAL;
        }
    }
    if (stub.reads_under_way + count > conn.max_reads)
        return OKV_EAGAIN;
    for (unsigned i = 0; i < count && !closing; i++)
        post_one(&reads[i]);
    return 0;
}

static bool stub_read_now(struct okv_conn *of, const struct okv_read *read, okv_used_bytes *used)
{
    uint8_t *to = read->destination;

    assert_ptr_equal(of, &conn);
    assert_int_equal(read->length % OKV_READ_BEGINNING, 0);
    assert_true(okv_range_inside(read->offset, read->length, conn.remote_length));
    stub.now_asked++;
    if (closing || event_count > 0 || stub.now_declined)
        return false;
    read_begin(read);
    memset(to, STUB_LEFT_OUT, read->length);
    memcpy(to, stub.region + read->offset, OKV_READ_BEGINNING);
    uint32_t lines = (used(to) + OKV_READ_BEGINNING - 1) / OKV_READ_BEGINNING;
    uint32_t most = read->length / OKV_READ_BEGINNING;
    stub.now_bytes = (lines == 0 ? 1 : lines < most ? lines : most) * OKV_READ_BEGINNING;
    memcpy(to, stub.region + read->offset, stub.now_bytes);
    conn.acknowledged++;
    return true;
}

static int stub_advertise(struct okv_conn *of, const void *base, size_t length,
                          struct okv_advert **out)
{
    assert_ptr_equal(of, &conn);
    if (closing)
        return OKV_EDISCONNECTED;
    if (stub.advertise_result)
        return stub.advertise_result;
    if (base == stub.advertise_refused)
        return OKV_EIO;
    *out = malloc(sizeof **out);
    assert_non_null(*out);
    **out = (struct okv_advert){.address = STUB_ADVERTISED, .key = ++stub.advert_key};
    stub.advertised = base;
    stub.advertised_length = length;
    stub.adverts++;
    return 0;
}

static void stub_withdraw(struct okv_advert *advert, bool is_read)
{
    (void)is_read;
    if (advert)
        stub.adverts--;
    free(advert);
}

/* Of its exact size and new for every message, so that ASan sees what reaches past it. */
static uint8_t *stub_send_buffer(struct okv_conn *of)
{
    stub.buffers_asked++;
    if (stub.no_buffers > 0)
        return NULL;
    if (!send_room)
        send_room = malloc(of->slot_size);
    assert_non_null(send_room);
    return send_room;
}

/* The request slot must be granted and free. The sequence must be above all others, or that of the
 * slot's last request, which is resent. */
static void request_slot_check(const struct okv_request_message *message)
{
    uint16_t request_slot = message->slot;

    assert_true(request_slot < stub.welcome.credits);
    assert_false(request_slots_used[request_slot]);
    request_slots_used[request_slot] = true;
    if (message->sequence != request_slots_sequence[request_slot]) {
        assert_true(message->sequence > highest_sequence);
        highest_sequence = message->sequence;
    }
    request_slots_sequence[request_slot] = message->sequence;
}

static void stub_flush(struct okv_conn *of)
{
    assert_ptr_equal(of, &conn);
    stub.flushes++;
    stub.unflushed = 0;
}

static int stub_heartbeat(struct okv_conn *of)
{
    assert_ptr_equal(of, &conn);
    assert_int_equal(of->unacknowledged, 0);
    stub.heartbeats++;
    if (stub.silent)
        of->unacknowledged++;
    else
        of->acknowledged++;
    return stub.heartbeat_result;
}

static int stub_post_send(struct okv_conn *of, uint32_t length, uint32_t immediate)
{
    struct stub_request *request = &stub.requests[stub.sent % STUB_REQUESTS];

    assert_non_null(send_room);
    if (closing && !stub.shy)
        return OKV_EDISCONNECTED;
    if (stub.send_result)
        return stub.send_result;
    assert_true(length <= of->slot_size);
    memcpy(request->bytes, send_room, length);
    free(send_room);
    send_room = NULL;
    assert_int_equal(okv_request_decode(immediate, request->bytes, length, &request->message), 0);
    stub.unflushed++;
    request_slot_check(&request->message);
    if (request->message.opcode == OKV_OP_GOODBYE) {
        stub.goodbyes++;
        return 0;
    }
    struct stub_reply reply = stub_reply_to(stub.sent++);
    if (closing)
        return 0;
    if (!stub.answer || stub.answer(request, &reply))
        stub_say(&reply);
    return 0;
}

void stub_say(const struct stub_reply *reply)
{
    const struct okv_reply_message *message = &reply->message;
    uint8_t bytes[OKV_SLOT_SIZE_DEFAULT];
    uint32_t length = okv_reply_encode(message, bytes) - reply->cut;
    uint8_t *data = malloc(length);

    assert_non_null(data);
    memcpy(data, bytes, length);
    struct okv_event event = {
        .type = OKV_EVENT_RECV,
        .conn = &conn,
        .immediate = (okv_immediate(message->opcode, message->slot) | OKV_IMMEDIATE_REPLY) ^
                     reply->immediate_flip,
        .has_immediate = !reply->no_immediate,
        .data = data,
        .length = length,
    };
    event_push(&event, NULL, 0);
}

static struct okv_transport_ops ops = {
    .name = "stub",
    .connect_start = stub_connect_start,
    .connect_step = stub_connect_step,
    .connect_cancel = stub_connect_cancel,
    .set_remote = stub_set_remote,
    .close = stub_close_conn,
    .conn_destroy = stub_conn_destroy,
    .memory_register = stub_register,
    .memory_unregister = stub_unregister,
    .post_read = stub_post_read,
    .advertise = stub_advertise,
    .withdraw = stub_withdraw,
    .send_buffer = stub_send_buffer,
    .post_send = stub_post_send,
    .flush = stub_flush,
    .heartbeat = stub_heartbeat,
    .poll = stub_poll,
    .recv_release = stub_recv_release,
    .arm = stub_arm,
    .wake = stub_wake,
};

const struct okv_transport_ops *__wrap_okv_transport_for(enum okv_scheme scheme);
const struct okv_transport_ops *__wrap_okv_transport_for(enum okv_scheme scheme)
{
    (void)scheme;
    ops.read_now = stub.has_now ? stub_read_now : NULL;
    ops.bare_read = stub.bare_read;
    return &ops;
}

/* ---- a server for one test ---- */

void stub_reset(void)
{
    drop_events();
    free(send_room);
    send_room = NULL;
    memset(&stub, 0, sizeof stub);
    stub.max_reads = 1024;
    stub.welcome = (struct okv_welcome){
        .rkey = 9,
        .boot_id = STUB_BOOT,
        .region_length = STUB_REGION,
        .directory_offset = OKV_DIRECTORY_OFFSET,
        .bucket_count = STUB_BUCKETS,
        .hash_seed = STUB_SEED,
        .bucket_size = STUB_BUCKET_SIZE,
        .segment_buckets = STUB_SEGMENT_BUCKETS,
        .slot_size = OKV_SLOT_SIZE_DEFAULT,
        .credits = 16,
        .max_key = OKV_KEY_MAX,
        .max_value = STUB_REGION,
        .session_id = STUB_SESSION,
        .clock_ms = STUB_CLOCK,
        .rights = OKV_RIGHTS_ALL,
    };
    stub.block = (struct okv_superblock){
        .boot_id = STUB_BOOT,
        .hash_seed = STUB_SEED,
        .region_length = STUB_REGION,
        .directory_offset = OKV_DIRECTORY_OFFSET,
        .directory_entries = OKV_DIRECTORY_ENTRIES,
        .segment_buckets = STUB_SEGMENT_BUCKETS,
        .bucket_size = STUB_BUCKET_SIZE,
    };
    stub_table();
}
