#include "tests/support/transport_fixture.h"
#include "tests/support/connect_blocking.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/tls_files.h"

/* Offsets in the welcome; a pattern fills the rest. */
#define WELCOME_RKEY 0
#define WELCOME_LENGTH 4
#define WELCOME_PATTERN 12

/* The cookie of rendezvous read number 0; uses all 64 bits, so that a lost bit is noticed. */
#define FIRST_COOKIE UINT64_C(0xfedcba9876543210)

/* Empty polls before a wait sleeps. */
#define SPINS 50

/* Interval of the server's heartbeats. */
#define HEARTBEAT_MS 200

static const struct okv_message_limits limits = {FIXTURE_SLOT_SIZE, FIXTURE_CREDITS};

uint64_t fixture_soon(void)
{
    return okv_clock_ns() + FIXTURE_GUARD_NS;
}

uint8_t fixture_region_byte(uint64_t offset)
{
    return (uint8_t)(offset * 31 + (offset >> 8) * 17 + (offset >> 16));
}

uint8_t fixture_hello_byte(unsigned i)
{
    return (uint8_t)(i * 7 + 3);
}

uint8_t fixture_welcome_byte(unsigned i)
{
    return (uint8_t)(i * 5 + 1);
}

uint8_t fixture_reason_byte(unsigned i)
{
    return (uint8_t)(i * 3 + 9);
}

uint8_t fixture_message_byte(unsigned number, unsigned i)
{
    return (uint8_t)(number * 13 + i * 11 + (i >> 8));
}

void fixture_fill_message(uint8_t *out, unsigned number, unsigned length)
{
    for (unsigned i = 0; i < length; i++)
        out[i] = fixture_message_byte(number, i);
}

bool fixture_is_message(const struct okv_event *event, unsigned number, unsigned length)
{
    if (event->type != OKV_EVENT_RECV || !event->has_immediate || event->length != length)
        return false;
    for (unsigned i = 0; i < length; i++) {
        if (event->data[i] != fixture_message_byte(number, i))
            return false;
    }
    return true;
}

/* ---- the server's thread ---- */

static bool hello_is_right(const struct okv_request *request)
{
    if (request->hello_length < FIXTURE_HELLO)
        return false;
    for (unsigned i = 1; i < request->hello_length; i++) {
        uint8_t wanted = i < FIXTURE_HELLO ? fixture_hello_byte(i) : 0;
        if (request->hello[i] != wanted)
            return false;
    }
    return request->peer[0] != '\0' && request->address[0] != '\0';
}

static bool address_is_right(struct fixture *fixture, const struct okv_request *request)
{
    if (fixture->address[0] == '\0')
        memcpy(fixture->address, request->address, sizeof fixture->address);
    return strcmp(fixture->address, request->address) == 0;
}

void fixture_make_welcome(const struct okv_listener *listener, enum fixture_wish wish,
                          uint8_t *bytes)
{
    bool is_other = wish == FIXTURE_OTHER;

    for (unsigned i = WELCOME_PATTERN; i < FIXTURE_WELCOME; i++)
        bytes[i] = fixture_welcome_byte(i);
    okv_put_u32(bytes + WELCOME_RKEY, listener->rkeys[is_other]);
    okv_put_u64(bytes + WELCOME_LENGTH, is_other ? FIXTURE_OTHER_REGION : FIXTURE_REGION);
}

static void answer_request(struct fixture *fixture, struct okv_request *request)
{
    uint8_t bytes[OKV_WELCOME_MAX];
    enum fixture_wish wish = request->hello_length > 0 ? request->hello[0] : 0;
    const struct okv_accept accept = {.endpoint = fixture->endpoint,
                                      .region = wish == FIXTURE_OTHER,
                                      .user = fixture,
                                      .welcome = bytes,
                                      .length = FIXTURE_WELCOME};

    if (!hello_is_right(request) || !address_is_right(fixture, request))
        atomic_fetch_add(&fixture->wrong, 1);
    if (wish == FIXTURE_REJECT) {
        for (unsigned i = 0; i < FIXTURE_REASON; i++)
            bytes[i] = fixture_reason_byte(i);
        fixture->ops->reject(request, bytes, FIXTURE_REASON);
        return;
    }
    fixture_make_welcome(fixture->listener, wish, bytes);
    if (fixture->ops->accept(request, &accept))
        fixture->ops->reject(request, bytes, 0);
}

static void answer_requests(struct fixture *fixture)
{
    struct okv_request *request;
    int status;

    while ((status = fixture->ops->next_request(fixture->listener, &request)) > 0) {
        if (request->stranger[0])
            fixture->ops->reject(request, NULL, 0);
        else
            answer_request(fixture, request);
    }
    if (status < 0)
        atomic_fetch_add(&fixture->wrong, 1);
}

/* Echoes one message; false when there is no room for it now. */
static bool echo(struct fixture *fixture, const struct okv_event *event)
{
    uint8_t *buffer = fixture->ops->send_buffer(event->conn);

    if (!buffer)
        return false;
    memcpy(buffer, event->data, event->length);
    int status = fixture->ops->post_send(event->conn, event->length, event->immediate);
    fixture->ops->flush(event->conn);
    if (status && status != OKV_EDISCONNECTED)
        atomic_fetch_add(&fixture->wrong, 1);
    fixture->ops->recv_release(fixture->endpoint, event);
    atomic_fetch_add(&fixture->echoed, 1);
    return true;
}

static void echo_unanswered(struct fixture *fixture)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < fixture->unanswered_count; i++) {
        if (!echo(fixture, &fixture->unanswered[i]))
            fixture->unanswered[kept++] = fixture->unanswered[i];
    }
    fixture->unanswered_count = kept;
}

static void on_opened(struct fixture *fixture, struct okv_conn *conn)
{
    if (fixture->conn_count == FIXTURE_MAX_CONNS || conn->user != fixture ||
        conn->slot_size != FIXTURE_SLOT_SIZE || conn->peer[0] == '\0') {
        atomic_fetch_add(&fixture->wrong, 1);
        return;
    }
    fixture->conns[fixture->conn_count++] = conn;
    atomic_fetch_add(&fixture->opened, 1);
}

static void start_rendezvous(struct fixture *fixture, struct okv_conn *conn)
{
    unsigned count = atomic_exchange(&fixture->rendezvous_wanted, 0);

    for (unsigned i = 0; i < count; i++) {
        struct fixture_rendezvous *entry = &fixture->rendezvous_reads[i];
        entry->rendezvous.cookie = FIRST_COOKIE + i;
        entry->conn = conn;
        entry->events = 0;
        entry->result = fixture->ops->rendezvous(conn, &entry->rendezvous);
    }
    atomic_fetch_add(&fixture->rendezvous_started, count);
}

static void on_rendezvous_done(struct fixture *fixture, const struct okv_event *event)
{
    uint64_t number = event->cookie - FIRST_COOKIE;
    struct fixture_rendezvous *entry = &fixture->rendezvous_reads[number % FIXTURE_RENDEZVOUS_MAX];

    if (number >= FIXTURE_RENDEZVOUS_MAX || entry->conn != event->conn || entry->result ||
        entry->events++ > 0)
        atomic_fetch_add(&fixture->wrong, 1);
    entry->status = event->status;
    memcpy(entry->failure, event->conn->failure, sizeof entry->failure);
    atomic_fetch_add(&fixture->rendezvous_ended, 1);
}

/* Every rendezvous read of a connection must have its event before the connection's last. */
static void expect_no_rendezvous(struct fixture *fixture, const struct okv_conn *conn)
{
    for (unsigned i = 0; i < FIXTURE_RENDEZVOUS_MAX; i++) {
        struct fixture_rendezvous *entry = &fixture->rendezvous_reads[i];
        if (entry->conn != conn)
            continue;
        if (entry->result == 0 && entry->events != 1)
            atomic_fetch_add(&fixture->wrong, 1);
        entry->conn = NULL;
    }
}

static void on_closed(struct fixture *fixture, const struct okv_event *event)
{
    unsigned kept = 0, found = 0;

    expect_no_rendezvous(fixture, event->conn);
    for (unsigned i = 0; i < fixture->unanswered_count; i++) {
        if (fixture->unanswered[i].conn == event->conn)
            fixture->ops->recv_release(fixture->endpoint, &fixture->unanswered[i]);
        else
            fixture->unanswered[kept++] = fixture->unanswered[i];
    }
    fixture->unanswered_count = kept;
    while (found < fixture->conn_count && fixture->conns[found] != event->conn)
        found++;
    if (found == fixture->conn_count) {
        atomic_fetch_add(&fixture->wrong, 1);
        return;
    }
    fixture->conns[found] = fixture->conns[--fixture->conn_count];
    fixture->ops->conn_destroy(event->conn);
    atomic_store(&fixture->last_close, event->status);
    atomic_fetch_add(&fixture->closed, 1);
}

static void on_message(struct fixture *fixture, const struct okv_event *event)
{
    if (!event->has_immediate) {
        if (event->length != 0)
            atomic_fetch_add(&fixture->wrong, 1);
        fixture->ops->recv_release(fixture->endpoint, event);
        atomic_fetch_add(&fixture->without_immediate, 1);
        return;
    }
    if (event->immediate == FIXTURE_RENDEZVOUS) {
        start_rendezvous(fixture, event->conn);
        fixture->ops->recv_release(fixture->endpoint, event);
        return;
    }
    if (fixture->unanswered_count == sizeof fixture->unanswered / sizeof fixture->unanswered[0]) {
        atomic_fetch_add(&fixture->wrong, 1);
        fixture->ops->recv_release(fixture->endpoint, event);
        return;
    }
    fixture->unanswered[fixture->unanswered_count++] = *event;
}

static bool serve(struct fixture *fixture)
{
    struct okv_event events[5];
    int count = fixture->ops->poll(fixture->endpoint, events, 5);

    if (count < 0)
        atomic_fetch_add(&fixture->wrong, 1);
    for (int i = 0; i < count; i++) {
        if (events[i].type == OKV_EVENT_OPENED)
            on_opened(fixture, events[i].conn);
        else if (events[i].type == OKV_EVENT_CLOSED)
            on_closed(fixture, &events[i]);
        else if (events[i].type == OKV_EVENT_RECV)
            on_message(fixture, &events[i]);
        else if (events[i].type == OKV_EVENT_RENDEZVOUS_DONE)
            on_rendezvous_done(fixture, &events[i]);
        else
            atomic_fetch_add(&fixture->wrong, 1);
    }
    echo_unanswered(fixture);
    for (unsigned i = 0; i < fixture->conn_count; i++)
        fixture->ops->flush(fixture->conns[i]);
    return count > 0;
}

/* Ends every connection. Serves the listener too: a transport may learn there that a connection is
 * gone. */
static void close_everything(struct fixture *fixture)
{
    uint64_t end = fixture_soon();

    for (unsigned i = 0; i < fixture->conn_count; i++)
        fixture->ops->close(fixture->conns[i]);
    while (fixture->conn_count > 0 && okv_clock_ns() < end) {
        answer_requests(fixture);
        serve(fixture);
    }
}

/* A client's disconnect may get lost. Without heartbeats its connection would stay. */
static void heartbeat_clients(struct fixture *fixture)
{
    uint64_t now = okv_clock_ns();

    if (now < fixture->heartbeat_ns)
        return;
    fixture->heartbeat_ns = now + HEARTBEAT_MS * UINT64_C(1000000);
    for (unsigned i = 0; i < fixture->conn_count; i++) {
        int status = fixture->ops->heartbeat(fixture->conns[i]);
        if (status && status != OKV_EDISCONNECTED)
            atomic_fetch_add(&fixture->wrong, 1);
    }
}

static void *run_server(void *argument)
{
    struct fixture *fixture = argument;

    while (!atomic_load(&fixture->stop)) {
        bool pause = atomic_load(&fixture->pause);
        atomic_store(&fixture->paused, pause);
        if (pause) {
            usleep(1000);
            continue;
        }
        if (atomic_exchange(&fixture->close_all, false)) {
            for (unsigned i = 0; i < fixture->conn_count; i++)
                fixture->ops->close(fixture->conns[i]);
        }
        answer_requests(fixture);
        heartbeat_clients(fixture);
        if (serve(fixture))
            continue;
        if (fixture->ops->arm(fixture->endpoint))
            atomic_fetch_add(&fixture->wrong, 1);
        if (serve(fixture) || atomic_load(&fixture->close_all) || atomic_load(&fixture->pause))
            continue;
        struct pollfd watched[2] = {
            {.fd = fixture->listener->fd, .events = POLLIN},
            {.fd = fixture->endpoint->fd, .events = POLLIN},
        };
        poll(watched, 2, HEARTBEAT_MS);
    }
    close_everything(fixture);
    return NULL;
}

/* ---- the test's side ---- */

void fixture_restore(struct fixture *fixture, uint64_t offset, uint64_t length)
{
    for (uint64_t i = offset; i < offset + length; i++)
        fixture->region[i] = fixture_region_byte(i);
}

static uint8_t *make_region(size_t length, int *fd)
{
    *fd = memfd_create("okv-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(*fd >= 0);
    assert_int_equal(ftruncate(*fd, (off_t)length), 0);
    void *region = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    assert_ptr_not_equal(region, MAP_FAILED);
    return region;
}

static void make_regions(struct fixture *fixture)
{
    fixture->region = make_region(FIXTURE_REGION, &fixture->region_fd);
    fixture_restore(fixture, 0, FIXTURE_REGION);
    fixture->other = make_region(FIXTURE_OTHER_REGION, &fixture->other_fd);
    memset(fixture->other, FIXTURE_OTHER_BYTE, FIXTURE_OTHER_REGION);
}

static void choose_uris(struct fixture *fixture, const char *listen_text, const char *connect_text)
{
    struct okv_diag diag = {""};
    char local[128];

    if (!connect_text) {
        strcpy(fixture->directory, "/tmp/okv-test-XXXXXX");
        assert_non_null(mkdtemp(fixture->directory));
        snprintf(local, sizeof local, "local://%s/okv.sock", fixture->directory);
        connect_text = listen_text = local;
    }
    if (!listen_text)
        listen_text = connect_text;
    if (okv_uri_parse(listen_text, &fixture->listen_uri, &diag) ||
        okv_uri_parse(connect_text, &fixture->connect_uri, &diag))
        fail_msg("%s", diag.text);
}

void fixture_start(struct fixture *fixture, const char *listen_text, const char *connect_text)
{
    struct okv_diag diag = {""};

    memset(fixture, 0, sizeof *fixture);
    choose_uris(fixture, listen_text, connect_text);
    make_regions(fixture);
    fixture->ops = okv_transport_for(fixture->listen_uri.scheme);
    assert_non_null(fixture->ops);

    const struct okv_region regions[] = {
        {fixture->region, FIXTURE_REGION, fixture->region_fd},
        {fixture->other, FIXTURE_OTHER_REGION, fixture->other_fd},
    };
    int rc = fixture->ops->listen(&fixture->listen_uri, regions, 2, &fixture->listener, &diag);
    fixture->has_other = rc == 0;
    if (rc == OKV_EUNSUPPORTED) /* a provider of libfabric with keys of its own */
        rc = fixture->ops->listen(&fixture->listen_uri, regions, 1, &fixture->listener, &diag);
    if (rc)
        fail_msg("listen: %s", diag.text);
    fixture->listener->tls = fixture->tls = fixture->listen_uri.tls ? test_tls_server(NULL) : NULL;
    if (fixture->ops->endpoint_create(fixture->listener, &limits, FIXTURE_MAX_CONNS,
                                      &fixture->endpoint, &diag))
        fail_msg("endpoint: %s", diag.text);
    assert_int_equal(pthread_create(&fixture->thread, NULL, run_server, fixture), 0);
}

void fixture_stop(struct fixture *fixture)
{
    fixture_order(fixture, &fixture->stop);
    pthread_join(fixture->thread, NULL);
    assert_int_equal(fixture->conn_count, 0);
    assert_int_equal(atomic_load(&fixture->wrong), 0);
    fixture->ops->endpoint_destroy(fixture->endpoint);
    fixture->ops->unlisten(fixture->listener);
    okv_tls_destroy(fixture->tls);
    munmap(fixture->region, FIXTURE_REGION);
    munmap(fixture->other, FIXTURE_OTHER_REGION);
    close(fixture->region_fd);
    close(fixture->other_fd);
    /* Fails when the transport has left a file behind. */
    if (fixture->directory[0] != '\0')
        assert_int_equal(rmdir(fixture->directory), 0);
}

void fixture_order(struct fixture *fixture, atomic_bool *order)
{
    atomic_store(order, true);
    fixture->ops->wake(fixture->endpoint);
}

void fixture_pause(struct fixture *fixture)
{
    fixture_order(fixture, &fixture->pause);
    while (!atomic_load(&fixture->paused))
        usleep(1000);
}

void fixture_resume(struct fixture *fixture)
{
    atomic_store(&fixture->pause, false);
}

bool fixture_reaches(const atomic_uint *count, unsigned wanted)
{
    uint64_t end = fixture_soon();

    while (atomic_load(count) < wanted) {
        if (okv_clock_ns() > end)
            return false;
        usleep(200);
    }
    return true;
}

bool fixture_is_empty(const struct fixture *fixture)
{
    return fixture_reaches(&fixture->closed, atomic_load(&fixture->connected)) &&
           fixture_reaches(&fixture->closed, atomic_load(&fixture->opened));
}

static struct okv_connect_params make_params(uint8_t *hello, enum fixture_wish wish,
                                             uint64_t deadline_ns)
{
    hello[0] = (uint8_t)wish;
    for (unsigned i = 1; i < FIXTURE_HELLO; i++)
        hello[i] = fixture_hello_byte(i);
    return (struct okv_connect_params){
        .hello = hello,
        .hello_length = FIXTURE_HELLO,
        .limits = limits,
        .deadline_ns = deadline_ns,
    };
}

int fixture_start_connect(struct fixture *fixture, enum fixture_wish wish, uint64_t deadline_ns,
                          struct okv_connecting **out, struct okv_diag *diag)
{
    uint8_t hello[FIXTURE_HELLO];
    struct okv_connect_params params = make_params(hello, wish, deadline_ns);
    int status = fixture->ops->connect_start(&fixture->connect_uri, &params, out, diag);

    memset(hello, 0xEE, sizeof hello); /* connect_start must have copied it */
    return status;
}

int fixture_try_connect(struct fixture *fixture, enum fixture_wish wish, uint64_t deadline_ns,
                        struct okv_answer *welcome, struct okv_conn **out, struct okv_diag *diag)
{
    uint8_t hello[FIXTURE_HELLO];
    struct okv_connect_params params = make_params(hello, wish, deadline_ns);

    int status = connect_blocking(fixture->ops, &fixture->connect_uri, &params, welcome, out, diag);
    if (status == 0)
        atomic_fetch_add(&fixture->connected, 1);
    return status;
}

int fixture_set_remote(struct okv_conn *conn, const struct okv_answer *welcome)
{
    return conn->ops->set_remote(conn, 0, okv_get_u64(welcome->bytes + WELCOME_LENGTH),
                                 okv_get_u32(welcome->bytes + WELCOME_RKEY));
}

bool fixture_wait(struct okv_endpoint *endpoint, struct okv_event *event)
{
    uint64_t end = fixture_soon();

    for (unsigned i = 0; i < SPINS; i++) {
        int count = endpoint->ops->poll(endpoint, event, 1);
        if (count)
            return count > 0;
    }
    while (okv_clock_ns() < end) {
        struct pollfd watched = {.fd = endpoint->fd, .events = POLLIN};
        if (endpoint->ops->arm(endpoint))
            return false;
        int count = endpoint->ops->poll(endpoint, event, 1);
        if (count)
            return count > 0;
        poll(&watched, 1, okv_clock_ms_until(end));
    }
    return false;
}

static struct okv_conn *connect_to(struct fixture *fixture, enum fixture_wish wish)
{
    struct okv_answer welcome;
    struct okv_conn *conn;
    struct okv_diag diag = {""};

    if (fixture_try_connect(fixture, wish, fixture_soon(), &welcome, &conn, &diag))
        fail_msg("connect: %s", diag.text);
    assert_int_equal(fixture_set_remote(conn, &welcome), 0);
    return conn;
}

struct okv_conn *fixture_connect(struct fixture *fixture)
{
    return connect_to(fixture, FIXTURE_ACCEPT);
}

struct okv_conn *fixture_connect_other(struct fixture *fixture)
{
    return connect_to(fixture, FIXTURE_OTHER);
}

static int setup(void **state, const char *listen, const char *connect)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    if (!fixture)
        return -1;
    fixture_start(fixture, listen, connect);
    *state = fixture;
    return 0;
}

int fixture_setup_local(void **state)
{
    return setup(state, NULL, NULL);
}

int fixture_setup_from_environment(void **state)
{
    return setup(state, getenv("OKV_TEST_LISTEN"), getenv("OKV_TEST_URI"));
}

int fixture_teardown(void **state)
{
    if (!*state)
        return 0; /* it did not start */
    fixture_stop(*state);
    free(*state);
    return 0;
}
