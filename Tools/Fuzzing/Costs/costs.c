#include "FuzzCosts.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

// Counts without a clock: comparisons through the calls that coverage for libFuzzer puts before each of them, and
// allocations through the hooks of the address sanitizer.

static _Thread_local fuzz_costs costs;
static _Thread_local int64_t held_byte_count;

void fuzz_costs_restart(void) {
    costs = (fuzz_costs){0};
    held_byte_count = 0;
}

fuzz_costs fuzz_costs_now(void) { return costs; }

static int step_percent_max, held_percent_max;

void fuzz_costs_note(int step_percent, int held_percent) {
    if (step_percent > step_percent_max) step_percent_max = step_percent;
    if (held_percent > held_percent_max) held_percent_max = held_percent;
}

static void report(void) {
    fprintf(stderr, "costs: at most %d %% of the allowed steps and %d %% of the allowed memory\n", step_percent_max,
            held_percent_max);
}

// The linker leads each call of `name` to `__wrap_name`, and `__real_name` to libFuzzer's own (`--wrap` in Package.swift).
// A tail call keeps the return address, by which libFuzzer tells comparisons apart.
#define COUNT(name, type)                                                                                             \
    void __real___sanitizer_cov_trace_##name(type left, type right);                                                  \
    void __wrap___sanitizer_cov_trace_##name(type left, type right);                                                  \
    void __wrap___sanitizer_cov_trace_##name(type left, type right) {                                                 \
        costs.comparisons++;                                                                                          \
        __attribute__((musttail)) return __real___sanitizer_cov_trace_##name(left, right);                            \
    }

COUNT(cmp1, uint8_t)
COUNT(cmp2, uint16_t)
COUNT(cmp4, uint32_t)
COUNT(cmp8, uint64_t)
COUNT(const_cmp1, uint8_t)
COUNT(const_cmp2, uint16_t)
COUNT(const_cmp4, uint32_t)
COUNT(const_cmp8, uint64_t)
COUNT(switch, uintptr_t)

int __sanitizer_install_malloc_and_free_hooks(
    void (*did_allocate)(const volatile void *, size_t), void (*will_free)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *);

static void did_allocate(const volatile void *block, size_t byte_count) {
    (void)block;
    costs.allocations++;
    costs.allocated_byte_count += byte_count;
    held_byte_count += (int64_t)byte_count;
    if (held_byte_count > costs.held_byte_count_max) costs.held_byte_count_max = held_byte_count;
}

static void will_free(const volatile void *block) {
    held_byte_count -= (int64_t)__sanitizer_get_allocated_size(block);
}

__attribute__((constructor)) static void start(void) {
    __sanitizer_install_malloc_and_free_hooks(did_allocate, will_free);
    atexit(report);
}
