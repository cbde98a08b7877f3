/* Calls with one answer: attempts at one member after the other, until one is an answer. */
#include <stdlib.h>
#include <string.h>

#include "server/etcd/message.h"
#include "server/etcd/state.h"
#include "shared/base/clock.h"

#define PAUSE_NS 100000000u /* when all members failed */
#define LOGIN_TIMES 5       /* as long as others: etcd's hash of passwords is meant to be slow */

struct okv_etcd_call {
    struct okv_etcd *etcd;
    struct okv_etcd_call *next;
    enum okv_etcd_kind kind;
    char *body;
    char *login; /* the body of a request for a token, while that is the attempt */
    okv_etcd_done_fn *done;
    void *context;
    uint64_t deadline_ns;
    uint64_t begin_ns; /* of the next attempt */
    uint64_t revision; /* that the store had reached when the attempt began */
    unsigned member;
    unsigned failures;
    bool has_renewed; /* the token, which is refused once it is old */
    int status;
    struct okv_diag why;
    struct okv_etcd_post post;
};

enum verdict {
    FINAL,   /* `status` is the result */
    AT_ONCE, /* the same member is asked again */
    NEXT,    /* the request has no effect; the next member is asked */
    LOST,    /* it may have */
};

/* Codes of gRPC, which say that a request had no effect; others may come after it had. */
enum {
    INVALID = 3,
    NOT_FOUND = 5,
    NO_RIGHT = 7,
    EXHAUSTED = 8,
    NO_STATE = 9,
    UNIMPLEMENTED = 12,
    UNAVAILABLE = 14,
    NO_TOKEN = 16
};

unsigned okv_etcd_next_member(const struct okv_etcd *etcd, unsigned member)
{
    return (member + 1) % etcd->member_count;
}

static enum verdict final(struct okv_etcd_call *call, int status)
{
    call->status = status;
    return FINAL;
}

static void note(struct okv_etcd_call *call, const char *what)
{
    okv_diag_set(&call->why, 0, "etcd at %s: %s", call->etcd->members[call->member], what);
}

static void drop_token(struct okv_etcd *etcd)
{
    if (etcd->token)
        explicit_bzero(etcd->token, strlen(etcd->token));
    free(etcd->token);
    etcd->token = NULL;
}

/* It becomes part of a header. */
static bool is_token(const char *token)
{
    size_t length = token ? strlen(token) : 0;

    for (size_t i = 0; i < length; i++)
        if (token[i] <= ' ' || token[i] > '~')
            return false;
    return length > 0 && length <= OKV_ETCD_TOKEN_MAX;
}

static enum verdict judge_token(struct okv_etcd_call *call, const char *token)
{
    if (!is_token(token)) {
        note(call, "it sent no token");
        return NEXT;
    }
    drop_token(call->etcd);
    call->etcd->token = strdup(token);
    return call->etcd->token ? AT_ONCE : final(call, OKV_ENOMEM);
}

static bool says(const struct okv_etcd_message *message, const char *text)
{
    return strcmp(message->error, text) == 0;
}

static enum verdict judge_token_refusal(struct okv_etcd_call *call)
{
    if (!call->etcd->user || call->has_renewed)
        return final(call, OKV_EDENIED);
    call->has_renewed = true;
    drop_token(call->etcd);
    return AT_ONCE;
}

static enum verdict judge_error(struct okv_etcd_call *call, const struct okv_etcd_message *message)
{
    note(call, message->error);
    switch (message->error_code) {
    case NO_TOKEN:
        return judge_token_refusal(call);
    case INVALID:
        if (says(message, "etcdserver: revision of auth store is old"))
            return judge_token_refusal(call);
        if (call->login || says(message, "etcdserver: user name is empty"))
            return final(call, OKV_EDENIED);
        return final(call, OKV_EREFUSED);
    case NO_RIGHT:
        return final(call, OKV_EDENIED);
    case NOT_FOUND:
        return final(call, OKV_ENOTFOUND);
    case EXHAUSTED:
    case NO_STATE:
    case UNIMPLEMENTED:
        return final(call, OKV_EREFUSED);
    case UNAVAILABLE:
        return says(message, "etcdserver: no leader") ? NEXT : LOST;
    default:
        return LOST;
    }
}

static bool is_lost(struct okv_etcd_call *call)
{
    call->why = call->etcd->lost.text[0] ? call->etcd->lost : call->why;
    return call->etcd->lost.text[0];
}

/* Other answers are of the member alone, which may be behind. */
static bool is_ordered(const struct okv_etcd_call *call)
{
    return !call->login && (call->kind == OKV_ETCD_GET || call->kind == OKV_ETCD_SWAP);
}

/* False: it is from another cluster, or from before what this one has shown. */
static bool is_of_cluster(struct okv_etcd_call *call, const struct okv_etcd_message *message)
{
    struct okv_etcd *etcd = call->etcd;
    const char *url = etcd->members[call->member];

    if (etcd->cluster_id == 0)
        etcd->cluster_id = message->cluster_id;
    if (message->cluster_id != etcd->cluster_id)
        okv_diag_set(&etcd->lost, 0,
                     "etcd at %s is cluster %llu, not %llu: it was set up anew, or restored", url,
                     (unsigned long long)message->cluster_id, (unsigned long long)etcd->cluster_id);
    else if (is_ordered(call) && message->revision < call->revision)
        okv_diag_set(&etcd->lost, 0,
                     "etcd at %s has revision %llu and had %llu: it was set up anew, or restored",
                     url, (unsigned long long)message->revision,
                     (unsigned long long)call->revision);
    else if (is_ordered(call) && message->revision > etcd->revision)
        etcd->revision = message->revision;
    return !is_lost(call);
}

static enum verdict judge_message(struct okv_etcd_call *call,
                                  const struct okv_etcd_message *message)
{
    if (message->error)
        return judge_error(call, message);
    if (message->cluster_id == 0) {
        note(call, "its answer has no cluster_id");
        return LOST;
    }
    if (!is_of_cluster(call, message))
        return final(call, OKV_ELOST);
    if (call->login)
        return judge_token(call, message->token);
    switch (call->kind) {
    case OKV_ETCD_SWAP:
        return final(call, message->succeeded ? OKV_OK : OKV_ECONFLICT);
    case OKV_ETCD_GRANT:
    case OKV_ETCD_KEEPALIVE:
        return final(call, message->ttl_s ? OKV_OK : OKV_ENOTFOUND);
    default:
        return final(call, OKV_OK);
    }
}

static enum verdict judge(struct okv_etcd_call *call, CURLcode code,
                          struct okv_etcd_message *message)
{
    const struct okv_etcd_post *post = &call->post;

    if (code != CURLE_OK) {
        note(call, code == CURLE_WRITE_ERROR ? "its answer is too long"
                   : post->error[0]          ? post->error
                                             : curl_easy_strerror(code));
        return okv_etcd_post_was_sent(post) ? LOST : NEXT;
    }
    if (okv_etcd_message_decode(message, post->answer.bytes, post->answer.length)) {
        okv_diag_set(&call->why, 0, "etcd at %s: status %ld, and no answer of etcd",
                     call->etcd->members[call->member], okv_etcd_post_status(post));
        return LOST;
    }
    return judge_message(call, message);
}

static void end_attempt(struct okv_etcd_call *call)
{
    okv_etcd_post_end(&call->post, call->etcd);
    if (call->login)
        explicit_bzero(call->login, strlen(call->login));
    free(call->login);
    call->login = NULL;
}

static void finish(struct okv_etcd_call *call, const struct okv_etcd_message *message)
{
    bool has_message = message && (call->status == OKV_OK || call->status == OKV_ECONFLICT);
    struct okv_etcd_answer answer = {.status = call->status};

    answer.why = call->status == OKV_OK || call->status == OKV_ECONFLICT ? "" : call->why.text;
    if (message) {
        answer.cluster_id = message->cluster_id;
        answer.revision = message->revision;
    }
    if (has_message) {
        answer.items = message->items;
        answer.count = message->count;
        answer.lease = message->lease;
        answer.ttl_s = message->ttl_s;
    }
    struct okv_etcd_call **at = &call->etcd->calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    end_attempt(call);
    call->done(call->context, &answer);
    free(call->body);
    free(call);
}

static void ask_next(struct okv_etcd_call *call)
{
    struct okv_etcd *etcd = call->etcd;

    if (etcd->first == call->member)
        etcd->first = okv_etcd_next_member(etcd, call->member);
    call->member = okv_etcd_next_member(etcd, call->member);
    if (++call->failures % etcd->member_count == 0)
        call->begin_ns = okv_clock_ns() + PAUSE_NS;
}

static void attempt_ended(void *owner, CURLcode code)
{
    struct okv_etcd_call *call = owner;
    struct okv_etcd_message message = {0};

    enum verdict verdict = judge(call, code, &message);
    if (verdict == LOST && !call->login && call->kind == OKV_ETCD_SWAP)
        verdict = final(call, OKV_EUNKNOWN);
    end_attempt(call);
    if (verdict == FINAL)
        finish(call, &message);
    else if (verdict != AT_ONCE)
        ask_next(call);
    okv_etcd_message_fini(&message);
}

static int begin_attempt(struct okv_etcd_call *call)
{
    static const char *const paths[] = {"kv/range", "kv/txn", "lease/grant", "lease/keepalive",
                                        "lease/revoke"};
    struct okv_etcd *etcd = call->etcd;
    unsigned flags = OKV_ETCD_WITH_TOKEN | (call->kind == OKV_ETCD_SWAP ? OKV_ETCD_ONCE : 0);
    long left_ms = okv_clock_ms_until(call->deadline_ns), limit_ms = etcd->member_ms;

    call->revision = etcd->revision;
    if (etcd->token || !etcd->user)
        return okv_etcd_post_begin(&call->post, etcd, call->member, paths[call->kind], call->body,
                                   flags, limit_ms < left_ms ? limit_ms : left_ms);
    limit_ms *= LOGIN_TIMES;
    call->login = okv_etcd_encode_login(etcd->user, etcd->password);
    if (!call->login)
        return OKV_ENOMEM;
    return okv_etcd_post_begin(&call->post, etcd, call->member, "auth/authenticate", call->login, 0,
                               limit_ms < left_ms ? limit_ms : left_ms);
}

/* Returns the time until it has to be called again; libcurl knows that of attempts. */
static int step(struct okv_etcd_call *call)
{
    uint64_t now = okv_clock_ns();

    if (call->post.easy)
        return -1;
    if (now < call->deadline_ns && now < call->begin_ns)
        return okv_clock_ms_until(call->begin_ns);
    int rc = is_lost(call)             ? OKV_ELOST
             : now < call->deadline_ns ? begin_attempt(call)
                                       : OKV_ETIMEDOUT;
    if (rc) {
        call->status = rc;
        finish(call, NULL);
    }
    return rc ? 0 : -1; /* `done` may have begun others */
}

int okv_etcd_calls_step(struct okv_etcd *etcd)
{
    int wait_ms = -1;

    for (struct okv_etcd_call *call = etcd->calls, *next; call; call = next) {
        next = call->next;
        wait_ms = okv_clock_sooner_ms(wait_ms, step(call));
    }
    return wait_ms;
}

void okv_etcd_calls_end(struct okv_etcd *etcd)
{
    while (etcd->calls) {
        struct okv_etcd_call *call = etcd->calls;
        bool may_be_done = call->kind == OKV_ETCD_SWAP && call->post.easy && !call->login;
        call->status = may_be_done ? OKV_EUNKNOWN : OKV_ESHUTDOWN;
        finish(call, NULL);
    }
    drop_token(etcd);
}

int okv_etcd_call_begin(struct okv_etcd *etcd, enum okv_etcd_kind kind, char *body, unsigned member,
                        uint32_t deadline_ms, okv_etcd_done_fn *done, void *context)
{
    struct okv_etcd_call *call = body && !etcd->is_ending ? calloc(1, sizeof *call) : NULL;

    if (!call) {
        free(body);
        return etcd->is_ending ? OKV_ESHUTDOWN : OKV_ENOMEM;
    }
    call->etcd = etcd;
    call->kind = kind;
    call->body = body;
    call->member = member;
    call->deadline_ns = okv_clock_ns() + deadline_ms * UINT64_C(1000000);
    call->done = done;
    call->context = context;
    call->post.ended = attempt_ended;
    call->post.owner = call;
    call->next = etcd->calls;
    etcd->calls = call;
    return OKV_OK;
}
