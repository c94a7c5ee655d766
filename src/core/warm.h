#ifndef CORE_WARM_H
#define CORE_WARM_H

#include "core/state.h"

/*
 * warm - files of cold models in memory that nobody uses.
 *
 * A third level between resident and cold: what lies in the page cache costs
 * nothing, since the kernel takes it back at once, and makes the next load a copy.
 * After each sample the free memory is given to the files of cold models by
 * value: whose queue waits first, then class weight times the chance to be asked
 * for. Nothing is read ahead while a load reads. These bytes never count as used.
 */
bool warm_files(struct arbiter *a); /* one unit of work */

#endif
