#include "tests/faults/program.h"

#include <string.h>
#include <unistd.h>

#include "tests/faults/inject.h"

void program_print_place(FILE *out, const char *what, const char *function, uintptr_t offset)
{
    char command[128], place[512] = "";

    /* The return address is behind the call. */
    snprintf(command, sizeof command, "addr2line -sfpe /proc/%d/exe 0x%zx 2>/dev/null",
             (int)getpid(), (size_t)offset - 1);
    FILE *found = popen(command, "r");
    if (found) {
        if (!fgets(place, sizeof place, found))
            place[0] = 0;
        pclose(found);
    }
    place[strcspn(place, "\n")] = 0;
    fprintf(out, "%s %s 0x%zx %s\n", what, function, (size_t)offset, place);
}

void program_print_sites(void)
{
    for (unsigned i = 0; i < INJECT_SITES_MAX; i++) {
        const struct inject_site *site = &inject->sites[i];
        char what[96];
        if (!atomic_load(&site->offset))
            continue;
        snprintf(what, sizeof what, "site %s calls %u failed %u",
                 inject_site_side(site) == INJECT_SERVER ? "server" : "client",
                 atomic_load(&site->calls) / 3, atomic_load(&site->failed));
        program_print_place(stdout, what, site->function, inject_site_offset(site));
    }
}
