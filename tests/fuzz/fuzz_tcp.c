/*
 * A connection over TCP, of a client or of a server, whose peer sends frames as the input says, cut
 * anywhere. Whatever comes: messages are as long as they may be, a READ or a rendezvous read ends
 * once and changes only its own bytes, and the connection ends once.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/tcp/conn.h"
#include "shared/transport/tcp/endpoint.h"
#include "shared/transport/tcp/frame.h"
#include "tests/fuzz/fuzz_input.h"

#define SLOT 300u
#define CREDITS 4u
#define RECEIVE_SLOTS (CREDITS + 1)
#define REGION 8192u
#define READS 5u
#define MARK 0xa5

struct run {
    struct fuzz_input *input;
    const struct okv_transport_ops *ops;
    struct okv_tcp_endpoint *endpoint;
    struct okv_tcp_conn *conn;
    int peer;
    bool is_client, has_closed;
    /* READs of a client, or rendezvous reads of a server: each has a part of `memory`. */
    uint8_t memory[REGION];
    unsigned begun, ended;
    bool has_ended[READS];
    struct okv_memory *registered;
    struct okv_advert *advert;
};

static uint32_t part_length(unsigned i)
{
    return 100 + i * 300;
}

static uint32_t part_offset(unsigned i)
{
    return 64 + i * 1536;
}

/* ---- what the connection is asked for ---- */

static void begin_one(struct run *run)
{
    unsigned i = run->begun;

    if (i == READS)
        return;
    run->begun++;
    if (run->is_client) {
        const struct okv_read read = {.offset = i,
                                      .destination = run->memory + part_offset(i),
                                      .memory = run->registered,
                                      .length = part_length(i),
                                      .cookie = i};
        run->begun -= run->ops->post_read(&run->conn->base, &read, 1) != 0;
    } else {
        const struct okv_rendezvous rendezvous = {
            .key = 1, .length = part_length(i), .offset = part_offset(i), .cookie = i};
        run->begun -= run->ops->rendezvous(&run->conn->base, &rendezvous) != 0;
    }
}

static void say_one(struct run *run)
{
    uint8_t *buffer = run->ops->send_buffer(&run->conn->base);

    if (!buffer)
        return;
    memset(buffer, 1, SLOT);
    run->ops->post_send(&run->conn->base, SLOT, 7);
    run->ops->flush(&run->conn->base);
}

/* ---- events ---- */

static void end_one(struct run *run, const struct okv_event *event)
{
    FUZZ_CHECK(event->cookie < run->begun && !run->has_ended[event->cookie]);
    FUZZ_CHECK(event->status <= 0);
    run->has_ended[event->cookie] = true;
    run->ended++;
}

static void take(struct run *run, const struct okv_event *event)
{
    FUZZ_CHECK(event->conn == &run->conn->base && !run->has_closed);
    switch (event->type) {
    case OKV_EVENT_RECV:
        FUZZ_CHECK(event->length <= SLOT);
        FUZZ_CHECK(event->slot < RECEIVE_SLOTS);
        run->ops->recv_release(&run->endpoint->base, event);
        break;
    case OKV_EVENT_READ:
        FUZZ_CHECK(run->is_client);
        end_one(run, event);
        break;
    case OKV_EVENT_RENDEZVOUS_DONE:
        FUZZ_CHECK(!run->is_client);
        end_one(run, event);
        break;
    case OKV_EVENT_CLOSED:
        FUZZ_CHECK(run->ended == run->begun && event->status < 0);
        run->has_closed = true;
        break;
    case OKV_EVENT_OPENED:
        FUZZ_CHECK(false);
    }
}

static void poll_some(struct run *run)
{
    struct okv_event events[3];
    int count;

    while (!run->has_closed &&
           (count = run->ops->poll(&run->endpoint->base, events, 1 + fuzz_u8(run->input) % 3)) > 0)
        for (int i = 0; i < count; i++)
            take(run, &events[i]);
}

/* ---- the peer ---- */

static void drain_peer(const struct run *run)
{
    uint8_t bytes[4096];

    while (recv(run->peer, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
}

static void say_bytes(struct run *run, const uint8_t *bytes, size_t length)
{
    while (length > 0 && !run->has_closed) {
        size_t part = 1 + fuzz_u8(run->input) * 8u;
        ssize_t n =
            send(run->peer, bytes, part < length ? part : length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            bytes += n;
            length -= (size_t)n;
        } else {
            drain_peer(run);
        }
        poll_some(run);
    }
}

/* One that there could be, mostly. */
static void say_frame(struct run *run)
{
    static uint8_t body[4096];
    struct fuzz_input *input = run->input;
    uint8_t header[OKV_TCP_HEADER];
    struct okv_tcp_frame frame = {.kind = (uint8_t)fuzz_below(input, 12),
                                  .slot = (uint16_t)(fuzz_u8(input) % 6)};

    frame.length = fuzz_u8(input) & 1 ? part_length(frame.slot) : (uint32_t)fuzz_number(input);
    if (frame.kind == OKV_TCP_MESSAGE || frame.kind == OKV_TCP_READ || frame.kind == OKV_TCP_FETCH)
        frame.value = fuzz_number(input);
    else if (frame.kind <= OKV_TCP_REJECT)
        frame.value = OKV_TCP_GREETING;
    if (frame.kind == OKV_TCP_MESSAGE)
        frame.slot = 0, frame.length %= SLOT + 2;
    if (frame.kind == OKV_TCP_REFUSAL || frame.kind == OKV_TCP_LIFE)
        frame.length = 0;
    okv_tcp_frame_put(header, &frame);
    say_bytes(run, header, sizeof header);
    if (frame.kind == OKV_TCP_MESSAGE || frame.kind == OKV_TCP_DATA || frame.kind == OKV_TCP_PIECE)
        say_bytes(run, body, frame.length < sizeof body ? frame.length : sizeof body);
}

/* ---- */

static void open_run(struct run *run)
{
    const struct okv_message_limits limits = {.slot_size = SLOT, .credits = CREDITS};
    int socks[2];

    memset(run->memory, MARK, sizeof run->memory);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, socks) == 0);
    FUZZ_CHECK(okv_tcp_endpoint_new(&limits, 1, &run->endpoint, NULL) == 0);
    FUZZ_CHECK(okv_tcp_conn_new(run->endpoint, &run->conn) == 0);
    FUZZ_CHECK(okv_stream_init(&run->conn->stream, socks[0], NULL, NULL) == 0);
    run->peer = socks[1];
    if (run->is_client)
        run->endpoint->client = run->conn;
    else
        run->conn->region = (struct okv_region){.base = run->memory, .length = REGION, .fd = -1};
    okv_tcp_conn_attach(run->conn);
    if (!run->is_client)
        return;
    run->conn->base.remote_length = REGION;
    FUZZ_CHECK(run->ops->memory_register(&run->endpoint->base, run->memory, REGION,
                                         &run->registered) == 0);
    FUZZ_CHECK(run->ops->advertise(&run->conn->base, "advertised", 10, &run->advert) == 0);
}

/* Bytes that no READ was for are as they were. */
static void check_memory(const struct run *run)
{
    for (uint32_t at = 0, i = 0; at < REGION; at++) {
        while (i < run->begun && at >= part_offset(i) + part_length(i))
            i++;
        if (i == run->begun || at < part_offset(i))
            FUZZ_CHECK(run->memory[at] == MARK);
    }
}

static void close_run(struct run *run)
{
    poll_some(run);
    close(run->peer);
    poll_some(run);
    FUZZ_CHECK(run->has_closed && run->ended == run->begun);
    check_memory(run);
    if (run->is_client) {
        run->ops->withdraw(run->advert, false);
        run->ops->memory_unregister(run->registered);
    }
    run->ops->conn_destroy(&run->conn->base);
    if (run->is_client)
        return;
    FUZZ_CHECK(run->endpoint->free_count == RECEIVE_SLOTS);
    okv_tcp_endpoint_free(run->endpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    static struct run run;

    run =
        (struct run){.input = &input, .ops = &okv_transport_tcp, .is_client = fuzz_u8(&input) & 1};
    open_run(&run);
    while (input.left > 0 && !run.has_closed) {
        switch (fuzz_below(&input, 8)) {
        case 1:
            begin_one(&run);
            break;
        case 2:
            say_one(&run);
            break;
        case 3:
            drain_peer(&run);
            break;
        default:
            say_frame(&run);
        }
        poll_some(&run);
    }
    drain_peer(&run);
    close_run(&run);
    return 0;
}
