#include "core/chain.h"

#include <assert.h>

#include "core/request.h"

void chain_append(struct arbiter *a, struct chain *chain, struct request *request)
{
	uint32_t link = request_index(a, request) + 1;

	assert(request->next == 0 && request->prev == 0 && chain->first != link);
	request->prev = chain->last;
	if (chain->last)
		request_link(a, chain->last)->next = link;
	else
		chain->first = link;
	chain->last = link;
	chain->count++;
}

void chain_insert(struct arbiter *a, struct chain *chain, struct request *request)
{
	struct request *behind = NULL, *before = request_link(a, chain->last);

	for (; before && request_came_before(request, before); before = request_link(a, before->prev))
		behind = before;
	if (!behind) {
		chain_append(a, chain, request);
		return;
	}
	uint32_t link = request_index(a, request) + 1;
	request->prev = behind->prev;
	request->next = request_index(a, behind) + 1;
	behind->prev = link;
	*(before ? &before->next : &chain->first) = link;
	chain->count++;
}

void chain_remove(struct arbiter *a, struct chain *chain, struct request *request)
{
	assert(chain->count > 0);
	if (request->prev)
		request_link(a, request->prev)->next = request->next;
	else
		chain->first = request->next;
	if (request->next)
		request_link(a, request->next)->prev = request->prev;
	else
		chain->last = request->prev;
	request->next = request->prev = 0;
	chain->count--;
}
