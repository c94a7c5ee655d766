#ifndef CORE_CONTROL_H
#define CORE_CONTROL_H

#include "core/state.h"

/*
 * control - what operators, the configuration, time and the machine's need do to
 * models that nobody asked for a place.
 */
/* `request`: the one that a MODEL_RESIZE is for, by its sequence. */
void control_model(struct arbiter *a, uint32_t index, const struct model_spec *spec, uint64_t request);
void control_pin(struct arbiter *a, uint32_t index, bool pin);
/* `short_bytes`: how much has to come back before the machine is well; 0 = not known. */
void control_pressure(struct arbiter *a, enum pressure level, int64_t short_bytes);
/* Told again, what runs is cut and all engines are killed. */
void control_shutdown(struct arbiter *a);
/* When it goes on though a release was not seen; NEVER: nothing is waited for in vain. */
int64_t control_shut_due(const struct arbiter *a);

/* What came due for a model by time alone. */
void control_expire(struct arbiter *a, struct model *model);

/* One unit of work each; false: there was nothing to do. */
bool control_relieve(struct arbiter *a); /* pressure */
bool control_shut(struct arbiter *a);    /* shutdown */
bool control_stop_drained(struct arbiter *a);

#endif
