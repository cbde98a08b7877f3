#include "server/copies/results.h"

#include <stdio.h>

#include "server/copies/copies.h"
#include "server/copies/report.h"
#include "shared/base/error.h"

int okv_copies_result(struct okv_copies *copies, uint64_t number, char *out, size_t size)
{
    const struct okv_copies_result *result = &copies->results[number % OKV_COPIES_RESULTS];
    int rc = OKV_EAGAIN;

    pthread_mutex_lock(&copies->lock);
    if (number == 0 || number > copies->ordered || result->number > number)
        rc = OKV_ENOTFOUND;
    else if (result->number == number)
        rc = snprintf(out, size, "%s", result->text);
    pthread_mutex_unlock(&copies->lock);
    return rc;
}

void okv_results_add(struct okv_copies *copies, uint64_t number, const char *text)
{
    struct okv_copies_result *result = &copies->results[number % OKV_COPIES_RESULTS];

    okv_report_renew(copies); /* so that the administrator sees what the order has changed */
    pthread_mutex_lock(&copies->lock);
    result->number = number;
    snprintf(result->text, sizeof result->text, "%s", text[0] ? text : "done");
    pthread_mutex_unlock(&copies->lock);
}
