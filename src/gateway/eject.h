#ifndef GATEWAY_EJECT_H
#define GATEWAY_EJECT_H

#include "gateway/exchange.h"
#include "http/body_facts.h"

/*
 * eject - Ollama's `"keep_alive": 0`: the model is to leave memory now.
 *
 * It is a wish, whoever says it: it takes nothing from anybody. With nothing to
 * answer (`ollama stop`) it is the whole request, and one that cannot be granted
 * is told who holds the model; behind an answer it is tried when that is over.
 */

/* Does the body say so? True: `*only` tells whether there is nothing else to do. */
bool eject_is_asked(const struct exchange *exchange, const struct body_facts *facts, bool *only);
/* Of the whole request; the model is known and allowed. */
void eject_begin(struct exchange *exchange);
/* Behind the answer of a request that is over. */
void eject_after(struct gateway *gateway, uint32_t model, uint32_t priority);

#endif
