#include "tests/support/store_writers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "shared/error.h"

struct writer {
    pthread_t thread;
    struct store_region *region;
    struct okv_store_bucket work;
    unsigned number;
    unsigned puts, full, wrong;
};

/* Each value is one byte, repeated; a key is written by both. */
static void *write_and_read(void *argument)
{
    struct writer *writer = argument;
    struct okv_store *store = &writer->region->store;
    struct store_random random = {.state = writer->number};
    uint8_t value[600], read[600];
    uint32_t length;
    uint64_t version;

    for (unsigned i = 0; i < 8000; i++) {
        char key[24];
        uint32_t key_length =
            (uint32_t)snprintf(key, sizeof key, "k%u", store_random_below(&random, WRITER_KEYS));
        uint32_t size = 1 + store_random_below(&random, i % 3 ? 40 : sizeof value - 1);
        int rc;
        memset(value, (int)i, size);
        switch (store_random_below(&random, 4)) {
        case 0:
            rc = okv_store_delete(store, &writer->work, key, key_length);
            writer->wrong += rc != 0 && rc != OKV_ENOTFOUND;
            break;
        case 1:
            rc = okv_store_get(store, key, key_length, read, sizeof read, &length, &version);
            writer->wrong += rc != 0 && rc != OKV_ENOTFOUND;
            for (uint32_t at = 1; rc == 0 && at < length; at++)
                writer->wrong += read[at] != read[0];
            break;
        default:
            rc = okv_store_put(store, &writer->work, key, key_length, value, size, &version);
            writer->puts += rc == 0;
            writer->full += rc == OKV_EFULL;
            writer->wrong += rc != 0 && rc != OKV_EFULL;
        }
    }
    return NULL;
}

void store_writers_run(struct store_region *region, uint32_t bucket_size)
{
    struct writer writers[2];

    for (unsigned i = 0; i < 2; i++) {
        writers[i] = (struct writer){.region = region, .number = i + 1};
        assert_int_equal(okv_store_bucket_init(&writers[i].work, bucket_size), 0);
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_and_read, &writers[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(writers[i].thread, NULL);
        okv_store_bucket_fini(&writers[i].work);
        assert_int_equal(writers[i].wrong, 0);
        assert_true(writers[i].puts > 100);
    }
}
