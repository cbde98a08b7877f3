#include "bench/load/orders.h"

#include <math.h>

void orders_plan_mix(struct orders_plan *plan, const double mix[OPERATION_MIXED_COUNT])
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
static double distance(struct orders *orders)
{
    double mean = orders->plan->distance_ns;

    return orders->plan->even ? mean : -mean * log(1.0 - workload_random_unit(&orders->random));
}

void orders_begin(struct orders *orders, uint64_t count, uint64_t start_ns, uint64_t end_ns,
                  double phase)
{
    orders->remaining = count;
    orders->start_ns = start_ns;
    orders->end_ns = end_ns;
    orders->over = false;
    if (orders->plan->even)
        orders->due_ns = orders->plan->distance_ns * phase;
    else if (orders->plan->distance_ns > 0)
        orders->due_ns = distance(orders);
}

static enum operation choose_operation(struct orders *orders)
{
    const double *shares = orders->plan->shares;
    double unit = workload_random_unit(&orders->random);
    int operation = 0;

    while (unit >= shares[operation])
        operation++;
    return (enum operation)operation;
}

/* Sets when the order is due. Returns false when that is after the end. */
static bool set_due(struct orders *orders, struct loop_order *order)
{
    order->due_ns = 0;
    if (orders->plan->distance_ns <= 0)
        return true;
    order->due_ns = orders->start_ns + (uint64_t)orders->due_ns;
    if (orders->end_ns != 0 && order->due_ns >= orders->end_ns)
        return false;
    orders->due_ns += distance(orders);
    return true;
}

uint64_t orders_left(const struct orders *orders)
{
    double time_ns = (double)(orders->end_ns - orders->start_ns) - orders->due_ns;

    if (orders->over || orders->end_ns == 0 || orders->plan->distance_ns <= 0 || time_ns <= 0)
        return 0;
    /* The next order is certain to be due. */
    double count = orders->plan->even ? ceil(time_ns / orders->plan->distance_ns)
                                      : 1 + floor(time_ns / orders->plan->distance_ns);
    return count < (double)orders->remaining ? (uint64_t)count : orders->remaining;
}

bool orders_next(void *user, struct loop_order *order)
{
    struct orders *orders = user;
    const struct orders_plan *plan = orders->plan;

    if (orders->remaining == 0 || !set_due(orders, order)) {
        orders->over = true;
        return false;
    }
    orders->remaining--;
    order->is_number = false;
    order->operation = choose_operation(orders);
    if (order->operation == OPERATION_INSERT) {
        if (inserts_take(plan->inserts, &order->record))
            return true;
        order->operation = OPERATION_PUT; /* the window is full: one insert is late by all of it */
    }
    uint64_t there = plan->inserts ? inserts_there(plan->inserts) : plan->chooser->records;
    order->record = workload_chooser_next(plan->chooser, &orders->random, there);
    return true;
}
