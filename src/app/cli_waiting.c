#include "app/cli_waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/cli_client.h"
#include "app/cli_json.h"
#include "base/str.h"

enum { BAR_CELLS = 24 };

void waiting_begin(struct waiting *waiting, const struct cli_args *args, const char *model)
{
	*waiting = (struct waiting){ .args = args, .model = model, .terminal = isatty(STDERR_FILENO) };
}

static void put_bar(struct buf *out, int64_t permille)
{
	int64_t filled = permille * BAR_CELLS / 1000;

	buf_append_char(out, '[');
	for (int64_t i = 0; i < BAR_CELLS; i++)
		buf_append_char(out, i < filled ? '#' : '.');
	buf_printf(out, "] ");
}

/* False where there is nothing to wait for but the engine's first word. */
static bool put_text(const struct waiting *waiting, const json_t *model, struct buf *out)
{
	const json_t *load = json_object_get(model, "load");
	const char *state = json_text(model, "state");

	if (json_is_object(load)) {
		buf_printf(out, "loading %s%s ", waiting->model, waiting->terminal ? "" : ":");
		if (waiting->terminal)
			put_bar(out, json_int(load, "permille"));
		buf_printf(out, "%s", json_text(load, "text"));
	} else if (strcmp(state, "idle") == 0 || (strcmp(state, "busy") == 0 && !json_int(model, "queued"))) {
		return false;
	} else {
		buf_printf(out, "%s", json_text(model, "text"));
		if (strcmp(state, "busy") == 0)
			buf_printf(out, "; %lld in its queue", (long long)json_int(model, "queued"));
	}
	if (waiting->note[0])
		buf_printf(out, "; %s", waiting->note);
	return true;
}

/* Names come from the configuration of some daemon: no control bytes. */
static void put_clean(const char *text)
{
	for (; *text; text++)
		putc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, stderr);
}

void waiting_look(void *ctx)
{
	struct waiting *waiting = ctx;
	struct buf text = BUF_INIT;

	char *path = client_path("/api/v1/models/", waiting->model, "");
	json_t *model = client_peek(waiting->args, path);
	free(path);
	const char *state = json_text(model, "state");
	bool changed = strcmp(state, waiting->state) != 0;
	if (model && (waiting->terminal || changed)) {
		bool worth = put_text(waiting, model, &text);
		str_copy(waiting->state, sizeof(waiting->state), str_from(state));
		if (waiting->terminal) {
			fputs("\r\033[K", stderr);
			put_clean(worth ? buf_cstr(&text) : "waiting for the first word");
			waiting->shown = true;
		} else if (worth) {
			fputs("cotenant: ", stderr);
			put_clean(buf_cstr(&text));
			putc('\n', stderr);
		}
		fflush(stderr);
	}
	buf_release(&text);
	json_decref(model);
}

void waiting_end(void *ctx)
{
	struct waiting *waiting = ctx;

	if (!waiting->shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	waiting->shown = false;
}
