#include "tests/support/server_core.h"

#include <sys/mman.h>
#include <unistd.h>

#include "server/database/reply_cache.h"
#include "tests/support/test.h"

#include "server/clients/client_table.h"
#include "server/store/commands.h"
#include "server/store/state.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

static void open_database(struct server_core *core, const char *name,
                          const struct okv_store_params *params)
{
    struct okv_server *server = core->server;
    unsigned index = server->database_count++;
    struct okv_database_config *config = &server->config.databases[index];
    struct okv_store_params all = *params;

    all.base =
        mmap(NULL, params->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(all.base, MAP_FAILED);
    all.bucket_size = params->bucket_size ? params->bucket_size : OKV_BUCKET_SIZE_DEFAULT;
    all.boot_id = server->boot_id;
    all.hash_seed = 6;
    *config = (struct okv_database_config){.memory = all.length, .bucket_size = all.bucket_size};
    snprintf(config->name, sizeof config->name, "%s", name);
    core->database = &server->databases[index];
    core->database->config = config;
    core->database->id = okv_database_id(name);
    core->database->region = (struct okv_region){all.base, all.length, -1};
    assert_int_equal(okv_store_init(&core->database->store, &all), 0);
    assert_int_equal(okv_store_work_init(&core->works[index], all.bucket_size), 0);
    assert_int_equal(okv_reply_caches_init(core->database->reply_caches, 16, 1000, 7), 0);
    assert_int_equal(okv_allowance_init(&core->database->allowance, 16), 0);
}

void server_core_open(struct server_core *core, const struct okv_store_params *params)
{
    core->server = okv_server_create();
    assert_non_null(core->server);
    core->server->start_ms = okv_clock_boot_ms();
    core->server->clock_origin_ms = core->server->start_ms - 1;
    core->server->boot_id = 5;
    core->server->config.alone_ms = 10;
    core->server->config.report_percent = 2;
    okv_log_init(&core->server->log, STDERR_FILENO, OKV_LOG_TEXT);
    okv_client_table_init(core->server->clients);
    open_database(core, OKV_DATABASE_DEFAULT, params);
    core->executor = (struct okv_executor){core->server, core->database, core->works};
}

void server_core_open_second(struct server_core *core, const struct okv_store_params *params)
{
    open_database(core, "second", params);
    core->database = core->server->databases;
}

void server_core_close(struct server_core *core)
{
    for (unsigned i = 0; i < core->server->database_count; i++) {
        struct okv_database *database = &core->server->databases[i];
        okv_allowance_fini(&database->allowance);
        okv_reply_caches_fini(database->reply_caches);
        okv_store_work_fini(&core->works[i]);
        okv_store_fini(&database->store);
        munmap(database->region.base, database->region.length);
    }
    okv_client_table_fini(core->server->clients);
    okv_log_fini(&core->server->log);
    okv_server_destroy(core->server);
}

/* Of the database of the calls. */
static struct okv_store_work *work_of(struct server_core *core)
{
    return &core->works[core->database - core->server->databases];
}

struct okv_session *server_core_session(struct server_core *core, uint64_t id, uint8_t client,
                                        uint32_t resume, uint32_t request_slots)
{
    struct okv_reply_cache_claim taker = {
        .session_id = id, .resume = resume, .credits = request_slots};
    struct okv_reply_cache_grant taken;

    memset(taker.owner.client_id, client, sizeof taker.owner.client_id);
    assert_int_equal(okv_reply_cache_acquire(core->database->reply_caches, &taker, 1, &taken), 0);
    struct okv_session *session =
        okv_session_create(id, 0, okv_reply_cache_request_slots(taken.reply_cache));
    assert_non_null(session);
    session->reply_cache = taken.reply_cache;
    atomic_init(&session->rights, OKV_RIGHTS_ALL);
    okv_client_table_add(core->server->clients, &session->common,
                         atomic_load(&session->is_half_open));
    return session;
}

uint64_t server_core_put(struct server_core *core, const char *key, int fill, uint32_t length,
                         uint64_t ttl_ms)
{
    uint8_t *value = malloc(length + 1);
    struct okv_store_outcome outcome = {.version = 0};
    const struct okv_store_write write = {
        .key = key,
        .key_length = (uint32_t)strlen(key),
        .value = value,
        .value_length = length,
        .ttl_ms = ttl_ms,
    };

    assert_non_null(value);
    memset(value, fill, length);
    assert_int_equal(okv_store_put(&core->database->store, work_of(core), &write, &outcome),
                     OKV_OK);
    free(value);
    return outcome.version;
}

void server_core_delete(struct server_core *core, const char *key)
{
    const struct okv_store_write write = {.key = key, .key_length = (uint32_t)strlen(key)};
    struct okv_store_outcome outcome;

    assert_int_equal(okv_store_delete(&core->database->store, work_of(core), &write, &outcome),
                     OKV_OK);
}

void server_core_expect(struct server_core *core, const char *key, int fill, uint32_t length,
                        uint64_t version)
{
    uint8_t *value = malloc(length + 1);
    uint64_t stored = 0;
    uint32_t got = 0;
    int rc = okv_store_get(&core->database->store, NULL, key, (uint32_t)strlen(key), value, length,
                           &got, &stored);

    assert_non_null(value);
    assert_int_equal(rc, length ? OKV_OK : OKV_ENOTFOUND);
    if (length) {
        assert_int_equal(got, length);
        assert_int_equal(stored, version);
    }
    for (uint32_t i = 0; i < length; i++)
        assert_int_equal(value[i], (uint8_t)fill);
    free(value);
}
