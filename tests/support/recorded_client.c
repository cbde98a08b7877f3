#include "tests/support/recorded_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/base/clock.h"
#include "tests/support/numbered_value.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/random.h"

#define DEPTH_MAX 32
#define MANY 8 /* keys that are read at once */
/* Operations of one client on one key at once. Sixteen clients then stay within what the checker
 * can follow, however long the server keeps them. */
#define SAME_KEY_MAX 4
#define WAIT_MS 1000
#define REOPEN_PAUSE_NS 50000000

/* In the order of recorded_kind_name(). */
enum recorded_kind { DO_GET, DO_HEAD, DO_PUT, DO_CAS, DO_ADD, DO_DELETE, DO_DELETE_IF, DO_INCR };

const char *recorded_kind_name(unsigned kind)
{
    static const char *const names[RECORDED_KINDS] = {"get", "head",   "put",       "cas",
                                                      "add", "delete", "delete-if", "incr"};

    return kind < RECORDED_KINDS ? names[kind] : "?";
}

/* Short keys and such as stay in their bucket with no value, or go to the extent. */
void recorded_load_init(struct recorded_load *load)
{
    for (unsigned i = 0; i < RECORDED_KEYS; i++) {
        struct recorded_key *key = &load->keys[i];
        memset(key->bytes, 'a' + (int)(i % 26), sizeof key->bytes);
        int n = snprintf((char *)key->bytes, sizeof key->bytes, "hot%02u", i);
        key->bytes[n] = '.';
        key->length = i % 16 == 3 ? RECORDED_KEY_MAX : i % 8 == 7 ? 200 : i % 8 == 5 ? 60 : 6;
    }
}

static bool is_counter(uint32_t key)
{
    return key >= RECORDED_REGISTERS;
}

static unsigned under_way(const struct recorded_client *client, uint32_t key)
{
    unsigned count = 0;

    for (unsigned i = 0; i < DEPTH_MAX; i++)
        count += client->slots[i].busy && client->slots[i].record.key == key;
    return count;
}

/* Half of all operations are about few keys. */
static uint32_t choose_key(struct recorded_client *client)
{
    for (;;) {
        uint64_t chance = random_next(&client->random);
        uint64_t key =
            chance % 2 ? chance / 2 % RECORDED_KEYS : chance / 2 % 8 * (RECORDED_KEYS / 8);
        if (under_way(client, (uint32_t)key) < SAME_KEY_MAX)
            return (uint32_t)key;
    }
}

/* Of keys that are never deleted a miss is wrong whatever else went on at the time. */
static bool is_kept(uint32_t key)
{
    return key / 8 % 2;
}

static enum recorded_kind choose_write(struct recorded_client *client, uint32_t key)
{
    uint64_t percent = random_below(&client->random, 100);
    bool seen = client->latest[key] != 0;

    if (is_counter(key))
        return percent < 95 || is_kept(key) ? DO_INCR : DO_DELETE;
    if (percent < 40)
        return DO_PUT;
    if (percent < 65)
        return seen ? DO_CAS : DO_PUT;
    if (percent < 80)
        return DO_ADD;
    if (is_kept(key))
        return DO_PUT;
    return percent < 90 || !seen ? DO_DELETE : DO_DELETE_IF;
}

static enum recorded_kind choose_kind(struct recorded_client *client, uint32_t key)
{
    uint64_t percent =
        random_below(&client->random, client->index < client->load->readers ? 57 : 100);

    return percent < 52 ? DO_GET : percent < 57 ? DO_HEAD : choose_write(client, key);
}

static void command_write(struct recorded_client *client, struct recorded_slot *slot,
                          enum recorded_kind kind, struct okv_command *command)
{
    struct history_record *record = &slot->record;

    /* The first number is not 0, and no two clients share one. */
    record->argument = (uint64_t)(client->index + 1) << 40 | ++client->numbers;
    numbered_value_fill(slot->value, record->key, record->argument);
    command->kind = OKV_PUT;
    command->value = slot->value;
    command->value_length = numbered_value_length(record->key, record->argument);
    record->kind = HISTORY_PUT;
    if (kind == DO_ADD) {
        record->kind = HISTORY_ADD;
        command->flags = OKV_IF_ABSENT;
    } else if (kind == DO_CAS) {
        record->kind = HISTORY_CAS;
        record->expected = command->version = client->latest[record->key];
        command->flags = OKV_IF_VERSION;
    }
}

/* Decides on an operation: the command, and its record but for the time and what comes of it. */
static void choose(struct recorded_client *client, struct recorded_slot *slot,
                   enum recorded_kind kind, uint32_t key, struct okv_command *command)
{
    *command = (struct okv_command){
        .kind = OKV_GET,
        .tag = (uint64_t)(slot - client->slots),
        .key = client->load->keys[key].bytes,
        .key_length = client->load->keys[key].length,
    };
    slot->record = (struct history_record){.key = key, .kind = HISTORY_GET};
    slot->busy = true;
    client->kinds[kind]++;
    switch (kind) {
    case DO_GET:
        command->buffer = slot->buffer;
        command->buffer_size = NUMBERED_VALUE_MAX;
        break;
    case DO_HEAD:
        command->kind = OKV_HEAD;
        slot->record.argument = 1;
        break;
    case DO_INCR:
        command->kind = OKV_INCR;
        /* Few deltas: sums of many by unknown ones are hard for the checker. */
        command->delta = random_below(&client->random, 8) ? 1 : -1000;
        if (random_below(&client->random, 2)) { /* an item that it makes outlives the test */
            command->flags = OKV_WITH_TTL;
            command->ttl_ms = OKV_TTL_MAX_MS;
        }
        slot->record.kind = HISTORY_INCR;
        slot->record.argument = (uint64_t)command->delta;
        break;
    case DO_DELETE_IF:
        command->flags = OKV_IF_VERSION;
        slot->record.expected = command->version = client->latest[key];
        /* fall through */
    case DO_DELETE:
        command->kind = OKV_DELETE;
        slot->record.kind = HISTORY_DELETE;
        break;
    default:
        command_write(client, slot, kind, command);
    }
}

static bool number_parse(const uint8_t *text, size_t length, uint64_t *number)
{
    char copy[24];
    char *end;

    if (length == 0 || length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    *number = (uint64_t)strtoll(copy, &end, 10);
    return end == copy + length;
}

/* What a GET brought; a value that nobody wrote says nothing to the checker. */
static void value_take(struct recorded_client *client, struct recorded_slot *slot, size_t length)
{
    struct history_record *record = &slot->record;
    bool right = is_counter(record->key)
                     ? number_parse(slot->buffer, length, &record->value)
                     : numbered_value_check(slot->buffer, length, record->key, &record->value);

    if (right)
        return;
    record->value = record->version = 0;
    record->result = HISTORY_FAILED;
    if (atomic_fetch_add(&client->load->broken, 1) == 0)
        snprintf(client->broken_text, sizeof client->broken_text,
                 "key %u, %zu bytes: not a value that was written", record->key, length);
}

static void result_take(struct recorded_client *client, struct recorded_slot *slot,
                        const struct okv_result *result)
{
    struct history_record *record = &slot->record;
    bool head = record->kind == HISTORY_GET && record->argument;

    record->argument = head ? 0 : record->argument;
    record->version = result->version;
    switch (result->status) {
    case OKV_OK:
        record->result = HISTORY_OK;
        if (record->kind == HISTORY_INCR)
            record->value = (uint64_t)result->number;
        else if (head)
            record->argument = result->length + 1;
        else if (record->kind == HISTORY_GET)
            value_take(client, slot, result->length);
        break;
    case OKV_ENOTFOUND:
        record->result = HISTORY_NOTFOUND;
        break;
    case OKV_EEXISTS:
        record->result = HISTORY_EXISTS;
        break;
    case OKV_ECONFLICT:
        record->result = HISTORY_CONFLICT;
        break;
    case OKV_EUNKNOWN:
        record->result = HISTORY_UNKNOWN;
        break;
    default:
        record->result = HISTORY_FAILED;
    }
    if (record->result >= HISTORY_UNKNOWN) {
        record->version = 0;
        client->last_failure = result->status;
    } else if (record->version) {
        client->latest[record->key] = record->version;
    }
}

static void record_keep(struct recorded_client *client, struct recorded_slot *slot)
{
    slot->busy = false;
    client->unknown += slot->record.result == HISTORY_UNKNOWN;
    client->failed += slot->record.result == HISTORY_FAILED;
    if (slot->record.kind != HISTORY_GET && slot->record.result == HISTORY_OK)
        atomic_fetch_add(&client->load->written, 1);
    if (!history_log_append(&client->log, &slot->record))
        atomic_store(&client->load->failure, OKV_ENOMEM);
}

static void finish(struct recorded_client *client, const struct okv_result *result, uint64_t now)
{
    struct recorded_slot *slot = &client->slots[result->tag];

    slot->record.response = now;
    result_take(client, slot, result);
    record_keep(client, slot);
}

/* Whether an operation met the end of its handle; a deadline that passed need not be that. */
static bool is_end_of_handle(const struct recorded_client *client, int status)
{
    switch (status) {
    case OKV_EDISCONNECTED:
    case OKV_ESHUTDOWN:
    case OKV_EPROTO:
    case OKV_EVERSION:
    case OKV_EREFUSED:
    case OKV_EUNSUPPORTED:
    case OKV_EPERM:
    case OKV_EIO:
        return okv_why(client->handle)[0] != '\0';
    case OKV_ETIMEDOUT:
    case OKV_EUNKNOWN:
        return client->load->reopen && okv_why(client->handle)[0];
    default:
        return false;
    }
}

/* ---- ways to have them done ---- */

static int one_by_one(struct recorded_client *client)
{
    struct recorded_slot *slot = &client->slots[0];
    uint32_t key = choose_key(client);
    struct okv_command command;
    struct okv_result result;

    choose(client, slot, choose_kind(client, key), key, &command);
    slot->record.invoke = okv_clock_ns();
    okv_call(client->handle, &command, &result);
    finish(client, &result, okv_clock_ns());
    return is_end_of_handle(client, result.status) ? result.status : OKV_OK;
}

static int several_at_once(struct recorded_client *client)
{
    struct okv_command commands[MANY];
    struct okv_result results[MANY];
    uint64_t now = okv_clock_ns();

    for (unsigned i = 0; i < MANY; i++) {
        enum recorded_kind kind = random_below(&client->random, 8) ? DO_GET : DO_HEAD;
        choose(client, &client->slots[i], kind, choose_key(client), &commands[i]);
        client->slots[i].record.invoke = now;
    }
    int rc = okv_call_many(client->handle, commands, results, MANY);
    now = okv_clock_ns();
    for (unsigned i = 0; rc == OKV_OK && i < MANY; i++) {
        results[i].tag = i;
        finish(client, &results[i], now);
    }
    return rc;
}

static int submit_some(struct recorded_client *client)
{
    struct okv_command commands[DEPTH_MAX];
    uint64_t most = 1 + random_below(&client->random, client->depth);
    size_t count = 0;

    for (unsigned i = 0; i < client->depth && count < most; i++) {
        if (client->slots[i].busy)
            continue;
        uint32_t key = choose_key(client);
        choose(client, &client->slots[i], choose_kind(client, key), key, &commands[count++]);
    }
    uint64_t now = okv_clock_ns();
    for (size_t i = 0; i < count; i++)
        client->slots[commands[i].tag].record.invoke = now;
    atomic_fetch_add(&client->load->begun, count);
    return okv_submit(client->handle, commands, count, NULL);
}

static int collect_some(struct recorded_client *client)
{
    struct okv_result results[DEPTH_MAX];
    int done = okv_poll(client->handle, results, DEPTH_MAX);

    if (done == 0) {
        okv_wait(client->handle, WAIT_MS);
        done = okv_poll(client->handle, results, DEPTH_MAX);
    }
    uint64_t now = okv_clock_ns();
    for (int i = 0; i < done; i++)
        finish(client, &results[i], now);
    return done < 0 ? done : OKV_OK;
}

/* ---- the handle ---- */

static int open_handle(struct recorded_client *client)
{
    const struct okv_options options = {
        .depth = DEPTH_MAX,
        .timeout_ms = client->load->timeout_ms,
        .hints = client->index % 4 == 1 ? OKV_HINTS_NONE : 0,
    };
    int rc = patient_open(client->load->uri, &options, &client->handle, NULL, 0);

    if (rc == OKV_OK && client->index % 4 == 2)
        rc = okv_register(client->handle, client->memory,
                          (size_t)DEPTH_MAX * 2 * NUMBERED_VALUE_MAX, &client->registration);
    if (rc == OKV_OK)
        atomic_fetch_add(&client->load->opened, 1);
    return rc;
}

static void close_handle(struct recorded_client *client)
{
    struct okv_counters counters;

    if (!client->handle)
        return;
    okv_counters(client->handle, &counters);
#define ADD(name, text) client->counters.name += counters.name;
    OKV_COUNTER_LIST(ADD)
#undef ADD
    client->registration = NULL; /* goes with the handle */
    okv_close(&client->handle);
}

/* Ends the handle. What was under way happened or did not; it may even happen after this. */
static void drop_handle(struct recorded_client *client)
{
    close_handle(client);
    for (unsigned i = 0; i < DEPTH_MAX; i++) {
        struct recorded_slot *slot = &client->slots[i];
        if (!slot->busy)
            continue;
        bool read = slot->record.kind == HISTORY_GET;
        slot->record.argument = read ? 0 : slot->record.argument;
        slot->record.result = read ? HISTORY_FAILED : HISTORY_UNKNOWN;
        slot->record.response = okv_clock_ns();
        record_keep(client, slot);
    }
}

static int reconnect(struct recorded_client *client)
{
    drop_handle(client);
    return open_handle(client);
}

static int open_another(struct recorded_client *client)
{
    nanosleep(&(struct timespec){0, REOPEN_PAUSE_NS}, NULL);
    client->reopened++;
    return reconnect(client);
}

static void plan_reconnect(struct recorded_client *client)
{
    uint64_t every = client->load->reconnect_every;

    client->reconnect_at +=
        every ? every / 2 + 1 + random_below(&client->random, every) : UINT64_MAX;
}

static bool any_busy(const struct recorded_client *client)
{
    for (unsigned i = 0; i < DEPTH_MAX; i++)
        if (client->slots[i].busy)
            return true;
    return false;
}

static bool is_over(const struct recorded_load *load)
{
    if (atomic_load(&load->failure) || (load->until_broken && atomic_load(&load->broken)))
        return true;
    if (load->and_until && !atomic_load(load->and_until))
        return false;
    return atomic_load(&load->begun) >= load->operations ||
           (load->until_ns && okv_clock_ns() >= load->until_ns);
}

static int next_calls(struct recorded_client *client)
{
    if (client->load->pause_ms)
        pace_sleep_ms(client->load->pause_ms);
    if (client->log.length >= client->reconnect_at) {
        plan_reconnect(client);
        return reconnect(client);
    }
    if (client->depth > 1) {
        int rc = submit_some(client);
        return rc ? rc : collect_some(client);
    }
    bool several = random_below(&client->random, 32) == 0;
    atomic_fetch_add(&client->load->begun, several ? MANY : 1);
    return several ? several_at_once(client) : one_by_one(client);
}

static void *client_run(void *user)
{
    struct recorded_client *client = user;
    int rc = open_handle(client);

    while ((rc == OKV_OK || client->load->reopen) && !is_over(client->load))
        rc = rc == OKV_OK ? next_calls(client) : open_another(client);
    while (rc == OKV_OK && any_busy(client))
        rc = collect_some(client);
    if (rc && !client->load->reopen)
        atomic_store(&client->load->failure, rc);
    drop_handle(client);
    return NULL;
}

bool recorded_client_start(struct recorded_client *client, struct recorded_load *load,
                           unsigned index)
{
    static const unsigned depths[] = {1, 8, 1, DEPTH_MAX, 1, 16, 1, 4};
    size_t expected = load->until_ns ? 16384 : load->operations / 12 + 64;

    *client = (struct recorded_client){
        .load = load,
        .index = index,
        .depth = depths[index % (sizeof depths / sizeof *depths)],
        .random = random_mix(load->seed + index),
        .numbers = load->numbers_from,
        .memory = malloc((size_t)DEPTH_MAX * 2 * NUMBERED_VALUE_MAX),
        .slots = calloc(DEPTH_MAX, sizeof *client->slots),
    };
    if (!client->memory || !client->slots ||
        !history_log_init(&client->log, (uint16_t)index, expected))
        return false;
    plan_reconnect(client);
    for (size_t i = 0; i < DEPTH_MAX; i++) {
        client->slots[i].value = client->memory + 2 * i * NUMBERED_VALUE_MAX;
        client->slots[i].buffer = client->slots[i].value + NUMBERED_VALUE_MAX;
    }
    return pthread_create(&client->thread, NULL, client_run, client) == 0;
}

void recorded_client_join(struct recorded_client *client)
{
    pthread_join(client->thread, NULL);
    free(client->memory);
    free(client->slots);
    client->memory = NULL;
    client->slots = NULL;
}
