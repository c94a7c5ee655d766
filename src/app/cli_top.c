/*
 * top: what the daemon does, as it does it.
 *
 * On a terminal a screen that is drawn anew when something changed, at most
 * twenty times a second; elsewhere one snapshot in plain lines each interval,
 * which is what a log or a pipe can use.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_json.h"
#include "app/top_data.h"
#include "app/top_feed.h"
#include "app/top_screen.h"
#include "app/top_terminal.h"
#include "base/alloc.h"
#include "base/units.h"

enum { FRAME_MS = 50, MESSAGE_MS = 6000, PLAIN_COLUMNS = 120, INTERVAL_MIN_MS = 100 };

static const struct cli_option top_options[] = {
	{ "interval", 'i', CLI_DURATION, "TIME", "how often memory and models are looked at (1s)" },
	{ "once", '1', CLI_FLAG, NULL, "one snapshot in plain lines, then end" },
	{ 0 },
};

struct top {
	const struct cli_args *args;
	struct top_data *data;
	struct feed feed;
	struct top_view view;
	int signal_fd;
	int64_t interval_ms, next_tick_ms, drawn_ms, message_until_ms;
	bool dirty, ended;
	int ended_by; /* a signal, 0 = a key */
};

static int64_t clock_ms(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t steady_ms(void)
{
	return clock_ms(CLOCK_MONOTONIC);
}

static void set_time(struct top_view *view)
{
	struct tm local;

	view->now_ms = clock_ms(CLOCK_REALTIME);
	time_t seconds = (time_t)(view->now_ms / 1000);
	view->utc_offset_s = localtime_r(&seconds, &local) ? (int32_t)local.tm_gmtoff : 0;
}

static bool locale_is_utf8(void)
{
	const char *text = getenv("LC_ALL");

	if (!text || !*text)
		text = getenv("LC_CTYPE");
	if (!text || !*text)
		text = getenv("LANG");
	return text && (strcasestr(text, "utf-8") || strcasestr(text, "utf8"));
}

/* ---- plain lines ---- */

/* Everything once, waiting for it; what fails is said. */
static int take_all(struct top *top, json_t *out[3])
{
	static const char *const wanted[] = { "/api/v1/memory", "/api/v1/models", "/api/v1/decisions" };
	int code = CLI_DONE;

	for (int i = 0; i < 3 && code == CLI_DONE; i++)
		code = client_get(top->args, wanted[i], &out[i]);
	if (code != CLI_DONE)
		return code;
	top_take_memory(top->data, out[0]);
	top_take_models(top->data, out[1]);
	top_forget_events(top->data);
	top_take_decisions(top->data, out[2]);
	return CLI_DONE;
}

static void print_snapshot(struct top *top, json_t *const parts[3])
{
	struct buf out = BUF_INIT;

	if (top->args->json) {
		json_t *root = json_object();
		json_object_set_new(root, "at_ms", json_integer(clock_ms(CLOCK_REALTIME)));
		json_object_set(root, "memory", parts[0]);
		json_object_set(root, "models", json_object_get(parts[1], "models"));
		json_object_set(root, "decisions", json_object_get(parts[2], "decisions"));
		json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
		putchar('\n');
		json_decref(root);
	} else {
		set_time(&top->view);
		top_screen_draw(top->data, &top->view, &out);
		puts(buf_cstr(&out));
	}
	buf_release(&out);
	fflush(stdout);
}

static int run_plain(struct top *top)
{
	bool once = cli_value(top->args, "once")->given;

	top->view.columns = terminal_columns(PLAIN_COLUMNS);
	for (;;) {
		json_t *parts[3] = { NULL, NULL, NULL };
		int code = take_all(top, parts);
		if (code == CLI_DONE)
			print_snapshot(top, parts);
		for (int i = 0; i < 3; i++)
			json_decref(parts[i]);
		if (code != CLI_DONE || once || ferror(stdout))
			return code;
		if (!top->args->json)
			putchar('\n');
		poll(NULL, 0, (int)top->interval_ms);
	}
}

/* ---- the screen ---- */

static void draw(struct top *top)
{
	struct buf out = BUF_INIT;

	top->view.lost = top->feed.lost;
	top->view.message = steady_ms() < top->message_until_ms ? top->feed.message : NULL;
	terminal_size(&top->view.rows, &top->view.columns);
	set_time(&top->view);
	buf_printf(&out, "\033[H");
	top_screen_draw(top->data, &top->view, &out);
	if (!terminal_write(buf_str(&out)))
		top->ended = true;
	buf_release(&out);
	top->dirty = false;
	top->drawn_ms = steady_ms();
}

static void select_model(struct top *top, int index)
{
	if (index >= top->data->models)
		index = top->data->models - 1;
	top->view.selected = index < 0 ? 0 : index;
}

static void command(struct top *top, const char *verb)
{
	if (top->view.selected < top->data->models)
		feed_command(&top->feed, verb, top->data->model[top->view.selected].name, steady_ms());
}

static void on_key(struct top *top, int key)
{
	int selected = top->view.selected, page = top->view.rows / 2;
	bool pinned = selected < top->data->models && top->data->model[selected].pinned;

	switch (key) {
	case 'q':
	case KEY_INTERRUPT:
		top->ended = true;
		break;
	case KEY_SUSPEND:
		terminal_suspend();
		break;
	case KEY_UP:
	case 'k':
		select_model(top, selected - 1);
		break;
	case KEY_DOWN:
	case 'j':
		select_model(top, selected + 1);
		break;
	case KEY_PAGE_UP:
		select_model(top, selected - page);
		break;
	case KEY_PAGE_DOWN:
		select_model(top, selected + page);
		break;
	case KEY_HOME:
		select_model(top, 0);
		break;
	case KEY_END:
		select_model(top, top->data->models - 1);
		break;
	case 'l':
		command(top, "load");
		break;
	case 'u':
		command(top, "unload");
		break;
	case 'p':
		command(top, pinned ? "unpin" : "pin");
		break;
	default:
		break;
	}
	top->dirty = true;
}

static void read_keys(struct top *top)
{
	char bytes[256];
	ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
	struct str input = { bytes, count > 0 ? (size_t)count : 0 };
	int key;

	if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN))
		top->ended = true; /* the terminal was closed */
	while ((key = terminal_key(&input)) != KEY_NONE && !top->ended)
		on_key(top, key);
}

static void read_signal(struct top *top)
{
	struct signalfd_siginfo info;

	if (read(top->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	top->dirty = true;
	if (info.ssi_signo == SIGWINCH)
		return;
	if (info.ssi_signo == SIGCONT) {
		/* Stopped from outside, another program had the terminal. */
		terminal_leave();
		terminal_enter();
		return;
	}
	top->ended_by = (int)info.ssi_signo;
	top->ended = true;
}

static int open_signals(sigset_t *signals)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT };

	sigemptyset(signals);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaddset(signals, numbers[i]);
	sigprocmask(SIG_BLOCK, signals, NULL);
	return signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int wait_ms(const struct top *top, int64_t now_ms)
{
	int64_t until = top->next_tick_ms;

	if (top->dirty && top->drawn_ms + FRAME_MS < until)
		until = top->drawn_ms + FRAME_MS;
	return until > now_ms ? (int)(until - now_ms) : 0;
}

static void turn(struct top *top)
{
	struct pollfd wait[FEEDS + 2];
	int64_t now_ms = steady_ms();

	if (now_ms >= top->next_tick_ms) {
		feed_tick(&top->feed, now_ms);
		top->next_tick_ms = now_ms + top->interval_ms;
		top->dirty = true; /* times go on */
	}
	if (top->dirty && now_ms >= top->drawn_ms + FRAME_MS)
		draw(top);
	feed_poll(&top->feed, wait);
	wait[FEEDS] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
	wait[FEEDS + 1] = (struct pollfd){ .fd = top->signal_fd, .events = POLLIN };
	if (poll(wait, FEEDS + 2, wait_ms(top, now_ms)) <= 0)
		return;
	if (wait[FEEDS + 1].revents)
		read_signal(top);
	if (wait[FEEDS].revents && !top->ended)
		read_keys(top);
	top->dirty |= feed_take(&top->feed, wait);
	if (top->feed.has_message) {
		top->feed.has_message = false;
		top->message_until_ms = steady_ms() + MESSAGE_MS;
		top->next_tick_ms = 0; /* see at once what the command did */
		top->dirty = true;
	}
	select_model(top, top->view.selected);
}

static int run_live(struct top *top)
{
	json_t *parts[3] = { NULL, NULL, NULL };
	sigset_t signals;

	/* The first look waits and says what is wrong, while there is a terminal to say it on. */
	int code = take_all(top, parts);
	for (int i = 0; i < 3; i++)
		json_decref(parts[i]);
	if (code != CLI_DONE)
		return code;
	top->signal_fd = open_signals(&signals);
	if (terminal_enter() < 0) {
		terminal_leave();
		return cli_fail(CLI_FAILED, "cotenant top --once", "the terminal cannot be used: %s",
		                strerror(errno));
	}
	feed_init(&top->feed, top->args, top->data);
	top->dirty = true;
	while (!top->ended)
		turn(top);
	terminal_leave();
	feed_release(&top->feed);
	close(top->signal_fd);
	if (top->ended_by) {
		sigprocmask(SIG_UNBLOCK, &signals, NULL);
		signal(top->ended_by, SIG_DFL);
		raise(top->ended_by);
	}
	return CLI_DONE;
}

static int run_top(const struct cli_args *args)
{
	const struct cli_value *interval = cli_value(args, "interval");
	const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
	struct top top = { .args = args, .interval_ms = interval->given ? interval->number / US_PER_MS : 1000 };

	if (top.interval_ms < INTERVAL_MIN_MS)
		return cli_fail(CLI_USAGE, "cotenant top --interval 1s", "top: --interval is 100ms at least");
	if (top.interval_ms > 24 * 3600 * 1000)
		top.interval_ms = 24 * 3600 * 1000;
	bool live = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term &&
	            strcmp(term, "dumb") != 0 && !args->json && !cli_value(args, "once")->given;
	top.data = xcalloc(1, sizeof(*top.data));
	top.view.where = args->url ? args->url : "";
	top.view.utf8 = locale_is_utf8();
	top.view.colour = live && !(no_colour && *no_colour);
	int code = live ? run_live(&top) : run_plain(&top);
	free(top.data);
	return code;
}

const struct cli_verb verb_top = {
	.name = "top",
	.operands = "",
	.summary = "watch memory, models and decisions live",
	.help = "Shows the whole memory as one bar by owner, the models with what they do, and the last\n"
	        "decisions, as they change. In the bar '#' is the system, '%' other programs, each letter\n"
	        "a model, '.' what one more model could take, '-' what none may take.\n\n"
	        "Keys: up and down select a model; l loads it, u unloads it, p pins or unpins it; q quits.\n"
	        "Where stdout is no terminal, one snapshot in plain lines each interval.\n\n"
	        "Examples:\n"
	        "  cotenant top\n"
	        "  cotenant top --once\n"
	        "  cotenant top --json -i 10s >> usage.ndjson",
	.options = top_options,
	.reads = true,
	.asks = true,
	.run = run_top,
};
