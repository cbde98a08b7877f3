/* ^C ends the measurement, but not before what was stored is deleted; a second one ends at once. */
#ifndef OKV_BENCH_INTERRUPT_H
#define OKV_BENCH_INTERRUPT_H

#include <stdbool.h>

/* From here on the first SIGINT or SIGTERM is only noted. */
void interrupt_catch(void);
bool interrupted(void);
/* Ends the process by the signal that was noted, if there was one. */
void interrupt_end(void);

#endif
