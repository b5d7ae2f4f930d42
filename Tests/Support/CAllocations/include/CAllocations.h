#pragma once
#include <stdint.h>

/// How often the process has asked for memory since its start; 0 where it cannot be counted.
uint64_t waybill_allocation_count(void);
