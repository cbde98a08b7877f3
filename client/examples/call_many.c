/*
 * Many commands at once: they are under way together, so that a batch takes little longer than one
 * of them. Each has its own result.
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
    static struct okv_command puts[ITEMS / 2], gets[ITEMS];
    static struct okv_result results[ITEMS];
    struct okv_counters before, after;
    char why[256];
    okv *db;

    if (argc != 2 || okv_open(argv[1], NULL, &db, why, sizeof why)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: example_call_many URI" : why);
        return 2;
    }
    /* Every other key is put. */
    for (int i = 0; i < ITEMS; i++) {
        size_t length = (size_t)snprintf(keys[i], sizeof keys[i], "many:%d", i);
        gets[i] = (struct okv_command){.kind = OKV_GET,
                                       .key = keys[i],
                                       .key_length = length,
                                       .buffer = values[i],
                                       .buffer_size = sizeof values[i]};
        if (i % 2 == 0)
            puts[i / 2] = (struct okv_command){.kind = OKV_PUT,
                                               .key = keys[i],
                                               .key_length = length,
                                               .value = keys[i] + 5,
                                               .value_length = length - 5};
    }
    /* In a call of its own: commands of one call may take effect in any order. */
    check(db, "puts", okv_call_many(db, puts, results, ITEMS / 2));
    for (int i = 0; i < ITEMS / 2; i++)
        check(db, "put", results[i].status);

    okv_counters(db, &before);
    check(db, "gets", okv_call_many(db, gets, results, ITEMS));
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
    printf("messages to the server for the gets: %llu\n",
           (unsigned long long)(after.requests - before.requests));
    okv_close(&db);
    if (ferror(stdout) || fclose(stdout)) {
        fputs("cannot write the output\n", stderr);
        return 3;
    }
    return hits == ITEMS / 2 && wrong == 0 ? 0 : 1;
}
