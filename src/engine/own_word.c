#include "engine/own_word.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/adapter.h"

enum { LINE_BYTES = 512, READ_BYTES = 4096, LOOK_MS = 100, TOLD_MOST = 4 << 20 };

/* ---- the table ---- */

static const char table_mark[] = "memory_breakdown_print: |";

/* The three numbers of "self = model + context + compute", whole MiB; false: it is no such cell. */
static bool parse_cell(const char *text, int64_t mib[3])
{
	const char *at = strchr(text, '(');

	/* A device's cell is "total = free + (self = model + context + compute) + unaccounted". */
	at = strchr(at ? at : text, '=');
	for (int i = 0; i < 3; i++) {
		char *end;
		if (!at)
			return false;
		long long value = strtoll(at + 1, &end, 10);
		if (end == at + 1 || value < 0 || value > INT64_C(1) << 24)
			return false;
		mib[i] = value;
		at = i < 2 ? strchr(end, '+') : NULL;
	}
	return true;
}

static bool is_host(const char *name)
{
	return strncmp(name, "Host", 4) == 0 || strncmp(name, "CPU", 3) == 0 || strstr(name, "_Host") != NULL;
}

bool own_word_line(struct own_word *out, struct str line)
{
	char text[LINE_BYTES];
	int64_t mib[3];

	str_copy(text, sizeof(text), line);
	char *row = strstr(text, table_mark);
	if (!row)
		return out->rows > 0 && strstr(text, "memory_breakdown_print") == NULL;
	char *name = row + sizeof(table_mark) - 1;
	char *cell = strchr(name, '|');
	name += strspn(name, " -");
	if (!cell || !parse_cell(cell + 1, mib))
		return false; /* the heading */
	bool host = is_host(name);
	*(host ? &out->host_weights_bytes : &out->device_weights_bytes) += mib[0] << 20;
	*(host ? &out->host_context_bytes : &out->device_context_bytes) += mib[1] << 20;
	*(host ? &out->host_compute_bytes : &out->device_compute_bytes) += mib[2] << 20;
	out->rows++;
	return false;
}

void own_word_use(const struct own_word *word, struct estimate *e)
{
	int64_t before = e->device.total_bytes + e->host.total_bytes;
	struct footprint *pool[] = { &e->device, &e->host };
	const int64_t told[2][3] = {
		{ word->device_weights_bytes, word->device_context_bytes, word->device_compute_bytes },
		{ word->host_weights_bytes, word->host_context_bytes, word->host_compute_bytes },
	};

	for (int i = 0; i < 2; i++) {
		struct footprint *p = pool[i];
		p->weights_bytes = told[i][0];
		/* Cache and state are one number there; the state is known of the file. */
		p->recurrent_bytes = p->recurrent_bytes < told[i][1] ? p->recurrent_bytes : told[i][1];
		p->kv_bytes = told[i][1] - p->recurrent_bytes;
		p->compute_bytes = told[i][2];
		p->total_bytes = p->weights_bytes + told[i][1] + p->compute_bytes + p->overhead_bytes;
	}
	int64_t added = e->device.total_bytes + e->host.total_bytes - before;
	e->base_bytes += added;
	e->steady_bytes += added;
	e->peak_bytes = e->peak_bytes + added > e->base_bytes ? e->peak_bytes + added : e->base_bytes;
	e->sigma_bytes = e->base_bytes / 100 * 2;
	int64_t most = e->steady_bytes > e->peak_bytes ? e->steady_bytes : e->peak_bytes;
	e->upper_bytes = most + e->sigma_bytes / 3 * 7;
	e->lower_bytes = e->base_bytes / 100 * 70;
	e->confidence = 0.95;
	e->source = ESTIMATE_ENGINE;
}

/* ---- the process ---- */

static int64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* In a group of its own, so that its end takes whatever it started with it. */
static int start(const struct launch *launch, pid_t *out_pid, int *out_fd, struct err *err)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "no pipe for the engine's word: %s", strerror(errno));
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, ends[1], 1);
	posix_spawn_file_actions_adddup2(&files, ends[1], 2);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setpgroup(&attributes, 0);
	int error = posix_spawnp(out_pid, launch->argv.items[0], &files, &attributes, launch->argv.items,
	                         launch->env.items);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	*out_fd = ends[0];
	if (error == 0)
		return 0;
	close(ends[0]);
	return err_set(err, -ENOEXEC, "%s does not start: %s", launch->argv.items[0], strerror(error));
}

struct listener {
	char line[LINE_BYTES];
	char last[LINE_BYTES]; /* the last whole line, for the error's text */
	size_t length;
	size_t told;
};

/* True where the table is complete. */
static bool hear(struct listener *listener, const char *bytes, size_t count, struct own_word *out)
{
	listener->told += count;
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] != '\n') {
			if (listener->length < sizeof(listener->line))
				listener->line[listener->length++] = bytes[i];
			continue;
		}
		struct str line = { listener->line, listener->length };
		str_copy(listener->last, sizeof(listener->last), line);
		listener->length = 0;
		if (own_word_line(out, line))
			return true;
	}
	return false;
}

static int listen_to(int fd, int deadline_ms, const atomic_bool *given_up, struct own_word *out, struct err *err)
{
	struct listener listener = { .length = 0 };
	int64_t end = clock_ms() + deadline_ms;
	char bytes[READ_BYTES];

	for (;;) {
		struct pollfd poller = { .fd = fd, .events = POLLIN };
		int64_t left = end - clock_ms();
		int ready = left > 0 ? poll(&poller, 1, left < LOOK_MS ? (int)left : LOOK_MS) : 0;
		if (given_up && atomic_load(given_up))
			return err_set(err, -ECANCELED, "nobody waits for the engine's word any more");
		if ((ready < 0 && errno == EINTR) || (ready == 0 && left > LOOK_MS))
			continue;
		if (ready <= 0)
			return err_set(err, -ETIMEDOUT, "the engine did not tell what it takes within %d s",
			               deadline_ms / 1000);
		ssize_t count = read(fd, bytes, sizeof(bytes));
		if (count < 0 && errno == EINTR)
			continue;
		if (count > 0 && hear(&listener, bytes, (size_t)count, out))
			return 0;
		if (count <= 0 || listener.told > TOLD_MOST)
			return err_set(err, -ENODATA, "the engine ended without telling what it takes: %.300s",
			               listener.last);
	}
}

static int converse(const struct launch *launch, int deadline_ms, const atomic_bool *given_up,
                    struct own_word *out, struct err *err)
{
	pid_t pid = 0;
	int fd = -1;
	int code = start(launch, &pid, &fd, err);

	if (code < 0)
		return code;
	code = listen_to(fd, deadline_ms, given_up, out, err);
	kill(-pid, SIGKILL);
	close(fd);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return code;
}

int own_word_ask(const struct conf_model *model, int64_t context_tokens, int64_t slots,
                 const struct launch_tuning *tuning, int deadline_ms, const atomic_bool *given_up, struct own_word *out, struct err *err)
{
	/* It listens before it looks at the model: where nobody else comes. */
	char folder[] = "/tmp/cotenant-asks-XXXXXX";
	struct endpoint nowhere = { .path = "" };
	struct launch_request request = { .model = model,
		                          .slots = (uint32_t)slots,
		                          .context_tokens = (uint32_t)context_tokens,
		                          .tuning = *tuning,
		                          .endpoint = &nowhere };
	struct launch launch;

	*out = (struct own_word){ 0 };
	const struct adapter *adapter = adapter_of(model);
	if (!adapter || adapter->kind != CONF_ENGINE_LLAMA_SERVER)
		return err_set(err, -ENODATA, "only llama-server tells what it takes");
	if (!mkdtemp(folder))
		return err_set(err, -errno, "no folder for the engine's socket: %s", strerror(errno));
	snprintf(nowhere.path, sizeof(nowhere.path), "%s/engine.sock", folder);
	int code = adapter_launch(adapter, &request, &launch, err);
	if (code < 0) {
		rmdir(folder);
		return code;
	}
	/* The last of a flag counts. */
	words_add(&launch.argv, "--fit");
	words_add(&launch.argv, "on");
	words_add(&launch.argv, "-lv");
	words_add(&launch.argv, "4");
	code = converse(&launch, deadline_ms, given_up, out, err);
	launch_release(&launch);
	unlink(nowhere.path);
	rmdir(folder);
	return code;
}
