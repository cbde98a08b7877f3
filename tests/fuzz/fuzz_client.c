/*
 * A whole handle against a hostile server: nothing that a server sends, or lets be READ, may
 * crash its client, keep it longer than its deadlines, or make it touch memory that is not
 * its own. The input says what the program calls and what the server does.
 */
#include <okv.h>

#include "shared/base/error.h"
#include "tests/fuzz/fuzz_hostile.h"
#include "tests/fuzz/fuzz_time.h"
#include "tests/fuzz/fuzz_transport.h"

#define CALLS_MAX 16
#define MANY 6
#define TIMEOUT_MS 50
#define VALUE_MAX 40000
/* Beyond the deadline: a wait that is under way, a look at the clock that is not taken. */
#define SLACK_NS UINT64_C(200000000)

struct program {
    struct fuzz_input *input;
    okv *handle;
    uint8_t *registered; /* VALUE_MAX bytes */
    okv_registration *registration;
    /* Values that the server may READ until the handle has another connection, and how many it
     * had had before. */
    uint8_t *kept[CALLS_MAX * MANY];
    uint64_t kept_at[CALLS_MAX * MANY];
    unsigned kept_count;
};

static const uint8_t value[VALUE_MAX];

static void check_status(int status)
{
    FUZZ_CHECK(status <= OKV_OK && status >= OKV_ERROR_LAST);
}

/* Every byte that a caller was given. */
static void look_at(const void *bytes, size_t length)
{
    volatile uint8_t sum = 0;

    for (size_t i = 0; i < length; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)bytes)[i]);
}

static const uint8_t *choose_key(struct program *program, size_t *length)
{
    uint32_t bytes;
    const uint8_t *key = hostile_key(fuzz_u8(program->input) % HOSTILE_KEYS, &bytes);

    *length = bytes;
    return key;
}

static size_t choose_length(struct program *program)
{
    uint8_t choice = fuzz_u8(program->input);

    return choice & 1 ? fuzz_u16(program->input) % VALUE_MAX : choice;
}

static uint64_t reconnects(const struct program *program)
{
    struct okv_counters counters;

    okv_counters(program->handle, &counters);
    return counters.reconnects;
}

/* The memory of an operation that has ended: after OKV_EUNKNOWN the server may still READ it. */
static void give_back(struct program *program, uint8_t *bytes, int status)
{
    if (status != OKV_EUNKNOWN) {
        free(bytes);
        return;
    }
    program->kept_at[program->kept_count] = reconnects(program);
    program->kept[program->kept_count++] = bytes;
}

static void give_back_kept(struct program *program, uint64_t reconnects)
{
    unsigned count = program->kept_count;

    program->kept_count = 0;
    for (unsigned i = 0; i < count; i++) {
        if (program->kept_at[i] < reconnects) {
            free(program->kept[i]);
            continue;
        }
        program->kept_at[program->kept_count] = program->kept_at[i];
        program->kept[program->kept_count++] = program->kept[i];
    }
}

/* ---- calls ---- */

static void call_get(struct program *program)
{
    struct okv_info info;
    size_t key_length, size = choose_length(program), length = 0;
    const uint8_t *key = choose_key(program, &key_length);
    uint8_t *own = malloc(size ? size : 1);
    uint8_t *buffer =
        fuzz_u8(program->input) & 1 && program->registration ? program->registered : own;

    FUZZ_CHECK(own);
    int rc = okv_get(program->handle, key, key_length, buffer, size, &length, NULL);
    check_status(rc);
    okv_info(program->handle, &info);
    if (rc == OKV_OK || rc == OKV_ETOOSMALL)
        FUZZ_CHECK(length <= info.max_value && (length <= size) == (rc == OKV_OK));
    if (rc == OKV_OK)
        look_at(buffer, length);
    free(own);
}

static void call_many(struct program *program)
{
    static const uint32_t kinds[8] = {OKV_HEAD, OKV_GET,    OKV_GET,  OKV_GET_RANGE,
                                      OKV_PUT,  OKV_DELETE, OKV_INCR, OKV_PUT};
    struct okv_command commands[MANY];
    struct okv_result results[MANY];
    uint8_t *buffers[MANY];

    memset(commands, 0, sizeof commands);
    for (unsigned i = 0; i < MANY; i++) {
        size_t size = choose_length(program);
        buffers[i] = malloc(size ? size : 1);
        FUZZ_CHECK(buffers[i]);
        commands[i].kind = kinds[fuzz_u8(program->input) % 8];
        commands[i].key = choose_key(program, &commands[i].key_length);
        if (commands[i].kind == OKV_GET || commands[i].kind == OKV_GET_RANGE) {
            commands[i].buffer = buffers[i];
            commands[i].buffer_size = size;
        }
        if (commands[i].kind == OKV_PUT) {
            commands[i].value = value;
            commands[i].value_length = size;
        }
        if (commands[i].kind == OKV_GET_RANGE)
            commands[i].offset = fuzz_number(program->input) >> fuzz_u8(program->input) % 64;
    }
    int rc = okv_call_many(program->handle, commands, results, MANY);
    check_status(rc);
    for (unsigned i = 0; i < MANY; i++) {
        if (rc != OKV_EINVAL)
            check_status(results[i].status);
        if (rc == OKV_OK && results[i].status == OKV_OK && commands[i].kind == OKV_GET)
            look_at(buffers[i], results[i].length);
        free(buffers[i]);
    }
}

static void call_head(struct program *program)
{
    struct okv_item_info info;
    size_t key_length;
    const uint8_t *key = choose_key(program, &key_length);

    check_status(okv_head(program->handle, key, key_length, &info));
}

/* A value on the heap, so that ASan knows when it is gone. */
static void call_put(struct program *program)
{
    uint8_t choice = fuzz_u8(program->input);
    size_t key_length, length = choose_length(program);
    const uint8_t *key = choose_key(program, &key_length);
    uint8_t *bytes = calloc(1, length ? length : 1);
    struct okv_put_options options = {.flags = choice & 15};

    FUZZ_CHECK(bytes);
    if (choice & OKV_IF_VERSION)
        options.version = choice;
    if (choice & OKV_WITH_TTL)
        options.ttl_ms = 1 + choice;
    int rc = okv_put_with(program->handle, key, key_length, bytes, length, &options, NULL);
    check_status(rc);
    give_back(program, bytes, rc);
}

static void call_change(struct program *program)
{
    uint8_t choice = fuzz_u8(program->input);
    size_t key_length, length = choose_length(program), whole;
    const uint8_t *key = choose_key(program, &key_length);
    okv *handle = program->handle;
    int64_t sum;

    switch (choice % 6) {
    case 0:
        check_status(okv_delete(handle, key, key_length));
        break;
    case 1:
        check_status(okv_delete_if(handle, key, key_length, 1 + choice));
        break;
    case 2:
        check_status(okv_incr(handle, key, key_length, choice - 100, &sum, NULL));
        break;
    case 3:
        check_status(okv_append(handle, key, key_length, value, length, &whole, NULL));
        break;
    case 4:
        check_status(okv_touch(handle, key, key_length, 1 + choice, NULL));
        break;
    default:
        check_status(okv_ping(handle));
        break;
    }
}

static void call_stat(struct program *program)
{
    size_t size = choose_length(program), length = 0;
    char *text = malloc(size ? size : 1);

    FUZZ_CHECK(text);
    if (okv_stat(program->handle, text, size, &length) == OKV_OK) {
        FUZZ_CHECK(length < size && text[length] == '\0');
        look_at(text, length);
    }
    free(text);
}

static int visit(void *user, const struct okv_item *item)
{
    unsigned *left = user;

    look_at(item->key, item->key_length);
    look_at(item->value, item->value_length);
    FUZZ_CHECK(item->key_length >= 1 && item->key_length <= OKV_KEY_MAX_BYTES);
    return (*left)-- == 0;
}

static void call_scan(struct program *program)
{
    unsigned left = fuzz_u8(program->input);
    uint64_t cursor = fuzz_u8(program->input) & 1 ? fuzz_number(program->input) : 0;

    okv_scan_from(program->handle, &cursor, visit, &left);
}

static void submit_one(struct program *program, uint8_t **memory, uint64_t tag)
{
    struct okv_command command = {.tag = tag};
    uint8_t choice = fuzz_u8(program->input);
    size_t size = choose_length(program);

    command.kind = 1 + choice % 10;
    command.key = choose_key(program, &command.key_length);
    *memory = calloc(1, size ? size : 1);
    FUZZ_CHECK(*memory);
    if (command.kind == OKV_GET || command.kind == OKV_GET_TOUCH) {
        command.buffer = *memory;
        command.buffer_size = size;
        command.ttl_ms = command.kind == OKV_GET ? 0 : 1 + choice;
    } else if (command.kind == OKV_GET_RANGE) {
        command.buffer = *memory;
        command.buffer_size = size;
        command.offset = fuzz_number(program->input);
    } else if (command.kind == OKV_PUT || command.kind == OKV_APPEND) {
        command.value = *memory;
        command.value_length = size;
    } else if (command.kind == OKV_INCR) {
        command.delta = choice;
    } else if (command.kind == OKV_TOUCH) {
        command.ttl_ms = OKV_TTL_NONE;
    } else if (command.kind == OKV_PING) {
        command.key = NULL;
        command.key_length = 0;
        command.value = choice & 16 ? *memory : NULL;
        command.value_length = choice & 16 ? size : 0;
    }
    command.timeout_ms = choice >> 6 ? TIMEOUT_MS : 1;
    int rc = okv_submit(program->handle, &command, 1, NULL);
    check_status(rc);
}

/* Each operation that was taken has one result, after its deadline at the latest. */
static void call_submit(struct program *program)
{
    uint8_t *memory[MANY];
    int status[MANY] = {0};
    struct okv_result results[4];
    uint64_t begin = fuzz_time_ns();
    unsigned count = 1 + fuzz_below(program->input, MANY);

    for (unsigned i = 0; i < count; i++)
        submit_one(program, &memory[i], i);
    while (okv_pending(program->handle) > 0) {
        okv_wait(program->handle, TIMEOUT_MS);
        int n = okv_poll(program->handle, results, 4);
        for (int i = 0; i < n; i++) {
            check_status(results[i].status);
            FUZZ_CHECK(results[i].tag < count);
            status[results[i].tag] = results[i].status;
        }
        FUZZ_CHECK(fuzz_time_ns() - begin < 20 * TIMEOUT_MS * UINT64_C(1000000) + SLACK_NS);
        if (n < 0)
            break;
    }
    FUZZ_CHECK(okv_pending(program->handle) == 0);
    for (unsigned i = 0; i < count; i++)
        give_back(program, memory[i], status[i]);
}

static void call_others(struct program *program)
{
    uint8_t choice = fuzz_u8(program->input);
    struct okv_counters counters;
    struct okv_info info;
    uint64_t latencies[8];

    switch (choice % 4) {
    case 0:
        okv_info(program->handle, &info);
        look_at(info.path, strlen(info.path));
        break;
    case 1:
        okv_counters(program->handle, &counters);
        break;
    case 2:
        check_status(
            okv_bench_read(program->handle, 1 + choice * 16u, 8, 1 + choice % 4, latencies, NULL));
        break;
    default:
        if (!program->registration)
            check_status(okv_register(program->handle, program->registered, VALUE_MAX,
                                      &program->registration));
        else
            okv_unregister(program->handle, &program->registration);
        break;
    }
}

/* ---- a program ---- */

typedef void call_function(struct program *program);

static void call_flush(struct program *program)
{
    check_status(okv_flush(program->handle));
}

/* Which of them end by the handle's timeout. */
static const struct {
    call_function *call;
    bool is_limited;
} calls[] = {
    {call_get, true},    {call_get, true},     {call_many, false},  {call_many, false},
    {call_head, true},   {call_put, true},     {call_change, true}, {call_change, true},
    {call_stat, true},   {call_scan, false},   {call_scan, false},  {call_submit, false},
    {call_flush, false}, {call_others, false}, {call_put, true},    {call_get, true},
};

static void run(struct program *program)
{
    for (unsigned n = 0; n < CALLS_MAX && program->input->left > 0; n++) {
        unsigned which = fuzz_u8(program->input) % (sizeof calls / sizeof *calls);
        uint64_t begin = fuzz_time_ns();
        unsigned outside = fuzz_transport_reads_outside();
        calls[which].call(program);
        /* A scan leaves it to the transport; whoever looks a key up does not. */
        FUZZ_CHECK(calls[which].call == call_scan || calls[which].call == call_others ||
                   fuzz_transport_reads_outside() == outside);
        if (calls[which].is_limited)
            FUZZ_CHECK(fuzz_time_ns() - begin < TIMEOUT_MS * UINT64_C(1000000) + SLACK_NS);
        look_at(okv_why(program->handle), strlen(okv_why(program->handle)));
        give_back_kept(program, reconnects(program));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct hostile server;
    struct fuzz_input input = {data, size};
    struct program program = {.input = &input};
    char why[320] = "";
    uint8_t choice = fuzz_u8(&input);
    const struct okv_options options = {
        .connect_timeout_ms = TIMEOUT_MS,
        .timeout_ms = TIMEOUT_MS,
        .depth = 1 + choice % 8,
        .credits = 1 + (choice >> 3) % 8,
        .hints = choice & 0x40 ? OKV_HINTS_NONE : 8,
        .reconnect = choice & 0x80 ? OKV_RECONNECT_NEVER : 0,
        .keepalive_ms = choice & 1 ? TIMEOUT_MS : 0,
    };

    hostile_init(&server, &input);
    fuzz_transport_reset(&server);
    fuzz_time_begin(fuzz_transport_is_ready, NULL);
    int rc = okv_open("local:///hostile", &options, &program.handle, why, sizeof why);
    check_status(rc);
    FUZZ_CHECK((rc == OKV_OK) == (program.handle != NULL));
    FUZZ_CHECK((rc == OKV_OK) == (why[0] == '\0'));
    program.registered = malloc(VALUE_MAX);
    FUZZ_CHECK(program.registered);
    if (rc == OKV_OK)
        run(&program);
    okv_close(&program.handle);
    fuzz_transport_check_end();
    give_back_kept(&program, UINT64_MAX);
    free(program.registered);
    fuzz_time_end();
    return 0;
}
