#ifndef APP_CLI_CALIBRATION_H
#define APP_CLI_CALIBRATION_H

#include "app/cli.h"

/*
 * cli_calibration - `lab calibration [FILE]`: coverage and error over time, of the
 * daemon's own loads, or of a stream in a file. Such a file has a load a line, fields
 * parted by tabs: build, model and parameters (any words), the closed form's fixed part and
 * compute buffer, the engine's own word on that buffer (0: none), the measured
 * total, bytes that were free where it was killed (else 0), 1 on a device; a line with '#' is left out.
 */
int run_calibration(const struct cli_args *args);

#endif
