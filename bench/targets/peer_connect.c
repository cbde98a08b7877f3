#include "bench/targets/peer_connect.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <okv.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECT_TIMEOUT_MS 3000

/* An attempt to connect, and its error message. */
struct attempt {
    const struct peer_address *address;
    const char *path;
    char *why;
    size_t why_size;
};

static int complain(const struct attempt *attempt, int error)
{
    switch (error) {
    case ECONNREFUSED:
    case ENOENT:
        snprintf(attempt->why, attempt->why_size, "no server listens at %s: start %s there",
                 attempt->path, attempt->address->server);
        return OKV_EREFUSED;
    case ETIMEDOUT:
        snprintf(attempt->why, attempt->why_size,
                 "no answer from %s within %d ms: see that the address is right and %s runs there",
                 attempt->path, CONNECT_TIMEOUT_MS, attempt->address->server);
        return OKV_ETIMEDOUT;
    case EACCES:
    case EPERM:
        snprintf(attempt->why, attempt->why_size, "%s: %s: run as a user who may connect to it",
                 attempt->path, strerror(error));
        return OKV_EPERM;
    default:
        snprintf(attempt->why, attempt->why_size, "cannot connect to %s: %s", attempt->path,
                 strerror(error));
        return OKV_EADDRESS;
    }
}

/* Returns a connected descriptor or -errno. */
static int connect_address(int family, const struct sockaddr *address, socklen_t length)
{
    int error = 0;
    socklen_t size = sizeof error;

    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, address, length) != 0)
        error = errno;
    if (error == EINPROGRESS) {
        struct pollfd event = {.fd = fd, .events = POLLOUT};
        if (poll(&event, 1, CONNECT_TIMEOUT_MS) != 1)
            error = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error != 0) {
        close(fd);
        return -error;
    }
    return fd;
}

static int connect_unix(const struct attempt *attempt)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(attempt->path) >= sizeof address.sun_path) {
        snprintf(attempt->why, attempt->why_size,
                 "the path of a socket has at most %zu bytes: give a shorter one",
                 sizeof address.sun_path - 1);
        return OKV_EURI;
    }
    memcpy(address.sun_path, attempt->path, strlen(attempt->path));
    int fd = connect_address(AF_UNIX, (struct sockaddr *)&address, sizeof address);
    return fd >= 0 ? fd : complain(attempt, -fd);
}

static int connect_tcp(const struct attempt *attempt, const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int fd = -EHOSTUNREACH;
    int on = 1;

    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0) {
        snprintf(attempt->why, attempt->why_size, "%s: %s", attempt->path, gai_strerror(rc));
        return OKV_EADDRESS;
    }
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
        fd = connect_address(at->ai_family, at->ai_addr, at->ai_addrlen);
    freeaddrinfo(found);
    if (fd < 0)
        return complain(attempt, -fd);
    /* Nagle's algorithm would delay small requests. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

int peer_split_host(char *text, const char **host, const char **port)
{
    char *colon = strrchr(text, ':');

    *host = text;
    if (text[0] == '[') {
        char *end = strchr(text, ']');
        if (!end || (end[1] != '\0' && end[1] != ':'))
            return OKV_EURI;
        *host = text + 1;
        *end = '\0';
        colon = end[1] == ':' ? end + 1 : NULL;
    }
    if (colon) {
        *colon = '\0';
        *port = colon + 1;
    }
    size_t digits = strspn(*port, "0123456789");
    if ((*host)[0] == '\0' || digits == 0 || digits > 5 || (*port)[digits] != '\0')
        return OKV_EURI;
    return OKV_OK;
}

int peer_connect(const struct peer_address *address, const char *uri, bool *is_unix, char *path,
                 size_t path_size, char *why, size_t why_size)
{
    struct attempt attempt = {.address = address, .path = path, .why = why, .why_size = why_size};
    const char *rest = strstr(uri, "://");
    const char *host = NULL;
    const char *port = address->port;
    char text[256];

    rest = rest ? rest + 3 : "";
    *is_unix = rest[0] == '/';
    if (*is_unix && strlen(rest) < path_size) {
        snprintf(path, path_size, "%s", rest);
        return connect_unix(&attempt);
    }
    if (*is_unix || strlen(rest) >= sizeof text)
        goto bad_uri;
    snprintf(text, sizeof text, "%s", rest);
    if (peer_split_host(text, &host, &port) != OKV_OK)
        goto bad_uri;
    snprintf(path, path_size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return connect_tcp(&attempt, host, port);

bad_uri:
    snprintf(why, why_size,
             "\"%.200s\" names no server: give %s://HOST[:PORT] or %s:///PATH-OF-A-SOCKET", uri,
             address->scheme, address->scheme);
    return OKV_EURI;
}
