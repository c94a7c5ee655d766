#ifndef PROBE_NVML_H
#define PROBE_NVML_H

#include "probe/calls.h"

/*
 * nvml - NVIDIA's library, opened at run time where the driver is there and a
 * device is awake, and closed again at once: an open one keeps devices awake.
 *
 * What the library does not support (memory of unified devices) is -1. A device
 * that is not answered for keeps its place in the list.
 */

/*
 * Fill calls->nvml. `library` is NULL for the system's; another name is asked
 * without looking for a driver first. Without an answer the list is empty.
 */
void nvml_ask(const char *library, struct calls *calls);

#endif
