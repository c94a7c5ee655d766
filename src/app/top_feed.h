#ifndef APP_TOP_FEED_H
#define APP_TOP_FEED_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/cli.h"
#include "app/cli_connection.h"
#include "app/top_data.h"

/*
 * top_feed - keeps top_data fresh without ever waiting for the daemon.
 *
 * One connection follows the events for as long as it lasts; models and memory
 * are asked for anew at each tick, where the last answer has come; a command is
 * sent beside them. A daemon that goes away is dialled again at the next tick,
 * and its answers replace what is old.
 */
enum feed_kind { FEED_EVENTS, FEED_DECISIONS, FEED_MODELS, FEED_MEMORY, FEED_COMMAND, FEEDS };

struct feed {
	const struct cli_args *args;
	struct top_data *data;
	struct connection connection[FEEDS];
	int64_t asked_ms[FEEDS];  /* when the request that is out was sent */
	bool lost;
	char command[160];        /* "load chat", while one is out */
	char message[320];        /* what came of the last one */
	bool has_message;         /* a new one: the caller takes it off */
};

void feed_init(struct feed *feed, const struct cli_args *args, struct top_data *data);
void feed_release(struct feed *feed);

/* Ask what is to be asked now. */
void feed_tick(struct feed *feed, int64_t now_ms);
/* POST models/NAME/VERB without waiting for its end; one at a time, another one is refused by a message. */
void feed_command(struct feed *feed, const char *verb, const char *model, int64_t now_ms);

/* For poll(): FEEDS entries, then what came of it. True where the data changed. */
void feed_poll(const struct feed *feed, struct pollfd out[FEEDS]);
bool feed_take(struct feed *feed, const struct pollfd polled[FEEDS]);

#endif
