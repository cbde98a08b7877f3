/*
 * Asynchronous calls: submit as much as the handle takes, sleep on its descriptor, collect what
 * ended. A loop with other descriptors is in feature_store.c.
 */
#include <okv.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define ITEMS 1000
#define TIMEOUT_MS 5000

static void check(const okv *db, const char *what, int rc)
{
    if (rc == OKV_OK)
        return;
    const char *why = okv_why(db);
    fprintf(stderr, "%s: %s\n", what, why[0] ? why : okv_strerror(rc));
    exit(1);
}

/* Waits for results and counts the good ones. What an operation was comes back in its tag. */
static int collect(okv *db)
{
    struct okv_result results[64];
    int good = 0, count;

    while ((count = okv_poll(db, results, 64)) == 0) {
        /* Arm, look once more, then sleep: what ended before the arm wakes nobody. */
        check(db, "arm", okv_arm(db));
        if ((count = okv_poll(db, results, 64)) != 0)
            break;
        struct pollfd fd = {.fd = okv_fd(db), .events = POLLIN};
        poll(&fd, 1, TIMEOUT_MS);
    }
    if (count < 0)
        check(db, "poll", count);
    for (int i = 0; i < count; i++) {
        good += results[i].status == OKV_OK;
        if (results[i].status != OKV_OK)
            fprintf(stderr, "item %d: %s\n", (int)results[i].tag, okv_strerror(results[i].status));
    }
    return good;
}

int main(int argc, char **argv)
{
    static char keys[ITEMS][16];
    struct okv_options options = {.depth = 128};
    char why[256];
    okv *db;
    int stored = 0;

    if (argc != 2 || okv_open(argv[1], &options, &db, why, sizeof why)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: example_async URI" : why);
        return 2;
    }
    for (int i = 0; i < ITEMS;) {
        /* Key and value stay as they are until the result came: so each has its own place. */
        size_t length = (size_t)snprintf(keys[i], sizeof keys[i], "async:%d", i);
        int rc = okv_submit_put(db, keys[i], length, keys[i], length, (uint64_t)i);
        if (rc == OKV_OK)
            i++;
        else if (rc == OKV_EAGAIN && okv_pending(db) > 0) /* all that the handle takes */
            stored += collect(db);
        else
            check(db, "submit", rc);
    }
    while (okv_pending(db) > 0)
        stored += collect(db);
    printf("stored %d of %d\n", stored, ITEMS);
    okv_close(&db);
    if (ferror(stdout) || fclose(stdout)) {
        fputs("cannot write the output\n", stderr);
        return 3;
    }
    return stored == ITEMS ? 0 : 1;
}
