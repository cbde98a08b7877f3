/*
 * Large values without a copy: the server READs what is put out of our memory, and what
 * is got comes straight into the buffer when that is registered.
 */
#include <okv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANTED_BYTES (1u << 20)

static void check(const okv *db, const char *what, int rc)
{
    if (rc == OKV_OK)
        return;
    const char *why = okv_why(db);
    fprintf(stderr, "%s: %s\n", what, why[0] ? why : okv_strerror(rc));
    exit(1);
}

int main(int argc, char **argv)
{
    struct okv_counters counters;
    struct okv_info info;
    okv_registration *registration;
    size_t length;
    char why[256];
    okv *db;

    if (argc != 2 || okv_open(argv[1], NULL, &db, why, sizeof why)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: example_registered URI" : why);
        return 2;
    }
    okv_info(db, &info);
    size_t size = info.max_value < WANTED_BYTES ? info.max_value : WANTED_BYTES;

    /* Memory for values, registered once and used again and again. The value that is put
     * need not be: it is advertised to the server for as long as the put takes. */
    char *value = malloc(size), *buffer = malloc(size);
    if (!value || !buffer)
        return 1;
    memset(value, 'v', size);
    check(db, "register", okv_register(db, buffer, size, &registration));

    check(db, "put", okv_put(db, "large", 5, value, size, NULL));
    for (int i = 0; i < 2; i++) {
        memset(buffer, 0, size);
        check(db, "get", okv_get(db, "large", 5, buffer, size, &length, NULL));
        printf("get %d: %s\n", i + 1,
               length == size && memcmp(buffer, value, size) == 0 ? "the value" : "another value");
    }

    /* The second get knew where the value was: bucket and value were READ at the same time. */
    okv_counters(db, &counters);
    printf("values that the server READ by rendezvous: %llu, extents found at once: %llu\n",
           (unsigned long long)counters.rendezvous, (unsigned long long)counters.hints_right);

    okv_unregister(db, &registration);
    okv_close(&db);
    free(value);
    free(buffer);
    if (ferror(stdout) || fclose(stdout)) {
        fputs("cannot write the output\n", stderr);
        return 3;
    }
    return 0;
}
