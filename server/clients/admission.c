#include "server/clients/admission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/format/wire.h"

/* Half-open clients for each free place from which on they make room for others. */
#define HALF_OPEN_PER_FREE 3u
/* Places that are kept for users with the right `admin`; at most a quarter of all. */
#define ADMIN_PLACES 16u

static uint32_t share(uint32_t limit, uint32_t clients)
{
    return limit == OKV_CLIENTS_HALF ? (clients + 1) / 2 : limit;
}

/* Without users everybody has the right `admin`. */
struct okv_admission_limits okv_admission_limits_of(const struct okv_config *config)
{
    uint32_t clients = config->max_clients;
    uint32_t per_address = config->max_clients_per_address;
    struct okv_admission_limits limits = {.clients = clients};

    if (!config->users) {
        limits.per_address = share(per_address, clients);
    } else {
        limits.per_address = per_address == OKV_CLIENTS_HALF ? 0 : per_address;
        limits.kept = clients / 4 < ADMIN_PLACES ? clients / 4 : ADMIN_PLACES;
        limits.per_user = share(config->max_clients_per_user, clients);
    }
    return limits;
}

int okv_admission_init(struct okv_admission *admission, const struct okv_admission_limits *limits)
{
    size_t count = (size_t)limits->clients + 1;

    *admission = (struct okv_admission){.most = limits->clients, .limits = *limits};
    admission->users.entries = calloc(count, sizeof *admission->users.entries);
    admission->addresses.entries = calloc(count, sizeof *admission->addresses.entries);
    admission->places = calloc(count, sizeof *admission->places);
    pthread_mutex_init(&admission->lock, NULL);
    if (!admission->users.entries || !admission->addresses.entries || !admission->places) {
        okv_admission_fini(admission);
        return OKV_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++)
        admission->places[i].next_free = i + 1;
    return 0;
}

void okv_admission_set_limits(struct okv_admission *admission,
                              const struct okv_admission_limits *limits)
{
    pthread_mutex_lock(&admission->lock);
    admission->limits = *limits;
    pthread_mutex_unlock(&admission->lock);
}

void okv_admission_fini(struct okv_admission *admission)
{
    pthread_mutex_destroy(&admission->lock);
    free(admission->users.entries);
    free(admission->addresses.entries);
    free(admission->places);
}

/* The entry of the party, or a free one. There are more entries than clients. */
static uint32_t find(const struct okv_admission_parties *parties, const char *name)
{
    uint32_t unused = parties->reached;

    for (uint32_t i = 0; i < parties->reached; i++) {
        const struct okv_admission_party *party = &parties->entries[i];
        if (party->clients == 0)
            unused = i;
        else if (strcmp(party->name, name) == 0)
            return i;
    }
    return unused;
}

static void join(struct okv_admission_parties *parties, uint32_t index, const char *name)
{
    struct okv_admission_party *party = &parties->entries[index];

    if (party->clients++ == 0)
        snprintf(party->name, sizeof party->name, "%s", name);
    if (index == parties->reached)
        parties->reached++;
}

static void set_half_open(struct okv_admission *admission, struct okv_admission_place *place,
                          bool is_half_open)
{
    uint32_t one = (uint32_t)is_half_open - (uint32_t)place->is_half_open; /* modulo 2^32 */

    admission->users.entries[place->user].half_open += one;
    admission->addresses.entries[place->address].half_open += one;
    admission->half_open += one;
    place->is_half_open = is_half_open;
}

static uint32_t established(const struct okv_admission_party *party)
{
    return party->clients - party->half_open;
}

/* Returns 0 or a reason. A client that takes another one's place needs no free one. */
static int refuse(const struct okv_admission *admission, const struct okv_admission_client *client,
                  const struct okv_admission_place *leaving, uint32_t user, uint32_t address)
{
    const struct okv_admission_limits *limits = &admission->limits;
    uint32_t places = limits->clients - (client->is_admin ? 0 : limits->kept);
    uint32_t of_user = admission->users.entries[user].clients;
    uint32_t of_address = established(&admission->addresses.entries[address]);

    if (!leaving && admission->clients >= places)
        return OKV_REJECT_BUSY;
    of_user -= leaving && leaving->user == user && of_user > 0;
    if (limits->per_user && of_user >= limits->per_user)
        return OKV_REJECT_USER;
    of_address -=
        leaving && leaving->address == address && !leaving->is_half_open && of_address > 0;
    if (limits->per_address && of_address >= limits->per_address)
        return OKV_REJECT_ADDRESS;
    return 0;
}

static uint32_t take_place(struct okv_admission *admission, uint32_t user, uint32_t address)
{
    uint32_t index = admission->free;
    struct okv_admission_place *place = &admission->places[index];

    admission->free = place->next_free;
    admission->clients++;
    *place = (struct okv_admission_place){.user = user, .address = address};
    return index;
}

int okv_admission_admit(struct okv_admission *admission, const struct okv_admission_client *client,
                        const uint32_t *leaving, uint32_t *place)
{
    pthread_mutex_lock(&admission->lock);
    uint32_t user = find(&admission->users, client->user);
    uint32_t address = find(&admission->addresses, client->address);
    int reason =
        refuse(admission, client, leaving ? &admission->places[*leaving] : NULL, user, address);
    if (reason == 0) {
        join(&admission->users, user, client->user);
        join(&admission->addresses, address, client->address);
        *place = take_place(admission, user, address);
        set_half_open(admission, &admission->places[*place], client->is_half_open);
    }
    pthread_mutex_unlock(&admission->lock);
    return reason;
}

void okv_admission_release(struct okv_admission *admission, uint32_t index)
{
    struct okv_admission_place *place = &admission->places[index];

    pthread_mutex_lock(&admission->lock);
    set_half_open(admission, place, false);
    admission->users.entries[place->user].clients--;
    admission->addresses.entries[place->address].clients--;
    admission->clients--;
    place->next_free = admission->free;
    admission->free = index;
    pthread_mutex_unlock(&admission->lock);
}

bool okv_admission_establish(struct okv_admission *admission, uint32_t index)
{
    struct okv_admission_place *place = &admission->places[index];

    pthread_mutex_lock(&admission->lock);
    uint32_t limit = admission->limits.per_address;
    bool has_room =
        limit == 0 || established(&admission->addresses.entries[place->address]) < limit;
    if (has_room)
        set_half_open(admission, place, false);
    pthread_mutex_unlock(&admission->lock);
    return has_room;
}

bool okv_admission_is_short(struct okv_admission *admission, uint32_t room)
{
    pthread_mutex_lock(&admission->lock);
    /* Those who have no right to the kept places have to find room without them. */
    uint32_t places = admission->limits.clients - admission->limits.kept;
    uint32_t free = places > admission->clients ? places - admission->clients : 0;
    bool is_short = admission->half_open > HALF_OPEN_PER_FREE * (free < room ? free : room);
    pthread_mutex_unlock(&admission->lock);
    return is_short;
}

/* What it reads of the place and its user was written before they were in use. */
uint32_t okv_admission_party(const struct okv_admission *admission, uint32_t index)
{
    uint32_t user = admission->places[index].user;

    return admission->users.entries[user].name[0] ? user : index;
}

uint32_t okv_admission_half_open(struct okv_admission *admission, uint32_t index)
{
    const struct okv_admission_place *place = &admission->places[index];

    pthread_mutex_lock(&admission->lock);
    const struct okv_admission_party *user = &admission->users.entries[place->user];
    const struct okv_admission_party *address = &admission->addresses.entries[place->address];
    uint32_t count = user->name[0] ? user->half_open : address->half_open;
    pthread_mutex_unlock(&admission->lock);
    return count;
}
