#include "bench/load/schedule.h"

#include <math.h>

void schedule_plan_mix(struct schedule_plan *plan, const double mix[OPERATION_MIXED_COUNT])
{
    double sum = 0;

    for (int i = 0; i < OPERATION_MIXED_COUNT; i++) {
        sum += mix[i] / 100.0;
        plan->shares[i] = sum;
    }
    /* The last operation of the mix absorbs the rounding error. */
    for (int i = OPERATION_MIXED_COUNT - 1; i >= 0; i--) {
        plan->shares[i] = 1.0;
        if (mix[i] > 0)
            break;
    }
}

/* The time until the next order. */
static double distance(struct schedule *schedule)
{
    double mean = schedule->plan->distance_ns;

    return schedule->plan->even ? mean : -mean * log(1.0 - workload_random_unit(&schedule->random));
}

void schedule_begin(struct schedule *schedule, uint64_t count, uint64_t start_ns, uint64_t end_ns,
                    double phase)
{
    schedule->remaining = count;
    schedule->start_ns = start_ns;
    schedule->end_ns = end_ns;
    schedule->over = false;
    if (schedule->plan->even)
        schedule->due_ns = schedule->plan->distance_ns * phase;
    else if (schedule->plan->distance_ns > 0)
        schedule->due_ns = distance(schedule);
}

static enum operation choose_operation(struct schedule *schedule)
{
    const double *shares = schedule->plan->shares;
    double unit = workload_random_unit(&schedule->random);
    int operation = 0;

    while (unit >= shares[operation])
        operation++;
    return (enum operation)operation;
}

/* Sets when the order is due. Returns false when that is after the end. */
static bool set_due(struct schedule *schedule, struct loop_order *order)
{
    order->due_ns = 0;
    if (schedule->plan->distance_ns <= 0)
        return true;
    order->due_ns = schedule->start_ns + (uint64_t)schedule->due_ns;
    if (schedule->end_ns != 0 && order->due_ns >= schedule->end_ns)
        return false;
    schedule->due_ns += distance(schedule);
    return true;
}

uint64_t schedule_left(const struct schedule *schedule)
{
    double time_ns = (double)(schedule->end_ns - schedule->start_ns) - schedule->due_ns;

    if (schedule->over || schedule->end_ns == 0 || schedule->plan->distance_ns <= 0 || time_ns <= 0)
        return 0;
    /* The next order is certain to be due. */
    double count = schedule->plan->even ? ceil(time_ns / schedule->plan->distance_ns)
                                        : 1 + floor(time_ns / schedule->plan->distance_ns);
    return count < (double)schedule->remaining ? (uint64_t)count : schedule->remaining;
}

bool schedule_next(void *user, struct loop_order *order)
{
    struct schedule *schedule = user;
    const struct schedule_plan *plan = schedule->plan;

    if (schedule->remaining == 0 || !set_due(schedule, order)) {
        schedule->over = true;
        return false;
    }
    schedule->remaining--;
    order->is_number = false;
    order->operation = choose_operation(schedule);
    if (order->operation == OPERATION_INSERT) {
        if (inserts_take(plan->inserts, &order->record))
            return true;
        order->operation = OPERATION_PUT; /* the window is full: one insert is late by all of it */
    }
    uint64_t there = plan->inserts ? inserts_visible(plan->inserts) : plan->chooser->records;
    order->record = workload_chooser_next(plan->chooser, &schedule->random, there);
    return true;
}
