/* Attacks by a user of another database, with the library as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "shared/format/hash.h"
#include "shared/format/wire.h"
#include "tests/chaos/attack.h"
#include "tests/support/connect_blocking.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/prover.h"
#include "tests/support/random.h"

#define DEPTH 16
#define LARGE_DEPTH 4
/* More keys than a bucket takes, which no split parts: the index has fewer buckets than 2^16. Of
 * such keys and values a page of 512 bytes holds six: the key stays in the entry. */
#define BUCKET_KEYS 512
#define BUCKET_BITS 16
#define BUCKET_KEY 56
#define BUCKET_VALUE 512
#define APPEND_ROOM 4096
#define FULL_KEYS 4096u
#define FULL_KEY 8
#define FULL_LEAST 64u
#define FULL_DOUBLINGS 15u

/* Opens until it is let in. */
static okv *open_persistently(struct attacker *attacker)
{
    okv *handle = NULL;

    while (patient_open(attacker->server, &attacker->options, &handle, NULL, 0))
        attacker_turned_away(attacker);
    return handle;
}

/* Gives every command its next round as soon as its last one has ended, for ever; `next` may
 * change it. */
static void repeat(struct attacker *attacker, struct okv_command *commands, unsigned count,
                   void (*next)(struct okv_command *command, int status, void *user), void *user)
{
    okv *handle = open_persistently(attacker);
    struct okv_result result;

    for (unsigned i = 0; i < count; i++) {
        commands[i].tag = i;
        okv_submit(handle, &commands[i], 1, NULL);
    }
    for (;;) {
        int done = okv_poll(handle, &result, 1);
        if (done == 0)
            okv_wait(handle, PACE_GUARD_MS);
        if (done <= 0)
            continue;
        attacker_count(attacker, result.status != OKV_OK);
        next(&commands[result.tag], result.status, user);
        okv_submit(handle, &commands[result.tag], 1, NULL);
    }
}

/* Connects as a client with an id of its own and leaves without a GOODBYE. False: turned away. */
static bool visit(const struct attacker *attacker, struct okv_welcome *welcome)
{
    struct okv_hello hello = {.slot_size = OKV_SLOT_SIZE_DEFAULT,
                              .credits = 1,
                              .database = okv_database_id(ATTACK_DATABASE)};
    struct prover prover = {.user = ATTACK_USER, .key = attacker->key};
    struct okv_answer answer;
    struct okv_conn *conn;
    struct okv_diag diag;

    if (getrandom(hello.client_id, sizeof hello.client_id, 0) < 0)
        return false;
    okv_hello_encode(&hello, &prover.sent);
    const struct okv_wire_hello first = prover.sent;
    const struct okv_transport_ops *ops = okv_transport_for(attacker->uri.scheme);
    const struct okv_connect_params params = {
        .hello = (const uint8_t *)&first,
        .hello_length = sizeof first,
        .next_hello = prover_next_hello,
        .user = &prover,
        .limits = {.slot_size = OKV_SLOT_SIZE_DEFAULT, .credits = 1},
        .deadline_ns = pace_guard_end(),
    };
    if (connect_blocking(ops, &attacker->uri, &params, &answer, &conn, &diag))
        return false;
    bool is_right = okv_welcome_decode(answer.bytes, answer.length, welcome) == 0;
    ops->conn_destroy(conn);
    return is_right;
}

/* ---- keys of one bucket ---- */

struct bucket_keys {
    uint8_t keys[BUCKET_KEYS][BUCKET_KEY];
    unsigned next;
};

static void next_key(struct okv_command *command, int status, void *user)
{
    struct bucket_keys *all = user;

    (void)status;
    command->key = all->keys[all->next++ % BUCKET_KEYS];
}

static void find_keys(struct bucket_keys *all, uint64_t seed)
{
    uint8_t key[BUCKET_KEY] = {0};
    unsigned found = 0;

    for (uint64_t number = 0; found < BUCKET_KEYS; number++) {
        memcpy(key, &number, sizeof number);
        if (okv_hash_bucket(okv_hash_key(key, sizeof key, seed), BUCKET_BITS) == 0)
            memcpy(all->keys[found++], key, sizeof key);
    }
}

void attack_bucket(struct attacker *attacker)
{
    static struct bucket_keys all;
    static const uint8_t value[BUCKET_VALUE];
    struct okv_command commands[DEPTH];
    struct okv_welcome welcome;

    while (!visit(attacker, &welcome)) /* everybody who is let in is told the seed */
        attacker_turned_away(attacker);
    find_keys(&all, welcome.hash_seed);
    for (unsigned i = 0; i < DEPTH; i++) {
        commands[i] = (struct okv_command){.kind = OKV_PUT,
                                           .key_length = BUCKET_KEY,
                                           .value = value,
                                           .value_length = sizeof value};
        next_key(&commands[i], OKV_OK, &all);
    }
    repeat(attacker, commands, DEPTH, next_key, &all);
}

/* ---- large values ---- */

static size_t largest_value(struct attacker *attacker)
{
    okv *handle = open_persistently(attacker);
    struct okv_info info;

    okv_info(handle, &info);
    okv_close(&handle);
    return info.max_value;
}

struct appending {
    struct okv_command put, append;
};

/* One of them puts the value anew when it is as long as it may be. */
static void append_or_put(struct okv_command *command, int status, void *user)
{
    const struct appending *appending = user;
    uint64_t tag = command->tag;

    *command = tag == 0 && status != OKV_OK ? appending->put : appending->append;
    command->tag = tag;
}

void attack_append(struct attacker *attacker)
{
    size_t size = largest_value(attacker) - APPEND_ROOM;
    uint8_t *value = calloc(1, size);
    struct appending appending = {
        .put = {.kind = OKV_PUT,
                .key = "append",
                .key_length = 6,
                .value = value,
                .value_length = size},
        .append = {.kind = OKV_APPEND,
                   .key = "append",
                   .key_length = 6,
                   .value = value,
                   .value_length = 1},
    };
    struct okv_command commands[DEPTH];

    for (unsigned i = 0; i < DEPTH; i++)
        commands[i] = i == 0 ? appending.put : appending.append;
    if (value)
        repeat(attacker, commands, DEPTH, append_or_put, &appending);
}

static void same_again(struct okv_command *command, int status, void *user)
{
    (void)command, (void)status, (void)user;
}

void attack_requests(struct attacker *attacker)
{
    struct okv_command commands[DEPTH];

    for (unsigned i = 0; i < DEPTH; i++)
        commands[i] = (struct okv_command){.kind = OKV_PUT,
                                           .key = "requests",
                                           .key_length = 8,
                                           .value = "value",
                                           .value_length = 5};
    repeat(attacker, commands, DEPTH, same_again, NULL);
}

void attack_large(struct attacker *attacker)
{
    static const char keys[LARGE_DEPTH][8] = {"large 0", "large 1", "large 2", "large 3"};
    size_t size = largest_value(attacker) / LARGE_DEPTH;
    uint8_t *value = calloc(1, size);
    struct okv_command commands[LARGE_DEPTH];

    for (unsigned i = 0; i < LARGE_DEPTH; i++)
        commands[i] = (struct okv_command){.kind = OKV_PUT,
                                           .key = keys[i],
                                           .key_length = sizeof keys[i],
                                           .value = value,
                                           .value_length = size};
    if (value)
        repeat(attacker, commands, LARGE_DEPTH, same_again, NULL);
}

/* ---- a full database ---- */

struct filling {
    uint64_t random;
    char keys[DEPTH][FULL_KEY + 1]; /* by tag */
};

/* Another key gets a value of another size, short ones as often as long ones. All together would
 * need many times the memory that there is. */
static void next_size(struct okv_command *command, int status, void *user)
{
    struct filling *filling = user;
    char *key = filling->keys[command->tag];
    uint64_t most = FULL_LEAST << random_below(&filling->random, FULL_DOUBLINGS);

    (void)status;
    snprintf(key, FULL_KEY + 1, "full%04x", (unsigned)random_below(&filling->random, FULL_KEYS));
    command->key = key;
    command->key_length = FULL_KEY;
    command->value_length = 1 + random_below(&filling->random, most);
}

/* When the database is full, each put that finds no place for its value makes the server look for
 * room, and each that takes the place of a value leaves a hole of another size. */
void attack_full(struct attacker *attacker)
{
    static const uint8_t value[FULL_LEAST << (FULL_DOUBLINGS - 1)];
    static struct filling filling;
    struct okv_command commands[DEPTH];

    for (unsigned i = 0; i < DEPTH; i++) {
        commands[i] = (struct okv_command){.kind = OKV_PUT, .value = value, .tag = i};
        next_size(&commands[i], OKV_OK, &filling);
    }
    repeat(attacker, commands, DEPTH, next_size, &filling);
}

/* ---- client ids ---- */

/* Each connection has a new client id and, as it ends without a GOODBYE, leaves a reply cache. */
void attack_clients(struct attacker *attacker)
{
    struct okv_welcome welcome;

    for (;;) {
        if (visit(attacker, &welcome))
            attacker_count(attacker, false);
        else
            attacker_turned_away(attacker);
    }
}
