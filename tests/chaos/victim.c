/*
 * A client that somebody is going to kill or stop: chaos_victim ROLE URI INDEX SEED FD.
 * It puts values that prove themselves and says in shared memory what it is about.
 */
#include "tests/chaos/victim.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <okv.h>

#include "tests/support/certified_value.h"
#include "tests/support/patient_open.h"
#include "tests/support/random.h"

#define DEPTH 32
#define PAUSE_NS 100000000

struct victim {
    struct victim_state *state;
    okv *handle;
    uint64_t random;
    uint64_t number; /* of the last value */
    uint8_t *value;  /* VICTIM_LONG bytes, and DEPTH short ones */
};

static size_t choose_put(struct victim *victim, struct okv_command *command, char key[16],
                         uint8_t *value, bool may_be_long)
{
    unsigned which = (unsigned)random_below(&victim->random, VICTIM_KEYS);
    bool is_long = may_be_long && random_below(&victim->random, 4) == 0;
    size_t least = is_long ? VICTIM_LONG / 4 : CERTIFIED_SIZE_MIN;
    size_t most = is_long ? VICTIM_LONG : 1024;
    size_t size = least + random_below(&victim->random, most - least);

    snprintf(key, 16, "victim%u", which);
    certified_fill(value, size, which, ++victim->number);
    *command = (struct okv_command){.kind = OKV_PUT,
                                    .key = key,
                                    .key_length = strlen(key),
                                    .value = value,
                                    .value_length = size};
    return size;
}

/* One put at a time, and a rest. */
static int put_for_ever(struct victim *victim)
{
    struct okv_command command;
    struct okv_result result;
    char key[16];

    for (;;) {
        bool is_long = choose_put(victim, &command, key, victim->value, true) > 1024;
        atomic_store(&victim->state->under_way, 1);
        atomic_store(&victim->state->long_under_way, is_long);
        int rc = okv_call(victim->handle, &command, &result);
        atomic_store(&victim->state->under_way, 0);
        atomic_store(&victim->state->long_under_way, 0);
        if (rc && rc != OKV_EUNKNOWN && rc != OKV_ETIMEDOUT)
            return rc;
        atomic_fetch_add(&victim->state->puts, 1);
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
}

static int submit_next(struct victim *victim, unsigned slot)
{
    static char keys[DEPTH][16];
    struct okv_command command;

    choose_put(victim, &command, keys[slot], victim->value + slot * 1024, false);
    command.tag = slot;
    if (slot % 4 == 0)
        command = (struct okv_command){.kind = OKV_PING, .tag = slot};
    return okv_submit(victim->handle, &command, 1, NULL);
}

/* Always as many as there may be: whenever it is stopped, it is owed replies. */
static int deep_for_ever(struct victim *victim)
{
    struct okv_result results[DEPTH];
    int rc = OKV_OK;

    for (unsigned slot = 0; slot < DEPTH && rc == OKV_OK; slot++)
        rc = submit_next(victim, slot);
    while (rc == OKV_OK) {
        atomic_store(&victim->state->under_way, DEPTH);
        okv_wait(victim->handle, 1000);
        int count = okv_poll(victim->handle, results, DEPTH);
        for (int i = 0; i < count && rc == OKV_OK; i++) {
            atomic_fetch_add(&victim->state->puts, 1);
            rc = submit_next(victim, (unsigned)results[i].tag);
        }
        rc = count < 0 ? count : rc;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return rc;
}

int main(int argc, char **argv)
{
    const size_t size = VICTIMS_MAX * sizeof(struct victim_state);

    if (argc != 6)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    uint64_t seed = strtoull(argv[4], NULL, 10);
    struct victim_state *states =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)strtol(argv[5], NULL, 10), 0);
    struct victim victim = {
        .random = random_mix(seed),
        .number = seed << 32,
        .value = malloc(VICTIM_LONG),
    };
    if (states == MAP_FAILED || !victim.value)
        return 1;
    victim.state = &states[strtoul(argv[3], NULL, 10) % VICTIMS_MAX];
    const struct okv_options options = {.depth = DEPTH};
    /* In a burst of connects the device's manager loses some. */
    int rc = patient_open(argv[2], &options, &victim.handle, victim.state->why,
                          sizeof victim.state->why);
    if (rc == OKV_OK)
        rc = strcmp(argv[1], "deep") == 0 ? deep_for_ever(&victim) : put_for_ever(&victim);
    atomic_store(&victim.state->failure, rc);
    return 1;
}
