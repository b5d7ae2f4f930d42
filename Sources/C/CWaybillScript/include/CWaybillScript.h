#ifndef WAYBILL_SCRIPT_H
#define WAYBILL_SCRIPT_H

#include <stddef.h>

/// The script that pages load from the door.
typedef struct {
    const unsigned char *bytes;
    size_t count;
} waybill_script_file;

waybill_script_file waybill_script(void);

#endif
