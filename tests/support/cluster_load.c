#include "tests/support/cluster_load.h"

#include <string.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"

static bool complain(struct cluster_client *client, const char *what, int rc, uint64_t seen,
                     uint64_t least)
{
    snprintf(client->wrong, sizeof client->wrong,
             "client %u: %s: %s: %s: it has %llu, and should have %llu", client->index, what,
             okv_errname(rc), okv_why(client->handle), (unsigned long long)seen,
             (unsigned long long)least);
    return false;
}

static size_t name_key(const char *kind, unsigned index, char name[32])
{
    return (size_t)snprintf(name, 32, "%s %u", kind, index);
}

static void note_time(uint64_t begun_ns, uint64_t *longest_ns)
{
    uint64_t took_ns = okv_clock_ns() - begun_ns;

    if (took_ns > *longest_ns)
        *longest_ns = took_ns;
}

/* `seen`: the sum is more than this one knows. */
static bool count(struct cluster_client *client, const char *name, struct cluster_count *known,
                  uint64_t least, uint64_t *sum)
{
    int64_t result = 0;
    uint64_t begun_ns = okv_clock_ns();
    int rc = okv_incr(client->handle, name, strlen(name), 1, &result, NULL);

    note_time(begun_ns, &client->longest_put_ns);
    known->acknowledged += rc == OKV_OK;
    known->unknown += rc == OKV_EUNKNOWN;
    if (rc == OKV_EUNKNOWN)
        return true;
    if (rc || (uint64_t)result <= least)
        return complain(client, name, rc, (uint64_t)result, least + 1);
    *sum = (uint64_t)result;
    return true;
}

static bool count_both(struct cluster_client *client)
{
    char name[32];
    uint64_t sum = 0, all = client->seen_all;

    name_key("counter", client->index, name);
    if (!count(client, name, &client->own, client->own.acknowledged, &sum))
        return false;
    if (sum > client->own.acknowledged + client->own.unknown)
        return complain(client, "a counter with more than was added", 0, sum,
                        client->own.acknowledged + client->own.unknown);
    if (!count(client, "all", &client->shared, client->seen_all, &all))
        return false;
    client->seen_all = all;
    return true;
}

static bool put(struct cluster_client *client)
{
    char name[32];
    size_t length = name_key("number", client->index, name);
    uint64_t version = 0, begun_ns = okv_clock_ns();

    client->number++;
    int rc =
        okv_put(client->handle, name, length, &client->number, sizeof client->number, &version);
    note_time(begun_ns, &client->longest_put_ns);
    if (rc == OKV_EUNKNOWN)
        return true;
    if (rc || version <= client->version)
        return complain(client, "put", rc, version, client->version + 1);
    client->told = client->number;
    client->version = version;
    return true;
}

/* A number that is there, not below `least`. */
static bool get(struct cluster_client *client, unsigned of, uint64_t least, uint64_t *number,
                uint64_t *version)
{
    char name[32];
    size_t length = name_key("number", of, name), value_length;
    uint64_t begun_ns = okv_clock_ns();
    int rc = okv_get(client->handle, name, length, number, sizeof *number, &value_length, version);

    note_time(begun_ns, &client->longest_get_ns);
    if (rc == OKV_ENOTFOUND && least == 0) {
        *number = 0;
        return true;
    }
    return rc == OKV_OK && *number >= least ? true : complain(client, name, rc, *number, least);
}

static bool get_both(struct cluster_client *client)
{
    uint64_t number = 0, version = client->version;

    if (!get(client, client->index, client->told, &number, &version))
        return false;
    if (number > client->number)
        return complain(client, "a number that was not put", 0, number, client->number);
    if (version < client->version)
        return complain(client, "a version that falls", 0, version, client->version);
    client->told = number;
    client->version = version;
    if (!get(client, (client->index + 1) % CLUSTER_CLIENTS, client->seen, &number, &version))
        return false;
    client->seen = number;
    return true;
}

static void *run(void *user)
{
    struct cluster_client *client = user;

    while (!atomic_load(&client->load->has_to_stop) && count_both(client) && put(client) &&
           get_both(client))
        atomic_fetch_add(&client->rounds, 1);
    atomic_store(&client->has_ended, true);
    return NULL;
}

static void start(struct cluster_load *load, unsigned index)
{
    struct cluster_client *client = &load->clients[index];
    char why[320];

    client->load = load;
    client->index = index;
    atomic_store(&client->has_ended, false);
    if (patient_open(load->uri, load->options, &client->handle, why, sizeof why))
        fail_msg("%s: %s", load->uri, why);
    assert_int_equal(pthread_create(&client->thread, NULL, run, client), 0);
}

void cluster_load_start(struct cluster_load *load, const char *uri)
{
    load->uri = uri;
    atomic_store(&load->has_to_stop, false);
    for (; load->running < CLUSTER_CLIENTS; load->running++)
        start(load, load->running);
}

void cluster_load_await(struct cluster_load *load)
{
    uint64_t rounds[CLUSTER_CLIENTS], end = pace_guard_end();

    for (unsigned i = 0; i < CLUSTER_CLIENTS; i++)
        rounds[i] = atomic_load(&load->clients[i].rounds) + 2;
    for (unsigned i = 0; i < CLUSTER_CLIENTS; i++)
        while (atomic_load(&load->clients[i].rounds) < rounds[i]) {
            if (atomic_load(&load->clients[i].has_ended))
                fail_msg("%s", load->clients[i].wrong);
            if (okv_clock_ns() > end)
                fail_msg("client %u is not answered", i);
            pace_sleep_ms(1);
        }
}

void cluster_load_stop(struct cluster_load *load)
{
    atomic_store(&load->has_to_stop, true);
    for (; load->running > 0; load->running--) {
        struct cluster_client *client = &load->clients[load->running - 1];
        pthread_join(client->thread, NULL);
        okv_close(&client->handle);
    }
}

/* ---- what is there in the end ---- */

static void check_counter(okv *handle, const char *name, const struct cluster_count *known)
{
    int64_t sum;

    assert_int_equal(okv_incr(handle, name, strlen(name), 0, &sum, NULL), OKV_OK);
    if ((uint64_t)sum < known->acknowledged || (uint64_t)sum > known->acknowledged + known->unknown)
        fail_msg("%s is %lld: %llu were acknowledged, %llu are unknown", name, (long long)sum,
                 (unsigned long long)known->acknowledged, (unsigned long long)known->unknown);
}

static void check_number(const struct cluster_client *client, okv *handle)
{
    char name[32];
    size_t length = name_key("number", client->index, name), value_length;
    uint64_t number;

    assert_int_equal(okv_get(handle, name, length, &number, sizeof number, &value_length, NULL),
                     OKV_OK);
    assert_in_range(number, client->told, client->number);
}

static void check_client(const struct cluster_client *client, okv *handle)
{
    char name[32];

    if (client->wrong[0])
        fail_msg("%s", client->wrong);
    name_key("counter", client->index, name);
    check_counter(handle, name, &client->own);
    check_number(client, handle);
}

uint64_t cluster_load_check(struct cluster_load *load, okv *handle)
{
    struct cluster_count all = {0, 0};
    uint64_t rounds = 0, put_ns = 0, get_ns = 0;

    for (unsigned i = 0; i < CLUSTER_CLIENTS; i++) {
        const struct cluster_client *client = &load->clients[i];
        check_client(client, handle);
        all.acknowledged += client->shared.acknowledged;
        all.unknown += client->shared.unknown;
        rounds += atomic_load(&client->rounds);
        put_ns = client->longest_put_ns > put_ns ? client->longest_put_ns : put_ns;
        get_ns = client->longest_get_ns > get_ns ? client->longest_get_ns : get_ns;
    }
    check_counter(handle, "all", &all);
    printf(
        "%llu rounds, %llu unknown increments of one counter; longest put %.1f ms, get %.1f ms\n",
        (unsigned long long)rounds, (unsigned long long)all.unknown, (double)put_ns / 1e6,
        (double)get_ns / 1e6);
    return all.unknown;
}
