#ifndef FUZZ_COSTS_H
#define FUZZ_COSTS_H

#include <stdint.h>

/// What this thread has done since the last `fuzz_costs_restart`.
typedef struct {
    /// The comparisons of instrumented code: each byte that is looked at costs at least one.
    uint64_t comparisons;
    uint64_t allocations;
    uint64_t allocated_byte_count;
    /// The most bytes that were allocated at one time, beyond those at the start.
    int64_t held_byte_count_max;
} fuzz_costs;

void fuzz_costs_restart(void);
fuzz_costs fuzz_costs_now(void);

/// Remembers what an input cost, in percent of what it may; the process says the most when it ends.
void fuzz_costs_note(int step_percent, int held_percent);

#endif
