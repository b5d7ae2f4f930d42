#ifndef WAYBILL_PAGE_H
#define WAYBILL_PAGE_H

#include <stddef.h>

/// One file of the live page, as it was when the program was built.
typedef struct {
    const unsigned char *bytes;
    size_t count;
} waybill_page_file;

waybill_page_file waybill_page_html(void);
waybill_page_file waybill_page_script(void);
waybill_page_file waybill_page_style(void);

#endif
