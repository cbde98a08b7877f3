#include "tests/support/transport_steps.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"

struct sockaddr_un steps_address(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    return address;
}

unsigned steps_open_descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

void steps_expect_descriptors(unsigned most)
{
    uint64_t end = pace_guard_end();

    while (steps_open_descriptors() > most) {
        assert_true(okv_clock_ns() < end);
        poll(NULL, 0, 1);
    }
}

int steps_listen(const struct fixture *fixture, const char *path, struct okv_listener **out,
                 struct okv_diag *diag)
{
    const struct okv_region region = {fixture->region, FIXTURE_REGION, fixture->region_fd};
    struct okv_uri uri = {.scheme = OKV_SCHEME_LOCAL};

    assert_true(strlen(path) < sizeof uri.path);
    memcpy(uri.path, path, strlen(path));
    return fixture->ops->listen(&uri, &region, 1, out, diag);
}

void steps_start(struct steps *steps, const struct fixture *fixture,
                 const struct okv_message_limits *limits)
{
    char path[96];

    steps->ops = fixture->ops;
    snprintf(path, sizeof path, "%s/steps", fixture->directory);
    assert_int_equal(steps_listen(fixture, path, &steps->listener, NULL), 0);
    assert_int_equal(
        steps->ops->endpoint_create(steps->listener, limits, 1, &steps->endpoint, NULL), 0);
}

void steps_stop(struct steps *steps)
{
    steps->ops->endpoint_destroy(steps->endpoint);
    steps->ops->unlisten(steps->listener);
}

void steps_let_in(const struct steps *steps, unsigned count, struct bare_client *client,
                  struct okv_conn **out)
{
    struct okv_request *request;
    const struct okv_accept accept = {.endpoint = steps->endpoint};
    struct okv_event event;
    uint8_t byte = 0;

    bare_connect(client, steps->listener->where + strlen("local://"));
    bare_hello(client, NULL, 0);
    assert_int_equal(steps->ops->next_request(steps->listener, &request), 1);
    assert_int_equal(request->hello_length, 0);
    assert_int_equal(steps->ops->accept(request, &accept), 0);
    assert_int_equal(bare_take_welcome(client, &byte, 1), 0);
    for (unsigned i = 0; i < count; i++)
        bare_send(client, &byte, 1, i);
    assert_int_equal(steps->ops->poll(steps->endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_OPENED);
    *out = event.conn;
}
