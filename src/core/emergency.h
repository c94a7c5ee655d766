#ifndef CORE_EMERGENCY_H
#define CORE_EMERGENCY_H

#include "core/state.h"

/*
 * emergency - memory is nearly full, or will be when what loads is there.
 *
 * The default policy's own, by samples alone: it acts before the machine's signs
 * (control_relieve) have to. The idle model whose going costs least goes; where there
 * is none, the youngest load is given up. Who is waited for and makes room for nobody
 * is let be: it would be loaded again at once. What runs is never ended here.
 *
 * A load that is alone, or beside nobody who could go, was let in though by its
 * estimate it does not fit. Alone it goes on; for those that stay it is watched.
 *
 * One unit of work; false: there was nothing to do.
 */
bool emergency_relieve(struct arbiter *a);

#endif
