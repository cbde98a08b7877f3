/*
 * Blobs of several MiB in registered memory: gets bring them straight into it, many at once, and
 * they are used where they lie. Of a put the server READs the bytes out of it, but over local://,
 * where they are copied once.
 *
 * Memory after an error: after OKV_ETIMEDOUT of a get the device may still write to the place of
 * the blob, and after OKV_EUNKNOWN of a put the server may still READ it. So such a place must
 * neither be used nor unmapped before okv_close(): close the store and open another. That is why
 * blobs_close() closes the handle first.
 */
#include <errno.h>
#include <okv.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BLOBS 4
#define BLOB_BYTES ((size_t)3 << 20)
#define PLACE_BYTES ((size_t)4 << 20) /* of the longest blob that fits */
/* A deadline for all bytes of a call together. */
#define TIMEOUT_MS 30000

struct blobs {
    okv *db;
    unsigned char *memory; /* a place for each blob */
    size_t size;
};

static void blobs_close(struct blobs *blobs)
{
    okv_close(&blobs->db); /* takes the registration back, too */
    if (blobs->memory != MAP_FAILED)
        munmap(blobs->memory, blobs->size);
}

/* On failure `why` says what to do, and nothing is left. */
static int blobs_open(struct blobs *blobs, const char *uri, size_t places, char *why, size_t size)
{
    struct okv_options options = {.timeout_ms = TIMEOUT_MS};

    *blobs = (struct blobs){.size = places * PLACE_BYTES, .memory = MAP_FAILED};
    int rc = okv_open(uri, &options, &blobs->db, why, size);
    if (rc)
        return rc;
    /* Whole pages, which nothing else is in. Once and for all: registering pins them, which takes
     * longer than a READ. */
    blobs->memory =
        mmap(NULL, blobs->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (blobs->memory == MAP_FAILED) {
        snprintf(why, size, "no memory for blobs: %s", strerror(errno));
        rc = OKV_ENOMEM;
    } else {
        okv_registration *registration; /* the handle keeps it until it is closed */
        rc = okv_register(blobs->db, blobs->memory, blobs->size, &registration);
        if (rc)
            snprintf(why, size, "%zu bytes cannot be registered: %s%s", blobs->size,
                     okv_strerror(rc),
                     rc == OKV_EPERM ? "; raise `ulimit -l', or LimitMEMLOCK= of the service" : "");
    }
    if (rc)
        blobs_close(blobs);
    return rc;
}

static unsigned char *blobs_place(const struct blobs *blobs, size_t i)
{
    return blobs->memory + i * PLACE_BYTES;
}

/* OKV_EVALUESIZE: longer than the server takes: okv-server --max-value. OKV_EFULL: it needs more
 * memory. OKV_EUNKNOWN: put it again, after blobs_close(): that it is there twice does no harm. */
static int blobs_put(struct blobs *blobs, const char *key, size_t i, size_t length)
{
    return okv_put(blobs->db, key, strlen(key), blobs_place(blobs, i), length, NULL);
}

/* Gets the blob of each key to its place, all at once. okv verifies all bytes by a checksum of the
 * item. OKV_OK: each has a status in its result. */
static int blobs_get(struct blobs *blobs, const char *const *keys, struct okv_result *results,
                     size_t count)
{
    struct okv_command gets[BLOBS] = {0};

    if (count > BLOBS || count * PLACE_BYTES > blobs->size)
        return OKV_EINVAL;
    for (size_t i = 0; i < count; i++) {
        gets[i].kind = OKV_GET;
        gets[i].key = keys[i];
        gets[i].key_length = strlen(keys[i]);
        gets[i].buffer = blobs_place(blobs, i);
        gets[i].buffer_size = PLACE_BYTES;
    }
    return okv_call_many(blobs->db, gets, results, count);
}

/* ---- the store at work ---- */

static void check(const struct blobs *blobs, const char *what, int rc)
{
    if (rc == OKV_OK)
        return;
    const char *why = okv_why(blobs->db);
    fprintf(stderr, "%s: %s\n", what, why[0] ? why : okv_strerror(rc));
    exit(1);
}

/* Bytes that tell blobs, and places in them, from each other. */
static unsigned char byte_at(size_t i, size_t position)
{
    return (unsigned char)((position * 2654435761u + i * 40503u) >> 13);
}

static bool blob_is_right(const struct blobs *blobs, size_t i, size_t length)
{
    const unsigned char *blob = blobs_place(blobs, i);
    size_t position = 0;

    while (position < length && blob[position] == byte_at(i, position))
        position++;
    return length == BLOB_BYTES && position == length;
}

int main(int argc, char **argv)
{
    static const char *const keys[BLOBS] = {"blob:0", "blob:1", "blob:2", "blob:none"};
    struct okv_result results[BLOBS];
    struct okv_counters counters;
    struct blobs blobs;
    char why[320];

    if (argc != 2 || blobs_open(&blobs, argv[1], BLOBS, why, sizeof why)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: example_blobs URI" : why);
        return 2;
    }
    for (size_t i = 0; i + 1 < BLOBS; i++) {
        for (size_t position = 0; position < BLOB_BYTES; position++)
            blobs_place(&blobs, i)[position] = byte_at(i, position);
        check(&blobs, "put", blobs_put(&blobs, keys[i], i, BLOB_BYTES));
    }
    memset(blobs.memory, 0, blobs.size);

    check(&blobs, "get", blobs_get(&blobs, keys, results, BLOBS));
    for (size_t i = 0; i < BLOBS; i++) {
        if (results[i].status == OKV_ENOTFOUND) /* an answer, as good as a blob */
            printf("%s: a miss\n", keys[i]);
        else if (results[i].status == OKV_ETOOSMALL)
            printf("%s: it has %zu bytes, more than a place\n", keys[i], results[i].length);
        else if (results[i].status != OKV_OK)
            printf("%s: %s\n", keys[i], okv_strerror(results[i].status));
        else
            printf("%s: %zu bytes, %s\n", keys[i], results[i].length,
                   blob_is_right(&blobs, i, results[i].length) ? "the right ones" : "wrong ones");
    }
    okv_counters(blobs.db, &counters);
    printf("values that the server READ: %llu\n", (unsigned long long)counters.rendezvous);
    blobs_close(&blobs);
    if (ferror(stdout) || fclose(stdout)) {
        fputs("cannot write the output\n", stderr);
        return 3;
    }
    return 0;
}
