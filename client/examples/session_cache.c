/*
 * A cache of sessions: create, look up, renew, log out; a session that nobody uses goes by itself.
 * Functions return codes of okv.h. What each of them means for the request at hand:
 *
 *   OKV_OK         an answer
 *   OKV_ENOTFOUND  an answer, too: nobody is logged in under this id
 *   OKV_EUNKNOWN   a write may have happened; each function says what it does then
 *   all others     no answer: turn the request away ("try again later"), and log nobody out for it
 */
#include <okv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define ID_BYTES 16
#define TRIES 3

struct session {
    unsigned char id[ID_BYTES];
    char user[64];
    size_t user_length;
    int64_t ttl_ms; /* what is left */
};

/* Each try has an id of its own, which nobody can guess. After OKV_EUNKNOWN this is the whole
 * remedy: nobody learns an id that was given up, and its item goes when its time has passed. */
static int session_create(okv *db, struct session *session)
{
    struct okv_put_options fresh = {.flags = OKV_IF_ABSENT | OKV_WITH_TTL,
                                    .ttl_ms = session->ttl_ms};
    int rc = OKV_EUNKNOWN;

    for (int i = 0; i < TRIES && (rc == OKV_EUNKNOWN || rc == OKV_EEXISTS); i++) {
        if (getrandom(session->id, ID_BYTES, 0) != ID_BYTES)
            return OKV_EIO;
        rc = okv_put_with(db, session->id, ID_BYTES, session->user, session->user_length, &fresh,
                          NULL);
    }
    return rc;
}

/* A get, with the time that is left. It only reads, so it can be repeated after every error. */
static int session_look_up(okv *db, struct session *session)
{
    struct okv_command get = {.kind = OKV_GET,
                              .key = session->id,
                              .key_length = ID_BYTES,
                              .buffer = session->user,
                              .buffer_size = sizeof session->user};
    struct okv_result result;
    int rc = okv_call(db, &get, &result);

    session->user_length = rc == OKV_OK ? result.length : 0;
    session->ttl_ms = result.ttl_ms;
    return rc;
}

/* Gives a session its full time again, when half of it is gone: a touch is a message to the server,
 * and a look-up is none. After OKV_EUNKNOWN once more: a touch that happens twice, or late, does no
 * harm, as it brings no session back. OKV_ENOTFOUND: it has expired, or is logged out. */
static int session_renew(okv *db, struct session *session, int64_t ttl_ms)
{
    int rc = session->ttl_ms > ttl_ms / 2 ? OKV_OK : OKV_EUNKNOWN;

    for (int i = 0; i < TRIES && rc == OKV_EUNKNOWN; i++)
        rc = okv_touch(db, session->id, ID_BYTES, ttl_ms, NULL);
    return rc;
}

/* After OKV_EUNKNOWN once more, until there is an answer: the user may be told "logged out" only
 * when the session is gone. That it was gone before is as good. */
static int session_log_out(okv *db, const struct session *session)
{
    int rc = OKV_EUNKNOWN;

    for (int i = 0; i < TRIES && rc == OKV_EUNKNOWN; i++)
        rc = okv_delete(db, session->id, ID_BYTES);
    return rc == OKV_ENOTFOUND ? OKV_OK : rc;
}

/* ---- the cache at work ---- */

static void check(const okv *db, const char *what, int rc)
{
    if (rc == OKV_OK)
        return;
    const char *why = okv_why(db);
    fprintf(stderr, "%s: %s\n", what, why[0] ? why : okv_strerror(rc));
    exit(1);
}

int main(int argc, char **argv)
{
    struct session alice = {.user = "alice", .user_length = 5, .ttl_ms = 60000};
    struct session guest = {.user = "guest", .user_length = 5, .ttl_ms = 100};
    char why[256];
    okv *db;

    if (argc != 2 || okv_open(argv[1], NULL, &db, why, sizeof why)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: example_session_cache URI" : why);
        return 2;
    }
    check(db, "create", session_create(db, &alice));
    check(db, "look up", session_look_up(db, &alice));
    printf("session of %.*s\n", (int)alice.user_length, alice.user);

    check(db, "renew", session_renew(db, &alice, 3600000));
    check(db, "look up", session_look_up(db, &alice));
    printf("renewed: %s\n", alice.ttl_ms > 60000 * 2 ? "it has an hour" : "it has less");

    check(db, "log out", session_log_out(db, &alice));
    check(db, "log out again", session_log_out(db, &alice));
    printf("logged out: %s\n", okv_errname(session_look_up(db, &alice)));

    check(db, "create", session_create(db, &guest));
    int rc = OKV_OK;
    for (int i = 0; i < 3000 && rc == OKV_OK; i++) {
        usleep(10000);
        rc = session_look_up(db, &guest);
    }
    printf("not renewed: %s\n", okv_errname(rc));
    okv_close(&db);
    if (ferror(stdout) || fclose(stdout)) {
        fputs("cannot write the output\n", stderr);
        return 3;
    }
    return 0;
}
