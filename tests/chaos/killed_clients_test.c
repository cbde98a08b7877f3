/*
 * Clients that are killed in the middle of puts, also of values that the server is READing out of
 * their memory, and replaced. Afterwards the server holds no more than before, and every
 * value is whole.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/base/clock.h"
#include "tests/chaos/battery.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/resources.h"
#include "tests/chaos/victim.h"
#include "tests/support/certified_value.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"
#include "tests/support/server_process.h"

#define VICTIMS 24
#define VICTIMS_LONG VICTIMS_MAX
#define KILL_EVERY_SECONDS 0.2
#define SECONDS 12
#define SECONDS_LONG 120
#define SETTLE_SECONDS 10.0
#define REMEMBER_SECONDS 2 /* for which the server keeps what it owes the dead */
#define RSS_SLACK_KIB 1024
#define FIND_SECONDS 0.15 /* to look for one that is in the middle of a put */

struct trial {
    struct battery *battery;
    struct server_process server;
    struct victims victims;
    unsigned clients;
    unsigned kills, in_put, in_long, by_themselves;
};

static void server_begin(struct trial *trial)
{
    static const char *const weak[] = {
        "--memory", "64M", "--max-clients", "128", "--max-clients-per-address", "0", NULL};
    static const char *const full[] = {
        "--memory", "64M", "--max-clients", "128", "--max-clients-per-address", "0", "--remember-s",
        "2",        NULL};

    server_start(&trial->server, trial->battery->weak ? weak : full);
}

static void start(struct trial *trial, unsigned index)
{
    if (!victim_start(&trial->victims, index, "put"))
        battery_fail(trial->battery, "no process for a client");
}

/* Waits until a client is in the middle of a put; of a long one every other time. */
static unsigned choose(struct trial *trial)
{
    struct victim_state *states = trial->victims.states;
    uint64_t deadline = okv_clock_ns() + (uint64_t)(FIND_SECONDS * 1e9);
    bool any = trial->kills % 2;
    unsigned index;

    do {
        index = (unsigned)random_below(&trial->battery->random, trial->clients);
        for (unsigned i = 0; i < trial->clients; i++, index = (index + 1) % trial->clients)
            if (any ? atomic_load(&states[index].under_way)
                    : atomic_load(&states[index].long_under_way))
                return index;
        nanosleep(&(struct timespec){0, 200000}, NULL);
    } while (okv_clock_ns() < deadline);
    return index;
}

static void replace_the_ended(struct trial *trial)
{
    for (unsigned i = 0; i < trial->clients; i++) {
        if (!victim_has_ended(&trial->victims, i))
            continue;
        int failure = atomic_load(&trial->victims.states[i].failure);
        if (trial->by_themselves++ == 0 || trial->by_themselves % 8 == 0)
            battery_note(trial->battery, "client %u ended by itself: %s: %s", i,
                         okv_errname(failure), trial->victims.states[i].why);
        victim_kill(&trial->victims, i);
        start(trial, i);
    }
}

static void kill_one(struct trial *trial)
{
    unsigned index = choose(trial);
    const struct victim_state *state = &trial->victims.states[index];
    unsigned in_put = atomic_load(&state->under_way);
    unsigned in_long = atomic_load(&state->long_under_way);

    victim_kill(&trial->victims, index);
    trial->kills++;
    trial->in_put += in_put;
    trial->in_long += in_long;
    start(trial, index);
}

static uint64_t puts_of_all(const struct trial *trial)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < trial->clients; i++)
        sum += atomic_load(&trial->victims.states[i].puts);
    return sum;
}

/* Starts all of them and waits until each has put something. */
static void start_all(struct trial *trial)
{
    uint64_t deadline = pace_guard_end();
    bool ready = false;

    for (unsigned i = 0; i < trial->clients; i++) {
        atomic_store(&trial->victims.states[i].puts, 0);
        start(trial, i);
    }
    while (!ready && okv_clock_ns() < deadline) {
        ready = true;
        for (unsigned i = 0; i < trial->clients; i++)
            ready = ready && atomic_load(&trial->victims.states[i].puts) > 0;
        replace_the_ended(trial);
        battery_sleep(0.05);
    }
    if (!ready)
        battery_fail(trial->battery, "not all clients could put something");
}

static void kill_all(struct trial *trial)
{
    for (unsigned i = 0; i < trial->clients; i++)
        victim_kill(&trial->victims, i);
}

static void run(struct trial *trial, double seconds)
{
    uint64_t end = okv_clock_ns() + (uint64_t)(seconds * 1e9);
    uint64_t next = okv_clock_ns();

    while (okv_clock_ns() < end) {
        kill_one(trial);
        replace_the_ended(trial);
        next += (uint64_t)(KILL_EVERY_SECONDS * 1e9);
        uint64_t now = okv_clock_ns();
        if (next > now)
            battery_sleep((double)(next - now) / 1e9);
    }
}

static unsigned check_values(struct trial *trial)
{
    okv *handle = server_connect(&trial->server, NULL);
    uint8_t *bytes = malloc(VICTIM_LONG);
    unsigned found = 0;
    uint64_t number;

    for (unsigned i = 0; bytes && i < VICTIM_KEYS; i++) {
        char key[16];
        size_t length = 0;
        snprintf(key, sizeof key, "victim%u", i);
        int rc = okv_get(handle, key, strlen(key), bytes, VICTIM_LONG, &length, NULL);
        if (rc == OKV_ENOTFOUND)
            continue;
        if (rc)
            battery_fail(trial->battery, "%s cannot be read: %s", key, okv_errname(rc));
        else if (length < CERTIFIED_SIZE_MIN || !certified_check(bytes, length, i, &number))
            battery_fail(trial->battery, "%s is not a whole value", key);
        else
            found++;
    }
    free(bytes);
    okv_close(&handle);
    if (found == 0)
        battery_fail(trial->battery, "no value is there");
    return found;
}

/* Objects are counted before there was any client. Memory after all have been there once, so
 * that what a server keeps for later clients does not count as growth. */
static void take_stock(struct trial *trial, struct resources *before)
{
    struct resources warm;
    char text[160];

    resources_read(trial->battery, trial->server.pid, before);
    start_all(trial);
    kill_all(trial);
    battery_sleep(REMEMBER_SECONDS + 4);
    resources_read(trial->battery, trial->server.pid, &warm);
    before->rss_kib = warm.rss_kib;
    battery_note(trial->battery, "before, the server holds %s", resources_text(before, text));
}

int main(int argc, char **argv)
{
    struct battery battery;
    struct trial *trial = calloc(1, sizeof *trial);
    struct resources before, full;
    char text[160];

    battery_begin(&battery, "killed_clients", "WORD: seconds (12; long: 120).", argc, argv);
    double seconds = battery.is_long ? SECONDS_LONG : SECONDS;
    if (battery.word_count)
        seconds = strtod(battery.words[0], NULL);
    if (!trial)
        return 1;
    trial->battery = &battery;
    trial->clients = battery.is_long ? VICTIMS_LONG : VICTIMS;
    faults_begin(&battery);
    server_begin(trial);
    if (!victims_init(&trial->victims, trial->server.uri, battery.seed % 100000))
        return 1;
    take_stock(trial, &before);
    start_all(trial);
    run(trial, seconds);
    uint64_t puts = puts_of_all(trial);
    resources_read(&battery, trial->server.pid, &full);
    battery_note(&battery, "with all clients the server holds %s", resources_text(&full, text));
    if (full.queue_pairs <= before.queue_pairs)
        battery_fail(&battery, "the clients have no queue pairs");
    kill_all(trial);
    double took =
        resources_await(&battery, trial->server.pid, &before, RSS_SLACK_KIB, SETTLE_SECONDS);
    unsigned values = check_values(trial);
    if (trial->in_put == 0 || trial->in_long == 0)
        battery_fail(&battery, "nobody was killed in the middle of a put");
    if (!battery.weak && trial->by_themselves)
        battery_fail(&battery, "%u clients ended by themselves", trial->by_themselves);
    victims_fini(&trial->victims);
    if (server_stop(&trial->server))
        battery_fail(&battery, "the server did not end well");
    battery_held(&battery, "%u client processes, %" PRIu64 " puts", trial->clients, puts);
    battery_injected(&battery, "kill -9 %u times, %u in a put, %u in one that is READ from them",
                     trial->kills, trial->in_put, trial->in_long);
    battery_checked(&battery,
                    "memory, descriptors, queue pairs, regions and connections back after %.1f s, "
                    "%u values whole",
                    took, values);
    free(trial);
    return battery_end(&battery);
}
