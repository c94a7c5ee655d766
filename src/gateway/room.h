#ifndef GATEWAY_ROOM_H
#define GATEWAY_ROOM_H

#include <time.h>
#include <uv.h>

#include "base/list.h"
#include "gateway/gateway.h"
#include "gateway/intake.h"
#include "gateway/quota.h"
#include "gateway/who.h"
#include "io/listener.h"
#include "io/pool.h"
#include "io/reactor.h"

/*
 * room - what all exchanges of a gateway share.
 *
 * Owned by gateway.c; the other files of the layer read it and change the
 * counters and lists. Everything runs on the loop's thread.
 */
enum { LISTENERS_MAX = 16 };

/* How we name ourselves in Via, with the boot's id. */
#define VIA_FORM "1.1 cotenant-%s"

struct gateway {
	struct reactor *reactor;
	struct pool *pool;
	struct tickets *tickets;
	struct gateway_host host;
	const struct conf *conf;
	struct who_rules *rules;
	char boot_id[16];

	struct listener *listeners[LISTENERS_MAX]; /* the control socket is the first */
	uint32_t listener_count;
	bool has_admin_group;
	gid_t admin_group;

	struct list clients;
	uint32_t client_count;
	uint32_t client_max;   /* over TCP; then new ones wait in the kernel */
	bool full;
	struct list exchanges;
	struct list quotas;        /* what keys asked for lately */
	uint32_t exchange_count;
	uint32_t call_count;       /* requests for our own endpoints, streams that follow among them */
	struct bodies bodies;      /* of requests for models */
	struct bodies call_bodies; /* of those for our own endpoints */
	struct gateway_counters counters;
	bool draining;

	uv_timer_t watch;      /* looks after clients that are not being read, while there are any */
	uint32_t unread;       /* how many */
};

/* One more client is not being read. */
void gateway_watch(struct gateway *gateway);

/* µs since boot, suspended time included: the arbiter's clock. */
static inline int64_t boot_now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif
