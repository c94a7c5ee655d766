#include "app/top_feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli_client.h"
#include "app/cli_json.h"
#include "base/str.h"

/* An answer that takes longer is given up and asked for again. */
enum { PATIENCE_MS = 5000, ANSWER_LIMIT = 16 << 20 };

static const char *const paths[FEEDS] = {
	[FEED_EVENTS] = "/api/v1/events",
	[FEED_DECISIONS] = "/api/v1/decisions",
	[FEED_MODELS] = "/api/v1/models",
	[FEED_MEMORY] = "/api/v1/memory",
};

void feed_init(struct feed *feed, const struct cli_args *args, struct top_data *data)
{
	*feed = (struct feed){ .args = args, .data = data };
	for (int i = 0; i < FEEDS; i++)
		feed->connection[i] = CONNECTION_NONE;
}

void feed_release(struct feed *feed)
{
	for (int i = 0; i < FEEDS; i++)
		connection_close(&feed->connection[i]);
}

static bool is_out(const struct feed *feed, int kind)
{
	return feed->connection[kind].fd >= 0;
}

static bool begin(struct feed *feed, int kind, const char *method, const char *path, const char *body,
                  int64_t now_ms)
{
	struct connection *connection = &feed->connection[kind];
	struct err err;

	if (connection_open(feed->args, connection, &err) == CLI_DONE &&
	    connection_send(connection, method, path, body) == 0) {
		feed->asked_ms[kind] = now_ms;
		return true;
	}
	connection_close(connection);
	return false;
}

void feed_tick(struct feed *feed, int64_t now_ms)
{
	static const int kinds[] = { FEED_EVENTS, FEED_MODELS, FEED_MEMORY };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int kind = kinds[i];
		if (is_out(feed, kind) && kind != FEED_EVENTS && now_ms - feed->asked_ms[kind] > PATIENCE_MS)
			connection_close(&feed->connection[kind]);
		if (is_out(feed, kind))
			continue;
		if (!begin(feed, kind, "GET", paths[kind], NULL, now_ms)) {
			feed->lost = true;
			return;
		}
		/* Who follows from now on asks for what was before. */
		if (kind == FEED_EVENTS && !is_out(feed, FEED_DECISIONS))
			begin(feed, FEED_DECISIONS, "GET", paths[FEED_DECISIONS], NULL, now_ms);
	}
}

static void say(struct feed *feed, const char *text)
{
	str_copy(feed->message, sizeof(feed->message), str_from(text));
	feed->has_message = true;
}

void feed_command(struct feed *feed, const char *verb, const char *model, int64_t now_ms)
{
	char suffix[24];

	if (is_out(feed, FEED_COMMAND)) {
		say(feed, "the last command is still on its way");
		return;
	}
	snprintf(suffix, sizeof(suffix), "/%s", verb);
	char *path = client_path("/api/v1/models/", model, suffix);
	bool waits = strcmp(verb, "pin") != 0 && strcmp(verb, "unpin") != 0;
	snprintf(feed->command, sizeof(feed->command), "%s %s", verb, model);
	if (!begin(feed, FEED_COMMAND, "POST", path, waits ? "{\"wait\": false}" : NULL, now_ms))
		say(feed, "no daemon answers");
	free(path);
}

void feed_poll(const struct feed *feed, struct pollfd out[FEEDS])
{
	for (int i = 0; i < FEEDS; i++)
		out[i] = (struct pollfd){ .fd = feed->connection[i].fd, .events = POLLIN };
}

/* ---- what comes ---- */

/* Whole lines of the event stream. */
static bool take_events(struct feed *feed)
{
	struct buf *body = &feed->connection[FEED_EVENTS].body;
	struct str text = buf_str(body);
	bool changed = false;
	char *end;

	while (text.length && (end = memchr(text.data, '\n', text.length))) {
		size_t length = (size_t)(end - text.data);
		*end = '\0';
		if (strncmp(text.data, "data: ", 6) == 0) {
			json_t *decision = json_loads(text.data + 6, 0, NULL);
			top_take_decision(feed->data, decision);
			json_decref(decision);
			changed = true;
		}
		buf_consume(body, length + 1);
		text = buf_str(body);
	}
	return changed;
}

static void tell_command(struct feed *feed, int status, const json_t *answer)
{
	char text[sizeof(feed->command) + 256];
	const char *message = json_text(json_object_get(answer, "error"), "message");

	if (status / 100 == 2)
		snprintf(text, sizeof(text), "%s: %s", feed->command,
		         status == 202 ? "taken" : json_text(answer, "result"));
	else
		snprintf(text, sizeof(text), "%s: %.250s", feed->command, *message ? message : "refused");
	say(feed, text);
}

static void take_answer(struct feed *feed, int kind)
{
	struct connection *connection = &feed->connection[kind];
	struct str body = buf_str(&connection->body);
	json_t *answer = json_loadb(body.data, body.length, 0, NULL);
	int status = connection->reply.status;

	if (kind == FEED_COMMAND) {
		tell_command(feed, status, answer);
	} else if (answer && status == 200) {
		feed->lost = false;
		if (kind == FEED_MODELS)
			top_take_models(feed->data, answer);
		else if (kind == FEED_MEMORY)
			top_take_memory(feed->data, answer);
		else if (kind == FEED_DECISIONS)
			top_take_decisions(feed->data, answer);
	}
	json_decref(answer);
}

/* Its connection ended: well, or not. */
static void end(struct feed *feed, int kind, bool whole)
{
	if (whole && kind != FEED_EVENTS)
		take_answer(feed, kind);
	else if (kind == FEED_COMMAND)
		say(feed, "the daemon's answer was lost");
	/* The daemon that is dialled next may be another one, whose numbers begin anew. */
	if (kind == FEED_EVENTS)
		top_forget_events(feed->data);
	if (!whole)
		feed->lost = true;
	connection_close(&feed->connection[kind]);
}

static bool take(struct feed *feed, int kind)
{
	struct connection *connection = &feed->connection[kind];
	struct err err;
	int more = connection_receive(connection, CLIENT_QUICK_MS, &err);

	if (more > 0 && buf_length(&connection->body) > ANSWER_LIMIT)
		more = -1;
	if (more > 0)
		return kind == FEED_EVENTS && connection->reply.status == 200 && take_events(feed);
	end(feed, kind, more == 0);
	return true;
}

bool feed_take(struct feed *feed, const struct pollfd polled[FEEDS])
{
	bool changed = false;

	for (int i = 0; i < FEEDS; i++)
		if (is_out(feed, i) && polled[i].fd == feed->connection[i].fd && polled[i].revents)
			changed |= take(feed, i);
	return changed;
}
