#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

/// Room that a state of each level works in; macros of macros do not reach Swift.
enum {
    WAYBILL_ISAL_LEVEL_1_BYTES = ISAL_DEF_LVL1_DEFAULT,
    WAYBILL_ISAL_LEVEL_2_BYTES = ISAL_DEF_LVL2_DEFAULT,
    WAYBILL_ISAL_LEVEL_3_BYTES = ISAL_DEF_LVL3_DEFAULT,
};
