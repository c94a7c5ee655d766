#include "engine/lazy_check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "engine/adapter.h"
#include "engine/estimate_params.h"
#include "engine/preload.h"
#include "engine/probe_model.h"
#include "engine/program.h"

enum {
	READY_MS = 20000,
	ANSWER_MS = 20000,
	PAUSE_MS = 5,
	REPLY_MAX = 256 << 10,
	SLACK_KIB = 16 << 10, /* malloc's huge pages and threads come and go */
	LEFT_OUT_KIB = (PROBE_KV_BYTES >> 10) * 3 / 4,
};

struct trial {
	pid_t pid;
	char socket[108], lazy_socket[108];
	int64_t deadline_ms;
	int64_t anon_kib;
	struct buf first, again; /* what it said, and how sure it was */
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
	struct timespec span = { .tv_nsec = ms * 1000000 };

	nanosleep(&span, NULL);
}

/* ---- its answers ---- */

static int dial(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = ANSWER_MS / 1000 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	str_copy(address.sun_path, sizeof(address.sun_path), str_from(path));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

/* By its length, where it tells one: not every engine hangs up after its answer. */
static bool is_whole(struct str text)
{
	static const char name[] = "Content-Length:";
	const char *end = memmem(text.data, text.length, "\r\n\r\n", 4);
	const char *at = end ? memmem(text.data, (size_t)(end - text.data), name, sizeof(name) - 1) : NULL;
	uint64_t length;

	if (!at)
		return false;
	at += sizeof(name) - 1;
	struct str line = { at, (size_t)(end - at) };
	line = str_trim(str_cut(line, '\r', &line));
	return str_to_u64(line, &length) && text.length - (size_t)(end + 4 - text.data) >= length;
}

/* One exchange; the HTTP status, or -1. The whole answer is in `out`; `peer`: who listens there. */
static int exchange(const char *path, const char *request, const char *body, struct buf *out, pid_t *peer)
{
	struct ucred who;
	socklen_t bytes = sizeof(who);
	ssize_t got = -1;
	int fd = dial(path);

	out->start = out->end = 0;
	if (fd < 0)
		return -1;
	if (peer && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0)
		*peer = who.pid;
	if (dprintf(fd, "%s HTTP/1.1\r\nHost: engine\r\nConnection: close\r\nContent-Type: application/json\r\n"
	                "Content-Length: %zu\r\n\r\n%s", request, strlen(body), body) > 0)
		while (buf_length(out) < REPLY_MAX && !is_whole(buf_str(out)) &&
		       (got = recv(fd, buf_reserve(out, 4096), 4096, 0)) > 0)
			buf_commit(out, (size_t)got);
	close(fd);
	uint64_t status = 0;
	struct str text = buf_str(out);
	if (got < 0 || text.length < 12 || !str_starts(text, "HTTP/1.") ||
	    !str_to_u64((struct str){ text.data + 9, 3 }, &status))
		return -1;
	return (int)status;
}

static int64_t anon_kib(pid_t pid)
{
	char path[40], line[200];
	unsigned long long kib = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %llu", &kib) == 1)
			break;
	fclose(file);
	return (int64_t)kib;
}

/* From this key to the end of its value: an array, which holds no brackets in its texts that would not pair. */
static bool take_array(struct str text, const char *key, struct buf *out)
{
	const char *at = memmem(text.data, text.length, key, strlen(key));
	const char *end = text.data + text.length;
	int depth = 0;
	bool quoted = false;

	for (; at && at < end; at++) {
		buf_append_char(out, *at);
		if (*at == '\\' && at + 1 < end)
			buf_append_char(out, *++at);
		else if (*at == '"')
			quoted = !quoted;
		else if (!quoted && *at == '[')
			depth++;
		else if (!quoted && *at == ']' && --depth == 0)
			return true;
	}
	return false;
}

static bool ask(const struct trial *trial, struct buf *out)
{
	static const char prompt[] =
		"{\"prompt\": \"Many models share one memory: each takes what it needs, keeps it while it is "
		"used, and gives all of it back when another one wants the room.\", \"n_predict\": 12, "
		"\"temperature\": 0, \"n_probs\": 3, \"ignore_eos\": true, \"cache_prompt\": true}";
	struct buf reply = BUF_INIT;
	int status = exchange(trial->socket, "POST /completion", prompt, &reply, NULL);
	bool told = status == 200 && take_array(buf_str(&reply), "\"completion_probabilities\":", out);

	buf_release(&reply);
	return told;
}

/* ---- one run ---- */

static pid_t start(const struct launch *launch)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	setpgid(0, 0);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	close_range(3, ~0U, 0);
	environ = launch->env.items;
	execvp(launch->argv.items[0], launch->argv.items);
	_exit(127);
}

static void stop(const struct trial *trial)
{
	kill(-trial->pid, SIGKILL);
	kill(trial->pid, SIGKILL);
	waitpid(trial->pid, NULL, 0);
	unlink(trial->socket);
	unlink(trial->lazy_socket);
}

static bool wait_ready(struct trial *trial, pid_t *serving, struct lazy_verdict *out)
{
	struct buf reply = BUF_INIT;
	bool ready = false;

	while (!ready) {
		if (waitpid(trial->pid, NULL, WNOHANG) != 0) {
			snprintf(out->reason, sizeof(out->reason), "it ended at its start");
			break;
		}
		if (now_ms() > trial->deadline_ms) {
			snprintf(out->reason, sizeof(out->reason), "its check was not over in time");
			break;
		}
		ready = exchange(trial->socket, "GET /health", "", &reply, serving) == 200;
		if (!ready)
			pause_ms(PAUSE_MS);
	}
	buf_release(&reply);
	return ready;
}

static bool discard(const struct trial *trial, struct lazy_verdict *out)
{
	struct buf reply = BUF_INIT;
	bool done = exchange(trial->socket, "POST /slots/0?action=erase", "", &reply, NULL) == 200;

	if (!done)
		snprintf(out->reason, sizeof(out->reason), "it does not erase its slots");
	else if (exchange(trial->lazy_socket, "POST /discard", "", &reply, NULL) != 200) {
		snprintf(out->reason, sizeof(out->reason), "its memory cannot be given back");
		done = false;
	}
	buf_release(&reply);
	return done;
}

static bool reached(const struct trial *trial, struct lazy_verdict *out)
{
	struct buf reply = BUF_INIT;
	int status = exchange(trial->lazy_socket, "GET /", "", &reply, NULL);
	struct str text = buf_str(&reply);
	bool told = status == 200 && memmem(text.data, text.length, "\"reached\": true", 15);

	if (status != 200)
		snprintf(out->reason, sizeof(out->reason), "the library was not loaded into it");
	else if (!told)
		snprintf(out->reason, sizeof(out->reason), "it has ggml built in, out of the library's reach");
	buf_release(&reply);
	return told;
}

static bool run(struct trial *trial, const struct launch *launch, bool lazy, struct lazy_verdict *out)
{
	pid_t serving = 0;

	trial->deadline_ms = now_ms() + READY_MS;
	trial->pid = start(launch);
	if (trial->pid < 0) {
		snprintf(out->reason, sizeof(out->reason), "it cannot be started: %s", strerror(errno));
		return false;
	}
	bool whole = wait_ready(trial, &serving, out) && (!lazy || reached(trial, out));
	trial->anon_kib = anon_kib(serving);
	if (whole && (!ask(trial, &trial->first) || (lazy && (!discard(trial, out) || !ask(trial, &trial->again))))) {
		whole = false;
		if (!out->reason[0])
			snprintf(out->reason, sizeof(out->reason), "it does not answer a prompt");
	}
	stop(trial);
	return whole;
}

/* ---- both ---- */

static bool same(const struct buf *x, const struct buf *y)
{
	return buf_length(x) > 0 && str_equal(buf_str(x), buf_str(y));
}

static void compare(const struct conf_model *probe, const struct trial *plain, const struct trial *lazy,
                    struct lazy_verdict *out)
{
	struct estimate estimate;
	struct err err;
	int64_t most_kib = plain->anon_kib - LEFT_OUT_KIB;

	const struct launch_choice choice = { .context = PROBE_CONTEXT, .slots = 1, .lazy = true };

	if (engine_estimate(probe, &choice, &estimate, &err) == 0) {
		int64_t expected = (estimate.base_bytes >> 10) + SLACK_KIB;
		most_kib = most_kib > expected ? most_kib : expected;
	}
	if (plain->anon_kib - lazy->anon_kib < LEFT_OUT_KIB || lazy->anon_kib > most_kib)
		snprintf(out->reason, sizeof(out->reason),
		         "it saved %lld MiB of %d in a check: %lld MiB plain, %lld with the library",
		         (long long)(plain->anon_kib - lazy->anon_kib) >> 10, PROBE_KV_BYTES >> 20,
		         (long long)plain->anon_kib >> 10, (long long)lazy->anon_kib >> 10);
	else if (!same(&plain->first, &lazy->first))
		snprintf(out->reason, sizeof(out->reason), "it answers otherwise with the library");
	else if (!same(&plain->first, &lazy->again))
		snprintf(out->reason, sizeof(out->reason), "it answers otherwise after a discard");
	else
		out->works = true;
}

/* The same program with the same environment, and nothing else of the model's. */
static struct conf_model probe_of(const struct conf_model *model, char *file)
{
	struct conf_model probe = *model;
	static char name[] = "probe", kv_type[] = "f16";

	probe.name = name;
	probe.file = file;
	probe.mmproj = probe.draft = NULL;
	probe.lora = probe.args = (struct conf_strings){ 0 };
	probe.kv_type = kv_type;
	return probe;
}

static bool try_one(const struct lazy_check *check, const struct conf_model *probe, const char *folder,
                    bool lazy, struct trial *trial, struct lazy_verdict *out)
{
	struct launch launch;
	struct endpoint endpoint = { 0 };
	struct err err;

	int length = snprintf(trial->lazy_socket, sizeof(trial->lazy_socket), "%s/lazy.sock", folder);
	if (length < 0 || (size_t)length >= sizeof(trial->lazy_socket)) {
		snprintf(out->reason, sizeof(out->reason), "the path of its socket in %.100s is too long", folder);
		return false;
	}
	snprintf(trial->socket, sizeof(trial->socket), "%s/e.sock", folder);
	str_copy(endpoint.path, sizeof(endpoint.path), str_from(trial->socket));
	struct launch_request request = {
		.model = probe,
		.slots = 1,
		.context_tokens = PROBE_CONTEXT,
		.endpoint = &endpoint,
		.environment = check->environment,
		.lazy_library = lazy ? check->library : NULL,
		.lazy_socket = trial->lazy_socket,
		.save_folder = folder,
	};
	if (adapter_launch(adapter_of(probe), &request, &launch, &err) < 0) {
		snprintf(out->reason, sizeof(out->reason), "%.190s", err.text);
		return false;
	}
	bool whole = run(trial, &launch, lazy, out);
	launch_release(&launch);
	return whole;
}

static void try_both(const struct lazy_check *check, const struct conf_model *model,
                     struct lazy_verdict *out)
{
	char folder[sizeof(((struct trial *)0)->socket)], file[sizeof(folder) + 20];
	struct trial plain = { 0 }, lazy = { 0 };
	struct err err = { 0 };

	int length = snprintf(folder, sizeof(folder), "%s/lazy-XXXXXX", check->sockets);
	if (length < 0 || (size_t)length >= sizeof(folder) || !mkdtemp(folder)) {
		snprintf(out->reason, sizeof(out->reason), "no folder for its check in %.100s", check->sockets);
		return;
	}
	snprintf(file, sizeof(file), "%s/probe.gguf", folder);
	struct conf_model probe = probe_of(model, file);
	if (probe_model_write(file, &err) < 0)
		snprintf(out->reason, sizeof(out->reason), "%.190s", err.text);
	/* With it first: where it does not get in, that shows before anything is asked. */
	else if (try_one(check, &probe, folder, true, &lazy, out) &&
	         try_one(check, &probe, folder, false, &plain, out))
		compare(&probe, &plain, &lazy, out);
	unlink(file);
	rmdir(folder);
	buf_release(&plain.first);
	buf_release(&lazy.first);
	buf_release(&lazy.again);
}

/* ---- kept verdicts ---- */

static void verdict_path(const struct lazy_check *check, const char *program,
                         const struct conf_model *model, struct buf *out)
{
	struct buf key = BUF_INIT;

	buf_printf(&key, "%llx ", (unsigned long long)program_build(program, check->folder));
	program_identity(check->library, &key);
	buf_printf(&key, "%s", model->device ? model->device : "");
	for (size_t i = 0; i < model->env.count; i++)
		buf_printf(&key, " %s=%s", model->env.items[i].name, model->env.items[i].value);
	buf_printf(out, "%s/lazy-%016llx", check->folder, (unsigned long long)str_hash(buf_str(&key)));
	buf_release(&key);
}

/* "works", or "no: REASON". */
static bool recall(const char *path, struct lazy_verdict *out)
{
	FILE *file = fopen(path, "re");
	char line[sizeof(out->reason) + 8] = "";

	if (!file)
		return false;
	bool read = fgets(line, sizeof(line), file) != NULL;
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	out->works = strcmp(line, "works") == 0;
	if (!read || (!out->works && strncmp(line, "no: ", 4) != 0))
		return false;
	if (!out->works)
		str_copy(out->reason, sizeof(out->reason), str_from(line + 4));
	return true;
}

static void remember(const char *path, const struct lazy_verdict *verdict)
{
	FILE *file;

	if (!verdict->works && strstr(verdict->reason, "not over in time"))
		return;
	file = fopen(path, "we");
	if (!file)
		return;
	fprintf(file, verdict->works ? "works\n" : "no: %s\n", verdict->reason);
	fclose(file);
}

void lazy_check_engine(const struct lazy_check *check, const struct conf_model *model,
                       struct lazy_verdict *out)
{
	struct buf path = BUF_INIT;
	struct err err = { 0 };
	char program[4096];

	*out = (struct lazy_verdict){ 0 };
	if (!check->library) {
		snprintf(out->reason, sizeof(out->reason), "%.190s", check->missing ? check->missing : "no library");
		return;
	}
	if (access(check->library, R_OK) < 0) {
		snprintf(out->reason, sizeof(out->reason), "%.150s is not there any more", check->library);
		return;
	}
	if (!program_find(model->engine_path ? model->engine_path : "llama-server", program, sizeof(program))) {
		snprintf(out->reason, sizeof(out->reason), "its program was not found");
		return;
	}
	if (preload_suits(program, &err) < 0) {
		snprintf(out->reason, sizeof(out->reason), "%.190s", err.text);
		return;
	}
	verdict_path(check, program, model, &path);
	if (!recall(buf_cstr(&path), out) && check->known_only) {
		out->pending = true;
		snprintf(out->reason, sizeof(out->reason), "its engine is still being tried out");
	} else if (!out->works && !out->reason[0]) {
		int64_t began = now_ms();
		try_both(check, model, out);
		remember(buf_cstr(&path), out);
		log_info("%s: KV that follows use: %s%s (checked in %lld ms)", program,
		         out->works ? "works" : "no, ", out->reason, (long long)(now_ms() - began));
	}
	buf_release(&path);
}

bool lazy_applies(const struct conf_model *model, struct lazy_verdict *why_not)
{
	*why_not = (struct lazy_verdict){ 0 };
	if (model->engine != CONF_ENGINE_LLAMA_SERVER)
		snprintf(why_not->reason, sizeof(why_not->reason), "only llama-server has such a cache");
	else if (model->kv != CONF_KV_LAZY)
		snprintf(why_not->reason, sizeof(why_not->reason), "kv: %s is configured",
		         model->kv == CONF_KV_FIXED ? "fixed" : "elastic");
	else if (args_have(&model->args, "-kvu --kv-unified"))
		snprintf(why_not->reason, sizeof(why_not->reason),
		         "one cache for all slots: any slot may take all of it");
	return !why_not->reason[0];
}
