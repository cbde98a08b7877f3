#include "tests/chaos/honest.h"

#include <time.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/certified_value.h"
#include "tests/support/patient_open.h"

#define PAUSE_NS 1000000
#define VALUE_MAX 400 /* inline and not */
#define COMMUTER 0    /* the client that comes anew each time */

void honest_figures_init(struct honest_figures *figures)
{
    memset(figures, 0, sizeof *figures);
    for (unsigned kind = 0; kind < HONEST_KINDS; kind++)
        histogram_init(&figures->times[kind]);
}

void honest_init(struct honest *honest, const char *uri, const struct okv_options *options)
{
    memset(honest, 0, sizeof *honest);
    honest->uri = uri;
    honest->options = *options;
    for (unsigned i = 0; i < HONEST_CLIENTS; i++) {
        honest->clients[i].all = honest;
        honest->clients[i].index = i;
    }
}

static void note(struct honest_client *client, enum honest_kind kind, uint64_t begin_ns, int status,
                 const char *why)
{
    static const char *const names[HONEST_KINDS] = {"put", "get", "open"};
    struct honest_figures *figures = &client->figures;

    if (status == OKV_OK) {
        uint64_t taken_ns = okv_clock_ns() - begin_ns;
        histogram_record(&figures->times[kind], taken_ns);
        figures->late += taken_ns > HONEST_LATE_NS;
        return;
    }
    figures->failed[kind]++;
    snprintf(figures->why, sizeof figures->why, "%s: %s: %s", names[kind], okv_errname(status),
             why);
}

/* Opens a handle unless there is one. */
static bool come(struct honest_client *client)
{
    uint64_t begin = okv_clock_ns();
    char why[200] = "";

    if (client->handle)
        return true;
    int status =
        patient_open(client->all->uri, &client->all->options, &client->handle, why, sizeof why);
    note(client, HONEST_OPEN, begin, status, why);
    return status == OKV_OK;
}

static size_t name_key(const struct honest_client *client, unsigned key, char name[32])
{
    return (size_t)snprintf(name, 32, "honest %u.%u", client->index, key);
}

static size_t size_of(unsigned key, uint64_t number)
{
    return CERTIFIED_SIZE_MIN + certified_mix(number ^ key) % (VALUE_MAX - CERTIFIED_SIZE_MIN + 1);
}

static void put_once(struct honest_client *client, unsigned key)
{
    uint8_t value[VALUE_MAX];
    uint64_t number = ++client->number;
    size_t size = size_of(key, number);
    char name[32];
    size_t length = name_key(client, key, name);

    certified_fill(value, size, key, number);
    client->most[key] = number;
    uint64_t begin = okv_clock_ns();
    int status = okv_put(client->handle, name, length, value, size, NULL);
    note(client, HONEST_PUT, begin, status, okv_why(client->handle));
    if (status == OKV_OK)
        client->least[key] = number;
}

static void get_once(struct honest_client *client, unsigned key)
{
    uint8_t value[VALUE_MAX];
    uint64_t number = 0;
    size_t size = 0;
    char name[32];
    size_t length = name_key(client, key, name);

    uint64_t begin = okv_clock_ns();
    int status = okv_get(client->handle, name, length, value, sizeof value, &size, NULL);
    bool is_miss = status == OKV_ENOTFOUND;
    note(client, HONEST_GET, begin, is_miss ? OKV_OK : status, okv_why(client->handle));
    if (is_miss)
        client->figures.wrong += client->least[key] != 0;
    else if (status == OKV_OK)
        client->figures.wrong += !certified_check(value, size, key, &number) ||
                                 size != size_of(key, number) || number < client->least[key] ||
                                 number > client->most[key];
}

static void *work(void *user)
{
    struct honest_client *client = user;

    unsigned i = 0;

    do {
        if (come(client)) {
            put_once(client, i % HONEST_KEYS);
            get_once(client, i * 7 % HONEST_KEYS);
        }
        if (client->index == COMMUTER)
            okv_close(&client->handle);
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
        i++;
    } while (!atomic_load(&client->all->stop));
    okv_close(&client->handle);
    return NULL;
}

void honest_begin(struct honest *honest)
{
    atomic_store(&honest->stop, false);
    for (unsigned i = 0; i < HONEST_CLIENTS; i++) {
        struct honest_client *client = &honest->clients[i];
        honest_figures_init(&client->figures);
        assert_int_equal(pthread_create(&client->thread, NULL, work, client), 0);
    }
}

void honest_end(struct honest *honest, struct honest_figures *out)
{
    atomic_store(&honest->stop, true);
    for (unsigned i = 0; i < HONEST_CLIENTS; i++) {
        const struct honest_figures *figures = &honest->clients[i].figures;
        pthread_join(honest->clients[i].thread, NULL);
        out->late += figures->late;
        for (unsigned kind = 0; kind < HONEST_KINDS; kind++) {
            histogram_merge(&out->times[kind], &figures->times[kind]);
            out->failed[kind] += figures->failed[kind];
        }
        out->wrong += figures->wrong;
        if (figures->why[0])
            memcpy(out->why, figures->why, sizeof out->why);
    }
}
