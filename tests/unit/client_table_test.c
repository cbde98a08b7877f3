/* Scans over the table of all clients, in steps between which clients come and go. */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/clients/client_table.h"

#define CLIENTS (3 * OKV_CLIENTS_PER_SCAN)

struct scene {
    struct okv_client_table table;
    struct okv_client *clients; /* [CLIENTS], in pages of their own */
    size_t size;
    unsigned looked_at[CLIENTS]; /* how often */
};

static int begin(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);

    assert_non_null(scene);
    scene->size = CLIENTS * sizeof *scene->clients;
    scene->clients =
        mmap(NULL, scene->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(scene->clients, MAP_FAILED);
    okv_client_table_init(&scene->table);
    for (unsigned i = 0; i < CLIENTS; i++) {
        scene->clients[i].id = i;
        scene->clients[i].kind = OKV_CLIENT_RESP;
        okv_client_table_add(&scene->table, &scene->clients[i], false);
    }
    *state = scene;
    return 0;
}

static int end(void **state)
{
    struct scene *scene = *state;

    okv_client_table_fini(&scene->table);
    munmap(scene->clients, scene->size);
    free(scene);
    return 0;
}

#define SCENE_TEST(name) TEST_WITH(name, begin, end)

static void look_at(void *user, struct okv_client *client)
{
    struct scene *scene = user;

    scene->looked_at[client->id]++;
}

/* A step of the scan of a client. */
static bool step_of(struct scene *scene, unsigned scanner, bool goes_on)
{
    return okv_client_table_scan(&scene->table, &scene->clients[scanner], goes_on, look_at, scene);
}

static bool step(struct scene *scene, bool goes_on)
{
    return step_of(scene, CLIENTS - 1, goes_on);
}

static void expect_looked_at(const struct scene *scene, unsigned first, unsigned last,
                             unsigned times)
{
    for (unsigned i = first; i <= last; i++)
        assert_int_equal(scene->looked_at[i], times);
}

static void expect_rest(struct scene *scene)
{
    for (unsigned i = 0; step(scene, true); i++)
        assert_true(i < CLIENTS);
}

SCENE_TEST(each_client_is_looked_at_once)
{
    struct scene *scene = *state;

    for (unsigned i = 1; i <= 2; i++) {
        assert_true(step(scene, false));
        expect_looked_at(scene, 0, OKV_CLIENTS_PER_SCAN - 1, i);
        expect_looked_at(scene, OKV_CLIENTS_PER_SCAN, CLIENTS - 1, i - 1);
        expect_rest(scene);
        expect_looked_at(scene, 0, CLIENTS - 1, i);
    }
}

SCENE_TEST(a_scan_may_be_given_up)
{
    struct scene *scene = *state;

    assert_true(step(scene, false));
    assert_true(step(scene, false));
    expect_looked_at(scene, 0, OKV_CLIENTS_PER_SCAN - 1, 2);
    expect_looked_at(scene, OKV_CLIENTS_PER_SCAN, CLIENTS - 1, 0);
}

/* However many clients it has looked at, a step begins where the last one ended. */
SCENE_TEST(a_step_touches_no_client_before_its_own)
{
    struct scene *scene = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = (OKV_CLIENTS_PER_SCAN - 1) * sizeof *scene->clients / page * page;

    assert_true(step(scene, false));
    assert_true(before > 0);
    assert_int_equal(mprotect(scene->clients, before, PROT_NONE), 0);
    assert_true(step(scene, true));
    assert_int_equal(mprotect(scene->clients, before, PROT_READ | PROT_WRITE), 0);
    expect_looked_at(scene, OKV_CLIENTS_PER_SCAN, 2 * OKV_CLIENTS_PER_SCAN - 1, 1);
}

static void leave(struct scene *scene, unsigned first, unsigned last)
{
    for (unsigned i = first; i <= last; i++) {
        okv_client_table_remove(&scene->table, &scene->clients[i]);
        memset(&scene->clients[i], 0xff, sizeof scene->clients[i]);
    }
}

SCENE_TEST(a_scan_goes_on_when_clients_have_left)
{
    enum { LAST = OKV_CLIENTS_PER_SCAN - 1 };
    struct scene *scene = *state;

    assert_true(step(scene, false));
    leave(scene, LAST - 10, LAST + 10);
    expect_rest(scene);
    expect_looked_at(scene, 0, LAST, 1);
    expect_looked_at(scene, LAST + 1, LAST + 10, 0);
    expect_looked_at(scene, LAST + 11, CLIENTS - 1, 1);
}

SCENE_TEST(a_scan_goes_on_when_all_before_have_left)
{
    struct scene *scene = *state;

    assert_true(step(scene, false));
    leave(scene, 0, OKV_CLIENTS_PER_SCAN - 1);
    expect_rest(scene);
    expect_looked_at(scene, 0, CLIENTS - 1, 1);
}

SCENE_TEST(a_scan_ends_when_all_after_have_left)
{
    struct scene *scene = *state;

    assert_true(step(scene, false));
    leave(scene, OKV_CLIENTS_PER_SCAN, CLIENTS - 2);
    assert_false(step(scene, true));
    expect_looked_at(scene, 0, OKV_CLIENTS_PER_SCAN - 1, 1);
    expect_looked_at(scene, OKV_CLIENTS_PER_SCAN, CLIENTS - 2, 0);
    expect_looked_at(scene, CLIENTS - 1, CLIENTS - 1, 1);
}

/* Clients whose own scans are under way, one of which has looked at itself last. */
SCENE_TEST(a_scanner_may_leave)
{
    enum { LAST = OKV_CLIENTS_PER_SCAN - 1 };
    struct scene *scene = *state;

    assert_true(step(scene, false));
    assert_true(step_of(scene, LAST, false));
    assert_true(step_of(scene, LAST + 1, false));
    leave(scene, LAST + 1, LAST + 1);
    leave(scene, LAST, LAST);
    expect_rest(scene);
    expect_looked_at(scene, 0, LAST, 3);
    expect_looked_at(scene, LAST + 1, LAST + 1, 0);
    expect_looked_at(scene, LAST + 2, CLIENTS - 1, 1);
}
