#include "tests/support/report_fixture.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/test.h"

void round_of(struct phase *phase, uint64_t gets, uint64_t get_ns)
{
    loop_tally_init(&phase->tally);
    for (uint64_t i = 0; i < gets; i++)
        histogram_record(&phase->tally.latency[OPERATION_GET], get_ns);
    phase->seconds = (double)(gets * get_ns) / 1e9;
    phase->client_cpu_ms = 2;
    phase->server_cpu_ms = NAN;
    phase->after =
        (struct target_stat){.cpu_ms = NAN, .items = NAN, .user_bytes = NAN, .memory_bytes = NAN};
}

struct report_target *target_of(struct fixture *fixture, uint32_t index, const char *name)
{
    struct report_target *target = &fixture->report.targets[index];

    fixture->options.targets[index] =
        (struct options_target){.name = name, .uri = "local:///nowhere"};
    target->target = &fixture->options.targets[index];
    target->info = (struct target_info){.kind = "okv", .transport = "local", .path = "a socket"};
    loop_tally_init(&target->tally);
    if (fixture->options.target_count <= index)
        fixture->options.target_count = index + 1;
    return target;
}

struct report_target *run_of(struct fixture *fixture, uint32_t index, const char *name,
                             const uint64_t *get_ns)
{
    struct report_target *target = target_of(fixture, index, name);

    target->rounds = ROUNDS;
    target->run = calloc(ROUNDS, sizeof *target->run);
    assert_non_null(target->run);
    for (uint32_t i = 0; i < ROUNDS; i++)
        round_of(&target->run[i], 100, get_ns[i]);
    return target;
}

int report_fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    if (!fixture)
        return -1;
    fixture->report.options = &fixture->options;
    fixture->report.environment.git = "";
    fixture->options.rounds = ROUNDS;
    fixture->options.depth = fixture->options.connections = 1;
    fixture->options.threads[0] = fixture->options.threads_count = 1;
    fixture->options.mix[OPERATION_GET] = 100;
    fixture->options.values.high = 32;
    *state = fixture;
    return 0;
}

int report_fixture_teardown(void **state)
{
    struct fixture *fixture = *state;

    for (int i = 0; i < OPTIONS_TARGETS_MAX; i++) {
        free(fixture->report.targets[i].run);
        free(fixture->report.targets[i].floor);
    }
    free(fixture->text);
    free(fixture);
    return 0;
}

FILE *text_begin(struct fixture *fixture)
{
    free(fixture->text);
    fixture->text = NULL;
    FILE *out = open_memstream(&fixture->text, &fixture->text_length);
    assert_non_null(out);
    return out;
}
