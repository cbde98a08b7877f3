/* Part of the list in transport_list.c: a server with a thread for each of several endpoints. */
#include <poll.h>

#include "tests/support/test.h"

#include "tests/support/transport_client.h"
#include "tests/unit/transport_list.h"

#define ENDPOINTS 3u
#define PAUSE_MS 20 /* a thread checks at this interval whether to stop */

struct echoer {
    const struct okv_transport_ops *ops;
    struct okv_endpoint *endpoint;
    pthread_t thread;
    atomic_bool *stop;
    atomic_uint opened, closed, wrong;
};

struct service {
    const struct okv_transport_ops *ops;
    struct okv_listener *listener;
    struct echoer echoers[ENDPOINTS];
    pthread_t acceptor;
    atomic_bool stop;
    unsigned next; /* endpoint for the next client; the acceptor's */
    atomic_uint wrong;
};

static void echo(struct echoer *echoer, const struct okv_event *event)
{
    uint8_t *buffer = echoer->ops->send_buffer(event->conn);

    if (buffer) {
        memcpy(buffer, event->data, event->length);
        echoer->ops->post_send(event->conn, event->length, event->immediate);
        echoer->ops->flush(event->conn);
    } else {
        atomic_fetch_add(&echoer->wrong, 1); /* clients have one message under way */
    }
    echoer->ops->recv_release(echoer->endpoint, event);
}

static void take_event(struct echoer *echoer, const struct okv_event *event)
{
    if (event->conn->user != echoer || event->conn->endpoint != echoer->endpoint)
        atomic_fetch_add(&echoer->wrong, 1);
    if (event->type == OKV_EVENT_OPENED) {
        atomic_fetch_add(&echoer->opened, 1);
    } else if (event->type == OKV_EVENT_RECV) {
        echo(echoer, event);
    } else if (event->type == OKV_EVENT_CLOSED) {
        echoer->ops->conn_destroy(event->conn);
        atomic_fetch_add(&echoer->closed, 1);
    } else {
        atomic_fetch_add(&echoer->wrong, 1);
    }
}

static void *run_echoer(void *argument)
{
    struct echoer *echoer = argument;

    while (!atomic_load(echoer->stop)) {
        struct pollfd watched = {.fd = echoer->endpoint->fd, .events = POLLIN};
        struct okv_event event;
        if (echoer->ops->arm(echoer->endpoint))
            atomic_fetch_add(&echoer->wrong, 1);
        int count = echoer->ops->poll(echoer->endpoint, &event, 1);
        if (count > 0)
            take_event(echoer, &event);
        else if (count < 0)
            atomic_fetch_add(&echoer->wrong, 1);
        else
            poll(&watched, 1, PAUSE_MS);
    }
    return NULL;
}

static void *run_acceptor(void *argument)
{
    struct service *service = argument;

    while (!atomic_load(&service->stop)) {
        struct pollfd watched = {.fd = service->listener->fd, .events = POLLIN};
        struct okv_request *request;
        uint8_t bytes[OKV_WELCOME_MAX];
        if (service->ops->next_request(service->listener, &request) <= 0) {
            poll(&watched, 1, PAUSE_MS);
            continue;
        }
        struct echoer *echoer = &service->echoers[service->next++ % ENDPOINTS];
        const struct okv_accept accept = {.endpoint = echoer->endpoint,
                                          .user = echoer,
                                          .welcome = bytes,
                                          .length = FIXTURE_WELCOME};
        fixture_make_welcome(service->listener, FIXTURE_ACCEPT, bytes);
        if (service->ops->accept(request, &accept)) {
            atomic_fetch_add(&service->wrong, 1);
            service->ops->reject(request, bytes, 0);
        }
    }
    return NULL;
}

void choose_other_address(struct okv_uri *uri)
{
    if (uri->scheme == OKV_SCHEME_LOCAL)
        strcat(uri->path, "2");
    else
        strcpy(uri->port, "7473");
}

static void service_start(struct service *service, const struct fixture *fixture,
                          const struct okv_uri *uri)
{
    static const struct okv_message_limits limits = {FIXTURE_SLOT_SIZE, FIXTURE_CREDITS};
    const struct okv_region region = {fixture->region, FIXTURE_REGION, fixture->region_fd};
    struct okv_diag diag = {""};

    service->ops = fixture->ops;
    if (service->ops->listen(uri, &region, 1, &service->listener, &diag))
        fail_msg("listen: %s", diag.text);
    service->listener->tls = fixture->tls;
    for (unsigned i = 0; i < ENDPOINTS; i++) {
        struct echoer *echoer = &service->echoers[i];
        echoer->ops = service->ops;
        echoer->stop = &service->stop;
        if (service->ops->endpoint_create(service->listener, &limits, FIXTURE_MAX_CONNS,
                                          &echoer->endpoint, &diag))
            fail_msg("endpoint: %s", diag.text);
        assert_int_equal(pthread_create(&echoer->thread, NULL, run_echoer, echoer), 0);
    }
    assert_int_equal(pthread_create(&service->acceptor, NULL, run_acceptor, service), 0);
}

static void service_stop(struct service *service)
{
    atomic_store(&service->stop, true);
    pthread_join(service->acceptor, NULL);
    for (unsigned i = 0; i < ENDPOINTS; i++)
        pthread_join(service->echoers[i].thread, NULL);
    for (unsigned i = 0; i < ENDPOINTS; i++)
        service->ops->endpoint_destroy(service->echoers[i].endpoint);
    service->ops->unlisten(service->listener);
}

TEST(several_endpoints_on_one_listener)
{
    struct fixture *fixture = *state;
    /* for the clients: where they connect */
    struct fixture *other = test_calloc(1, sizeof *other);
    struct service *service = test_calloc(1, sizeof *service);
    struct okv_uri uri = fixture->listen_uri;

    other->ops = fixture->ops;
    other->connect_uri = fixture->connect_uri;
    choose_other_address(&uri);
    choose_other_address(&other->connect_uri);
    service_start(service, fixture, &uri);
    unsigned clients = run_several_clients(other) + run_several_clients(other);
    for (unsigned i = 0; i < ENDPOINTS; i++) {
        struct echoer *echoer = &service->echoers[i];
        unsigned share = (clients + ENDPOINTS - 1 - i) / ENDPOINTS;
        assert_true(fixture_reaches(&echoer->opened, share));
        assert_true(fixture_reaches(&echoer->closed, share));
    }
    service_stop(service);
    for (unsigned i = 0; i < ENDPOINTS; i++)
        assert_int_equal(atomic_load(&service->echoers[i].wrong), 0);
    assert_int_equal(atomic_load(&service->wrong), 0);
    test_free(service);
    test_free(other);
}
