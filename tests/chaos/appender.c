#include "tests/chaos/appender.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/base/clock.h"
#include "tests/support/patient_open.h"

#define ENTRY_BYTES 16
#define ENTRIES_IN_LOG 256 /* of the log's own entries; then comes the next log */
#define PAUSE_NS 5000000
#define REOPEN_PAUSE_NS 50000000

static size_t log_key(char key[32], const struct appender *appender, uint64_t log)
{
    return (size_t)snprintf(key, 32, "log%u.%" PRIu64, appender->index, log);
}

static bool outcome_keep(struct appender *appender, uint8_t outcome)
{
    if (appender->count == appender->capacity) {
        uint64_t capacity = appender->capacity ? appender->capacity * 2 : 1024;
        uint8_t *more = realloc(appender->outcomes, capacity);
        if (!more)
            return false;
        appender->outcomes = more;
        appender->capacity = capacity;
    }
    appender->outcomes[appender->count++] = outcome;
    return true;
}

/* The log is longer than it could be if each entry had been added once. */
static void length_check(struct appender *appender, uint64_t entry, size_t length)
{
    if (length % ENTRY_BYTES || length > (entry % ENTRIES_IN_LOG + 1) * ENTRY_BYTES)
        snprintf(appender->complaint, sizeof appender->complaint,
                 "entry %" PRIu64 " of log %u made it %zu bytes long", entry, appender->index,
                 length);
}

static int append_one(struct appender *appender, okv *handle)
{
    uint64_t entry = appender->count;
    char key[32], text[ENTRY_BYTES + 1];
    size_t length = 0;
    size_t key_length = log_key(key, appender, entry / ENTRIES_IN_LOG);

    snprintf(text, sizeof text, "%015" PRIu64 ";", entry);
    uint64_t begin = okv_clock_ns();
    int rc = okv_append(handle, key, key_length, text, ENTRY_BYTES, &length, NULL);
    uint64_t took = okv_clock_ns() - begin;
    if (took > appender->slowest_ns) {
        appender->slowest_ns = took;
        appender->slowest_begin_ns = begin;
    }
    if (rc == OKV_OK)
        length_check(appender, entry, length);
    return outcome_keep(appender, rc == OKV_OK         ? 'a'
                                  : rc == OKV_EUNKNOWN ? 'u'
                                                       : 'f')
               ? rc
               : OKV_ENOMEM;
}

static bool ended(const struct appender *appender, const okv *handle, int rc)
{
    if (rc == OKV_OK || okv_why(handle)[0] == '\0')
        return false;
    return appender->reopen || (rc != OKV_ETIMEDOUT && rc != OKV_EUNKNOWN);
}

static void *appender_run(void *user)
{
    struct appender *appender = user;
    const struct okv_options options = {.timeout_ms = appender->timeout_ms};
    okv *handle = NULL;
    int rc = patient_open(appender->uri, &options, &handle, NULL, 0);

    atomic_store(&appender->opened, rc == OKV_OK);
    while (!atomic_load(appender->stop)) {
        if (rc == OKV_OK) {
            rc = append_one(appender, handle);
            rc = rc == OKV_ENOMEM || ended(appender, handle, rc) ? rc : OKV_OK;
            nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
        } else if (appender->reopen) {
            nanosleep(&(struct timespec){0, REOPEN_PAUSE_NS}, NULL);
            okv_close(&handle);
            appender->reopened++;
            rc = patient_open(appender->uri, &options, &handle, NULL, 0);
        } else {
            break;
        }
    }
    appender->failure = appender->reopen ? OKV_OK : rc;
    okv_close(&handle);
    return NULL;
}

bool appender_start(struct appender *appender)
{
    return pthread_create(&appender->thread, NULL, appender_run, appender) == 0;
}

void appender_join(struct appender *appender)
{
    pthread_join(appender->thread, NULL);
}

/* ---- what must be there ---- */

/* The state of a check of one log. */
struct reading {
    const struct appender *appender;
    uint64_t first, end;        /* entries that belong to it */
    uint64_t acknowledged_next; /* none below was seen later */
    uint8_t seen[ENTRIES_IN_LOG];
    char *text;
};

static void entry_see(struct reading *reading, uint64_t entry)
{
    const struct appender *appender = reading->appender;
    const char *wrong = NULL;

    if (entry < reading->first || entry >= reading->end) {
        snprintf(reading->text, APPENDER_TEXT, "entry %" PRIu64 " is in the wrong log", entry);
        return;
    }
    uint8_t outcome = appender->outcomes[entry];
    if (reading->seen[entry - reading->first]++)
        wrong = "is there twice";
    else if (outcome == 'f')
        wrong = "failed and is there";
    else if (outcome == 'a' && entry < reading->acknowledged_next)
        wrong = "is not in its order";
    if (outcome == 'a')
        reading->acknowledged_next = entry + 1;
    if (wrong)
        snprintf(reading->text, APPENDER_TEXT, "entry %" PRIu64 " of log %u %s", entry,
                 appender->index, wrong);
}

static void log_check(struct reading *reading, okv *handle)
{
    static const size_t size = (ENTRIES_IN_LOG + 64) * ENTRY_BYTES;
    char key[32], entry[ENTRY_BYTES + 1] = "";
    char *bytes = malloc(size);
    size_t length = 0;
    size_t key_length = log_key(key, reading->appender, reading->first / ENTRIES_IN_LOG);
    int rc = bytes ? okv_get(handle, key, key_length, bytes, size, &length, NULL) : OKV_ENOMEM;

    if (rc == OKV_ENOTFOUND)
        length = 0;
    else if (rc)
        snprintf(reading->text, APPENDER_TEXT, "log %s cannot be read: %s", key, okv_errname(rc));
    for (size_t at = 0; rc == OKV_OK && at + ENTRY_BYTES <= length; at += ENTRY_BYTES) {
        memcpy(entry, bytes + at, ENTRY_BYTES);
        entry_see(reading, strtoull(entry, NULL, 10));
    }
    free(bytes);
}

void appender_check(struct appender *appender, okv *handle, struct appender_counts *counts,
                    char text[APPENDER_TEXT])
{
    *counts = (struct appender_counts){0};
    snprintf(text, APPENDER_TEXT, "%s", appender->complaint);
    for (uint64_t first = 0; first < appender->count; first += ENTRIES_IN_LOG) {
        uint64_t left = appender->count - first;
        struct reading reading = {
            .appender = appender,
            .first = first,
            .end = first + (left < ENTRIES_IN_LOG ? left : ENTRIES_IN_LOG),
            .text = text,
        };
        log_check(&reading, handle);
        for (uint64_t entry = first; entry < reading.end; entry++) {
            uint8_t outcome = appender->outcomes[entry];
            bool there = reading.seen[entry - first];
            counts->acknowledged += outcome == 'a';
            counts->unknown += outcome == 'u';
            counts->failed += outcome == 'f';
            counts->unknown_done += outcome == 'u' && there;
            if (outcome == 'a' && !there)
                snprintf(text, APPENDER_TEXT,
                         "entry %" PRIu64 " of log %u was acknowledged and is lost", entry,
                         appender->index);
        }
    }
    free(appender->outcomes);
    appender->outcomes = NULL;
}
