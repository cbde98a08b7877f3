/*
 * One call at a time: a second thread, a callback and a child are refused in every call of a
 * handle, and change nothing of it. Over a stub transport.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "client/api/enter.h"
#include "tests/support/handle_calls.h"
#include "tests/support/pace.h"
#include "tests/support/stub_client.h"

#define RACERS 4u
#define RACES 200000u /* of each */

static char key[16];
static volatile unsigned inside; /* threads in a call; only the one that passed writes it */

static int open_with_item(void **state)
{
    client_setup(state);
    stub_key(key, 3, STUB_DEPTH, 0);
    struct okv_entry entry = stub_inline(key, "value");
    stub_bucket(3, STUB_DEPTH, &entry, 1);
    handle = stub_open(8, 4, PACE_GUARD_MS);
    return 0;
}

#define ENTER_TEST(name) TEST_WITH(name, open_with_item, client_teardown)

/* Names of client/okv.map that no handle goes with. */
static bool is_without_handle(const char *name)
{
    static const char *const names[] = {"okv_open", "okv_version", "okv_transports", "okv_strerror",
                                        "okv_errname"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_listed(const char *name)
{
    for (const struct handle_call *call = handle_calls; call->name; call++)
        if (strcmp(call->name, name) == 0)
            return true;
    return false;
}

TEST(the_list_has_every_call)
{
    static const char separators[] = " \n;:{}*";
    char text[4096], *rest;
    unsigned found = 0, listed = 0;
    FILE *map = fopen(OKV_MAP, "r");

    assert_non_null(map);
    size_t size = fread(text, 1, sizeof text - 1, map);
    fclose(map);
    text[size] = '\0';
    for (char *word = strtok_r(text, separators, &rest); word;
         word = strtok_r(NULL, separators, &rest)) {
        if (strncmp(word, "okv_", 4) != 0 || is_without_handle(word))
            continue;
        if (!is_listed(word))
            fail_msg("%s is not in tests/support/handle_calls.c", word);
        found++;
    }
    for (const struct handle_call *call = handle_calls; call->name; call++)
        listed++;
    assert_int_equal(found, listed);
}

/* What a refused thread saw. */
struct second {
    const char *accepted; /* the call that was not refused; NULL: all were */
    int close;
    char why[32];
};

static void expect_all_refused(const struct second *second)
{
    if (second->accepted)
        fail_msg("%s was not refused for '%s'", second->accepted, second->why);
    assert_int_equal(second->close, OKV_EINVAL);
    assert_int_equal(stub.sent, 0);
}

static void *try_all(void *user)
{
    struct second *second = user;

    second->accepted = handle_calls_accepted(handle, second->why);
    okv *kept = handle;
    okv_close(&kept);
    second->close = kept ? OKV_EINVAL : OKV_OK;
    return NULL;
}

/* In the middle of a scan, which goes on. */
static int visit_beside_a_thread(void *user, const struct okv_item *item)
{
    pthread_t thread;

    assert_memory_equal(item->value, "value", 5);
    assert_int_equal(pthread_create(&thread, NULL, try_all, user), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return 0;
}

/* The next calls find the handle as it was. */
static void expect_whole(void)
{
    assert_int_equal(okv_get(handle, key, strlen(key), buffer[0], sizeof buffer[0], &length, NULL),
                     OKV_OK);
    assert_string_equal(okv_why(handle), "");
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(okv_pending(handle), 0);
}

ENTER_TEST(a_second_thread_is_refused)
{
    struct second second = {.accepted = ""};

    snprintf(second.why, sizeof second.why, ": thread %d is in a call", (int)gettid());
    assert_int_equal(okv_scan(handle, visit_beside_a_thread, &second), OKV_OK);
    expect_all_refused(&second);
    assert_string_equal(okv_why(handle), ""); /* this thread was not refused */
    expect_whole();
}

static int visit_and_call(void *user, const struct okv_item *item)
{
    (void)item;
    try_all(user);
    return 0;
}

ENTER_TEST(a_callback_is_refused)
{
    struct second second = {.accepted = "", .why = "callback must make none"};

    assert_int_equal(okv_scan(handle, visit_and_call, &second), OKV_OK);
    expect_all_refused(&second);
    assert_string_equal(okv_why(handle), "");
    expect_whole();
}

/* ---- at the same moment ---- */

struct racer {
    pthread_t thread;
    okv *handle;
    unsigned served, refused;
    int other; /* a code that is neither; or 0 */
};

/* Nothing but to enter and to leave. */
static void *race(void *user)
{
    struct racer *racer = user;

    for (unsigned i = 0; i < RACES; i++) {
        unsigned present = 0;
        int rc = call_enter(racer->handle, "race");
        if (rc == 0) {
            present = ++inside;
            inside--;
            rc = call_leave(racer->handle, present == 1 ? OKV_OK : OKV_EPROTO);
        }
        racer->served += rc == OKV_OK;
        racer->refused += rc == OKV_EINVAL;
        racer->other = rc == OKV_OK || rc == OKV_EINVAL ? racer->other : rc;
    }
    return NULL;
}

/* However they meet, one at a time passes. `inside` is no atomic: ThreadSanitizer looks, too. */
ENTER_TEST(of_threads_that_enter_at_the_same_moment_one_passes)
{
    struct racer racers[RACERS];

    for (unsigned i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.handle = handle};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (unsigned i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
        assert_int_equal(racers[i].other, 0);
        assert_int_equal(racers[i].served + racers[i].refused, RACES);
    }
    assert_int_equal(inside, 0);
    expect_whole();
}

static void *use_handle(void *user)
{
    int *rc = user;

    *rc = okv_get(handle, key, strlen(key), buffer[1], sizeof buffer[1], &length, NULL);
    return NULL;
}

ENTER_TEST(a_handle_goes_from_thread_to_thread)
{
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        int rc = OKV_EINVAL;
        assert_int_equal(pthread_create(&thread, NULL, use_handle, &rc), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(rc, OKV_OK);
        expect_whole();
    }
}

/* The number of the step that failed, or 0. */
static int be_child(const char *parent)
{
    struct okv_registration *none = NULL;

    if (handle_calls_accepted(handle, parent))
        return 1;
    if (okv_register(handle, key, sizeof key, &none) != OKV_EINVAL || none)
        return 2;
    okv_close(&handle);
    if (handle || stub.sent)
        return 3;
    return 0;
}

ENTER_TEST(a_child_is_refused_and_may_close)
{
    char parent[64];
    int status;

    snprintf(parent, sizeof parent, "process %d, which has forked", (int)getpid());
    uint64_t reads = stub.reads;
    pid_t child = fork();
    if (child == 0)
        _exit(be_child(parent));
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(stub.reads, reads);
    expect_whole();
}

static int visit_and_fork(void *user, const struct okv_item *item)
{
    (void)item;
    *(pid_t *)user = fork();
    return 0;
}

/* The call goes on in both. In the child it is refused in the end, and so are later ones. */
ENTER_TEST(a_child_of_a_callback_is_refused)
{
    pid_t child = -1;
    int status;

    int rc = okv_scan(handle, visit_and_fork, &child);
    if (child == 0)
        _exit(rc == OKV_EINVAL && okv_ping(handle) == OKV_EINVAL ? 0 : 1);
    assert_int_equal(rc, OKV_OK);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_whole();
}

/* A child of a child, whose mark the first one never had. */
ENTER_TEST(a_grandchild_is_refused)
{
    char parent[64];
    int status;

    snprintf(parent, sizeof parent, "process %d, which has forked", (int)getpid());
    pid_t child = fork();
    if (child == 0) {
        child = fork();
        if (child == 0)
            _exit(be_child(parent));
        if (child < 0 || waitpid(child, &status, 0) != child)
            _exit(4);
        _exit(WEXITSTATUS(status));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_whole();
}
