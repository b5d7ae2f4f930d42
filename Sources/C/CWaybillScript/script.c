#include "CWaybillScript.h"

// As in `CWaybillPage`: the compiler takes the file as it is.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char script[] = {
#embed "../../Cloud/WaybillDoor/Script/waybill.js"
};

waybill_script_file waybill_script(void) { return (waybill_script_file){script, sizeof script}; }
