#ifndef API_REFUSAL_H
#define API_REFUSAL_H

#include "core/action.h"
#include "gateway/call.h"

/*
 * refusal - a verdict of the arbiter as the answer to a call: the same status,
 * code and words as an inference request gets. `action` may be NULL. `has_log`:
 * the model's engine printed something, so its log is worth a look.
 */
void call_refuse(struct call *call, enum fail fail, const char *model, const struct action *action,
                 const char *explain, bool has_log);

#endif
