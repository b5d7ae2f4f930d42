#include "CWaybillTexts.h"

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

static const unsigned char door_script[] = {
#embed "../../Cloud/WaybillDoor/Script/waybill.js"
};

static const unsigned char reports[] = {
#embed "../../Archive/WaybillReport/reports.sql"
};

waybill_text waybill_page_html(void) { return (waybill_text){html, sizeof html}; }
waybill_text waybill_page_script(void) { return (waybill_text){script, sizeof script}; }
waybill_text waybill_page_style(void) { return (waybill_text){style, sizeof style}; }
waybill_text waybill_door_script(void) { return (waybill_text){door_script, sizeof door_script}; }
waybill_text waybill_reports_sql(void) { return (waybill_text){reports, sizeof reports}; }
