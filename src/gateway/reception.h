#ifndef GATEWAY_RECEPTION_H
#define GATEWAY_RECEPTION_H

#include "gateway/answer.h"
#include "http/api_shape.h"
#include "http/message.h"
#include "http/multipart.h"

/*
 * reception - where a request goes, judged by its head.
 *
 * It looks at who asks and for what, and hands the request to a call (our own
 * endpoints) or to an exchange (a model's), or answers at once where it is
 * refused. Afterwards the client is served, or its answer has ended.
 */

/* What was read from the head; the next one keeps what it needs. */
struct reception {
	const struct message *head;
	const struct api_shape *shape;
	struct who who;
	bool json;             /* the body is said to be JSON */
	bool form;             /* ... a form with files, */
	char boundary[MULTIPART_BOUNDARY_MAX + 1]; /* divided by this; "" = by nothing that is known */
	int64_t deadline_us;   /* from arrival; 0 = none */
	uint32_t priority;     /* asked for; PRIORITY_COUNT = not said */
	uint32_t weight_milli; /* asked for; 0 = not said */
	char *model;           /* named in path or query; NULL: not there. The taker's to free */
};

void reception_take(struct client *client, const struct message *head);

#endif
