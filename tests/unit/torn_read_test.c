/*
 * Readers against writers on the buckets of a real store: no accepted image may show a state that
 * never existed (docs/consistency.md).
 *
 * Two more builds use readers without the checksum (TORN_UNCHECKED), or readers that compare
 * versions instead (TORN_VERSION_ONLY). They pass only if wrong images are accepted: the checksum
 * is needed.
 *
 * OKV_LONG=1 checks a hundred times as many images. OKV_TEST_SEED repeats a run's choices,
 * though not its timing.
 */
#include <pthread.h>
#include <sched.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/random.h"
#include "tests/support/sanitized.h"
#include "tests/support/torn_reader.h"

#define READERS 2
#define WRITERS 2

/* A race shows in the first images: ThreadSanitizer sees the order of accesses, not their result.
 */
#define IMAGES                                 \
    (OKV_SANITIZED_THREADS ? UINT64_C(250000)  \
     : OKV_SANITIZED       ? UINT64_C(1000000) \
                           : UINT64_C(10000000))
#define LONG_TIMES 100
/* Each shape ends after this time with what it has checked by then: a reader yields in the middle
 * of an image, and gets a busy machine back late. */
#define SHAPE_SECONDS 30
/* For the builds without the checksum. */
#define UNSAFE_IMAGES UINT64_C(1000000)
#define UNSAFE_ROUNDS 40

struct run {
    struct torn_table table;
    atomic_bool stop;
    uint64_t images;   /* to be checked by each reader */
    uint64_t until_ns; /* fewer when this has come */
    atomic_int failed; /* code of a write that should have been done */
    struct torn_reader readers[READERS];
    struct torn_counts total;
};

struct writer {
    pthread_t thread;
    struct run *run;
    struct okv_store_work work;
    unsigned number;
};

static bool is_long(void)
{
    const char *text = getenv("OKV_LONG");

    return text && strcmp(text, "1") == 0;
}

#ifndef TORN_UNCHECKED
static uint64_t images_of_test(void)
{
    return is_long() ? IMAGES * LONG_TIMES : IMAGES;
}
#endif

/* Every group belongs to one writer, which takes the steps of its groups in turn. */
static void *writer_main(void *argument)
{
    struct writer *writer = argument;
    struct run *run = writer->run;
    uint64_t next = 0;
    int rc = 0;

    for (uint64_t i = 0; !rc && !atomic_load_explicit(&run->stop, memory_order_relaxed); i++) {
        for (unsigned group = writer->number; !rc && group < TORN_GROUPS; group += WRITERS)
            rc = torn_step(&run->table, &writer->work, group);
        if (!rc && run->table.shape->fillers && writer->number == 0)
            rc = torn_fill(&run->table, &writer->work, &next);
        if (i % 16 == 0) /* for a reader that waits in the middle of an image */
            sched_yield();
    }
    if (rc)
        atomic_store(&run->failed, rc);
    return NULL;
}

struct reader_thread {
    pthread_t thread;
    struct run *run;
    struct torn_reader *reader;
};

static void *reader_main(void *argument)
{
    struct reader_thread *self = argument;
    const struct torn_counts *counts = &self->reader->counts;

    for (unsigned i = 0; counts->accepted + counts->rejected < self->run->images &&
                         !atomic_load_explicit(&self->run->failed, memory_order_relaxed) &&
                         (i % 64 != 0 || okv_clock_ns() < self->run->until_ns);
         i++)
        torn_reader_read_group(self->reader, i / 64 % TORN_GROUPS);
    return NULL;
}

static void add_counts(struct torn_counts *to, const struct torn_counts *from)
{
    to->accepted += from->accepted;
    to->rejected += from->rejected;
    to->extents += from->extents;
    to->extents_rejected += from->extents_rejected;
    to->states += from->states;
    to->moved += from->moved;
    to->pages += from->pages;
    to->wrong += from->wrong;
}

static void run_threads(struct run *run)
{
    struct writer writers[WRITERS];
    struct reader_thread readers[READERS];

    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.run = run, .number = i};
        assert_int_equal(okv_store_work_init(&writers[i].work, run->table.shape->bucket_size), 0);
        for (unsigned group = i; group < TORN_GROUPS; group += WRITERS)
            for (unsigned key = 0; key < run->table.shape->keys; key++)
                assert_int_equal(torn_step(&run->table, &writers[i].work, group), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]), 0);
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct reader_thread){.run = run, .reader = &run->readers[i]};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]), 0);
    }
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        add_counts(&run->total, &run->readers[i].counts);
    }
    atomic_store(&run->stop, true);
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        okv_store_work_fini(&writers[i].work);
    }
}

static void report(const struct run *run)
{
    const struct torn_counts *total = &run->total;
    unsigned long long splits = atomic_load(&run->table.store.totals.splits);
    unsigned long long merges = atomic_load(&run->table.store.totals.merges);

    print_message("%s: %llu images accepted (%llu of overflow pages), %llu rejected, %llu moved;"
                  " %llu extents accepted, %llu rejected; %llu states of whole groups;"
                  " %llu splits, %llu merges; %llu wrong\n",
                  run->table.shape->name, (unsigned long long)total->accepted,
                  (unsigned long long)total->pages, (unsigned long long)total->rejected,
                  (unsigned long long)total->moved, (unsigned long long)total->extents,
                  (unsigned long long)total->extents_rejected, (unsigned long long)total->states,
                  splits, merges, (unsigned long long)total->wrong);
    for (unsigned i = 0; i < READERS; i++)
        if (run->readers[i].counts.wrong)
            print_message("reader %u, first of all: %s\n", i, run->readers[i].complaint);
}

/* Lets the threads work on a table of this shape until `images` images were checked. */
static void run_shape(const struct torn_shape *shape, uint64_t images, struct torn_counts *total)
{
    struct run *run = aligned_alloc(64, (sizeof *run + 63) / 64 * 64);
    uint64_t seed = random_seed();

    assert_non_null(run);
    memset(run, 0, sizeof *run);
    torn_table_open(&run->table, shape, seed);
    run->images = images / READERS;
    run->until_ns = is_long() ? UINT64_MAX : okv_clock_ns() + SHAPE_SECONDS * UINT64_C(1000000000);
    for (unsigned i = 0; i < READERS; i++)
        torn_reader_init(&run->readers[i], &run->table, seed + i);
    run_threads(run);
    report(run);
    *total = run->total;
    int failed = atomic_load(&run->failed);
    torn_table_close(&run->table);
    free(run);
    assert_int_equal(failed, 0);
}

#ifdef TORN_UNCHECKED

/* Round after round until a wrong image was accepted: sooner or later depends on the machine. */
TEST(small_items)
{
    const struct torn_shape shape = {
        .name = "small items", .bucket_size = 512, .keys = 8, .small_max = 48};
    struct torn_counts total = {0};

    for (unsigned round = 0; round < UNSAFE_ROUNDS && total.wrong == 0; round++)
        run_shape(&shape, UNSAFE_IMAGES, &total);
    assert_true(total.wrong > 0);
}

#else

/* Without torn images the test has proved nothing. */
static void expect_proof(const struct torn_counts *total)
{
    uint64_t images = total->accepted + total->rejected;

    assert_int_equal(total->wrong, 0);
    assert_true(total->rejected > images / 10000);
    assert_true(total->states > images / 100);
}

TEST(small_items)
{
    const struct torn_shape shape = {
        .name = "small items", .bucket_size = 512, .keys = 8, .small_max = 48};
    struct torn_counts total;

    run_shape(&shape, images_of_test() / 10 * 6, &total);
    expect_proof(&total);
}

TEST(extents_splits_and_merges)
{
    const struct torn_shape shape = {.name = "extents, splits and merges",
                                     .bucket_size = 512,
                                     .keys = 8,
                                     .small_max = 24,
                                     .large = 6,
                                     .fillers = TORN_FILLERS_MAX};
    struct torn_counts total;

    run_shape(&shape, images_of_test() / 10 * 2, &total);
    expect_proof(&total);
    assert_true(total.extents > 0 && total.extents_rejected > 0);
    assert_true(total.moved > 0);
}

TEST(overflow_pages)
{
    const struct torn_shape shape = {
        .name = "overflow pages", .bucket_size = 256, .keys = 28, .small_max = 64};
    struct torn_counts total;

    run_shape(&shape, images_of_test() / 10 * 2, &total);
    expect_proof(&total);
    assert_true(total.pages > 0 && total.extents > 0);
}
#endif
