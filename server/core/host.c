#include "server/core/host.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "server/core/server.h"
#include "shared/base/error.h"
#include "shared/devices/facts.h"

void okv_host_init(struct okv_host *host)
{
    pthread_mutex_init(&host->lock, NULL);
}

void okv_host_fini(struct okv_host *host)
{
    free(host->text);
    host->text = NULL;
}

uint64_t okv_host_ask(struct okv_server *server)
{
    uint64_t number = atomic_fetch_add(&server->host->asked, 1) + 1;

    eventfd_write(server->acceptor_fd, 1);
    return number;
}

/* The lines of all ports, to free(); NULL without memory, or without a port. */
static char *read_lines(const char *root, size_t *length)
{
    struct okv_port_facts *ports = calloc(OKV_HOST_PORTS, sizeof *ports);
    int count = ports ? okv_facts_read(root, ports, OKV_HOST_PORTS) : 0;
    char *text = count > 0 ? malloc((size_t)count * OKV_FACTS_LINE_SIZE) : NULL;

    *length = 0;
    for (int i = 0; text && i < count; i++)
        *length += okv_facts_write(&ports[i], text + *length);
    free(ports);
    return text;
}

void okv_host_read(struct okv_host *host, const char *root)
{
    /* Before the reading: it serves all who asked up to now. */
    uint64_t number = atomic_load(&host->asked);
    size_t length;
    char *text = read_lines(root, &length);

    pthread_mutex_lock(&host->lock);
    char *before = host->text;
    host->text = text;
    host->length = length;
    atomic_store(&host->read, number);
    pthread_mutex_unlock(&host->lock);
    free(before);
}

int okv_host_tell(struct okv_host *host, uint64_t number, char *out, size_t size)
{
    if (number > atomic_load(&host->asked))
        return OKV_ENOTFOUND;
    if (number > atomic_load(&host->read))
        return OKV_EAGAIN;
    pthread_mutex_lock(&host->lock);
    size_t length = host->length < size ? host->length : size;
    while (length > 0 && host->text[length - 1] != '\n')
        length--;
    if (length > 0)
        memcpy(out, host->text, length);
    pthread_mutex_unlock(&host->lock);
    return (int)length;
}
