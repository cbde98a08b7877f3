#include "tests/support/etcd_actor.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#define ENDLESS 1000000 /* bytes, which never come */

/* A request is whole when the bytes of its body have come. */
static bool is_whole(const struct etcd_connection *connection)
{
    const char *body = strstr(connection->request, "\r\n\r\n");
    const char *length = strcasestr(connection->request, "content-length:");

    return body && length && strlen(body + 4) >= strtoul(length + 15, NULL, 10);
}

static void say(const struct etcd_connection *connection, int status, size_t length,
                const char *body)
{
    char head[160];

    int size = snprintf(head, sizeof head, "HTTP/1.1 %d Of The Play\r\nContent-Length: %zu\r\n\r\n",
                        status, length);
    send(connection->fd, head, (size_t)size, MSG_NOSIGNAL);
    send(connection->fd, body, strlen(body), MSG_NOSIGNAL);
}

static void answer(struct etcd_actor *actor, const struct etcd_connection *connection)
{
    unsigned stream = actor->stream_count, number = actor->request_count - 1;

    if (actor->streams && strstr(connection->request, "/v3/watch")) {
        say(connection, 200, ENDLESS, actor->streams[stream]);
        actor->stream_count += actor->streams[stream + 1] != NULL;
        return;
    }
    if (actor->act_count == 0)
        return;
    const struct etcd_act *act =
        &actor->acts[number < actor->act_count ? number : actor->act_count - 1];
    if (act->status == 0)
        shutdown(connection->fd, SHUT_RDWR);
    else
        say(connection, act->status, act->body ? strlen(act->body) : ENDLESS,
            act->body ? act->body : "");
}

static void drop(struct etcd_actor *actor, unsigned i)
{
    close(actor->connections[i].fd);
    actor->connections[i] = actor->connections[--actor->count];
}

static void serve(struct etcd_actor *actor, unsigned i)
{
    struct etcd_connection *connection = &actor->connections[i];

    ssize_t got = recv(connection->fd, connection->request + connection->length,
                       sizeof connection->request - 1 - connection->length, 0);
    if (got <= 0) {
        drop(actor, i);
        return;
    }
    connection->length += (size_t)got;
    connection->request[connection->length] = '\0';
    if (!is_whole(connection))
        return;
    unsigned number = actor->request_count++;
    if (number < ETCD_ACTS)
        memcpy(actor->requests[number], connection->request, sizeof connection->request);
    answer(actor, connection);
    connection->length = 0;
    connection->request[0] = '\0';
}

static void *play(void *context)
{
    struct etcd_actor *actor = context;

    for (;;) {
        struct pollfd fds[2 + ETCD_CONNECTIONS] = {{actor->stop[0], POLLIN, 0},
                                                   {actor->listener, POLLIN, 0}};
        unsigned count = actor->count;
        for (unsigned i = 0; i < count; i++)
            fds[2 + i] = (struct pollfd){actor->connections[i].fd, POLLIN, 0};
        poll(fds, 2 + count, -1);
        if (fds[0].revents)
            return NULL;
        for (unsigned i = count; i-- > 0;)
            if (fds[2 + i].revents)
                serve(actor, i);
        if (fds[1].revents && actor->count < ETCD_CONNECTIONS)
            actor->connections[actor->count++] =
                (struct etcd_connection){.fd = accept(actor->listener, NULL, NULL)};
    }
}

void etcd_actor_start(struct etcd_actor *actor, const struct etcd_act *acts, size_t count,
                      const char *const *streams)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;

    *actor = (struct etcd_actor){.acts = acts, .act_count = count, .streams = streams};
    assert_true(count <= ETCD_ACTS);
    actor->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(actor->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(actor->listener, ETCD_CONNECTIONS), 0);
    assert_int_equal(getsockname(actor->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(actor->url, sizeof actor->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(pipe(actor->stop), 0);
    assert_int_equal(pthread_create(&actor->thread, NULL, play, actor), 0);
}

void etcd_actor_stop(struct etcd_actor *actor)
{
    close(actor->stop[1]);
    pthread_join(actor->thread, NULL);
    while (actor->count)
        drop(actor, 0);
    close(actor->listener);
    close(actor->stop[0]);
}
