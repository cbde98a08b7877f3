/*
 * The floor under a put: what a round trip takes whose server, before it answers, does nothing, or
 * does what no put can leave out if readers are to trust what they READ, written as barely as
 * possible; and, at the end, what the store does.
 *
 *   put_parts -s URI [--memory SIZE] [--items N] [--messages N] [--rounds R]
 *
 * The table is a store's, with items of 16-byte keys and 32-byte values; each message overwrites
 * the value of an item chosen at random. Each case but the last does what the one before does, and
 * more:
 *
 *   copy       the lines in use of a bucket at random are copied out and back
 *   checksum   of the copy, in between
 *   hash       the bucket is that of the key
 *   item       it is found among the others, all of which get older by one, and its value replaced
 *   lane       the sequence of the request is compared with its lane's last, the answer kept there
 *   store      okv_store_put() instead, on which the two before fall back where an item is not
 * small or an age takes a further byte
 *
 * The echo is barer than kv-bench's, which goes through okv's client and server. Beside a figure of
 * kv-bench it is the difference to the echo that counts, in us, and not the ratio.
 *
 * Listens at the URI itself and connects to it; the server is a thread of its own. Messages and
 * replies have the sizes of such a put, one at a time; both sides poll without sleeping, and wait
 * as okv's do while they are awake. Each round measures every case in slices by turns, each time in
 * another order; ratios are of medians, within a round.
 */
#include <argp.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/region.h"
#include "server/store/store.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/size.h"
#include "shared/base/uri.h"
#include "shared/format/hash.h"
#include "shared/format/wire.h"
#include "tests/figures/figure.h"
#include "tests/support/random.h"

#define BUCKET_SIZE 512u
#define KEY_SIZE 16u
#define VALUE_SIZE 32u
#define MEMORY_MIN (UINT64_C(1) << 20)
#define MEMORY_MAX (UINT64_C(1) << 40)
#define ITEMS_MAX (UINT64_C(1) << 32)
/* As a server and a client have them unless they are told otherwise. */
#define CREDITS 16
/* Messages in a slice: so few that what disturbs a machine disturbs all cases. */
#define SLICE 256u
#define MESSAGES_MAX 1000000u
#define EVENTS 8
/* Polls that find nothing before a client lets others run in between. */
#define HOT_POLLS 32
#define CONNECT_NS UINT64_C(10000000000)
#define CLOSE_NS UINT64_C(5000000000)

struct options {
    const char *uri;
    uint64_t rounds, messages, memory, items;
};

/* As long as the request of a put. */
struct message {
    uint64_t part; /* which case: the server's order */
    uint64_t sequence;
    uint64_t bucket; /* any random number, for the cases that look for no key */
    uint8_t rest[OKV_REQUEST_HEADER - 3 * sizeof(uint64_t)];
    uint64_t key[KEY_SIZE / sizeof(uint64_t)];
    uint8_t value[VALUE_SIZE];
};
_Static_assert(sizeof(struct message) == OKV_REQUEST_HEADER + KEY_SIZE + VALUE_SIZE,
               "a put's request");

struct reply {
    uint64_t part;
    uint8_t rest[OKV_REPLY_HEADER - sizeof(uint64_t)];
};
_Static_assert(sizeof(struct reply) == OKV_REPLY_HEADER, "a put's reply");

static const struct okv_message_limits limits = {OKV_SLOT_SIZE_DEFAULT, CREDITS};
static const uint8_t greeting[] = "put_parts";

static _Noreturn void fail(const char *what, int code, const char *why)
{
    fprintf(stderr, "put_parts: %s: %s\n", what, why && *why ? why : okv_error_text(code));
    exit(1);
}

/* ---- the server: what it does before it answers ---- */

struct server {
    struct okv_exposed_region region;
    struct okv_store store;
    struct okv_listener *listener;
    struct okv_endpoint *endpoint;
    pthread_t thread;
    atomic_bool stopping;
    /* The thread's. */
    struct okv_store_work work;
    struct okv_conn *conn;
    uint64_t lane_sequence, lane_version;
    _Alignas(64) uint8_t image[BUCKET_SIZE];
};

typedef void part_function(struct server *server, const struct message *message);

static uint8_t *published(const struct server *server, uint64_t bucket)
{
    const struct okv_table *table = &server->store.table;

    return table->base + okv_table_bucket_offset(table, bucket);
}

static uint64_t bucket_at_random(struct server *server, const struct message *message)
{
    return message->bucket % atomic_load(&server->store.bucket_count);
}

static uint64_t bucket_of_key(struct server *server, const struct message *message)
{
    uint64_t hash = okv_hash_key(message->key, KEY_SIZE, server->store.table.hash_seed);

    return okv_linear_bucket(hash, atomic_load(&server->store.bucket_count));
}

/* Bytes of an image from its beginning to the end of its last entry. */
static uint32_t image_length(const uint8_t *image)
{
    return (uint32_t)sizeof(struct okv_wire_bucket) + okv_bucket_used(image);
}

static void seal(struct server *server, uint64_t bucket)
{
    okv_bucket_seal(server->image, image_length(server->image), server->store.table.boot_id,
                    bucket);
}

/* An image with a chain, or an entry that is not a small item or whose age needs a further byte,
 * takes more than this; the table of this program has few of them. */
static bool replace_value(uint8_t *image, const struct message *message)
{
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
    uint8_t *end = image + image_length(image);
    uint8_t *value = NULL;

    header->version = okv_le48_of(okv_bucket_version(image) + 1);
    for (uint8_t *entry = image + sizeof *header; entry < end;) {
        uint8_t *key = entry + 4;
        if (entry[0] != OKV_ENTRY_INLINE || ++entry[3] == 0)
            return false;
        entry = key + entry[1] + entry[2];
        if (memcmp(key, message->key, KEY_SIZE) == 0) {
            value = key + KEY_SIZE;
            key[-1] = 0;
        }
    }
    if (!value)
        return false;
    memcpy(value, message->value, VALUE_SIZE);
    return okv_bucket_chain(image) == 0;
}

static void do_nothing(struct server *server, const struct message *message)
{
    (void)server, (void)message;
}

static void do_copy(struct server *server, const struct message *message)
{
    uint8_t *bucket = published(server, bucket_at_random(server, message));
    uint32_t length = image_length(bucket);

    okv_bucket_copy(server->image, bucket, length);
    okv_bucket_copy(bucket, server->image, length);
}

static void checksum_bucket(struct server *server, uint64_t number)
{
    uint8_t *bucket = published(server, number);
    uint32_t length = image_length(bucket);

    okv_bucket_copy(server->image, bucket, length);
    seal(server, number);
    okv_bucket_copy(bucket, server->image, length);
}

static void do_checksum(struct server *server, const struct message *message)
{
    checksum_bucket(server, bucket_at_random(server, message));
}

static void do_hash(struct server *server, const struct message *message)
{
    checksum_bucket(server, bucket_of_key(server, message));
}

static void do_store(struct server *server, const struct message *message)
{
    const struct okv_store_write write = {
        .key = message->key,
        .key_length = KEY_SIZE,
        .value = message->value,
        .value_length = VALUE_SIZE,
    };
    struct okv_store_outcome outcome;
    int rc = okv_store_put(&server->store, &server->work, &write, &outcome);

    if (rc)
        fail("a put", rc, NULL);
    server->lane_version = outcome.version;
}

static void do_item(struct server *server, const struct message *message)
{
    uint64_t number = bucket_of_key(server, message);
    uint8_t *bucket = published(server, number);
    uint32_t length = image_length(bucket);

    okv_bucket_copy(server->image, bucket, length);
    if (replace_value(server->image, message)) {
        seal(server, number);
        okv_bucket_copy(bucket, server->image, length);
        server->lane_version = okv_bucket_version(server->image);
    } else {
        do_store(server, message);
    }
}

static void do_lane(struct server *server, const struct message *message)
{
    if (message->sequence <= server->lane_sequence)
        return;
    server->lane_sequence = message->sequence;
    do_item(server, message);
}

enum { NOTHING, COPY, CHECKSUM, HASH, ITEM, LANE, STORE, PARTS };

static const char *const part_names[PARTS] = {
    [NOTHING] = "echo: nothing before the answer",
    [COPY] = "a bucket copied from and to a random place",
    [CHECKSUM] = "the same, and its checksum in between",
    [HASH] = "the same, and the hash of the key",
    [ITEM] = "the same, the item found and its value replaced",
    [LANE] = "the same, and its lane looked at",
    [STORE] = "okv_store_put()",
};

static part_function *const part_works[PARTS] = {
    [NOTHING] = do_nothing, [COPY] = do_copy, [CHECKSUM] = do_checksum, [HASH] = do_hash,
    [ITEM] = do_item,       [LANE] = do_lane, [STORE] = do_store,
};

/* ---- the server: messages ---- */

static void answer(struct server *server, const struct okv_event *event)
{
    const struct okv_transport_ops *ops = event->conn->ops;
    struct message message;

    if (event->length != sizeof message)
        fail("a message", OKV_EPROTO, NULL);
    memcpy(&message, event->data, sizeof message);
    if (message.part >= PARTS)
        fail("a message", OKV_EPROTO, NULL);
    part_works[message.part](server, &message);

    const struct reply reply = {.part = message.part};
    uint8_t *out = ops->send_buffer(event->conn); /* one at a time: there is one */
    if (!out)
        fail("a reply", OKV_EAGAIN, NULL);
    memcpy(out, &reply, sizeof reply);
    int rc = ops->post_send(event->conn, sizeof reply, event->immediate | OKV_IMMEDIATE_REPLY);
    if (rc)
        fail("a reply", rc, NULL);
    ops->recv_release(event->conn->endpoint, event);
    ops->flush(event->conn);
}

/* Accepts a client. */
static void admit(struct server *server)
{
    const struct okv_transport_ops *ops = server->listener->ops;
    struct okv_request *request;

    while (ops->next_request(server->listener, &request) > 0)
        if (ops->accept(request, server->endpoint, server, greeting, sizeof greeting))
            ops->reject(request, NULL, 0);
}

static void turn(struct server *server)
{
    struct okv_event events[EVENTS];
    int n = server->endpoint->ops->poll(server->endpoint, events, EVENTS);

    if (n < 0)
        fail("the server's endpoint", n, NULL);
    for (int i = 0; i < n; i++) {
        if (events[i].type == OKV_EVENT_RECV) {
            answer(server, &events[i]);
        } else if (events[i].type == OKV_EVENT_OPENED) {
            server->conn = events[i].conn;
        } else if (events[i].type == OKV_EVENT_CLOSED) {
            events[i].conn->ops->conn_destroy(events[i].conn);
            server->conn = NULL;
        }
    }
    if (n > 0)
        return;
    /* It would be a call to the system in every turn of a measurement. */
    if (!server->conn)
        admit(server);
    sched_yield();
}

static void *serve(void *user)
{
    struct server *server = user;

    while (!atomic_load_explicit(&server->stopping, memory_order_relaxed))
        turn(server);
    if (server->conn)
        server->conn->ops->close(server->conn);
    for (uint64_t end = okv_clock_ns() + CLOSE_NS; server->conn && okv_clock_ns() < end;) {
        turn(server);
        admit(server); /* a transport may learn here that a client is gone */
    }
    if (server->conn)
        fail("the server's end", OKV_ETIMEDOUT, NULL);
    return NULL;
}

/* Of item `number`. */
static void key_of(uint64_t number, uint64_t key[2])
{
    key[0] = random_mix(number);
    key[1] = number;
}

static void fill_table(struct server *server, const struct options *options)
{
    const struct okv_store_params params = {
        .base = server->region.base,
        .length = server->region.length,
        .bucket_size = BUCKET_SIZE,
        .max_value = 1u << 20,
        .boot_id = 1,
        .hash_seed = 1,
        .one_thread = true,
    };
    struct message message = {.part = STORE};
    int rc = okv_store_init(&server->store, &params);

    if (!rc)
        rc = okv_store_work_init(&server->work, BUCKET_SIZE);
    if (rc)
        fail("the table", rc, NULL);
    for (uint64_t i = 0; i < options->items; i++) {
        key_of(i, message.key);
        do_store(server, &message);
    }
}

static void server_start(struct server *server, const struct options *options,
                         const struct okv_uri *uri)
{
    const struct okv_transport_ops *ops = okv_transport_for(uri->scheme);
    struct okv_diag diag = {""};
    int rc = okv_region_create(options->memory, OKV_REGION_SMALL, false, &server->region, &diag);

    if (rc)
        fail("the table", rc, diag.text);
    fill_table(server, options);
    rc = ops->listen(uri, &server->region, &server->listener, &diag);
    if (!rc)
        rc = ops->endpoint_create(server->listener, &limits, 1, &server->endpoint, &diag);
    if (rc)
        fail("listen", rc, diag.text);
    if (pthread_create(&server->thread, NULL, serve, server))
        fail("the server's thread", OKV_ENOMEM, NULL);
}

static void server_stop(struct server *server)
{
    const struct okv_transport_ops *ops = server->listener->ops;

    atomic_store(&server->stopping, true);
    pthread_join(server->thread, NULL);
    ops->endpoint_destroy(server->endpoint);
    ops->unlisten(server->listener);
    okv_store_work_fini(&server->work);
    okv_store_fini(&server->store);
    okv_region_destroy(&server->region);
}

/* ---- the client ---- */

struct meter {
    const struct options *options;
    struct okv_conn *conn;
    uint64_t random, sequence;
    uint64_t messages;        /* of each case in a round: whole slices */
    uint64_t *samples[PARTS]; /* [messages] */
};

static void client_connect(struct meter *meter, const struct okv_uri *uri,
                           const struct server *server)
{
    const struct okv_transport_ops *ops = server->listener->ops;
    const struct okv_connect_params params = {
        .hello = greeting,
        .hello_length = sizeof greeting,
        .limits = limits,
        .deadline_ns = okv_clock_ns() + CONNECT_NS,
    };
    struct okv_welcome welcome;
    struct okv_diag diag = {""};
    int rc = ops->connect(uri, &params, &welcome, &meter->conn, &diag);

    if (!rc)
        rc = ops->set_remote(meter->conn, 0, server->region.length, server->listener->rkey);
    if (rc)
        fail("connect", rc, diag.text);
}

/* Waits for the reply. */
static void await_reply(struct meter *meter)
{
    const struct okv_transport_ops *ops = meter->conn->ops;
    struct okv_event event;
    int n;

    for (unsigned polls = 0; (n = ops->poll(meter->conn->endpoint, &event, 1)) == 0; polls++)
        if (polls >= HOT_POLLS)
            sched_yield();
    if (n < 0 || event.type != OKV_EVENT_RECV || event.length != sizeof(struct reply))
        fail("a reply", n < 0 ? n : OKV_EDISCONNECTED, meter->conn->failure);
    ops->recv_release(meter->conn->endpoint, &event);
}

/* Nanoseconds. */
static uint64_t measure_message(struct meter *meter, unsigned part)
{
    const struct okv_transport_ops *ops = meter->conn->ops;
    struct message message = {
        .part = part,
        .sequence = ++meter->sequence,
        .bucket = random_next(&meter->random),
    };

    key_of(random_below(&meter->random, meter->options->items), message.key);
    uint64_t begun = okv_clock_ns();
    uint8_t *out = ops->send_buffer(meter->conn);

    if (!out)
        fail("a message", OKV_EAGAIN, NULL);
    memcpy(out, &message, sizeof message);
    int rc = ops->post_send(meter->conn, sizeof message, okv_immediate(OKV_OP_PUT, 0));
    if (rc)
        fail("a message", rc, meter->conn->failure);
    ops->flush(meter->conn);
    await_reply(meter);
    return okv_clock_ns() - begun;
}

/* ---- rounds ---- */

/* The medians of a round, in us. */
static void run_round(struct meter *meter, double times[PARTS])
{
    for (uint64_t slice = 0; slice < meter->messages / SLICE; slice++)
        for (unsigned i = 0; i < PARTS; i++) {
            unsigned at = (unsigned)(slice / 2 + i) % PARTS;
            unsigned part = slice % 2 ? PARTS - 1 - at : at;
            for (unsigned k = 0; k < SLICE; k++)
                meter->samples[part][slice * SLICE + k] = measure_message(meter, part);
        }
    for (unsigned i = 0; i < PARTS; i++)
        times[i] = (double)figure_median_time(meter->samples[i], meter->messages) / 1000;
}

static void compare_parts(struct meter *meter)
{
    static double times[FIGURE_ROUNDS_MAX][PARTS];
    uint64_t rounds = meter->options->rounds;

    for (unsigned i = 0; i < PARTS * SLICE; i++) /* finds the caches */
        measure_message(meter, i % PARTS);
    for (uint64_t round = 0; round < rounds; round++)
        run_round(meter, times[round]);
    figure_print_cases(&(struct figure_cases){part_names, &times[0][0], PARTS, rounds}, false);
}

static void meter_init(struct meter *meter, const struct options *options)
{
    meter->options = options;
    meter->random = random_seed();
    meter->messages = options->messages / SLICE * SLICE;
    for (unsigned i = 0; i < PARTS; i++) {
        meter->samples[i] = calloc(meter->messages, sizeof *meter->samples[i]);
        if (!meter->samples[i])
            fail("start", OKV_ENOMEM, NULL);
    }
}

static void meter_fini(struct meter *meter)
{
    for (unsigned i = 0; i < PARTS; i++)
        free(meter->samples[i]);
}

/* ---- options ---- */

enum option_key { OPTION_MEMORY = 256, OPTION_ITEMS, OPTION_MESSAGES, OPTION_ROUNDS };

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 's':
        options->uri = text;
        return 0;
    case OPTION_MEMORY:
        if (okv_size_parse(text, &options->memory) || options->memory < MEMORY_MIN ||
            options->memory > MEMORY_MAX)
            argp_error(state, "--memory: %s: give a size from 1M to 1T", text);
        return 0;
    case OPTION_ITEMS:
        if (okv_size_parse(text, &options->items) || options->items == 0 ||
            options->items > ITEMS_MAX)
            argp_error(state, "--items: %s: give a number from 1 to 4G", text);
        return 0;
    case OPTION_MESSAGES:
        options->messages = figure_number(text, SLICE, MESSAGES_MAX, state);
        return 0;
    case OPTION_ROUNDS:
        options->rounds = figure_number(text, 1, FIGURE_ROUNDS_MAX, state);
        return 0;
    case ARGP_KEY_END:
        if (!options->uri)
            argp_error(state, "say where to listen: -s URI");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"server", 's', "URI", 0, "Where to listen and to connect: an address of this machine", 0},
        {"memory", OPTION_MEMORY, "SIZE", 0, "The region (1G)", 0},
        {"items", OPTION_ITEMS, "N", 0, "Items in the table (1M)", 0},
        {"messages", OPTION_MESSAGES, "N", 0, "Of each case in a round (4096)", 0},
        {"rounds", OPTION_ROUNDS, "R", 0, "Of measurements (11)", 0},
        {0},
    };
    static const struct argp parser = {
        .options = known,
        .parser = parse_option,
        .doc = "Measures what no put can do without, beside an echo of the same size."};
    static struct server server;
    static struct meter meter;
    struct options options = {
        .rounds = 11, .messages = 4096, .memory = UINT64_C(1) << 30, .items = 1u << 20};
    struct okv_uri uri;
    struct okv_diag diag = {""};

    argp_parse(&parser, argc, argv, 0, NULL, &options);
    int rc = okv_uri_parse(options.uri, &uri, &diag);
    if (rc)
        fail(options.uri, rc, diag.text);
    meter_init(&meter, &options);
    server_start(&server, &options, &uri);
    client_connect(&meter, &uri, &server);
    compare_parts(&meter);
    meter.conn->ops->conn_destroy(meter.conn);
    server_stop(&server);
    meter_fini(&meter);
    return 0;
}
