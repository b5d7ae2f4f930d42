#ifndef WAYBILL_TEXTS_H
#define WAYBILL_TEXTS_H

#include <stddef.h>

/// A file, as it was when the program was built.
typedef struct {
    const unsigned char *bytes;
    size_t count;
} waybill_text;

/// The files of the live page.
waybill_text waybill_page_html(void);
waybill_text waybill_page_script(void);
waybill_text waybill_page_style(void);

/// The script that pages load from the door.
waybill_text waybill_door_script(void);

/// The reports as SQL, with variables.
waybill_text waybill_reports_sql(void);

#endif
