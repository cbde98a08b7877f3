#include "tests/support/server_fixture.h"

#include "tests/support/test.h"

int server_fixture_start(void **state, const char *const *arguments)
{
    struct server_fixture *fixture = calloc(1, sizeof *fixture);

    assert_non_null(fixture);
    server_start(&fixture->server, arguments);
    fixture->handle = server_connect(&fixture->server, NULL);
    *state = fixture;
    return 0;
}

int server_fixture_stop(void **state)
{
    struct server_fixture *fixture = *state;

    okv_close(&fixture->handle);
    int status = server_stop(&fixture->server);
    free(fixture);
    return status;
}

okv *handle_of(void **state)
{
    return ((struct server_fixture *)*state)->handle;
}
