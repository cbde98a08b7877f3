#include "client/cli/progress.h"

#include <stdio.h>

#include "client/cli/output.h"
#include "shared/base/printable.h"

#define PROGRESS_SECONDS 1

void progress_init(struct progress *progress, bool is_shown)
{
    *progress = (struct progress){.is_shown = is_shown, .next = time(NULL) + PROGRESS_SECONDS};
}

void progress_show(struct progress *progress, uint64_t items)
{
    time_t now = progress->is_shown ? time(NULL) : 0;

    if (!progress->is_shown || now < progress->next)
        return;
    progress->next = now + PROGRESS_SECONDS;
    okv_printable_clear_line();
    fprintf(stderr, "%llu item%s", (unsigned long long)items, cli_s(items));
}

void progress_clear(const struct progress *progress)
{
    if (progress->is_shown)
        okv_printable_clear_line();
}
