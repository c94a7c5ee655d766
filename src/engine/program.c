#include "engine/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "engine/preload.h"

enum { PATH_BYTES = 4096, LIST_MOST = 256 << 10, PATIENCE_MS = 3000, HELP_PATIENCE_MS = 10000, VERSION_PATIENCE_MS = 1000 };

bool program_find(const char *program, char *out, size_t out_bytes)
{
	struct str rest = str_from(getenv("PATH"));
	struct stat st;

	if (strchr(program, '/') || !rest.data)
		return str_copy(out, out_bytes, str_from(program)) && stat(program, &st) == 0;
	while (rest.data) {
		struct str folder = str_cut(rest, ':', &rest);
		int length = snprintf(out, out_bytes, "%.*s/%s", STR_ARG(folder), program);
		if (length > 0 && (size_t)length < out_bytes && stat(out, &st) == 0)
			return true;
	}
	return false;
}

void program_identity(const char *path, struct buf *out)
{
	struct stat st;

	if (stat(path, &st) < 0)
		buf_printf(out, "%s gone ", path);
	else
		buf_printf(out, "%s %llu %llu %lld %lld.%09ld ", path, (unsigned long long)st.st_dev,
		           (unsigned long long)st.st_ino, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
		           st.st_mtim.tv_nsec);
}

/* ---- the libraries that compute ---- */

/* An update of the C library makes no other engine of it. */
static bool computes(struct str path)
{
	static const char *const names[] = {
		"libllama", "libggml", "libmtmd", "libwhisper", "libparakeet", "libstable-diffusion", "libcublas",
		"libcudart", "libhipblas", "librocblas", "libamdhip", "libonnxruntime",
	};
	const char *slash = memrchr(path.data, '/', path.length);
	struct str name = { slash + 1, (size_t)(path.data + path.length - slash - 1) };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (str_starts(name, names[i]))
			return true;
	return false;
}

/* "\tlibggml.so.0 => /usr/lib/libggml.so.0 (0x00007f...)": a path a line. */
static void take_paths(struct str listing, struct buf *out)
{
	while (listing.data) {
		struct str line = str_cut(listing, '\n', &listing);
		const char *from = memchr(line.data, '/', line.length);
		const char *to = from ? memmem(from, (size_t)(line.data + line.length - from), " (0x", 4) : NULL;
		if (!to)
			continue;
		struct str path = { from, (size_t)(to - from) };
		if (!computes(path))
			continue;
		buf_append_str(out, path);
		buf_append_char(out, '\n');
	}
}

static bool read_all(int fd, int patience_ms, struct buf *out)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };

	while (buf_length(out) < LIST_MOST) {
		if (poll(&poller, 1, patience_ms) <= 0)
			return false;
		ssize_t got = read(fd, buf_reserve(out, 4096), 4096);
		if (got <= 0)
			return got == 0;
		buf_commit(out, (size_t)got);
	}
	return false;
}

/* Only what looks like a dynamic program: others would not list, but run. */
static bool may_be_asked(const char *path)
{
	char magic[4] = "";
	struct err err = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return false;
	bool elf = pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) && memcmp(magic, "\177ELF", 4) == 0;
	close(fd);
	return elf && preload_suits(path, &err) == 0;
}

/*
 * What it writes to stdout, and to stderr if `errors`, until it ends; false where it fails or takes too long. In a
 * group of its own, all of which ends.
 */
static bool listen_to(char *const argv[], char *const env[], int patience_ms, bool errors, struct buf *out)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int ends[2], status = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, ends[1], 1);
	if (errors)
		posix_spawn_file_actions_adddup2(&files, ends[1], 2);
	else
		posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	bool started = posix_spawn(&pid, argv[0], &files, &attributes, argv, env) == 0;
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	bool told = started && read_all(ends[0], patience_ms, out);
	close(ends[0]);
	if (started) {
		if (!told)
			kill(-pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	return told && status == 0;
}

/* The loader's list; false where it does not tell. */
static bool ask_loader(const char *path, struct buf *out)
{
	char trace[] = "LD_TRACE_LOADED_OBJECTS=1", locale[] = "LC_ALL=C", libraries[PATH_BYTES];
	const char *searched = getenv("LD_LIBRARY_PATH");
	struct buf listing = BUF_INIT;

	snprintf(libraries, sizeof(libraries), "LD_LIBRARY_PATH=%s", searched ? searched : "");
	char *argv[] = { (char *)path, NULL };
	char *env[] = { trace, locale, searched ? libraries : NULL, NULL };
	bool told = may_be_asked(path) && listen_to(argv, env, PATIENCE_MS, false, &listing);
	if (told)
		take_paths(buf_str(&listing), out);
	buf_release(&listing);
	return told;
}

/* ---- kept lists ---- */

static bool recall(const char *path, struct buf *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	bool whole = read_all(fd, 0, out);
	close(fd);
	return whole;
}

/* Whole or not at all: another daemon may read it at this moment, and a disk may be full. */
static void remember(const char *path, struct str list)
{
	char fresh[PATH_BYTES];
	int length = snprintf(fresh, sizeof(fresh), "%s.%d", path, (int)getpid());
	FILE *file = length > 0 && (size_t)length < sizeof(fresh) ? fopen(fresh, "we") : NULL;

	if (!file)
		return;
	bool whole = fwrite(list.data, 1, list.length, file) == list.length;
	whole = fclose(file) == 0 && whole;
	if (!whole || rename(fresh, path) < 0)
		unlink(fresh);
}

static void libraries_of(const char *program, const char *folder, struct buf *out)
{
	const char *searched = getenv("LD_LIBRARY_PATH");
	struct buf key = BUF_INIT, path = BUF_INIT;

	program_identity(program, &key);
	buf_printf(&key, "%s", searched ? searched : "");
	buf_printf(&path, "%s/libraries-%016llx", folder, (unsigned long long)str_hash(buf_str(&key)));
	if (!recall(buf_cstr(&path), out)) {
		out->start = out->end = 0;
		if (ask_loader(program, out))
			remember(buf_cstr(&path), buf_str(out));
	}
	buf_release(&key);
	buf_release(&path);
}

uint64_t program_build(const char *program, const char *folder)
{
	struct buf text = BUF_INIT, list = BUF_INIT;
	char path[PATH_BYTES];

	if (!program_find(program, path, sizeof(path)))
		return 0;
	program_identity(path, &text);
	if (folder)
		libraries_of(path, folder, &list);
	for (struct str rest = buf_str(&list); rest.length;) {
		struct str line = str_cut(rest, '\n', &rest);
		if (line.length && str_copy(path, sizeof(path), line))
			program_identity(path, &text);
	}
	uint64_t build = str_hash(buf_str(&text)) | 1;
	buf_release(&text);
	buf_release(&list);
	return build;
}

/* "version: 4404 (0827b2c1)", or of 2026 "version: 0.7.0 (build 11669, commit 0827b2c1)". 0: no number in it. */
static void make_release(struct str answer, const char *name, struct buf *out)
{
	static const char *const before[] = { "(build ", "version: " };
	uint64_t release = 0;

	(void)name;
	for (size_t i = 0; i < sizeof(before) / sizeof(*before) && release == 0; i++) {
		const char *at = memmem(answer.data, answer.length, before[i], strlen(before[i]));
		size_t digits = 0;
		if (!at)
			continue;
		at += strlen(before[i]);
		size_t left = answer.length - (size_t)(at - answer.data);
		while (digits < left && at[digits] >= '0' && at[digits] <= '9')
			digits++;
		bool whole = digits == left || at[digits] != '.'; /* else a version of another kind */
		if (!whole || !str_to_u64((struct str){ at, digits }, &release))
			release = 0;
	}
	buf_printf(out, "%llu", (unsigned long long)release);
}

/* A question to a build, and what is made of its answer; the same without one, where silence is an answer too. */
struct question {
	const char *flag;
	int patience_ms;
	bool errors, silence;
	void (*make)(struct str answer, const char *name, struct buf *out);
};

/*
 * What was made of the answer of this build, as it is kept under that name; where it is not and may be asked, it is
 * made now. False: never asked, or it does not answer.
 */
static bool kept_answer(const char *program, const char *folder, const struct question *question, const char *name,
                        bool known_only, struct buf *out)
{
	struct buf path = BUF_INIT, told = BUF_INIT;
	char file[PATH_BYTES];

	if (!program_find(program, file, sizeof(file)))
		return false;
	char *argv[] = { file, (char *)question->flag, NULL };
	buf_printf(&path, "%s/%s-%016llx-%s", folder, question->flag + 2, (unsigned long long)program_build(program, folder), name);
	bool known = recall(buf_cstr(&path), out);
	if (!known && !known_only) {
		known = listen_to(argv, environ, question->patience_ms, question->errors, &told) || question->silence;
		if (known) {
			question->make(buf_str(&told), name, out);
			remember(buf_cstr(&path), buf_str(out));
		}
	}
	buf_release(&path);
	buf_release(&told);
	return known;
}

static void make_named(struct str answer, const char *word, struct buf *out)
{
	bool named = answer.length > 0 && memmem(answer.data, answer.length, word, strlen(word));

	buf_append_str(out, named ? STR("named") : STR("not named"));
}

enum help program_help_names(const char *program, const char *folder, const char *word, bool known_only)
{
	const struct question question = { .flag = "--help", .patience_ms = HELP_PATIENCE_MS, .make = make_named };
	struct buf told = BUF_INIT;
	bool known = kept_answer(program, folder, &question, word, known_only, &told);
	bool named = str_equal(buf_str(&told), STR("named"));

	buf_release(&told);
	return !known ? HELP_UNKNOWN : named ? HELP_NAMES : HELP_DOES_NOT;
}

int64_t program_release(const char *program, const char *folder, bool known_only)
{
	/* What is started in an engine's place may serve, whatever it is asked: nobody waits long for that, or twice. */
	const struct question question = { .flag = "--version", .patience_ms = VERSION_PATIENCE_MS, .errors = true,
		                           .silence = true, .make = make_release };
	struct buf told = BUF_INIT;
	uint64_t release = 0;
	bool known = kept_answer(program, folder, &question, "release", known_only, &told) &&
	             str_to_u64(buf_str(&told), &release) && release <= INT32_MAX;

	buf_release(&told);
	return known ? (int64_t)release : -1;
}
