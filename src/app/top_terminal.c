#include "app/top_terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "app/top_screen.h"

enum { ROWS_MAX = 300, COLUMNS_MAX = 500 };

static const char leave_sequence[] = "\033[0m\033[?25h\033[?1049l";

static struct termios found;
static volatile sig_atomic_t entered;

/* Also from a handler: only calls that are allowed there. */
static void restore(void)
{
	if (!entered)
		return;
	entered = 0;
	ssize_t written = write(STDOUT_FILENO, leave_sequence, sizeof(leave_sequence) - 1);
	(void)written; /* a terminal that is gone needs no restoring */
	tcsetattr(STDIN_FILENO, TCSANOW, &found);
}

static void on_crash(int number)
{
	restore();
	signal(number, SIG_DFL);
	raise(number);
}

/* What the program itself cannot foresee. The signals it waits for are the caller's. */
static void watch_crashes(void)
{
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	static bool watching;
	struct sigaction action = { .sa_handler = on_crash, .sa_flags = SA_RESETHAND };

	if (watching)
		return;
	watching = true;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
	atexit(restore);
}

int terminal_enter(void)
{
	struct termios raw;

	if (entered)
		return 0;
	if (tcgetattr(STDIN_FILENO, &found) < 0)
		return -errno;
	watch_crashes();
	raw = found;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
	raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0)
		return -errno;
	entered = 1;
	return terminal_write(STR("\033[?1049h\033[?25l\033[H\033[J")) ? 0 : -EIO;
}

void terminal_leave(void)
{
	restore();
}

void terminal_suspend(void)
{
	restore();
	raise(SIGSTOP);
	terminal_enter();
}

static int within(int value, int least, int most)
{
	return value < least ? least : value > most ? most : value;
}

/* What a shell or a person says of a terminal that does not say it itself. */
static int told(const char *name, int otherwise)
{
	const char *text = getenv(name);
	uint64_t number;

	return text && str_to_u64(str_from(text), &number) && number > 0 && number < 10000 ? (int)number : otherwise;
}

void terminal_size(int *out_rows, int *out_columns)
{
	struct winsize size = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
		size = (struct winsize){ .ws_row = (unsigned short)told("LINES", 24),
			                 .ws_col = (unsigned short)told("COLUMNS", 80) };
	*out_rows = within(size.ws_row, TOP_ROWS_MIN, ROWS_MAX);
	*out_columns = within(size.ws_col, TOP_COLUMNS_MIN, COLUMNS_MAX);
}

int terminal_columns(int otherwise)
{
	struct winsize size = { 0 };
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;

	return within(known ? size.ws_col : told("COLUMNS", otherwise), TOP_COLUMNS_MIN, COLUMNS_MAX);
}

bool terminal_write(struct str bytes)
{
	while (bytes.length) {
		ssize_t written = write(STDOUT_FILENO, bytes.data, bytes.length);
		if (written < 0 && errno == EAGAIN) {
			struct pollfd wait = { .fd = STDOUT_FILENO, .events = POLLOUT };
			poll(&wait, 1, 1000);
			continue;
		}
		if (written < 0 && errno != EINTR)
			return false;
		if (written > 0) {
			bytes.data += written;
			bytes.length -= (size_t)written;
		}
	}
	return true;
}

static int plain_key(char byte)
{
	switch (byte) {
	case 'C' & 0x1f:
		return KEY_INTERRUPT;
	case 'Z' & 0x1f:
		return KEY_SUSPEND;
	case 'L' & 0x1f:
		return KEY_REDRAW;
	default:
		return (unsigned char)byte;
	}
}

/* "ESC [ A", "ESC O A", "ESC [ 5 ~"; what is not known is skipped as a whole. */
static int sequence_key(struct str *input)
{
	size_t at = 2;
	char number = 0;

	while (at < input->length && input->data[at] >= '0' && input->data[at] <= ';')
		number = input->data[at++];
	char last = at < input->length ? input->data[at++] : 0;
	input->data += at;
	input->length -= at;
	switch (last) {
	case 'A':
		return KEY_UP;
	case 'B':
		return KEY_DOWN;
	case 'H':
		return KEY_HOME;
	case 'F':
		return KEY_END;
	case '~':
		return number == '5' ? KEY_PAGE_UP : number == '6' ? KEY_PAGE_DOWN : KEY_REDRAW;
	default:
		return KEY_REDRAW;
	}
}

int terminal_key(struct str *input)
{
	if (input->length == 0)
		return KEY_NONE;
	if (input->length >= 2 && input->data[0] == '\033' && (input->data[1] == '[' || input->data[1] == 'O'))
		return sequence_key(input);
	int key = plain_key(input->data[0]);
	input->data++;
	input->length--;
	return key;
}
