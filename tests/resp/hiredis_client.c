/* hiredis_client PORT USER PASSWORD: what an application does with a Redis client, by hiredis. */
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (1u << 20)
#define PIPELINED 1000

struct suite {
    redisContext *db;
    unsigned failures;
};

static void check(struct suite *suite, bool holds, const char *what)
{
    if (holds)
        return;
    suite->failures++;
    fprintf(stderr, "hiredis: wrong: %s (%s)\n", what, suite->db->errstr);
}

static void is_text(struct suite *suite, redisReply *reply, const char *text)
{
    check(suite, reply && reply->str && strcmp(reply->str, text) == 0, text);
    freeReplyObject(reply);
}

static void is_integer(struct suite *suite, redisReply *reply, long long number, const char *what)
{
    check(suite, reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == number, what);
    freeReplyObject(reply);
}

static void strings(struct suite *suite)
{
    is_text(suite, redisCommand(suite->db, "SET hiredis:a 1"), "OK");
    is_text(suite, redisCommand(suite->db, "GET hiredis:a"), "1");
    is_integer(suite, redisCommand(suite->db, "INCR hiredis:a"), 2, "INCR");
    redisReply *values = redisCommand(suite->db, "MGET hiredis:a hiredis:none");
    check(suite,
          values && values->elements == 2 && strcmp(values->element[0]->str, "2") == 0 &&
              values->element[1]->type == REDIS_REPLY_NIL,
          "MGET");
    freeReplyObject(values);
    is_integer(suite, redisCommand(suite->db, "EXPIRE hiredis:a 100"), 1, "EXPIRE");
    redisReply *ttl = redisCommand(suite->db, "TTL hiredis:a");
    check(suite, ttl && ttl->integer > 0 && ttl->integer <= 100, "TTL");
    freeReplyObject(ttl);
}

static void bytes(struct suite *suite)
{
    char *large = malloc(LARGE);
    char key[256];

    if (!large)
        exit(1);
    memset(large, 'x', LARGE);
    for (unsigned i = 0; i < sizeof key; i++)
        key[i] = (char)i;
    is_text(suite, redisCommand(suite->db, "SET %b %b", key, sizeof key, large, (size_t)LARGE),
            "OK");
    redisReply *reply = redisCommand(suite->db, "GET %b", key, sizeof key);
    check(suite, reply && reply->len == LARGE && memcmp(reply->str, large, LARGE) == 0,
          "a large value of a binary key");
    freeReplyObject(reply);
    free(large);
}

static void pipeline(struct suite *suite)
{
    redisReply *reply;

    for (int i = 0; i < PIPELINED; i++)
        redisAppendCommand(suite->db, "INCR hiredis:pipelined");
    for (int i = 0; i < PIPELINED; i++)
        if (redisGetReply(suite->db, (void **)&reply) == REDIS_OK)
            is_integer(suite, reply, i + 1, "INCR in a pipeline");
        else
            check(suite, false, "a pipeline");
}

static void transaction(struct suite *suite)
{
    is_text(suite, redisCommand(suite->db, "WATCH hiredis:a"), "OK");
    is_text(suite, redisCommand(suite->db, "MULTI"), "OK");
    is_text(suite, redisCommand(suite->db, "INCR hiredis:a"), "QUEUED");
    redisReply *reply = redisCommand(suite->db, "EXEC");
    check(suite, reply && reply->elements == 1 && reply->element[0]->integer == 3, "EXEC");
    freeReplyObject(reply);
    is_text(suite, redisCommand(suite->db, "WATCH hiredis:a"), "OK");
    is_text(suite, redisCommand(suite->db, "SET hiredis:a other"), "OK");
    is_text(suite, redisCommand(suite->db, "MULTI"), "OK");
    is_text(suite, redisCommand(suite->db, "GET hiredis:a"), "QUEUED");
    reply = redisCommand(suite->db, "EXEC");
    check(suite, reply && reply->type == REDIS_REPLY_NIL, "EXEC of a watched key that changed");
    freeReplyObject(reply);
}

static void scan(struct suite *suite)
{
    char cursor[32] = "0";
    size_t met = 0;

    do {
        redisReply *reply = redisCommand(suite->db, "SCAN %s MATCH hiredis:* COUNT 100", cursor);
        if (!reply || reply->elements != 2) {
            check(suite, false, "SCAN");
            freeReplyObject(reply);
            return;
        }
        met += reply->element[1]->elements;
        snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        freeReplyObject(reply);
    } while (strcmp(cursor, "0") != 0);
    check(suite, met == 2, "the keys of SCAN");
}

int main(int argc, char **argv)
{
    struct suite suite = {.failures = 0};

    if (argc != 4) {
        fprintf(stderr, "usage: hiredis_client PORT USER PASSWORD\n");
        return 2;
    }
    suite.db = redisConnect("127.0.0.1", atoi(argv[1]));
    if (!suite.db || suite.db->err) {
        fprintf(stderr, "hiredis: no connection\n");
        return 1;
    }
    is_text(&suite, redisCommand(suite.db, "GET a"), "NOAUTH Authentication required.");
    is_text(&suite, redisCommand(suite.db, "AUTH %s %s", argv[2], argv[3]), "OK");
    strings(&suite);
    bytes(&suite);
    pipeline(&suite);
    transaction(&suite);
    scan(&suite);
    redisFree(suite.db);
    return suite.failures ? 1 : 0;
}
