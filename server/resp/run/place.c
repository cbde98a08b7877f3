#include "server/resp/run/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/clients/admission.h"
#include "server/clients/refusal.h"
#include "server/core/server.h"
#include "server/resp/run/shared.h"
#include "shared/base/clock.h"
#include "shared/format/wire.h"

struct okv_resp_silent {
    struct okv_crowd_member member; /* first */
    char address[sizeof((struct okv_resp_client *)0)->address];
    int fd;
    uint64_t until_ns; /* its address pays, with member.is_gone */
    bool is_in_crowd;  /* else it was ended */
};

void okv_resp_door_init(struct okv_resp_door *door)
{
    pthread_mutex_init(&door->lock, NULL);
    okv_crowd_init(&door->crowd);
    door->leaving = 0;
}

static struct okv_resp_silent *first_of(struct okv_resp_door *door)
{
    return (struct okv_resp_silent *)TAILQ_FIRST(&door->crowd.members);
}

static void forget(struct okv_resp_door *door, struct okv_resp_silent *silent)
{
    okv_crowd_remove(&door->crowd, &silent->member);
    free(silent);
}

void okv_resp_door_fini(struct okv_resp_door *door)
{
    struct okv_resp_silent *silent;

    while ((silent = first_of(door)))
        forget(door, silent);
    pthread_mutex_destroy(&door->lock);
}

/* ---- with the lock of the door ---- */

/* Addresses that have paid long enough, or that are too many. */
static void forget_gone(struct okv_resp_door *door, uint64_t now_ns, unsigned most)
{
    struct okv_crowd_member *member, *next;

    for (member = TAILQ_FIRST(&door->crowd.members); member; member = next) {
        struct okv_resp_silent *silent = (struct okv_resp_silent *)member;
        next = TAILQ_NEXT(member, in_crowd);
        if (member->is_gone && (now_ns >= silent->until_ns || door->crowd.gone > most))
            forget(door, silent);
    }
}

/* Its thread finds the connection at its end. */
static void end_one(struct okv_server *server, struct okv_resp_door *door)
{
    struct okv_resp_silent *silent = (struct okv_resp_silent *)okv_crowd_one_too_many(&door->crowd);

    okv_crowd_remove(&door->crowd, &silent->member);
    silent->is_in_crowd = false;
    door->leaving++;
    shutdown(silent->fd, SHUT_RDWR);
    OKV_STATS_ADD(&server->stats, closed_crowded_out, 1);
}

static bool enter(struct okv_server *server, struct okv_resp_door *door,
                  struct okv_resp_silent *silent)
{
    unsigned most = server->config.max_silent;

    forget_gone(door, okv_clock_ns(), most);
    if (door->leaving >= most)
        return false;
    while (door->crowd.count >= most && door->crowd.count > 0)
        end_one(server, door);
    okv_crowd_add(&door->crowd, &silent->member);
    silent->is_in_crowd = true;
    return true;
}

static void leave(struct okv_resp_door *door, struct okv_resp_silent *silent)
{
    if (silent->is_in_crowd)
        okv_crowd_remove(&door->crowd, &silent->member);
    else
        door->leaving--;
}

/* ---- clients ---- */

static struct okv_resp_silent *create(const struct okv_resp_client *client)
{
    struct okv_resp_silent *silent = calloc(1, sizeof *silent);

    if (!silent)
        return NULL;
    silent->fd = client->stream.fd;
    memcpy(silent->address, client->address, sizeof silent->address);
    silent->member.address = silent->address;
    return silent;
}

static void give_back(struct okv_server *server, struct okv_resp_client *client)
{
    if (client->has_ticket)
        okv_admission_release(server->admission, client->ticket);
    client->has_ticket = false;
}

bool okv_resp_place_wait(struct okv_server *server, struct okv_resp_client *client)
{
    struct okv_resp_door *door = &server->resp_shared->door;
    struct okv_resp_silent *silent = client->silent ? NULL : create(client);
    bool is_in = false;

    give_back(server, client);
    if (!silent)
        return client->silent != NULL;
    pthread_mutex_lock(&door->lock);
    is_in = enter(server, door, silent);
    pthread_mutex_unlock(&door->lock);
    if (is_in)
        client->silent = silent;
    else
        free(silent);
    return is_in;
}

static void stop_waiting(struct okv_server *server, struct okv_resp_client *client)
{
    struct okv_resp_door *door = &server->resp_shared->door;

    if (!client->silent)
        return;
    pthread_mutex_lock(&door->lock);
    leave(door, client->silent);
    pthread_mutex_unlock(&door->lock);
    free(client->silent);
    client->silent = NULL;
}

static void count_rejection(struct okv_stats *stats, int reason)
{
    if (reason == OKV_REJECT_USER)
        OKV_STATS_ADD(stats, rejected_user, 1);
    else if (reason == OKV_REJECT_ADDRESS)
        OKV_STATS_ADD(stats, rejected_address, 1);
    else
        OKV_STATS_ADD(stats, rejected_busy, 1);
}

/* Of any database: it may select another one later. */
static bool is_admin(const struct okv_server *server, const struct okv_resp_client *client)
{
    unsigned all = 0;

    for (unsigned i = 0; i < server->database_count; i++)
        all |= client->rights[i];
    return all & OKV_RIGHT_ADMIN;
}

int okv_resp_place_take(struct okv_server *server, struct okv_resp_client *client)
{
    const struct okv_admission_client who = {
        .user = client->common.user,
        .address = client->address,
        .is_admin = is_admin(server, client),
    };

    give_back(server, client);
    int reason = okv_admission_admit(server->admission, &who, NULL, &client->ticket);
    if (reason) {
        const struct okv_refusal refusal = {
            client->common.peer, client->common.user, true, reason, "", ""};
        count_rejection(&server->stats, reason);
        okv_refusal_log(server, &refusal);
        return reason;
    }
    client->has_ticket = true;
    stop_waiting(server, client);
    return 0;
}

/* From now on its address counts for more. Without memory it does not. */
static void charge(struct okv_server *server, const struct okv_resp_client *client)
{
    struct okv_resp_door *door = &server->resp_shared->door;
    struct okv_resp_silent *silent = create(client);

    if (!silent)
        return;
    silent->member.is_gone = true;
    silent->until_ns = okv_clock_ns() + okv_resp_hello_ns(server);
    pthread_mutex_lock(&door->lock);
    okv_crowd_add(&door->crowd, &silent->member);
    forget_gone(door, okv_clock_ns(), server->config.max_silent);
    pthread_mutex_unlock(&door->lock);
}

void okv_resp_place_leave(struct okv_server *server, struct okv_resp_client *client)
{
    give_back(server, client);
    stop_waiting(server, client);
    if (client->refusals >= OKV_RESP_REFUSALS_MAX)
        charge(server, client);
}

void okv_resp_place_refused(struct okv_resp_client *client, unsigned points)
{
    client->refusals += points;
    if (client->refusals >= OKV_RESP_REFUSALS_MAX)
        client->state = OKV_RESP_DRAINING;
}
