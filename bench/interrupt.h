/* ^C stops the measurement and deletes the stored items first; a second ^C ends at once. */
#ifndef OKV_BENCH_INTERRUPT_H
#define OKV_BENCH_INTERRUPT_H

#include <stdbool.h>

/* From here on the first SIGINT or SIGTERM is only recorded. */
void interrupt_catch(void);
bool interrupted(void);
/* Ends the process by the recorded signal, if there was one. */
void interrupt_end(void);

#endif
