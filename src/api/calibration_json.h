#ifndef API_CALIBRATION_JSON_H
#define API_CALIBRATION_JSON_H

#include <jansson.h>

#include "estimate/calibration.h"

/* calibration_json - as /api/v1/calibration and `lab calibration --json` give it. A new reference. */
json_t *calibration_json(const struct calibration *calibration);

#endif
