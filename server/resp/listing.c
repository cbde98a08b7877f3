#include "server/resp/listing.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/resp/call.h"
#include "server/resp/door.h"
#include "server/resp/resp.h"
#include "shared/base/clock.h"

#define LINE_MAX_TEXT 512

static bool is_text(const struct okv_resp_arg *arg, const char *text)
{
    return !arg || (strlen(text) == arg->length && memcmp(text, arg->text, arg->length) == 0);
}

unsigned okv_resp_clients_kill(const struct okv_resp_client *by,
                               const struct okv_resp_choice *choice)
{
    struct okv_resp_door *door = &by->resp->server->resp_door;
    struct okv_resp_client *client;
    unsigned count = 0;

    pthread_mutex_lock(&door->lock);
    TAILQ_FOREACH(client, &door->clients, in_door)
    {
        if ((choice->id && (uint64_t)choice->id != client->id) || client->id == choice->skips ||
            !is_text(choice->peer, client->peer) || !is_text(choice->user, client->user))
            continue;
        okv_resp_unwant(client);
        count++;
    }
    pthread_mutex_unlock(&door->lock);
    return count;
}

static void lower(const char *text, char *out, size_t size)
{
    size_t i = 0;

    for (; text[i] && i + 1 < size; i++)
        out[i] = (char)tolower((unsigned char)text[i]);
    out[i] = '\0';
}

static void add_line(const struct okv_resp_client *client, uint64_t now_ns,
                     struct okv_resp_buffer *out)
{
    const char *command = atomic_load_explicit(&client->command, memory_order_relaxed);
    uint64_t active_ns = atomic_load_explicit(&client->active_ns, memory_order_relaxed);
    uint64_t idle_ns = now_ns > active_ns ? now_ns - active_ns : 0;
    char line[LINE_MAX_TEXT], name[32];

    lower(command ? command : "NULL", name, sizeof name);
    int length = snprintf(line, sizeof line,
                          "id=%" PRIu64 " addr=%s fd=%d name=%s age=%" PRIu64 " idle=%" PRIu64
                          " flags=N db=%u sub=0 psub=0 cmd=%s user=%s resp=%u\n",
                          client->id, client->peer, client->stream.fd, client->name,
                          (now_ns - client->created_ns) / 1000000000u, idle_ns / 1000000000u,
                          client->database, name, client->user[0] ? client->user : "default",
                          client->protocol);
    okv_resp_buffer_add(out, line, (size_t)length);
}

void okv_resp_clients_list(const struct okv_resp_client *by, const struct okv_resp_client *only,
                           struct okv_resp_buffer *out)
{
    struct okv_resp_door *door = &by->resp->server->resp_door;
    bool sees_all = okv_resp_may(by, by->database, OKV_RIGHT_ADMIN);
    const struct okv_resp_client *client;
    uint64_t now_ns = okv_clock_ns();

    pthread_mutex_lock(&door->lock);
    TAILQ_FOREACH(client, &door->clients, in_door)
    if (only ? client == only : sees_all || strcmp(client->user, by->user) == 0)
        add_line(client, now_ns, out);
    pthread_mutex_unlock(&door->lock);
}
