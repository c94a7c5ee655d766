/*
 * fake_engine - a stand-in for an inference server that misbehaves on request.
 *
 * It listens as llama-server does (--host PATH or --host ADDRESS --port N; --listen-port N is sd-server's), answers
 * /health with 503 while "loading", streams or answers completions with fixed
 * words, and fails where it is told to. Flags that it does not know are passed
 * over, so it can be started with an adapter's whole command line. GET /stats
 * tells what it saw: {"requests", "running", "finished", "aborted"}.
 *
 *   --load-ms N        time from start to ready
 *   --load-until FILE  ... and not before FILE is there
 *   --work-until FILE  a request for work is answered when FILE is there
 *   --listen-late      the port opens only when ready
 *   --no-listen        it never opens            --no-accept      it opens and nobody answers the door
 *   --other-place      it opens elsewhere than it was told
 *   --never-ready      /health stays 503         --lie-health     /health is 200 from the start
 *   --bad-health       answers to /health are no HTTP
 *   --hang             a request for work is taken and never answered
 *   --hang-health N    so are the first N for /health
 *   --anon-mib N       memory touched while loading
 *   --request-mib N    memory touched by each request, kept until its end
 *   --sick-file PATH   once it is there, /health answers 503
 *   --speed-file PATH  whole answers tell of so many tokens a second as stand there
 *   --leave-mib N      a file in /dev/shm that stays when it has ended
 *   --chunks N         words of an answer (8)     --chunk-ms N   time before each (1)
 *   --first-ms N       time before the first
 *   --die-at WHERE     start, loading, idle (100 ms after ready), midstream, or nth with --nth N
 *   --die-status N     exit status (1)            --die-signal N   die of a signal instead
 *   --die-line TEXT    printed on standard error before
 *   --die-every-other FILE   in the middle of every other load; FILE remembers
 *   --background       a child goes on while loading, the parent exits 0
 *   --ignore-term      --ignore-first-term        --slow-stop MS
 *   --log-flood MIB    printed while loading      --long-line MIB  one line without an end
 *   --fork-child       a child in an own session that sleeps for ever
 *   --bad-http         answers to work are no HTTP
 *   --status N         status of every answer to work (200)
 *   --print-heads      each line of a request's head, on standard error
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <time.h>
#include <unistd.h>

struct options {
	const char *host;
	const char *die_at;
	const char *die_line;
	const char *alias;
	long port, load_ms, anon_mib, request_mib, chunks, chunk_ms, first_ms, nth, die_status, die_signal;
	long leave_mib, slow_stop, log_flood, long_line, status, context, slots, hang_health;
	bool listen_late, no_listen, never_ready, hang, ignore_term, ignore_first_term;
	bool fork_child, bad_http, print_heads, no_accept, other_place, lie_health, bad_health, background;
	const char *die_every_other;
	const char *sick_file, *speed_file, *load_until, *work_until;
};

struct number_flag {
	const char *name;
	size_t offset;
};

#define NUMBER(flag, field) { flag, offsetof(struct options, field) }

static const struct number_flag number_flags[] = {
	NUMBER("--port", port), NUMBER("--listen-port", port), NUMBER("--load-ms", load_ms), NUMBER("--anon-mib", anon_mib),
	NUMBER("--request-mib", request_mib), NUMBER("--leave-mib", leave_mib),
	NUMBER("--chunks", chunks), NUMBER("--chunk-ms", chunk_ms),
	NUMBER("--first-ms", first_ms), NUMBER("--nth", nth), NUMBER("--die-status", die_status),
	NUMBER("--die-signal", die_signal), NUMBER("--slow-stop", slow_stop),
	NUMBER("--log-flood", log_flood), NUMBER("--long-line", long_line), NUMBER("--status", status),
	NUMBER("-c", context), NUMBER("-np", slots), NUMBER("--hang-health", hang_health),
};

static const struct number_flag text_flags[] = {
	NUMBER("--host", host), NUMBER("--die-at", die_at), NUMBER("--die-line", die_line),
	NUMBER("--alias", alias), NUMBER("--sick-file", sick_file), NUMBER("--speed-file", speed_file),
	NUMBER("--die-every-other", die_every_other),
	NUMBER("--load-until", load_until), NUMBER("--work-until", work_until),
};

static const struct number_flag bool_flags[] = {
	NUMBER("--listen-late", listen_late), NUMBER("--no-listen", no_listen),
	NUMBER("--never-ready", never_ready), NUMBER("--hang", hang), NUMBER("--ignore-term", ignore_term),
	NUMBER("--ignore-first-term", ignore_first_term),
	NUMBER("--fork-child", fork_child), NUMBER("--bad-http", bad_http),
	NUMBER("--print-heads", print_heads), NUMBER("--no-accept", no_accept),
	NUMBER("--other-place", other_place), NUMBER("--lie-health", lie_health),
	NUMBER("--bad-health", bad_health), NUMBER("--background", background),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct options options = {
	.host = "127.0.0.1", .die_at = "", .alias = "fake", .chunks = 8, .chunk_ms = 1, .nth = 1,
	.die_status = 1, .status = 200, .context = 4096, .slots = 1,
};
static const char loading[] =
	"{\"error\":{\"message\":\"Loading model\",\"type\":\"unavailable_error\",\"code\":503}}";
static atomic_bool ready;
static atomic_int requests, running, finished, aborted, healths;

static void pause_ms(long ms)
{
	struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		;
}

static const struct number_flag *find_flag(const struct number_flag *flags, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(flags[i].name, name) == 0)
			return &flags[i];
	return NULL;
}

static void parse_options(int argc, char **argv)
{
	char *base = (char *)&options;

	for (int i = 1; i < argc; i++) {
		const struct number_flag *flag;
		if ((flag = find_flag(bool_flags, COUNT(bool_flags), argv[i]))) {
			*(bool *)(void *)(base + flag->offset) = true;
		} else if (i + 1 == argc) {
			return;
		} else if ((flag = find_flag(number_flags, COUNT(number_flags), argv[i]))) {
			*(long *)(void *)(base + flag->offset) = strtol(argv[++i], NULL, 10);
		} else if ((flag = find_flag(text_flags, COUNT(text_flags), argv[i]))) {
			*(const char **)(void *)(base + flag->offset) = argv[++i];
		}
	}
}

static _Noreturn void die(void)
{
	if (options.die_line)
		fprintf(stderr, "%s\n", options.die_line);
	if (options.die_signal) {
		signal((int)options.die_signal, SIG_DFL);
		kill(getpid(), (int)options.die_signal);
		pause_ms(1000);
	}
	_exit((int)options.die_status);
}

static bool dies_at(const char *where)
{
	return strcmp(options.die_at, where) == 0;
}

static void *touch(long mib)
{
	size_t bytes = (size_t)mib << 20;
	char *memory = bytes ? aligned_alloc(4096, bytes) : NULL;

	/* In one call where the kernel can: page by page is slow where faults are. */
	if (memory && madvise(memory, bytes, MADV_POPULATE_WRITE) < 0)
		memset(memory, 1, bytes);
	return memory;
}

static void leave(long mib)
{
	char path[64];

	if (!mib)
		return;
	snprintf(path, sizeof(path), "/dev/shm/left-by-%d", (int)getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || posix_fallocate(fd, 0, mib << 20) != 0)
		perror(path);
}

/* ---- one connection ---- */

struct connection {
	int fd;
	size_t length;
	char bytes[64 * 1024];
};

static bool send_all(int fd, const char *bytes, size_t count)
{
	while (count) {
		ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		bytes += sent;
		count -= (size_t)sent;
	}
	return true;
}

static bool send_text(int fd, const char *text)
{
	return send_all(fd, text, strlen(text));
}

/* Waits so long, or until the peer has left; false then. */
static bool wait_with_peer(int fd, long ms)
{
	struct pollfd peer = { .fd = fd, .events = POLLRDHUP };

	return poll(&peer, 1, (int)ms) == 0;
}

/* Until the file is there, or the peer has left; false then. `fd` -1: nobody may leave. */
static bool wait_for_file(int fd, const char *path)
{
	bool stays = true;

	while (path && access(path, F_OK) < 0 && stays)
		stays = wait_with_peer(fd, 5);
	return stays;
}

static bool reply(int fd, long status, const char *type, const char *body)
{
	char head[256];

	snprintf(head, sizeof(head), "HTTP/1.1 %ld %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n", status,
	         status == 200 ? "OK" : "Not OK", type, strlen(body));
	return send_text(fd, head) && send_text(fd, body);
}

static bool read_more(struct connection *connection)
{
	size_t room = sizeof(connection->bytes) - 1 - connection->length;
	ssize_t length = room ? recv(connection->fd, connection->bytes + connection->length, room, 0) : -1;

	if (length <= 0)
		return false;
	connection->length += (size_t)length;
	connection->bytes[connection->length] = '\0';
	return true;
}

static void drop(struct connection *connection, size_t count)
{
	memmove(connection->bytes, connection->bytes + count, connection->length - count + 1);
	connection->length -= count;
}

/* Reads `count` bytes of body; `*stream` is set where they ask for a stream. */
static bool read_body_bytes(struct connection *connection, unsigned long count, bool *stream)
{
	while (count) {
		if (connection->length == 0 && !read_more(connection))
			return false;
		/* Once is enough: what the tests send is small or does not stream. */
		if (strstr(connection->bytes, "\"stream\":true") || strstr(connection->bytes, "\"stream\": true"))
			*stream = true;
		size_t taken = connection->length < count ? connection->length : count;
		drop(connection, taken);
		count -= taken;
	}
	return true;
}

static bool read_line(struct connection *connection, char *out, size_t out_bytes)
{
	char *end;

	while (!(end = strstr(connection->bytes, "\r\n")))
		if (!read_more(connection))
			return false;
	snprintf(out, out_bytes, "%.*s", (int)(end - connection->bytes), connection->bytes);
	drop(connection, (size_t)(end + 2 - connection->bytes));
	return true;
}

static bool read_chunked(struct connection *connection, bool *stream)
{
	char line[256];

	for (;;) {
		if (!read_line(connection, line, sizeof(line)))
			return false;
		unsigned long size = strtoul(line, NULL, 16);
		if (!read_body_bytes(connection, size, stream) || !read_line(connection, line, sizeof(line)))
			return false;
		if (size == 0)
			return true;
	}
}

static bool stream_words(int fd)
{
	char event[256];
	char chunk[320];

	if (!send_text(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	                   "Transfer-Encoding: chunked\r\n\r\n"))
		return false;
	for (long i = 0; i <= options.chunks; i++) {
		if (!wait_with_peer(fd, options.chunk_ms))
			return false;
		if (i == options.chunks / 2 && dies_at("midstream"))
			die();
		if (i < options.chunks)
			snprintf(event, sizeof(event),
			         "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,"
			         "\"delta\":{\"content\":\"word%ld \"}}]}\n\n", i);
		else
			snprintf(event, sizeof(event), "data: [DONE]\n\n");
		snprintf(chunk, sizeof(chunk), "%zx\r\n%s\r\n", strlen(event), event);
		if (!send_text(fd, chunk))
			return false;
	}
	return send_text(fd, "0\r\n\r\n");
}

/* What llama-server tells of the time that its tokens took. */
static void tell_speed(char *out, size_t out_bytes)
{
	FILE *file = options.speed_file ? fopen(options.speed_file, "r") : NULL;
	long speed = 0;

	out[0] = '\0';
	if (file && fscanf(file, "%ld", &speed) == 1 && speed > 0)
		snprintf(out, out_bytes, ",\"usage\":{\"completion_tokens\":%ld},\"timings\":{\"predicted_ms\":%ld}",
		         options.chunks, options.chunks * 1000 / speed);
	if (file)
		fclose(file);
}

static bool answer_whole(int fd, const char *path)
{
	char body[512], speed[128];

	for (long i = 0; i < options.chunks; i++)
		if (!wait_with_peer(fd, options.chunk_ms))
			return false;
	if (dies_at("midstream"))
		die();
	tell_speed(speed, sizeof(speed));
	if (strstr(path, "embedding"))
		snprintf(body, sizeof(body),
		         "{\"object\":\"list\",\"model\":\"%.80s\",\"data\":[{\"index\":0,"
		         "\"object\":\"embedding\",\"embedding\":[0.6,0.8]}]}",
		         options.alias);
	else
		snprintf(body, sizeof(body),
		         "{\"object\":\"chat.completion\",\"model\":\"%.80s\",\"choices\":[{\"index\":0,"
		         "\"finish_reason\":\"stop\",\"message\":{\"role\":\"assistant\","
		         "\"content\":\"%ld words\"}}]%s}",
		         options.alias, options.chunks, speed);
	return reply(fd, options.status, "application/json", body);
}

static bool work(int fd, const char *path, bool stream)
{
	int number = ++requests;
	bool done;

	if (!ready)
		return reply(fd, 503, "application/json", loading);
	if (dies_at("nth") && number == options.nth)
		die();
	running++;
	void *memory = touch(options.request_mib);
	if (options.hang)
		done = wait_with_peer(fd, -1);
	else if (!wait_for_file(fd, options.work_until) || !wait_with_peer(fd, options.first_ms))
		done = false;
	else if (options.bad_http)
		done = send_text(fd, "SSH-2.0-not a web server\r\n") && false;
	else
		done = stream && options.status == 200 ? stream_words(fd) : answer_whole(fd, path);
	free(memory);
	running--;
	(*(done ? &finished : &aborted))++;
	return done;
}

static bool look(int fd, const char *path)
{
	char body[40 * 1024];
	int length = 0;

	if (strcmp(path, "/health") == 0 || strcmp(path, "/v1/health") == 0) {
		if (++healths <= options.hang_health)
			return wait_with_peer(fd, -1);
		if (options.bad_health)
			return send_text(fd, "SSH-2.0-not a web server\r\n") && false;
		if (options.sick_file && access(options.sick_file, F_OK) == 0)
			return reply(fd, 503, "application/json", "{\"error\":\"device lost\"}");
		if (options.lie_health)
			return reply(fd, 200, "application/json", "{\"status\":\"ok\"}");
		return reply(fd, ready ? 200 : 503, "application/json", ready ? "{\"status\":\"ok\"}" : loading);
	}
	if (strncmp(path, "/slots", 6) == 0) {
		for (long i = 0; i < options.slots && i < 1024; i++)
			length += snprintf(body + length, sizeof(body) - (size_t)length, "%c{\"id\":%ld,\"n_ctx\":%ld}",
			                   i ? ',' : '[', i, options.context / options.slots);
		snprintf(body + length, sizeof(body) - (size_t)length, "]");
		return reply(fd, 200, "application/json", body);
	}
	if (strcmp(path, "/stats") == 0) {
		snprintf(body, sizeof(body), "{\"requests\":%d,\"running\":%d,\"finished\":%d,\"aborted\":%d}",
		         (int)requests, (int)running, (int)finished, (int)aborted);
		return reply(fd, 200, "application/json", body);
	}
	if (strcmp(path, "/v1/models") == 0 || strcmp(path, "/props") == 0) {
		snprintf(body, sizeof(body), "{\"object\":\"list\",\"data\":[{\"id\":\"%.80s\"}]}", options.alias);
		return reply(fd, 200, "application/json", body);
	}
	if (strcmp(path, "/metrics") == 0)
		return reply(fd, 200, "text/plain", "fake_requests_total 1\n");
	return reply(fd, 404, "application/json", "{\"error\":{\"message\":\"File Not Found\",\"code\":404}}");
}

/* One request and its answer; false where the connection is over. */
static bool serve(struct connection *connection)
{
	char line[8192];
	char method[16];
	char path[4096];
	unsigned long length = 0;
	bool chunked = false;
	bool stream = false;

	if (!read_line(connection, line, sizeof(line)) || sscanf(line, "%15s %4095s", method, path) != 2)
		return false;
	do {
		if (!read_line(connection, line, sizeof(line)))
			return false;
		if (options.print_heads)
			fprintf(stderr, "head: %s\n", line);
		if (strncasecmp(line, "content-length:", 15) == 0)
			length = strtoul(line + 15, NULL, 10);
		if (strncasecmp(line, "transfer-encoding:", 18) == 0)
			chunked = true;
		if (strncasecmp(line, "expect:", 7) == 0 &&
		    !send_text(connection->fd, "HTTP/1.1 100 Continue\r\n\r\n"))
			return false;
	} while (line[0]);
	if (chunked ? !read_chunked(connection, &stream) : !read_body_bytes(connection, length, &stream))
		return false;
	path[strcspn(path, "?")] = '\0';
	return strcmp(method, "POST") == 0 ? work(connection->fd, path, stream) : look(connection->fd, path);
}

static void *connection_main(void *fd)
{
	struct connection *connection = malloc(sizeof(*connection));

	connection->fd = (int)(intptr_t)fd;
	connection->length = 0;
	connection->bytes[0] = '\0';
	while (serve(connection))
		;
	close(connection->fd);
	free(connection);
	return NULL;
}

/* ---- the server ---- */

static int listen_unix(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s%s", path, options.other_place ? ".other" : "");
	return bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -1 : fd;
}

static int listen_tcp(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(options.other_place ? 0 : (uint16_t)options.port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -1 : fd;
}

static void *server_main(void *unused)
{
	int server = options.host[0] == '/' ? listen_unix(options.host) : listen_tcp();
	(void)unused;

	if (server < 0 || listen(server, 512) < 0) {
		fprintf(stderr, "couldn't bind HTTP server socket, hostname: %s, port: %ld\n", options.host,
		        options.port);
		_exit(1);
	}
	while (options.no_accept)
		pause();
	for (;;) {
		int fd = accept(server, NULL, NULL);
		pthread_t thread;
		if (fd < 0)
			continue;
		if (pthread_create(&thread, NULL, connection_main, (void *)(intptr_t)fd) != 0)
			close(fd);
		else
			pthread_detach(thread);
	}
}

static void start_server(void)
{
	pthread_t thread;

	if (!options.no_listen && pthread_create(&thread, NULL, server_main, NULL) != 0)
		_exit(1);
}

static void on_term(int number)
{
	static volatile sig_atomic_t terms;
	(void)number;

	if (options.ignore_term || (options.ignore_first_term && ++terms == 1))
		return;
	pause_ms(options.slow_stop);
	_exit(terms > 1 ? 1 : 0);
}

/* Removes the file that its predecessor left, or leaves one. */
static bool is_a_turn_to_die(void)
{
	if (!options.die_every_other || unlink(options.die_every_other) == 0)
		return false;
	int fd = open(options.die_every_other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	return fd >= 0 && close(fd) == 0;
}

static void load(void)
{
	static char line[1024];

	pause_ms(options.load_ms / 2);
	if (dies_at("loading") || is_a_turn_to_die())
		die();
	memset(line, '.', sizeof(line) - 1);
	for (long i = 0; i < options.long_line * 1024; i++)
		fputs(line, stderr);
	line[sizeof(line) - 2] = '\n';
	for (long i = 0; i < options.log_flood * 1024; i++)
		fputs(line, stderr);
	touch(options.anon_mib);
	leave(options.leave_mib);
	wait_for_file(-1, options.load_until);
	pause_ms(options.load_ms - options.load_ms / 2);
}

/* Asked to fit itself to the machine it tells what it would take, as llama-server does. */
static void tell_memory(int argc, char **argv)
{
	bool fits = false;

	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], "--fit") == 0)
			fits = strcmp(argv[i + 1], "on") == 0;
	if (fits)
		fprintf(stderr, "x memory_breakdown_print: |   - Host |  77 = 60 + 10 + 7 |\nx projected to use 77 MiB\n");
}

int main(int argc, char **argv)
{
	struct sigaction term = { .sa_handler = on_term };

	if (argc == 2 && strcmp(argv[1], "--version") == 0) { /* of no build */
		puts("version: none");
		return 0;
	}
	parse_options(argc, argv);
	if (dies_at("start"))
		die();
	sigaction(SIGTERM, &term, NULL);
	sigaction(SIGINT, &term, NULL);
	fprintf(stderr, "fake_engine: starting\n");
	tell_memory(argc, argv);
	if (options.fork_child && fork() == 0) {
		setsid();
		for (;;)
			pause();
	}
	if (options.background && fork() != 0) {
		pause_ms(50);
		_exit(0);
	}
	if (!options.listen_late)
		start_server();
	load();
	fprintf(stderr, "fake_engine: model loaded\n");
	ready = !options.never_ready;
	if (options.listen_late)
		start_server();
	if (dies_at("idle")) {
		pause_ms(100);
		die();
	}
	for (;;)
		pause();
}
