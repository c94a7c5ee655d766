#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "gateway/client.h"
#include "gateway/exchange.h"

enum {
	DESCRIPTORS_KEPT = 128,   /* for engines' logs, the store, listeners, files */
	CLIENTS_MIN = 16,
	CALL_BODY_MAX = 1024 * 1024,
	CALL_BODIES_MAX = 16 * 1024 * 1024,
	WATCH_MS = 1000,
};

/* Each client over TCP may need a connection to an engine, too. */
static uint32_t clients_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT32_MAX;
	if (limit.rlim_cur < DESCRIPTORS_KEPT + 2 * CLIENTS_MIN)
		return CLIENTS_MIN;
	return (uint32_t)((limit.rlim_cur - DESCRIPTORS_KEPT) / 2);
}

/* The control socket is never paused: an operator must get in when all else is full. */
static void on_connection(void *ctx, struct stream *stream, const struct peer *peer)
{
	struct gateway *gateway = ctx;

	client_new(gateway, stream, peer);
	if (gateway->full || gateway->client_count < gateway->client_max)
		return;
	gateway->full = true;
	for (uint32_t i = 1; i < gateway->listener_count; i++)
		listener_pause(gateway->listeners[i]);
}

/* ---- listening ---- */

static int group_of(const char *name, gid_t *out, struct err *err)
{
	struct group *group = getgrnam(name);

	if (!group)
		return err_set(err, -ENOENT, "group '%s' of the socket does not exist", name);
	*out = group->gr_gid;
	return 0;
}

/* Somebody else has it: what to do about it. */
static int taken(struct err *err, const char *instead)
{
	struct err was = *err;

	return was.code == -EADDRINUSE ? err_set(err, was.code, "%.400s; try: %s", was.text, instead) : was.code;
}

static int listen_on(struct gateway *gateway, const struct conf_listen *where, struct err *err)
{
	struct listener_events events = { gateway, on_connection };

	if (gateway->listener_count == LISTENERS_MAX)
		return err_set(err, -E2BIG, "more than %d addresses to listen on",
		               LISTENERS_MAX - 1);
	struct listener *listener =
		where->host ? listener_tcp(gateway->reactor, where->host, where->port, &events, err)
		            : listener_unix(gateway->reactor, where->path, 0600, (gid_t)-1, &events,
		                            err);
	if (!listener)
		return where->host ? taken(err, "another address under `listen`") : err->code;
	gateway->listeners[gateway->listener_count++] = listener;
	return 0;
}

static int listen_on_control(struct gateway *gateway, const char *path, struct err *err)
{
	const struct conf *conf = gateway->conf;
	struct listener_events events = { gateway, on_connection };
	gid_t group = (gid_t)-1;

	if (conf->socket_group && group_of(conf->socket_group, &group, err) < 0)
		return err->code;
	if (conf->socket_admin_group) {
		if (group_of(conf->socket_admin_group, &gateway->admin_group, err) < 0)
			return err->code;
		gateway->has_admin_group = true;
	}
	mode_t mode = conf->socket_group ? 0660 : 0600;
	gateway->listeners[0] =
		listener_unix(gateway->reactor, path, mode, group, &events, err);
	if (!gateway->listeners[0])
		return taken(err, "cotenant ps (a daemon runs there already)");
	gateway->listener_count = 1;
	return 0;
}

static int listen_everywhere(struct gateway *gateway, const char *control, struct err *err)
{
	int error = listen_on_control(gateway, control, err);

	for (size_t i = 0; error == 0 && i < gateway->conf->listens; i++)
		error = listen_on(gateway, &gateway->conf->listen[i], err);
	return error;
}

/* All but the first `kept`. */
static void stop_listening(struct gateway *gateway, uint32_t kept)
{
	while (gateway->listener_count > kept)
		listener_close(gateway->listeners[--gateway->listener_count]);
}

uint16_t gateway_port(const struct gateway *gateway)
{
	for (uint32_t i = 0; i < gateway->listener_count; i++)
		if (listener_port(gateway->listeners[i]))
			return listener_port(gateway->listeners[i]);
	return 0;
}

/* ---- clients that are not read ---- */

static void on_watch(uv_timer_t *timer)
{
	struct gateway *gateway = timer->data;

	if (gateway->unread == 0)
		uv_timer_stop(timer);
	LIST_EACH (node, &gateway->clients) {
		struct client *client = LIST_ENTRY(node, struct client, node);
		if (client->unread && stream_peer_left(client->stream))
			client_close(client);
	}
}

void gateway_watch(struct gateway *gateway)
{
	if (!uv_is_active((uv_handle_t *)&gateway->watch))
		uv_timer_start(&gateway->watch, on_watch, WATCH_MS, WATCH_MS);
}

/* ---- the life of the gateway ---- */

static void set_bounds(struct gateway *gateway)
{
	const struct conf *conf = gateway->conf;

	gateway->bodies.folder = conf->state_dir;
	gateway->bodies.each_max = conf->body_each_bytes;
	gateway->bodies.memory_max = conf->body_memory_bytes;
	gateway->bodies.spill_max = conf->body_spill_bytes;
	gateway->call_bodies.folder = conf->state_dir;
	gateway->call_bodies.each_max = CALL_BODY_MAX;
	gateway->call_bodies.memory_max = CALL_BODIES_MAX;
}

struct gateway *gateway_new(const struct gateway_options *options, const struct gateway_host *host,
                            struct err *err)
{
	struct gateway *gateway = xcalloc(1, sizeof(*gateway));

	gateway->reactor = reactor_new(options->loop);
	gateway->pool = pool_new();
	gateway->tickets = options->tickets;
	gateway->host = *host;
	gateway->conf = options->conf;
	gateway->rules = who_rules_new(options->conf);
	str_copy(gateway->boot_id, sizeof(gateway->boot_id), str_from(options->boot_id));
	list_init(&gateway->clients);
	list_init(&gateway->exchanges);
	quota_init(&gateway->quotas);
	gateway->client_max = clients_max();
	gateway->bodies.loop = gateway->call_bodies.loop = options->loop;
	set_bounds(gateway);
	uv_timer_init(options->loop, &gateway->watch);
	gateway->watch.data = gateway;
	uv_unref((uv_handle_t *)&gateway->watch);
	if (listen_everywhere(gateway, options->socket_path, err) < 0) {
		gateway_free(gateway);
		return NULL;
	}
	return gateway;
}

void gateway_reconfigure(struct gateway *gateway, const struct conf *conf)
{
	who_rules_free(gateway->rules);
	gateway->conf = conf;
	gateway->rules = who_rules_new(conf);
	set_bounds(gateway);
}

void gateway_drain(struct gateway *gateway)
{
	gateway->draining = true;
	LIST_EACH (node, &gateway->clients)
		client_drain(LIST_ENTRY(node, struct client, node));
}

void gateway_restore_tokens(struct gateway *gateway, uint64_t key, const struct quota_tokens *tokens)
{
	quota_restore(&gateway->quotas, key, tokens, boot_now_us());
}

void gateway_close_door(struct gateway *gateway)
{
	stop_listening(gateway, 1); /* an operator may look on, and the lock on the socket stays ours */
}

static void on_watch_closed(uv_handle_t *handle)
{
	struct gateway *gateway = handle->data;

	reactor_free(gateway->reactor);
	free(gateway);
}

void gateway_free(struct gateway *gateway)
{
	if (!gateway)
		return;
	gateway->draining = true;
	stop_listening(gateway, 0);
	while (!list_is_empty(&gateway->clients))
		client_close(LIST_ENTRY(gateway->clients.next, struct client, node));
	while (!list_is_empty(&gateway->exchanges)) /* those that finish for nobody */
		exchange_drop(LIST_ENTRY(gateway->exchanges.next, struct exchange, node));
	pool_free(gateway->pool);
	quota_release(&gateway->quotas);
	who_rules_free(gateway->rules);
	uv_close((uv_handle_t *)&gateway->watch, on_watch_closed);
}

/* ---- reading ---- */

uint32_t gateway_exchanges(const struct gateway *gateway)
{
	return gateway->exchange_count;
}

uint32_t gateway_calls(const struct gateway *gateway)
{
	return gateway->call_count;
}

const struct gateway_counters *gateway_counters(const struct gateway *gateway)
{
	return &gateway->counters;
}

void gateway_each(const struct gateway *gateway,
                  void (*each)(void *ctx, const struct exchange_view *view), void *ctx)
{
	for (const struct list *node = gateway->exchanges.next; node != &gateway->exchanges;
	     node = node->next) {
		const struct exchange *exchange = LIST_ENTRY(node, const struct exchange, node);
		const struct exchange_view view = {
			.sequence = exchange->sequence,
			.stage = exchange->stage,
			.ticket = exchange->ticket,
			.model = exchange->model,
			.priority = exchange->priority,
			.side = exchange->side,
			.key = exchange->key,
			.path = exchange->path,
			.decision = exchange->decision,
			.arrived_at_us = exchange->arrived_at_us,
			.dispatched_at_us = exchange->dispatched_at_us,
			.first_byte_at_us = exchange->first_byte_at_us,
			.bytes_in = exchange->intake.length,
			.bytes_out = exchange->bytes_out,
		};
		each(ctx, &view);
	}
}

bool gateway_cancel(struct gateway *gateway, uint64_t sequence)
{
	LIST_EACH (node, &gateway->exchanges) {
		struct exchange *exchange = LIST_ENTRY(node, struct exchange, node);
		if (exchange->sequence != sequence)
			continue;
		if (exchange->job && !exchange->client)
			job_cancel(exchange->job);
		else
			exchange_fail(exchange, FAIL_CANCELLED, NULL);
		return true;
	}
	return false;
}

void gateway_forget_instance(struct gateway *gateway, struct id instance)
{
	upstream_forget(gateway, instance);
}
