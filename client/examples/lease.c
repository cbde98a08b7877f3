/*
 * A lease: one process of many does something, and another takes over when it dies. And a counter
 * for numbers that come once.
 *
 * What a lease guarantees: its item has one owner at a time, and each owner a fencing token that is
 * higher than those of all owners before. What not: that an owner stops in time. It may be paused
 * between a look at its clock and what it does then, for longer than its lease lives: swapping, a
 * debugger, the move of a virtual machine. So whatever must not be done by two has to see the token
 * and refuse one that is lower than the highest that it has seen, as fenced_put() does for an item.
 * Without that a lease spares work that is done twice, but does not prevent it.
 *
 * Clocks may show different times, but must run at about the same rate. Versions of a key rise as
 * long as the database lives; one in memory ends with its server, with all leases and tokens: use
 * `okv-server --data DIRECTORY --sync always`. After a restore versions may come again: stop all
 * owners before.
 */
#include <okv.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define TTL_MS 30000
#define TRIES 5
/* A tenth of its time an owner does not use: clocks differ in their rates, and work takes time. */
#define MARGIN(ttl_ms) ((ttl_ms) / 10)
/* Of fenced_put(): a later owner was there. Stop the work. */
#define FENCED 1

struct lease {
    okv *db;
    const char *key;
    unsigned char owner[16]; /* another one each time that the lease is taken */
    uint64_t token;          /* for fencing: the version that it was taken with */
    uint64_t version;        /* the present one, which each renewal changes */
    int64_t until_ms;        /* ours until then, by now_ms() */
};

/* It goes on while the machine is suspended. */
static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* It was, a moment ago: see above. */
static bool lease_is_held(const struct lease *lease)
{
    return now_ms() < lease->until_ms;
}

/* Does the item have our name? Then its version is the lease's. */
static bool lease_find(struct lease *lease)
{
    unsigned char owner[sizeof lease->owner];
    uint64_t version;
    size_t length;
    int rc =
        okv_get(lease->db, lease->key, strlen(lease->key), owner, sizeof owner, &length, &version);

    if (rc || length != sizeof owner || memcmp(owner, lease->owner, length) != 0)
        return false;
    lease->version = version;
    return true;
}

/* Puts our name there: where there is none, or ours in the version that we know. A put with such a
 * condition can be repeated after OKV_EUNKNOWN. When the first one did happen, the second is
 * refused, but the name is ours: then a third, on its version, gives the time that it was put. */
static int lease_put(struct lease *lease, int64_t ttl_ms)
{
    int rc = OKV_EUNKNOWN;

    for (int i = 0; i < TRIES && rc == OKV_EUNKNOWN; i++) {
        struct okv_put_options options = {.flags = OKV_WITH_TTL | OKV_IF_ABSENT, .ttl_ms = ttl_ms};
        if (lease->version != 0) {
            options.flags = OKV_WITH_TTL | OKV_IF_VERSION;
            options.version = lease->version;
        }
        uint64_t version;
        int64_t begun_ms = now_ms(); /* before the call: the item lives for ttl_ms from here on */
        rc = okv_put_with(lease->db, lease->key, strlen(lease->key), lease->owner,
                          sizeof lease->owner, &options, &version);
        if (rc == OKV_OK) {
            lease->version = version;
            lease->until_ms = begun_ms + ttl_ms - MARGIN(ttl_ms);
        } else if ((rc == OKV_EEXISTS || rc == OKV_ECONFLICT) && lease_find(lease)) {
            rc = OKV_EUNKNOWN;
        }
    }
    return rc;
}

/* OKV_EEXISTS: somebody has it; try again later. All else but OKV_OK: it is not known. */
static int lease_take(struct lease *lease, int64_t ttl_ms)
{
    lease->version = 0;
    lease->until_ms = 0;
    if (getrandom(lease->owner, sizeof lease->owner, 0) != sizeof lease->owner)
        return OKV_EIO;
    int rc = lease_put(lease, ttl_ms);
    if (rc == OKV_OK)
        lease->token = lease->version;
    return rc;
}

/* Waits until the lease is free, for as long as that takes. */
static int lease_await(struct lease *lease, int64_t ttl_ms)
{
    int rc;

    while ((rc = lease_take(lease, ttl_ms)) == OKV_EEXISTS)
        usleep(20000);
    return rc;
}

/* Call it after a third of the time, so that it can fail twice. OKV_ECONFLICT, OKV_ENOTFOUND: the
 * lease is lost, take it anew. Any other error: it is ours as long as lease_is_held(). It is a put,
 * as okv_touch() has no condition: that would renew the lease of its present holder. */
static int lease_renew(struct lease *lease, int64_t ttl_ms)
{
    int rc = lease_put(lease, ttl_ms);

    if (rc == OKV_ECONFLICT || rc == OKV_ENOTFOUND)
        lease->until_ms = 0;
    return rc;
}

/* Whatever comes of it: if it did not happen, the item goes when its time has passed. */
static void lease_give_up(struct lease *lease)
{
    lease->until_ms = 0;
    okv_delete_if(lease->db, lease->key, strlen(lease->key), lease->version);
}

/* What the work is on, with the token of who wrote it. All hosts have the same byte order. */
struct fenced {
    uint64_t token;
    char text[40];
};

/* Compare and swap: the put happens only if the item still is what was looked at. */
static int fenced_put(const struct lease *lease, const char *key, const struct fenced *wanted)
{
    int rc = OKV_EUNKNOWN;

    for (int i = 0; i < TRIES; i++) {
        struct okv_put_options options = {.flags = OKV_IF_VERSION | OKV_KEEP_TTL};
        struct fenced there;
        size_t length = sizeof there;
        rc = okv_get(lease->db, key, strlen(key), &there, sizeof there, &length, &options.version);
        if (rc == OKV_ENOTFOUND)
            options = (struct okv_put_options){.flags = OKV_IF_ABSENT};
        else if (rc || length != sizeof there)
            return rc ? rc : OKV_EVALUESIZE;
        else if (there.token > wanted->token)
            return FENCED;
        else if (memcmp(&there, wanted, sizeof there) == 0)
            return OKV_OK; /* a try had no answer, but happened */
        rc = okv_put_with(lease->db, key, strlen(key), wanted, sizeof *wanted, &options, NULL);
        if (rc != OKV_EUNKNOWN && rc != OKV_ECONFLICT && rc != OKV_EEXISTS && rc != OKV_ENOTFOUND)
            return rc;
    }
    return rc;
}

/* A number that comes once, from any process. After OKV_EUNKNOWN it takes the next: numbers may be
 * left out. Where a sum has to be right, change it as fenced_put() does, by its version. */
static int number_take(okv *db, const char *key, int64_t *number)
{
    int rc = OKV_EUNKNOWN;

    for (int i = 0; i < TRIES && rc == OKV_EUNKNOWN; i++)
        rc = okv_incr(db, key, strlen(key), 1, number, NULL);
    return rc;
}

/* ---- two processes, here in one, and one of them is paused ---- */

static void check(const okv *db, const char *what, int rc)
{
    if (rc == OKV_OK)
        return;
    const char *why = okv_why(db);
    fprintf(stderr, "%s: %s\n", what, why[0] ? why : okv_strerror(rc));
    exit(1);
}

static void work(struct lease *a, struct lease *b)
{
    struct fenced text = {.text = "written by a"};

    check(a->db, "a takes the lease", lease_await(a, TTL_MS));
    printf("b tries: %s\n", okv_errname(lease_take(b, TTL_MS)));
    text.token = a->token;
    check(a->db, "a writes", fenced_put(a, "lease:text", &text));

    /* From now on a is paused. */
    check(a->db, "a renews", lease_renew(a, 300));
    check(b->db, "b takes over", lease_await(b, TTL_MS));
    printf("b took over, its token is %s\n", b->token > a->token ? "higher" : "not higher");
    strcpy(text.text, "written by b");
    text.token = b->token;
    check(b->db, "b writes", fenced_put(b, "lease:text", &text));

    printf("a goes on, and %s\n", lease_is_held(a) ? "relies on it" : "sees that its time is over");
    strcpy(text.text, "late, by a");
    text.token = a->token;
    printf("a had not looked: %s\n", fenced_put(a, "lease:text", &text) == FENCED ? "fenced" : "?");
    int rc = lease_renew(a, TTL_MS);
    printf("a renews: %s\n", rc == OKV_ECONFLICT ? "it is another's" : okv_errname(rc));
    lease_give_up(b);
}

int main(int argc, char **argv)
{
    /* A database that has lost its items has lost its leases: rather stop. */
    struct okv_options options = {.reconnect = OKV_RECONNECT_IF_KEPT};
    struct lease a = {.key = "lease:leader"}, b = {.key = "lease:leader"};
    int64_t first, second;
    char why[256];

    if (argc != 2 || okv_open(argv[1], &options, &a.db, why, sizeof why) ||
        okv_open(argv[1], &options, &b.db, why, sizeof why)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: example_lease URI" : why);
        okv_close(&a.db);
        return 2;
    }
    work(&a, &b);
    check(a.db, "number", number_take(a.db, "lease:number", &first));
    check(b.db, "number", number_take(b.db, "lease:number", &second));
    printf("two numbers: %s\n", second > first ? "each once" : "one twice");
    okv_close(&a.db);
    okv_close(&b.db);
    if (ferror(stdout) || fclose(stdout)) {
        fputs("cannot write the output\n", stderr);
        return 3;
    }
    return 0;
}
