/*
 * The synchronous calls: each blocks until its answer.
 *
 *   cc sync.c $(pkg-config --cflags --libs okv) && ./a.out local:///run/okv.sock
 */
#include <okv.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program when a call failed. The handle says why, when it has lost its connection or the
 * call was refused for its arguments. */
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
    char why[256], value[64];
    size_t length;
    uint64_t version, newer;
    int64_t visits;
    okv *db;

    if (argc != 2 || okv_open(argv[1], NULL, &db, why, sizeof why)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: example_sync URI" : why);
        return 2;
    }

    /* A value is any bytes; its version tells it from every other value of this key. */
    check(db, "put", okv_put(db, "greeting", 8, "hello", 5, &version));
    check(db, "get", okv_get(db, "greeting", 8, value, sizeof value, &length, &version));
    printf("get: %.*s\n", (int)length, value);

    /* Compare and set: the put happens only if nobody changed the item since. */
    struct okv_put_options unchanged = {.flags = OKV_IF_VERSION, .version = version};
    check(db, "put if unchanged", okv_put_with(db, "greeting", 8, "hi", 2, &unchanged, &newer));
    int rc = okv_put_with(db, "greeting", 8, "ho", 2, &unchanged, &version);
    printf("put with the old version: %s, it has %s\n", okv_errname(rc),
           version == newer ? "the newer one" : "another");

    /* An item that goes by itself, unless somebody touches it in time. That it is there
     * already is an answer and not a failure. */
    struct okv_put_options minute = {.flags = OKV_WITH_TTL | OKV_IF_ABSENT, .ttl_ms = 60000};
    struct okv_item_info info;
    for (int i = 0; i < 2; i++) {
        rc = okv_put_with(db, "session", 7, "alice", 5, &minute, NULL);
        check(db, "put for a minute", rc == OKV_EEXISTS ? OKV_OK : rc);
        printf("put for a minute: %s\n", rc == OKV_EEXISTS ? "it is there" : "stored");
    }
    check(db, "head", okv_head(db, "session", 7, &info));
    printf("session: %zu bytes, expires: %s\n", info.length,
           info.ttl_ms == OKV_TTL_NONE ? "never" : "by itself");

    /* Numbers are decimal digits, and count from 0 when the key is not there. */
    check(db, "incr", okv_incr(db, "visits", 6, 41, &visits, NULL));
    check(db, "incr", okv_incr(db, "visits", 6, 1, &visits, NULL));
    printf("visits: %lld\n", (long long)visits);

    /* So is a miss. */
    check(db, "delete", okv_delete(db, "greeting", 8));
    check(db, "delete", okv_delete(db, "session", 7));
    check(db, "delete", okv_delete(db, "visits", 6));
    rc = okv_get(db, "greeting", 8, value, sizeof value, &length, NULL);
    printf("get after the delete: %s\n", rc == OKV_ENOTFOUND ? "a miss" : okv_errname(rc));

    okv_close(&db);
    if (ferror(stdout) || fclose(stdout)) {
        fputs("cannot write the output\n", stderr);
        return 3;
    }
    return 0;
}
