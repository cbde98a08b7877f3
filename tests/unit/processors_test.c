/* The list of --worker-cpus, and which processors threads keep to. */
#include <pthread.h>
#include <sched.h>

#include "tests/support/test.h"

#include "server/core/processors.h"
#include "shared/base/error.h"

/* Of this process; the first and the last of them. */
static cpu_set_t usable;
static int first, last;

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof usable, &usable), 0);
    for (first = 0; !CPU_ISSET(first, &usable); first++)
        continue;
    for (int cpu = first; cpu < CPU_SETSIZE; cpu++)
        last = CPU_ISSET(cpu, &usable) ? cpu : last;
    return 0;
}

static int parse(const char *text, cpu_set_t *set, struct okv_diag *diag)
{
    return okv_processors_parse(text, &usable, set, diag);
}

TEST(a_list_names_processors_and_ranges)
{
    char text[64];
    cpu_set_t set;

    if (first == last) {
        print_message("skipped: there is one processor\n");
        skip();
    }
    snprintf(text, sizeof text, "%d", last);
    assert_int_equal(parse(text, &set, NULL), 0);
    assert_int_equal(CPU_COUNT(&set), 1);
    assert_true(CPU_ISSET(last, &set));
    snprintf(text, sizeof text, "%d-%d,%d", first, first, first);
    assert_int_equal(parse(text, &set, NULL), 0);
    assert_true(CPU_ISSET(first, &set));
    assert_int_equal(CPU_COUNT(&set), 1);
}

TEST(what_is_no_list_is_refused)
{
    static const char *const wrong[] = {"",
                                        ",",
                                        "-",
                                        "a",
                                        "1-",
                                        "-1",
                                        "1,",
                                        ",1",
                                        "2-1",
                                        "0x1",
                                        "0 ",
                                        " 0",
                                        "0-0-0",
                                        "1024",
                                        "99999999999999999999",
                                        "0-99999999999999999999"};
    struct okv_diag diag;
    cpu_set_t set;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(parse(wrong[i], &set, &diag), OKV_EINVAL);
        assert_non_null(strstr(diag.text, "give processors"));
    }
}

TEST(a_processor_that_is_not_there_is_refused)
{
    struct okv_diag diag;
    cpu_set_t set;

    if (CPU_ISSET(CPU_SETSIZE - 1, &usable))
        skip();
    assert_int_equal(parse("1023", &set, &diag), OKV_EINVAL);
    assert_non_null(strstr(diag.text, "processor 1023 is not there"));
}

/* The server's other threads have to run somewhere. */
TEST(a_list_of_all_is_refused)
{
    char text[16 * CPU_SETSIZE];
    struct okv_diag diag;
    cpu_set_t set;
    size_t length = 0;

    for (int cpu = first; cpu <= last; cpu++)
        if (CPU_ISSET(cpu, &usable))
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%d",
                                       length ? "," : "", cpu);
    assert_int_equal(parse(text, &set, &diag), OKV_EINVAL);
    assert_non_null(strstr(diag.text, "leave one"));
}

/* ---- threads ---- */

struct threads {
    cpu_set_t of_workers, worker, other;
};

static void *be_worker(void *user)
{
    struct threads *threads = user;

    okv_processors_take(&threads->of_workers, 0);
    sched_getaffinity(0, sizeof threads->worker, &threads->worker);
    return NULL;
}

/* As main() does: first it leaves the processors to the workers, then it starts them. */
static void *be_main(void *user)
{
    struct threads *threads = user;
    pthread_t worker;

    okv_processors_avoid(&threads->of_workers);
    sched_getaffinity(0, sizeof threads->other, &threads->other);
    if (pthread_create(&worker, NULL, be_worker, threads) == 0)
        pthread_join(worker, NULL);
    return NULL;
}

static void start(struct threads *threads)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, be_main, threads), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

TEST(a_worker_has_its_processor_alone)
{
    struct threads threads = {0};

    if (first == last) {
        print_message("skipped: there is one processor\n");
        skip();
    }
    CPU_SET(last, &threads.of_workers);
    start(&threads);
    assert_true(CPU_EQUAL(&threads.worker, &threads.of_workers));
    assert_int_equal(CPU_COUNT(&threads.other), CPU_COUNT(&usable) - 1);
    assert_false(CPU_ISSET(last, &threads.other));
}

TEST(without_a_list_all_run_anywhere)
{
    struct threads threads = {0};

    start(&threads);
    assert_true(CPU_EQUAL(&threads.worker, &usable));
    assert_true(CPU_EQUAL(&threads.other, &usable));
}

TEST_PROGRAM(set_up, NULL)
