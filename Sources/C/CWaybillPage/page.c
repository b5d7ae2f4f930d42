#include "CWaybillPage.h"

// The compiler takes the files as they are: a Swift array of their bytes takes it ten seconds, this nothing.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char html[] = {
#embed "../../Programs/WaybillLive/Page/index.html"
};

static const unsigned char script[] = {
#embed "../../Programs/WaybillLive/Page/live.js"
};

static const unsigned char style[] = {
#embed "../../Programs/WaybillLive/Page/live.css"
};

waybill_page_file waybill_page_html(void) { return (waybill_page_file){html, sizeof html}; }
waybill_page_file waybill_page_script(void) { return (waybill_page_file){script, sizeof script}; }
waybill_page_file waybill_page_style(void) { return (waybill_page_file){style, sizeof style}; }
