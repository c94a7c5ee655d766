#include "engine/reach.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "conf/conf.h"
#include "engine/ask.h"
#include "probe/socket_owner.h"

enum { ADDRESSES_MAX = 8, CONNECT_MS = 3000, ANSWER_MS = 2000 };

struct reach {
	struct reach_options options;
	struct reach_result result;
	union {
		uv_getaddrinfo_t lookup;
		uv_work_t work;
	} request;
	uv_timer_t timer;
	struct ask *ask;
	struct endpoint address[ADDRESSES_MAX];
	uint32_t addresses;
	uint32_t at;
	int error;               /* of the last address */
	bool working;            /* the request is under way */
	bool closed;             /* nobody waits for it; freed when nothing refers to it */
	bool timer_closed;
};

static void free_unused(struct reach *reach)
{
	if (reach->timer_closed && !reach->working)
		free(reach);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct reach *reach = handle->data;

	reach->timer_closed = true;
	free_unused(reach);
}

void reach_cancel(struct reach *reach)
{
	if (reach->ask)
		ask_cancel(reach->ask);
	reach->ask = NULL;
	reach->closed = true;
	if (reach->working)
		uv_cancel((uv_req_t *)&reach->request);
	uv_close((uv_handle_t *)&reach->timer, on_timer_closed);
}

static void finish(struct reach *reach)
{
	struct reach_options options = reach->options;
	struct reach_result result = reach->result;

	reach_cancel(reach);
	options.done(options.ctx, &result);
}

/* ---- whose it is ---- */

static bool same_address(const struct endpoint *endpoint, const struct sockaddr *other)
{
	if (!other || other->sa_family != endpoint->address.any.sa_family)
		return false;
	if (other->sa_family == AF_INET6)
		return memcmp(&endpoint->address.v6.sin6_addr,
		              &((const struct sockaddr_in6 *)(const void *)other)->sin6_addr, 16) == 0;
	return endpoint->address.v4.sin_addr.s_addr ==
	       ((const struct sockaddr_in *)(const void *)other)->sin_addr.s_addr;
}

static bool is_here(const struct endpoint *endpoint)
{
	struct ifaddrs *list = NULL;
	bool found = endpoint->address.any.sa_family == AF_INET &&
	             ntohl(endpoint->address.v4.sin_addr.s_addr) >> 24 == 127;

	if (!found && getifaddrs(&list) == 0)
		for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next)
			found = same_address(endpoint, at->ifa_addr);
	if (list)
		freeifaddrs(list);
	return found;
}

static void find_owner(uv_work_t *work)
{
	struct reach *reach = work->data;

	reach->result.here = is_here(&reach->result.endpoint);
	if (reach->result.here)
		reach->result.owner = socket_owner("", &reach->result.endpoint.address.any);
}

static void on_owner(uv_work_t *work, int status)
{
	struct reach *reach = work->data;

	(void)status;
	reach->working = false;
	if (reach->closed)
		free_unused(reach);
	else
		finish(reach);
}

static void answered(struct reach *reach, int status)
{
	uv_timer_stop(&reach->timer);
	reach->result.status = status;
	reach->request.work.data = reach;
	if (!reach->options.find_owner ||
	    uv_queue_work(reach->options.loop, &reach->request.work, find_owner, on_owner) < 0) {
		finish(reach);
		return;
	}
	reach->working = true;
}

/* ---- what it says ---- */

static void on_status(void *ctx, int status, struct str body)
{
	struct reach *reach = ctx;
	(void)body;

	reach->ask = NULL;
	answered(reach, status);
}

static void on_silence(uv_timer_t *timer)
{
	struct reach *reach = timer->data;

	ask_cancel(reach->ask);
	reach->ask = NULL;
	answered(reach, -ETIMEDOUT);
}

static void on_connected(struct reach *reach)
{
	struct ask_options options = {
		.loop = reach->options.loop,
		.endpoint = &reach->result.endpoint,
		.path = reach->options.path,
		.ctx = reach,
		.done = on_status,
	};

	reach->result.connected = true;
	reach->result.endpoint = reach->address[reach->at];
	if (!reach->options.path) {
		answered(reach, 0);
		return;
	}
	int code = ask_start(&options, &reach->ask);
	if (code < 0)
		answered(reach, code);
	else
		uv_timer_start(&reach->timer, on_silence, ANSWER_MS, 0);
}

/* ---- where it is ---- */

static void try_address(struct reach *reach);

static void next_address(struct reach *reach, int error)
{
	reach->error = error;
	reach->at++;
	try_address(reach);
}

static void on_connect(void *ctx, int status, struct str body)
{
	struct reach *reach = ctx;
	(void)body;

	reach->ask = NULL;
	uv_timer_stop(&reach->timer);
	if (status < 0)
		next_address(reach, status);
	else
		on_connected(reach);
}

static void on_connect_late(uv_timer_t *timer)
{
	struct reach *reach = timer->data;

	ask_cancel(reach->ask);
	reach->ask = NULL;
	next_address(reach, -ETIMEDOUT);
}

static void try_address(struct reach *reach)
{
	struct ask_options options = {
		.loop = reach->options.loop,
		.path = "",
		.ctx = reach,
		.done = on_connect,
	};

	for (; reach->at < reach->addresses; reach->at++) {
		options.endpoint = &reach->address[reach->at];
		int code = ask_start(&options, &reach->ask);
		if (code == 0) {
			uv_timer_start(&reach->timer, on_connect_late, CONNECT_MS, 0);
			return;
		}
		reach->error = code;
	}
	reach->result.status = reach->error;
	reach->result.what = strerror(-reach->error);
	finish(reach);
}

static void take_addresses(struct reach *reach, const struct addrinfo *list)
{
	const char *authority = reach->options.model->url_authority;

	for (; list && reach->addresses < ADDRESSES_MAX; list = list->ai_next) {
		struct endpoint *endpoint = &reach->address[reach->addresses];
		if (list->ai_family != AF_INET && list->ai_family != AF_INET6)
			continue;
		*endpoint = (struct endpoint){ .port = reach->options.model->url_port, .authority = authority };
		memcpy(&endpoint->address, list->ai_addr,
		       list->ai_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
		reach->addresses++;
	}
}

static void on_lookup(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
	struct reach *reach = request->data;

	reach->working = false;
	if (!reach->closed && status == 0)
		take_addresses(reach, list);
	uv_freeaddrinfo(list);
	if (reach->closed) {
		free_unused(reach);
	} else if (status < 0) {
		reach->result.status = -EHOSTUNREACH;
		reach->result.what = uv_strerror(status);
		finish(reach);
	} else {
		reach->error = -EHOSTUNREACH;
		try_address(reach);
	}
}

/* Also where the look-up cannot even begin: the owner hears it later, never within its own call. */
static void on_no_lookup(uv_timer_t *timer)
{
	struct reach *reach = timer->data;

	try_address(reach);
}

struct reach *reach_start(const struct reach_options *options)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct reach *reach = xcalloc(1, sizeof(*reach));
	char port[8];

	reach->options = *options;
	uv_timer_init(options->loop, &reach->timer);
	reach->timer.data = reach;
	reach->request.lookup.data = reach;
	snprintf(port, sizeof(port), "%u", options->model->url_port);
	int code = uv_getaddrinfo(options->loop, &reach->request.lookup, on_lookup,
	                          options->model->url_host, port, &hints);
	reach->working = code == 0;
	reach->error = -EHOSTUNREACH;
	if (code < 0)
		uv_timer_start(&reach->timer, on_no_lookup, 0, 0);
	return reach;
}
