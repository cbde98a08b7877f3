#include "tests/support/loop_fixture.h"

#include "tests/support/test.h"

struct fixture *fixture_create(uint32_t targets, uint32_t value_size)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    assert_non_null(fixture);
    fixture->tally = calloc(1, sizeof *fixture->tally);
    fixture->inserts = calloc(1, sizeof *fixture->inserts);
    fixture->values = (struct workload_values){WORKLOAD_SIZES_FIXED, value_size, value_size};
    inserts_init(fixture->inserts, RECORDS);
    loop_tally_init(fixture->tally);
    for (uint32_t i = 0; i < targets; i++) {
        fixture->stubs[i] = malloc(sizeof *fixture->stubs[i]);
        stub_target_init(fixture->stubs[i]);
        fixture->targets[i] = &fixture->stubs[i]->base;
    }
    struct loop_config config = {.targets = fixture->targets,
                                 .target_count = targets,
                                 .stop = &fixture->stop,
                                 .done = &fixture->done,
                                 .slot_count = SLOTS,
                                 .key_size = KEY_SIZE,
                                 .values = &fixture->values,
                                 .inserts = fixture->inserts,
                                 .id = 1};
    assert_int_equal(loop_create(&config, &fixture->loop), OKV_OK);
    return fixture;
}

void fixture_destroy(struct fixture *fixture)
{
    loop_destroy(fixture->loop);
    for (int i = 0; i < TARGETS; i++)
        free(fixture->stubs[i]);
    free(fixture->inserts);
    free(fixture->tally);
    free(fixture);
}

bool fixture_next(void *user, struct loop_order *order)
{
    struct fixture *fixture = user;

    if (fixture->remaining == 0)
        return false;
    fixture->remaining--;
    *order = (struct loop_order){.operation = fixture->operation,
                                 .record = fixture->next++ % RECORDS,
                                 .due_ns = fixture->due_ns};
    fixture->due_ns += fixture->distance_ns;
    return true;
}

int fixture_run(struct fixture *fixture, enum operation operation, uint64_t count, uint32_t depth,
                uint64_t deadline_ns)
{
    struct loop_run_config config = {.next = fixture_next,
                                     .user = fixture,
                                     .depth = depth,
                                     .deadline_ns = deadline_ns,
                                     .tally = fixture->tally,
                                     .series = fixture->series};

    fixture->operation = operation;
    fixture->next = 0;
    fixture->remaining = count;
    fixture->due_ns = fixture->distance_ns > 0 ? stub_target_now() + fixture->distance_ns : 0;
    return loop_run(fixture->loop, &config);
}

void fixture_load(struct fixture *fixture)
{
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, RECORDS, 1, 0), OKV_OK);
    assert_int_equal(fixture->tally->latency[OPERATION_PUT].count, RECORDS);
    loop_tally_init(fixture->tally);
}

const struct histogram *fixture_latency(const struct fixture *fixture, enum operation operation)
{
    return &fixture->tally->latency[operation];
}
