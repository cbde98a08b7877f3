#include "tests/support/server_thread.h"

#include <signal.h>

#include "server/main/serve.h"
#include "shared/base/clock.h"
#include "tests/support/test.h"

#define OPTIONS_MAX 32

static void *run(void *user)
{
    struct server_thread *it = user;
    struct okv_diag diag = {.text = ""};

    it->status = okv_serve(it->server, &diag);
    return NULL;
}

void server_thread_create(struct server_thread *it, const char *const *options)
{
    char *argv[OPTIONS_MAX + 2] = {"okv-server"};
    int argc = 1;
    sigset_t signals;

    for (; options[argc - 1]; argc++) {
        assert_true(argc <= OPTIONS_MAX);
        argv[argc] = (char *)options[argc - 1];
    }
    sigemptyset(&signals);
    sigaddset(&signals, OKV_SERVER_END_SIGNAL);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* for the server's thread alone */
    it->server = okv_server_create();
    assert_non_null(it->server);
    it->server->start_ms = okv_clock_boot_ms();
    assert_int_equal(okv_config_parse(argc, argv, &it->server->config), 0);
}

void server_thread_run(struct server_thread *it)
{
    assert_int_equal(pthread_create(&it->thread, NULL, run, it), 0);
}

void server_thread_start(struct server_thread *it, const char *const *options)
{
    server_thread_create(it, options);
    server_thread_run(it);
}

void server_thread_stop(struct server_thread *it)
{
    okv_server_ask_end(it->server);
    pthread_join(it->thread, NULL);
    assert_int_equal(it->status, 0);
    okv_config_fini(&it->server->config);
    okv_server_destroy(it->server);
}
