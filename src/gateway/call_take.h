#ifndef GATEWAY_CALL_TAKE_H
#define GATEWAY_CALL_TAKE_H

#include "gateway/call.h"
#include "gateway/reception.h"

/* call_take - where a call begins: the layer's side of call.h. */
void call_take(struct client *client, const struct reception *reception);

#endif
