#include "bench/load/inserts.h"

void inserts_init(struct inserts *inserts, uint64_t records)
{
    atomic_init(&inserts->next, records);
    atomic_init(&inserts->ended, records);
    for (uint32_t i = 0; i < INSERTS_WINDOW; i++)
        atomic_init(&inserts->window[i], 0);
}

bool inserts_take(struct inserts *inserts, uint64_t *record)
{
    uint_fast64_t next = atomic_load_explicit(&inserts->next, memory_order_relaxed);

    do {
        if (next - atomic_load_explicit(&inserts->ended, memory_order_acquire) >= INSERTS_WINDOW)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&inserts->next, &next, next + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    *record = next;
    return true;
}

/* The thread that ends the first number of the window moves the window past all that have ended.
 * Each thread stores its mark, then checks; seq_cst ensures that of two neighbours one sees the
 * other. */
void inserts_end(struct inserts *inserts, uint64_t record)
{
    uint_fast64_t ended;

    atomic_store(&inserts->window[record % INSERTS_WINDOW], record + 1);
    ended = atomic_load(&inserts->ended);
    while (atomic_load(&inserts->window[ended % INSERTS_WINDOW]) == ended + 1)
        if (atomic_compare_exchange_strong(&inserts->ended, &ended, ended + 1))
            ended++;
}
