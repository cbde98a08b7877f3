/*
 * Attacks by clients of Redis (docs/resp.md): mallory, who has a password, and strangers.
 *
 * Whatever the transport, they are on a Unix socket. The server finds one reset that is closed with
 * replies in it.
 */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/chaos/attack.h"
#include "tests/support/pace.h"
#include "tests/support/server_process.h"

#define CROWD 96 /* connections of a process; many more than the server's memory for them takes */
#define CROWD_SLOW 6 /* where there is less memory */
#define MOMENT_MS 200
#define BLOCK (1u << 20)
#define FLOOD_MAX 128u /* blocks */
#define HALF_LEAST (64u << 10)
#define HALF_DOUBLINGS 10u
#define LONG_VALUE (512 << 10)
#define SHORT_VALUE (60 << 10) /* that is copied to the replies */
#define VALUES 50u             /* that are asked for at once */
#define VALUE (16 << 10)
#define WATCHED 500u
#define QUEUED 100u
#define QUEUE_BLOCKS 4u
#define QUEUE_BLOCKS_MAX 130u /* more than a transaction may have */
#define QUEUE_MAX_EVERY 8u
#define PASSWORDS 64u
#define PAIRS 1000u
#define QUEUED_MOST 4500u /* nearly --alone-ms */
#define LONG_KEY 1000
#define LONG_KEYS 10000u
#define NOISE 64u
#define WATCH_KEY 1024    /* bytes; the longest */
#define WATCH_EACH 512u   /* keys of a command */
#define WATCH_COMMANDS 8u /* together as many keys as a client may watch */

/* A request that is put together. */
struct text {
    char bytes[BLOCK];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int n =
        vsnprintf(text->bytes + text->length, sizeof text->bytes - text->length, format, arguments);
    va_end(arguments);
    text->length += (size_t)n;
}

/* ---- connections ---- */

static unsigned crowd(void)
{
    return server_is_slow() ? CROWD_SLOW : CROWD;
}

/* Sends until the server takes nothing for so long. Returns how much. */
static size_t press(int sock, const void *bytes, size_t length, int ms)
{
    struct pollfd pollfd = {.fd = sock, .events = POLLOUT};
    size_t sent = 0;

    while (sent < length && poll(&pollfd, 1, ms) == 1 && pollfd.revents == POLLOUT) {
        ssize_t n = send(sock, (const char *)bytes + sent, length - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
    return sent;
}

/* Takes `length` bytes, or fewer if the server ends the connection. Returns their number. */
static size_t hear(int sock, char *bytes, size_t length)
{
    struct pollfd pollfd = {.fd = sock, .events = POLLIN};
    size_t heard = 0;
    ssize_t n = 1;

    while (n > 0 && heard < length && poll(&pollfd, 1, PACE_GUARD_MS) == 1) {
        n = recv(sock, bytes + heard, length - heard, 0);
        heard += n > 0 ? (size_t)n : 0;
    }
    return heard;
}

static bool log_in(const struct attacker *attacker, int sock)
{
    static const char welcome[] = "+OK\r\n+OK\r\n";
    char login[128], reply[sizeof welcome - 1];
    int length = snprintf(login, sizeof login, "AUTH %s %s\r\nSELECT %s\r\n", ATTACK_USER,
                          attacker->password, ATTACK_DATABASE);

    return press(sock, login, (size_t)length, PACE_GUARD_MS) == (size_t)length &&
           hear(sock, reply, sizeof reply) == sizeof reply &&
           memcmp(reply, welcome, sizeof reply) == 0;
}

/* -1: turned away. */
static int join(struct attacker *attacker, bool has_password)
{
    int sock = attacker_connect_resp(attacker);

    if (sock >= 0 && (!has_password || log_in(attacker, sock)))
        return sock;
    if (sock >= 0)
        close(sock);
    attacker_turned_away(attacker);
    return -1;
}

/* The i-th to join, in the place of the oldest. */
static int renew(struct attacker *attacker, int socks[CROWD], unsigned i, bool has_password)
{
    int *sock = &socks[i % crowd()];

    if (i >= crowd() && *sock >= 0)
        close(*sock);
    return *sock = join(attacker, has_password);
}

/* Says what ends with QUIT, takes all replies and leaves. False: the server did not take it. */
static bool converse(int sock, const struct text *text)
{
    char replies[4096];
    size_t sent = press(sock, text->bytes, text->length, PACE_GUARD_MS);

    while (hear(sock, replies, sizeof replies) == sizeof replies)
        ;
    close(sock);
    return sent == text->length;
}

/* ---- floods ---- */

/* Pipelines whose replies nobody reads, until the server reads no more of them. */
void attack_resp_floods(struct attacker *attacker)
{
    static struct text pipeline;
    static char value[VALUE];
    int socks[CROWD];

    memset(value, 'v', sizeof value);
    add(&pipeline, "SET flood %.*s\r\n", VALUE, value);
    while (pipeline.length < sizeof pipeline.bytes / 2)
        add(&pipeline, "GET flood\r\nINCR flooded\r\nPING\r\nSTRLEN flood\r\n");
    for (unsigned i = 0;; i++) {
        int sock = renew(attacker, socks, i, true);
        for (unsigned block = 0; sock >= 0 && block < FLOOD_MAX; block++) {
            bool is_whole =
                press(sock, pipeline.bytes, pipeline.length, MOMENT_MS) == pipeline.length;
            attacker_count(attacker, !is_whole);
            if (!is_whole)
                break;
        }
    }
}

/* ---- frames ---- */

/* Strangers' every other time. Each keeps its connection until the crowd has come anew. */
void attack_resp_frames(struct attacker *attacker)
{
    static const char *const frames[] = {
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nva",
        "*1048576\r\n$0\r\n\r\n$0\r\n",
        "*1048577\r\n",
        "*2147483648\r\n",
        "*99999999999999999999\r\n",
        "*-1\r\n*-9223372036854775808\r\nPING\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$68158465\r\n",
        "*2\r\n$3\r\nGET\r\n:1\r\n",
        "*1\r\n$4\r\nPINGPONG\r\n",
        "*0\r\n*0\r\n*0\r\n",
        "*00000000000000000000000000000000000001\r\n",
        "*1\n$4\nPING\n",
        "SET k \"unbalanced\r\n",
        "SET k '\\'\r\nGET k\r\n",
        "SET k \"\\x0",
        "\r\n\n\r\n \r\n",
        "POST / HTTP/1.1\r\nHost: okv\r\n\r\nFLUSHALL\r\n",
        "GET / HTTP/1.1\r\nHost: okv\r\n\r\n",
        "AUTH\r\nAUTH a b c d\r\nHELLO 4\r\nHELLO 3 AUTH\r\n",
        "MULTI\r\nMULTI\r\nNO\r\nEXEC\r\n",
    };
    static struct text line;
    uint8_t noise[NOISE];
    int socks[CROWD];

    while (line.length < sizeof line.bytes / 2)
        add(&line, "a long line without an end ");
    for (unsigned i = 0;; i++) {
        unsigned kind = i / 2 % (sizeof frames / sizeof *frames + 2);
        int sock = renew(attacker, socks, i, i % 2);
        if (sock < 0)
            continue;
        if (kind < sizeof frames / sizeof *frames)
            press(sock, frames[kind], strlen(frames[kind]), MOMENT_MS);
        else if (kind == sizeof frames / sizeof *frames)
            press(sock, line.bytes, line.length, MOMENT_MS);
        else if (getrandom(noise, sizeof noise, 0) > 0)
            press(sock, noise, sizeof noise, MOMENT_MS);
        attacker_count(attacker, false);
    }
}

/* ---- requests that do not end, and replies that nobody takes ---- */

/* All are sent but for their last byte, as fast as the server takes them, or byte by byte. */
void attack_resp_halves(struct attacker *attacker)
{
    static const char *const beginnings[] = {
        "*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n", "*2\r\n$4\r\nECHO\r\n",
        "*3\r\n$6\r\nAPPEND\r\n$4\r\nhalf\r\n", "MULTI\r\n*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n"};
    static const uint8_t bytes[BLOCK];
    size_t left[CROWD];
    int socks[CROWD];

    for (unsigned i = 0;; i++) {
        unsigned doublings = i % 2 ? HALF_DOUBLINGS : i / 2 % HALF_DOUBLINGS;
        size_t size = (size_t)HALF_LEAST << doublings;
        char head[96];
        int length = snprintf(head, sizeof head, "%s$%zu\r\n", beginnings[i / 2 % 4], size);
        int sock = renew(attacker, socks, i, true);
        left[i % crowd()] = size - 1;
        if (sock < 0)
            continue;
        press(sock, head, (size_t)length, MOMENT_MS);
        for (unsigned other = 0; other <= i && other < crowd(); other++) {
            size_t most = other % 4 ? sizeof bytes : 1;
            ssize_t n =
                send(socks[other], bytes, left[other] < most ? left[other] : most, MSG_NOSIGNAL);
            left[other] -= n > 0 ? (size_t)n : 0;
        }
        attacker_count(attacker, false);
    }
}

/* A long value, and a short one that is asked for many times at once, by clients that take single
 * bytes of them, or none. */
void attack_resp_slow(struct attacker *attacker)
{
    static struct text set, get, mget;
    static char value[LONG_VALUE];
    int socks[CROWD];
    char byte;

    memset(value, 'v', sizeof value);
    add(&set, "SET short %.*s\r\n*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n$%u\r\n%.*s\r\n", SHORT_VALUE,
        value, LONG_VALUE, LONG_VALUE, value);
    add(&get, "PING\r\nGET long\r\nGET long\r\n");
    add(&mget, "*%u\r\n$4\r\nMGET\r\n", VALUES + 1);
    for (unsigned i = 0; i < VALUES; i++)
        add(&mget, "$5\r\nshort\r\n");
    for (unsigned i = 0;; i++) {
        const struct text *wanted = i % 2 ? &mget : &get;
        int sock = renew(attacker, socks, i, true);
        if (sock < 0)
            continue;
        press(sock, set.bytes, i % crowd() ? 0 : set.length, PACE_GUARD_MS);
        press(sock, wanted->bytes, wanted->length, MOMENT_MS);
        for (unsigned other = 0; other < i && other < crowd(); other += 3)
            recv(socks[other], &byte, 1, MSG_DONTWAIT);
        attacker_count(attacker, false);
    }
}

/* ---- passwords ---- */

void attack_resp_passwords(struct attacker *attacker)
{
    static struct text wrong;

    for (unsigned i = 0; i < PASSWORDS; i++)
        add(&wrong, "%s %s %024u\r\n", i % 2 ? "AUTH" : "HELLO 3 AUTH", ATTACK_USER, i);
    add(&wrong, "QUIT\r\n");
    for (;;) {
        int sock = join(attacker, false);
        if (sock >= 0)
            attacker_count(attacker, !converse(sock, &wrong));
    }
}

/* ---- transactions ---- */

static void fill_transaction(struct text *text)
{
    for (unsigned i = 0; i < WATCHED; i++)
        add(text, "WATCH watched:%u\r\n", i);
    add(text, "MULTI\r\n");
    for (unsigned i = 0; i < QUEUED; i++)
        add(text, "SET queued:%u value\r\nMSET a %u b %u\r\nDEL queued:%u\r\n", i, i, i, i);
    add(text, "EXEC\r\n");
    for (unsigned i = 0; i < QUEUED; i++)
        add(text, "MSET a %u b %u\r\nRENAME a b\r\n", i, i);
    add(text, "QUIT\r\n");
}

/* Commands that run alone, one after the other; and transactions of as many bytes as there may be,
 * most of which are left as they are. */
void attack_resp_transactions(struct attacker *attacker)
{
    static struct text whole, queue;
    static char value[VALUE];
    int socks[CROWD];

    fill_transaction(&whole);
    memset(value, 'v', sizeof value);
    while (queue.length + 2 * sizeof value < sizeof queue.bytes)
        add(&queue, "SET queue %.*s\r\n", VALUE, value);
    for (unsigned i = 0;; i++) {
        int sock = join(attacker, true);
        if (sock >= 0)
            attacker_count(attacker, !converse(sock, &whole));
        sock = renew(attacker, socks, i, true);
        if (sock < 0)
            continue;
        press(sock, "MULTI\r\n", 7, MOMENT_MS);
        size_t left = i % QUEUE_MAX_EVERY ? QUEUE_BLOCKS : QUEUE_BLOCKS_MAX;
        while (left > 0 && press(sock, queue.bytes, queue.length, MOMENT_MS) == queue.length)
            left--;
        press(sock, "EXEC\r\n", i % 4 == 2 ? 6 : 0, MOMENT_MS);
        attacker_count(attacker, false);
    }
}

/* ---- commands that take long ---- */

/* Says `first` once in each connection, and `line` many times after it. */
static void repeat(struct attacker *attacker, const char *first, const char *line, unsigned count)
{
    static struct text text;

    add(&text, "%s", first);
    for (unsigned i = 0; i < count; i++)
        add(&text, "%s", line);
    add(&text, "QUIT\r\n");
    for (;;) {
        int sock = join(attacker, true);
        if (sock < 0)
            continue;
        attacker_count(attacker, false); /* what follows may take minutes */
        attacker_count(attacker, !converse(sock, &text));
    }
}

/* Makes the value "long" as long as it may be. */
static const char *make_long(void)
{
    return server_is_slow() ? "SETRANGE long 16777215 x\r\n" : "SETRANGE long 67108863 x\r\n";
}

/* A yardstick: it takes as little as a command can. */
void attack_resp_gets(struct attacker *attacker)
{
    repeat(attacker, "SET key value\r\n", "GET key\r\n", 1000);
}

void attack_resp_setrange(struct attacker *attacker)
{
    repeat(attacker, make_long(), "SETRANGE long 0 x\r\n", 64);
}

void attack_resp_append(struct attacker *attacker)
{
    repeat(attacker, "DEL tail\r\nSETRANGE tail 8000000 x\r\n", "APPEND tail x\r\n", 64);
}

void attack_resp_copy(struct attacker *attacker)
{
    repeat(attacker, make_long(), "COPY long other REPLACE\r\n", 32);
}

/* Repeats `first`, `each` with the numbers below `most`, and `last`. */
static void repeat_numbers(struct attacker *attacker, const char *first, const char *each,
                           unsigned most, const char *last, unsigned count)
{
    static struct text line;

    add(&line, "%s", first);
    for (unsigned i = 0; i < most; i++)
        add(&line, "%s%u value%s", each, i, last[0] ? "\r\n" : "");
    add(&line, "%s\r\n", last);
    repeat(attacker, "", line.bytes, count);
}

void attack_resp_mset(struct attacker *attacker)
{
    repeat_numbers(attacker, "MSET", " pair:", PAIRS, "", 16);
}

void attack_resp_exec(struct attacker *attacker)
{
    repeat_numbers(attacker, "MULTI\r\n", "SET queued:", QUEUED_MOST, "EXEC", 4);
}

/* Keys that nearly match the pattern, as late as it can be. */
static void put_long_keys(struct attacker *attacker)
{
    static struct text puts;
    static char tail[LONG_KEY + 1];
    unsigned number = 0;

    memset(tail, 'a', LONG_KEY);
    while (number < LONG_KEYS) {
        puts.length = 0;
        while (number < LONG_KEYS && puts.length < sizeof puts.bytes - 2 * sizeof tail)
            add(&puts, "SET %u%s v\r\n", number++, tail);
        add(&puts, "QUIT\r\n");
        int sock = join(attacker, true);
        if (sock < 0)
            continue;
        attacker_count(attacker, false);
        converse(sock, &puts);
    }
}

static void walk(struct attacker *attacker, const char *command, const char *options)
{
    static struct text line;
    static char half[LONG_KEY / 2 + 1];

    put_long_keys(attacker);
    memset(half, 'a', LONG_KEY / 2);
    add(&line, "%s *%sb%s\r\n", command, half, options);
    repeat(attacker, "", line.bytes, 4);
}

void attack_resp_keys(struct attacker *attacker)
{
    walk(attacker, "KEYS", "");
}

void attack_resp_scan(struct attacker *attacker)
{
    walk(attacker, "SCAN 0 MATCH", " COUNT 10000");
}

/* ---- watched keys ---- */

static void fill_watch(struct text *text, unsigned command)
{
    static char tail[WATCH_KEY];

    memset(tail, 'w', sizeof tail);
    add(text, "*%u\r\n$5\r\nWATCH\r\n", WATCH_EACH + 1);
    for (unsigned i = 0; i < WATCH_EACH; i++)
        add(text, "$%d\r\n%08u%.*s\r\n", WATCH_KEY, command * WATCH_EACH + i, WATCH_KEY - 8, tail);
}

/* Whether the server took all of them and was content. */
static bool watch_once(int sock, const struct text texts[WATCH_COMMANDS])
{
    char replies[(WATCH_COMMANDS + 1) * 5];

    for (unsigned i = 0; i < WATCH_COMMANDS; i++)
        if (press(sock, texts[i].bytes, texts[i].length, PACE_GUARD_MS) < texts[i].length)
            return false;
    if (hear(sock, replies, sizeof replies) < sizeof replies)
        return false;
    for (unsigned i = 0; i <= WATCH_COMMANDS; i++)
        if (memcmp(replies + 5 * (size_t)i, "+OK\r\n", 5) != 0)
            return false;
    return true;
}

/* All keys, and none, in one connection for as long as the server lets it. */
void attack_resp_watch(struct attacker *attacker)
{
    static struct text texts[WATCH_COMMANDS];

    for (unsigned i = 0; i < WATCH_COMMANDS; i++)
        fill_watch(&texts[i], i);
    add(&texts[WATCH_COMMANDS - 1], "UNWATCH\r\n");
    for (;;) {
        int sock = join(attacker, true);
        for (bool goes_on = sock >= 0; goes_on;) {
            goes_on = watch_once(sock, texts);
            attacker_count(attacker, !goes_on);
        }
        if (sock >= 0)
            close(sock);
    }
}
