#ifndef PROBE_NVML_H
#define PROBE_NVML_H

#include "probe/calls.h"

/*
 * nvml - NVIDIA's library, opened at run time where the driver is there and a
 * device is awake. An open one keeps devices awake, and opening it takes tens of
 * milliseconds: so it is kept open while an engine uses a device, and else closed
 * again at once.
 *
 * What the library does not support (memory of unified devices) is -1. A device
 * that is not answered for keeps its place in the list.
 */

/*
 * Fill calls->nvml. `library` is NULL for the system's; another name is asked
 * without looking for a driver first. Without an answer the list is empty.
 */
void nvml_ask(const char *library, struct calls *calls);

/* The same, kept open in between. NULL where there is nothing to ask. */
struct nvml_session;
struct nvml_session *nvml_open(const char *library);
void nvml_read(struct nvml_session *session, struct calls *calls);
void nvml_close(struct nvml_session *session); /* NULL: nothing */

#endif
