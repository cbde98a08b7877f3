#include "tests/support/hostile_ofi.h"

#include "tests/support/test.h"

#include "shared/format/hash.h"

/* The bystander and the reader. */
#define OWN_SESSIONS 2u
#define LARGE 8192u
#define RXM_BUFFER 16384u

bool scene_may_join(const struct okv_uri *uri, struct ofi_attacker *attacker)
{
    struct okv_wire_hello hello;

    hostile_hello(&hello);
    return ofi_attacker_may_join(attacker, uri, &hello, sizeof hello);
}

static void join(struct scene *scene, struct ofi_attacker *attacker)
{
    if (!scene_may_join(&scene->uri, attacker))
        fail_msg("the server does not let the attacker in");
}

struct ofi_attacker *scene_join(struct scene *scene)
{
    scene_leave(scene);
    scene->is_attacked = true;
    join(scene, &scene->attacker);
    return &scene->attacker;
}

void scene_leave(struct scene *scene)
{
    if (scene->is_attacked)
        ofi_attacker_leave(&scene->attacker);
    scene->is_attacked = false;
}

void scene_await_sessions(struct scene *scene, unsigned attackers)
{
    bystander_expect_stat(&scene->bystander, "sessions", OWN_SESSIONS + attackers);
}

/* One in ten is long. */
static size_t make_item(unsigned number, char key[16], uint8_t value[LARGE], size_t *key_length)
{
    *key_length = (size_t)snprintf(key, 16, "item-%u", number);
    memset(value, (int)number, LARGE);
    return number % 10 == 0 ? LARGE : 32;
}

static void put_items(struct scene *scene)
{
    static uint8_t value[LARGE];
    char key[16];
    size_t key_length;

    for (unsigned i = 0; i < SCENE_ITEMS; i++) {
        size_t length = make_item(i, key, value, &key_length);
        assert_int_equal(okv_put(scene->bystander.handle, key, key_length, value, length, NULL),
                         OKV_OK);
    }
}

void scene_expect_items(struct scene *scene, const char *what)
{
    static uint8_t value[LARGE], got[LARGE];
    char key[16];
    size_t key_length, length;

    for (unsigned i = 0; i < SCENE_ITEMS; i++) {
        size_t wanted = make_item(i, key, value, &key_length);
        int rc = okv_get(scene->bystander.handle, key, key_length, got, sizeof got, &length, NULL);
        if (rc || length != wanted || memcmp(got, value, wanted) != 0)
            fail_msg("%s: %s has changed: %s", what, key, okv_errname(rc));
    }
    bystander_check(&scene->bystander);
}

uint64_t scene_hash(struct scene *scene)
{
    struct ofi_attacker *reader = &scene->reader;
    uint64_t hash = 0;

    for (uint64_t at = 0; at < reader->region_length; at += OFI_ATTACKER_BYTES) {
        uint64_t left = reader->region_length - at;
        uint64_t length = left < OFI_ATTACKER_BYTES ? left : OFI_ATTACKER_BYTES;
        ofi_attacker_read(reader, at, length);
        if (at == 0)
            assert_memory_equal(reader->bytes, "okvtable", 8);
        hash = okv_hash_checksum(reader->bytes, length, hash);
    }
    return hash;
}

uint64_t scene_expect_calm(struct scene *scene, const char *what, uint64_t hash)
{
    scene_await_sessions(scene, 0);
    if (scene_hash(scene) != hash)
        fail_msg("%s: the table is not what it was", what);
    scene_expect_items(scene, what);
    return scene_hash(scene);
}

int scene_setup(void **state)
{
    static const char *const arguments[] = {
        "--memory", "1M", "--max-clients", "12", "--max-clients-per-address", "0", "--workers",
        "1",        NULL};
    struct scene *scene = calloc(1, sizeof *scene);
    const struct ofi_welcome *welcome = &scene->reader.answer.body.welcome;

    assert_non_null(scene);
    *state = scene;
    bystander_start(&scene->bystander, arguments);
    assert_int_equal(okv_uri_parse(scene->bystander.server.uri, &scene->uri, NULL), 0);
    put_items(scene);
    join(scene, &scene->reader);
    assert_int_equal(okv_welcome_decode(welcome->bytes, welcome->length, &scene->table), 0);
    return 0;
}

int scene_teardown(void **state)
{
    struct scene *scene = *state;

    scene_leave(scene);
    ofi_attacker_leave(&scene->reader);
    int status = bystander_stop(&scene->bystander);
    free(scene);
    return status;
}

static const char *provider_of(const struct scene *scene)
{
    return (const char *)scene->reader.greeting.body.greeting.provider;
}

bool scene_is_over_verbs(const struct scene *scene)
{
    return strncmp(provider_of(scene), "verbs", strlen("verbs")) == 0;
}

bool scene_may_send(const struct scene *scene, size_t length)
{
    return length <= RXM_BUFFER || !strstr(provider_of(scene), "ofi_rxm");
}

size_t scene_write_ping(struct ofi_attacker *attacker, uint64_t key_flip, uint32_t connection_flip)
{
    const struct okv_request_message ping = {.opcode = OKV_OP_PING}; /* 0 never repeats */
    uint32_t length =
        okv_request_encode(&ping, attacker->bytes + sizeof(struct ofi_message_header));

    return ofi_attacker_write_header(attacker, key_flip, connection_flip,
                                     okv_immediate(OKV_OP_PING, 0), length);
}
