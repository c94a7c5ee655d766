#include "app/top_screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "app/top_bar.h"
#include "app/top_line.h"
#include "base/units.h"

enum { LEGEND_ROWS_MAX = 3, EVENTS_WANTED = 6, EVENTS_PLAIN = 5, NAME_MAX = 32, NAME_MIN = 8, NAME_LEAST = 5, GAP = 1 };

struct screen {
	const struct top_data *data;
	const struct top_view *view;
	struct buf *out;
	struct line line;
	struct bar bar;
	int row;
};

/* How many rows each part gets. */
struct layout {
	int legend, models, events;
	bool airy; /* blank lines between the parts */
};

/* ---- lines ---- */

static bool is_live(const struct screen *screen)
{
	return screen->view->rows > 0;
}

static void end_line(struct screen *screen)
{
	if (is_live(screen) && screen->line.used < screen->view->columns)
		buf_printf(screen->out, "\033[K");
}

static struct line *begin_line(struct screen *screen)
{
	if (screen->row++) {
		end_line(screen);
		buf_append_char(screen->out, '\n');
	}
	screen->line = (struct line){ .out = screen->out, .columns = screen->view->columns,
		                      .colour = screen->view->colour, .utf8 = screen->view->utf8 };
	return &screen->line;
}

/* ---- the top ---- */

static void draw_title(struct screen *screen)
{
	const struct top_data *data = screen->data;
	const struct top_view *view = screen->view;
	struct line *line = begin_line(screen);
	int64_t running = 0, queued = 0, loaded = 0, loading = 0;

	for (int i = 0; i < data->models; i++) {
		const struct top_model *model = &data->model[i];
		running += model->running;
		queued += model->queued;
		loading += model->permille >= 0;
		loaded += strcmp(model->state, "idle") == 0 || strcmp(model->state, "busy") == 0;
	}
	line_style(line, "1");
	line_text(line, "cotenant");
	line_style(line, "0");
	if (view->where[0])
		line_printf(line, " at %.60s", view->where);
	if (view->lost) {
		line_style(line, "1;31");
		line_text(line, "  no daemon answers; trying again");
		line_style(line, "0");
		return;
	}
	line_printf(line, "  %lld of %d loaded", (long long)loaded, data->models + data->models_left_out);
	if (loading)
		line_printf(line, ", %lld loading", (long long)loading);
	line_printf(line, "; %lld running, %lld waiting", (long long)running, (long long)queued);
}

static void draw_memory(struct screen *screen, const struct layout *layout)
{
	const struct top_data *data = screen->data;
	struct line *line = begin_line(screen);
	char used[UNITS_TEXT], size[UNITS_TEXT], free[UNITS_TEXT];
	int64_t bytes = 0;
	int next = 0;

	for (int i = 0; i < data->owners; i++)
		bytes += data->owner[i].bytes;
	if (data->size_bytes)
		line_printf(line, "memory %s of %s taken, %s free for models", units_size(used, bytes),
		            units_size(size, data->size_bytes), units_size(free, data->free_bytes));
	else
		line_text(line, "memory: not measured yet");
	if (data->warning[0]) {
		line_style(line, "33");
		line_printf(line, "; %s", data->warning);
		line_style(line, "0");
	}
	line = begin_line(screen);
	line_text(line, "[");
	bar_draw(&screen->bar, line);
	line_text(line, "]");
	for (int i = 0; i < layout->legend; i++)
		bar_legend(&screen->bar, &next, begin_line(screen));
}

/* ---- models ---- */

struct columns {
	int name;
	bool memory, slots, context, queue, speed, note;
};

static struct columns choose_columns(const struct screen *screen)
{
	const struct top_data *data = screen->data;
	int width = screen->view->columns;
	/* A number that would be cut is left out: half of it is another number. */
	struct columns columns = { .name = NAME_MIN, .memory = width >= 28, .slots = width >= 36, .queue = width >= 44,
		                   .speed = width >= 52, .context = width >= 60, .note = width >= 68 };
	int fixed = 2 + (GAP + 9) + (columns.memory ? GAP + 9 : 0) + (columns.slots ? GAP + 5 : 0) +
	            (columns.context ? GAP + 8 : 0) + (columns.queue ? GAP + 5 : 0) + (columns.speed ? GAP + 6 : 0);

	for (int i = 0; i < data->models; i++) {
		int name = line_width_of(data->model[i].name) + (data->model[i].pinned ? 4 : 0);
		if (name > columns.name)
			columns.name = name;
	}
	/* A fifth of the line: the rest has things to say too. */
	int most = width / 5 < NAME_MAX ? width / 5 : NAME_MAX;
	if (columns.name > most)
		columns.name = most > NAME_MIN ? most : NAME_MIN;
	if (columns.name > width - fixed)
		columns.name = width - fixed > NAME_LEAST ? width - fixed : NAME_LEAST;
	return columns;
}

static void draw_heads(struct screen *screen, const struct columns *columns)
{
	struct line *line = begin_line(screen);

	line_style(line, "1");
	line_text(line, "  ");
	line_left(line, "MODEL", columns->name + GAP);
	line_left(line, "STATE", 9);
	if (columns->memory)
		line_right(line, "MEMORY", GAP + 9);
	if (columns->context)
		line_right(line, "CONTEXT", GAP + 8);
	if (columns->slots)
		line_right(line, "SLOTS", GAP + 5);
	if (columns->queue)
		line_right(line, "QUEUE", GAP + 5);
	if (columns->speed)
		line_right(line, "TOK/S", GAP + 6);
	line_style(line, "0");
}

static const char *state_style(const struct top_model *model)
{
	if (strcmp(model->state, "failed") == 0)
		return "31";
	if (strcmp(model->state, "busy") == 0)
		return "1;32";
	if (strcmp(model->state, "idle") == 0)
		return "32";
	return strcmp(model->state, "unloaded") == 0 ? "90" : "33";
}

static void count_text(char out[24], int64_t count)
{
	if (count)
		snprintf(out, 24, "%lld", (long long)count);
	else
		snprintf(out, 24, "-");
}

static void draw_numbers(struct line *line, const struct top_model *model, const struct columns *columns)
{
	char text[24], size[UNITS_TEXT], slots[24];
	bool holds = model->holds;

	units_size(size, model->memory_bytes);
	/* What it would take is no fact about now. */
	if (holds)
		snprintf(text, sizeof(text), "%s", size);
	else
		snprintf(text, sizeof(text), "(%.20s)", size);
	if (columns->memory)
		line_right(line, model->memory_bytes ? text : "-", GAP + 9 + (holds ? 0 : 1));
	if (columns->context) {
		count_text(text, model->context);
		line_right(line, text, GAP + 8 - (holds ? 0 : 1));
	}
	snprintf(slots, sizeof(slots), "%lld/%lld", (long long)model->running, (long long)model->slots);
	if (columns->slots)
		line_right(line, slots, GAP + 5 - (holds || columns->context ? 0 : 1));
	count_text(text, model->queued);
	if (columns->queue)
		line_right(line, text, GAP + 5);
	if (model->tokens_per_s >= 0)
		snprintf(text, sizeof(text), "%.1f", model->tokens_per_s);
	else
		snprintf(text, sizeof(text), "-");
	if (columns->speed)
		line_right(line, text, GAP + 6);
}

static void draw_note(struct screen *screen, const struct top_model *model)
{
	struct line *line = &screen->line;
	char time[UNITS_TEXT];
	int64_t age_ms = screen->view->now_ms - model->last_used_at_ms;

	if (model->note[0])
		line_printf(line, "  %s", model->note);
	else if (strcmp(model->state, "idle") == 0 && model->last_used_at_ms && age_ms >= 1000)
		line_printf(line, "  used %s ago", units_duration(time, age_ms / 1000 * US_PER_S));
}

static void draw_model(struct screen *screen, int index, const struct columns *columns)
{
	const struct top_model *model = &screen->data->model[index];
	struct line *line = begin_line(screen);
	bool selected = is_live(screen) && index == screen->view->selected;
	char letter[2] = { bar_letter(&screen->bar, model->name), '\0' }, name[TOP_NAME_BYTES + 8], state[24];

	line_style(line, bar_sgr(&screen->bar, model->name));
	line_text(line, letter);
	line_style(line, "0");
	line_style(line, selected ? "7" : "0");
	line_text(line, selected ? ">" : " ");
	snprintf(name, sizeof(name), "%s%s", model->name, model->pinned ? " pin" : "");
	line_left(line, name, columns->name);
	line_text(line, " ");
	line_style(line, selected ? "7" : state_style(model));
	if (model->permille >= 0)
		snprintf(state, sizeof(state), "load %d%%", model->permille / 10);
	else
		snprintf(state, sizeof(state), "%s", model->state);
	line_left(line, state, 9);
	line_style(line, "0");
	line_style(line, selected ? "7" : "0");
	draw_numbers(line, model, columns);
	if (columns->note)
		draw_note(screen, model);
	line_style(line, "0");
}

/* The first model shown, so that the selected one is among them. */
static int first_model(const struct screen *screen, int rows)
{
	int first = screen->view->selected - rows + 1;

	if (!is_live(screen) || first < 0)
		return 0;
	return first;
}

static void draw_models(struct screen *screen, const struct layout *layout)
{
	struct columns columns = choose_columns(screen);
	int first = first_model(screen, layout->models);

	draw_heads(screen, &columns);
	for (int i = first; i < screen->data->models && i < first + layout->models; i++)
		draw_model(screen, i, &columns);
}

/* ---- decisions, keys ---- */

static void draw_event(struct screen *screen, const struct top_event *event)
{
	struct line *line = begin_line(screen);
	int64_t second = (event->at_ms / 1000 + screen->view->utc_offset_s) % 86400;

	if (second < 0)
		second += 86400;
	line_style(line, "90");
	line_printf(line, "%02d:%02d:%02d ", (int)(second / 3600), (int)(second / 60 % 60), (int)(second % 60));
	line_style(line, "0");
	line_text(line, event->text);
}

static void draw_events(struct screen *screen, const struct layout *layout)
{
	int shown = layout->events < screen->data->events ? layout->events : screen->data->events;

	for (int i = 0; i < shown; i++)
		draw_event(screen, &screen->data->event[i]);
}

static void draw_key(struct line *line, const char *key, const char *what)
{
	line_style(line, "7");
	line_text(line, key);
	line_style(line, "0");
	line_printf(line, " %s  ", what);
}

static void draw_keys(struct screen *screen)
{
	struct line *line = begin_line(screen);

	if (screen->view->message) {
		line_text(line, screen->view->message);
		return;
	}
	draw_key(line, "up/down", "select");
	draw_key(line, "l", "load");
	draw_key(line, "u", "unload");
	draw_key(line, "p", "pin");
	draw_key(line, "q", "quit");
}

/* ---- the whole ---- */

static int legend_rows(const struct screen *screen)
{
	struct buf scratch = BUF_INIT;
	int rows = 0, next = 0;
	bool any;

	do {
		struct line line = { .out = &scratch, .columns = screen->view->columns };
		any = bar_legend(&screen->bar, &next, &line);
		rows += any;
	} while (any && rows < LEGEND_ROWS_MAX);
	buf_release(&scratch);
	return rows;
}

static struct layout lay_out(const struct screen *screen)
{
	const struct top_data *data = screen->data;
	struct layout layout = { .legend = legend_rows(screen) };
	int rows = screen->view->rows;

	if (!is_live(screen)) {
		layout.airy = true;
		layout.models = data->models;
		layout.events = data->events < EVENTS_PLAIN ? data->events : EVENTS_PLAIN;
		return layout;
	}
	layout.airy = rows >= 16;
	if (rows < 12 && layout.legend > 1)
		layout.legend = 1;
	if (rows < 8)
		layout.legend = 0;
	/* Title, memory, bar, the table's heads, the keys. */
	int left = rows - 5 - layout.legend - (layout.airy ? 2 : 0);
	int events = left / 3 < EVENTS_WANTED ? left / 3 : EVENTS_WANTED;
	layout.models = data->models < left - events ? data->models : left - events;
	if (layout.models < 1)
		layout.models = left > 0 ? 1 : 0;
	layout.events = left - layout.models > 0 ? left - layout.models : 0;
	return layout;
}

static void fill(struct screen *screen, int until_row)
{
	while (screen->row < until_row)
		begin_line(screen);
}

void top_screen_draw(const struct top_data *data, const struct top_view *view, struct buf *out)
{
	struct screen screen = { .data = data, .view = view, .out = out };

	bar_make(data, view->columns - 2, &screen.bar);
	struct layout layout = lay_out(&screen);
	draw_title(&screen);
	draw_memory(&screen, &layout);
	if (layout.airy)
		begin_line(&screen);
	draw_models(&screen, &layout);
	if (layout.airy)
		begin_line(&screen);
	draw_events(&screen, &layout);
	if (is_live(&screen)) {
		fill(&screen, view->rows - 1);
		draw_keys(&screen);
	}
	end_line(&screen);
}
