#include "server/metrics/scrapers.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "shared/base/clock.h"
#include "shared/base/resolve.h"

/* For a whole request and its answer, and for a connection that asks nothing. */
#define REQUEST_NS UINT64_C(10000000000)

struct scraper {
    struct okv_crowd_member member; /* first; in the crowd until it is ended */
    char address[OKV_HOST_TEXT];
    int fd;
    bool is_ended;
    uint64_t begun_ns;
};

void okv_scrapers_init(struct okv_scrapers *scrapers)
{
    okv_crowd_init(&scrapers->crowd);
}

static void leave(struct okv_scrapers *scrapers, struct scraper *scraper)
{
    if (!scraper->is_ended)
        okv_crowd_remove(&scrapers->crowd, &scraper->member);
    scraper->is_ended = true;
}

/* libmicrohttpd finds the connection at its end, and closes it. */
static void end(struct okv_scrapers *scrapers, struct scraper *scraper)
{
    leave(scrapers, scraper);
    shutdown(scraper->fd, SHUT_RDWR);
}

static struct scraper *create(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct scraper *scraper = fd && peer ? calloc(1, sizeof *scraper) : NULL;

    if (!scraper)
        return NULL;
    scraper->fd = fd->connect_fd;
    scraper->begun_ns = okv_clock_ns();
    scraper->member.address = scraper->address;
    okv_host_group_text(peer->client_addr, scraper->address);
    return scraper;
}

void okv_scrapers_on_connection(void *user, struct MHD_Connection *connection, void **context,
                                enum MHD_ConnectionNotificationCode code)
{
    struct okv_scrapers *scrapers = user;
    struct scraper *scraper = *context;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED && scraper) {
        leave(scrapers, scraper);
        free(scraper);
        *context = NULL;
    }
    if (code != MHD_CONNECTION_NOTIFY_STARTED)
        return;
    *context = scraper = create(connection);
    if (!scraper)
        return;
    okv_crowd_add(&scrapers->crowd, &scraper->member);
    while (scrapers->crowd.count > OKV_SCRAPERS_MAX)
        end(scrapers, (struct scraper *)okv_crowd_one_too_many(&scrapers->crowd));
}

void okv_scrapers_on_completed(void *user, struct MHD_Connection *connection, void **state,
                               enum MHD_RequestTerminationCode code)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct scraper *scraper = info ? info->socket_context : NULL;

    (void)user, (void)state, (void)code;
    if (scraper)
        scraper->begun_ns = okv_clock_ns();
}

int okv_scrapers_end_overdue(struct okv_scrapers *scrapers, uint64_t now_ns)
{
    struct okv_crowd_member *member, *next;
    uint64_t first_ns = UINT64_MAX;

    for (member = TAILQ_FIRST(&scrapers->crowd.members); member; member = next) {
        struct scraper *scraper = (struct scraper *)member;
        next = TAILQ_NEXT(member, in_crowd);
        if (now_ns >= scraper->begun_ns + REQUEST_NS)
            end(scrapers, scraper);
        else if (scraper->begun_ns + REQUEST_NS < first_ns)
            first_ns = scraper->begun_ns + REQUEST_NS;
    }
    return first_ns == UINT64_MAX ? -1 : (int)((first_ns - now_ns) / 1000000) + 1;
}
