#ifndef APP_DOCTOR_QUANTS_H
#define APP_DOCTOR_QUANTS_H

#include <jansson.h>

#include "conf/conf.h"
#include "probe/doctor.h"
#include "probe/topology.h"

/*
 * doctor_quants - the quantisation advice: which one of each configured model
 * lets all of them stay resident on this machine.
 *
 * Adds one finding, which also names what cannot be judged. What may be used is the
 * machine's, or memory.limit where that is less. Returns an array of {"model", "now", "now_bytes", "advised",
 * "advised_bytes", "rest_bytes", "perplexity_percent"}: weights, and by how much
 * the advised one's perplexity is above 16 bits (estimate/quants.h: measured on
 * another model). NULL where no model has a file that can be judged.
 */
json_t *doctor_quants(const struct conf *conf, const struct topology *topology, struct findings *findings);

/* By the finding: with what is advised all fit. */
bool doctor_quants_fit(const struct findings *findings);

#endif
