/*
 * Many gets at once: their READs go out together, so that a batch takes little longer
 * than one of them.
 */
#include <okv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 200

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
    static char keys[ITEMS][16], values[ITEMS][32];
    static struct okv_command commands[ITEMS];
    static struct okv_result results[ITEMS];
    struct okv_counters before, after;
    char why[256];
    okv *db;

    if (argc != 2 || okv_open(argv[1], NULL, &db, why, sizeof why)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: example_get_many URI" : why);
        return 2;
    }
    /* Every other key is there. */
    for (int i = 0; i < ITEMS; i++) {
        size_t length = (size_t)snprintf(keys[i], sizeof keys[i], "many:%d", i);
        if (i % 2 == 0)
            check(db, "put", okv_put(db, keys[i], length, keys[i] + 5, length - 5, NULL));
        commands[i] = (struct okv_command){.kind = OKV_GET,
                                           .key = keys[i],
                                           .key_length = length,
                                           .buffer = values[i],
                                           .buffer_size = sizeof values[i]};
    }

    okv_counters(db, &before);
    check(db, "get many", okv_get_many(db, commands, results, ITEMS));
    okv_counters(db, &after);

    int hits = 0, misses = 0, wrong = 0;
    for (int i = 0; i < ITEMS; i++) {
        if (results[i].status == OKV_ENOTFOUND)
            misses++;
        else if (results[i].status != OKV_OK)
            fprintf(stderr, "%s: %s\n", keys[i], okv_strerror(results[i].status));
        else if (results[i].length == strlen(keys[i] + 5) &&
                 memcmp(values[i], keys[i] + 5, results[i].length) == 0)
            hits++;
        else
            wrong++;
    }
    printf("%d hits, %d misses, %d wrong\n", hits, misses, wrong);
    printf("messages to the server: %llu\n",
           (unsigned long long)(after.requests - before.requests));
    okv_close(&db);
    if (ferror(stdout) || fclose(stdout)) {
        fputs("cannot write the output\n", stderr);
        return 3;
    }
    return hits == ITEMS / 2 && wrong == 0 ? 0 : 1;
}
