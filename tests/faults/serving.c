#include "tests/faults/serving.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/core/door.h"
#include "server/core/server.h"
#include "server/net/acceptor.h"
#include "server/store/store.h"
#include "shared/base/error.h"
#include "tests/faults/inject.h"
#include "tests/support/pace.h"
#include "tests/support/store_audit.h"

#define VALUE_MAX (1u << 20)

/* server/main/main.c, compiled with another name for its main(). */
int okv_server_main(int argc, char **argv);

/* One server for each process. */
static struct {
    pthread_t thread;
    char uri[256];
    const struct model *model;
    struct okv_server *server; /* from when it accepts clients until it is told to end */
    sem_t serves;              /* it waits for signals, or has ended */
    sem_t may_check;           /* the client is done with the model */
    atomic_bool ended;
    int status;
} serving;

void complain(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    fputs("WRONG: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    _exit(1);
}

int __real_sigtimedwait(const sigset_t *signals, siginfo_t *info, const struct timespec *timeout);
int __wrap_sigtimedwait(const sigset_t *signals, siginfo_t *info, const struct timespec *timeout);
int __wrap_sigtimedwait(const sigset_t *signals, siginfo_t *info, const struct timespec *timeout)
{
    sem_post(&serving.serves);
    return __real_sigtimedwait(signals, info, timeout);
}

/* A second signal would end the process; here that is one of the test's. */
int __real_pthread_sigmask(int how, const sigset_t *signals, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *signals, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *signals, sigset_t *old)
{
    return how == SIG_UNBLOCK ? 0 : __real_pthread_sigmask(how, signals, old);
}

int __real_okv_acceptor_start(struct okv_acceptor *acceptor, struct okv_server *server,
                              struct okv_diag *why);
int __wrap_okv_acceptor_start(struct okv_acceptor *acceptor, struct okv_server *server,
                              struct okv_diag *why);
int __wrap_okv_acceptor_start(struct okv_acceptor *acceptor, struct okv_server *server,
                              struct okv_diag *why)
{
    serving.server = server;
    return __real_okv_acceptor_start(acceptor, server, why);
}

static void check_item(struct okv_store *store, const struct model_item *item, char *value)
{
    uint64_t version;
    uint32_t length = 0;
    int rc = okv_store_get(store, NULL, item->key, (uint32_t)strlen(item->key), value, VALUE_MAX,
                           &length, &version);

    if (rc == OKV_ENOTFOUND ? !model_may_be_absent(item)
                            : rc != OKV_OK || !model_may_be(item, value, length))
        complain("the table has %s of %u bytes under %s (%s), which no client put there",
                 rc ? "nothing" : "a value", length, item->key, okv_error_name(rc));
}

/* Every byte of the heap belongs to something that the table refers to. */
static void check_heap(struct okv_store *store, const struct store_audit *audit)
{
    uint64_t reserve =
        atomic_load(&store->reserve)
            ? okv_heap_size((uint64_t)store->table.segment_buckets * store->table.bucket_size)
            : 0;
    uint64_t used = okv_heap_used(&store->heap);

    if (used != audit->class_bytes + reserve)
        complain("the heap has given %llu bytes, of which the table knows %llu",
                 (unsigned long long)used, (unsigned long long)(audit->class_bytes + reserve));
}

static void check_table(struct okv_store *store)
{
    struct store_audit audit;
    char *value = malloc(VALUE_MAX);

    store_audit_run(store->heap.base, store->length, OKV_BUCKET_SIZE_MAX, NULL, NULL, &audit);
    check_heap(store, &audit);
    for (unsigned i = 0; serving.model && i < MODEL_KEYS; i++)
        check_item(store, &serving.model->items[i], value);
    free(value);
}

void __real_okv_store_fini(struct okv_store *store);
void __wrap_okv_store_fini(struct okv_store *store);
void __wrap_okv_store_fini(struct okv_store *store)
{
    atomic_store(&serving.ended, true);
    sem_post(&serving.serves);
    sem_wait(&serving.may_check);
    inject_watch(false);
    if (atomic_load(&store->bucket_count)) /* else it failed before there was a table */
        check_table(store);
    inject_watch(true);
    __real_okv_store_fini(store);
}

static void *run(void *user)
{
    char keepalive[16];
    char *argv[] = {"okv-server",
                    "-l",
                    serving.uri,
                    "-m",
                    "4M",
                    "--spin-us",
                    "0",
                    "--max-clients",
                    "8",
                    "--max-clients-per-address",
                    "0",
                    "--workers",
                    "2",
                    "--keepalive-ms",
                    keepalive,
                    "--open",
                    "--log-format",
                    "text",
                    NULL,
                    NULL};
    size_t count = sizeof argv / sizeof *argv - 2;

    (void)user;
    snprintf(keepalive, sizeof keepalive, "%u", pace_ms(600));
    if (strncmp(serving.uri, "local:", 6) == 0) /* found by UDP */
        argv[count++] = "--announce=" SERVING_GROUP;
    serving.status = okv_server_main((int)count, argv);
    atomic_store(&serving.ended, true);
    sem_post(&serving.serves);
    return NULL;
}

void serving_start(const char *uri, const struct model *model)
{
    sigset_t signals;

    snprintf(serving.uri, sizeof serving.uri, "%s", uri);
    serving.model = model;
    sem_init(&serving.serves, 0, 0);
    sem_init(&serving.may_check, 0, 0);
    sigemptyset(&signals); /* for the server's thread alone */
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, OKV_SERVER_END_SIGNAL);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (pthread_create(&serving.thread, NULL, run, NULL))
        complain("no thread for the server");
    while (sem_wait(&serving.serves))
        ;
}

bool serving_has_ended(void)
{
    return atomic_load(&serving.ended);
}

unsigned serving_openings(void)
{
    struct okv_door *door = &serving.server->doors[0];

    if (atomic_load(&door->failure) || atomic_load(&door->state) != OKV_DOOR_OPEN)
        return SERVING_CLOSED;
    return atomic_load(&door->openings);
}

int serving_stop(void)
{
    sem_post(&serving.may_check);
    kill(getpid(), SIGTERM); /* stays blocked when it has ended already */
    pthread_join(serving.thread, NULL);
    return serving.status;
}
