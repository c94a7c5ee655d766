#ifndef CORE_RESIZE_H
#define CORE_RESIZE_H

#include "core/decide.h"
#include "core/state.h"

/*
 * resize - the same model with another context.
 *
 * Where an engine reserves the KV of its whole context at the start (a GPU's
 * memory), its context is elastic by restart: it starts with what this model's
 * conversations usually need, and the shell chooses a larger one when a request
 * needs it. EVENT_MODEL with MODEL_RESIZE brings the new footprint:
 *
 *   1. it is what the model takes from now on; what was learned of how the model
 *      is used stays, what was measured of the other size does not;
 *   2. an instance that is smaller takes no new request and is never cut: what
 *      runs on it ends, then it is told to stop (REASON_CONTEXT), and the shell
 *      saves its conversations;
 *   3. where the larger one fits into what is free, its claim is raised to the
 *      larger of both until its end, and the load follows in the same step in
 *      which its bytes were seen back: nobody else gets the room in between.
 *      Else the load is one like any other, and others may have to go for it.
 *
 * A smaller size waits for the next load. While memory runs short, idle ones that
 * had grown (MODEL_GROWN) are ended before any model is evicted, and come back as
 * large as they would be loaded, once loads are allowed again.
 */
/* Its spec was just taken over. `request`: the one that it is for, by its sequence. */
void resize_model(struct arbiter *a, struct model *model, uint64_t request);
/* The larger one is there: `decision` tells what it took. Nothing where none was awaited. */
void resize_ready(struct arbiter *a, struct model *model, struct decision *decision);
/* It is not waited for any more. */
void resize_give_up(struct arbiter *a, struct model *model);
/* Its smaller instance was just closed: load it where it fits. */
void resize_load(struct arbiter *a, struct model *model);
/* One unit of work: an idle one that had grown goes. */
bool resize_under_pressure(struct arbiter *a);

#endif
