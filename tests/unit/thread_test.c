/* Why no thread starts: a limit on threads is told apart from a lack of memory, though glibc
 * reports both alike. */
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/base/thread.h"

static int failure;         /* of pthread_create(); 0: it works */
static bool is_memory_full; /* for what a thread needs */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);
void *__real_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument)
{
    return failure ? failure : __real_pthread_create(thread, attributes, run, argument);
}

void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    return is_memory_full ? MAP_FAILED : __real_mmap(at, length, protection, flags, fd, offset);
}

static void *raise_it(void *argument)
{
    ++*(int *)argument;
    return NULL;
}

TEST(a_thread_runs)
{
    struct okv_diag why = {.text = ""};
    pthread_t thread;
    int number = 1;

    failure = 0;
    assert_int_equal(okv_thread_start(&thread, raise_it, &number, &why), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(number, 2);
    assert_string_equal(why.text, "");
}

/* What pthread_create() returned, and whether there is memory. */
static int start(int errnum, bool is_full, struct okv_diag *why)
{
    pthread_t thread;

    failure = errnum;
    is_memory_full = is_full;
    int rc = okv_thread_start(&thread, raise_it, NULL, why);
    is_memory_full = false;
    return rc;
}

TEST(a_limit_on_threads_is_named)
{
    struct okv_diag why = {.text = ""};

    assert_int_equal(start(EAGAIN, false, &why), OKV_EPERM);
    assert_non_null(strstr(why.text, "no more threads"));
    assert_non_null(strstr(why.text, "ulimit -u"));
    assert_non_null(strstr(why.text, "pids.max"));
    assert_null(strstr(why.text, "memory"));
}

TEST(no_memory_for_a_thread_is_no_limit_on_threads)
{
    struct okv_diag why = {.text = ""};

    assert_int_equal(start(EAGAIN, true, &why), OKV_ENOMEM);
    assert_string_equal(why.text, "no memory for a thread");
    why.text[0] = '\0';
    assert_int_equal(start(ENOMEM, false, &why), OKV_ENOMEM);
    assert_string_equal(why.text, "no memory for a thread");
}

TEST(another_failure_is_in_the_words_of_the_system)
{
    struct okv_diag why = {.text = ""};

    assert_int_equal(start(EPERM, false, &why), OKV_EPERM);
    assert_string_equal(why.text, "no thread: Operation not permitted");
}

TEST(nobody_has_to_ask_why)
{
    assert_int_equal(start(EAGAIN, false, NULL), OKV_EPERM);
}
