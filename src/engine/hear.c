#include "engine/hear.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 512, READ_BYTES = 4096, LOOK_MS = 100, TOLD_MOST = 4 << 20 };

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
	const struct hear *how;
	char line[LINE_BYTES];
	char last[LINE_BYTES]; /* the last whole line, for the error's text */
	size_t length;
	size_t told;
};

/* True where enough was said. */
static bool take(struct listener *listener, const char *bytes, size_t count)
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
		if (listener->how->line(listener->how->ctx, line))
			return true;
	}
	return false;
}

/* 1: enough was said. 0: it closed its ends. */
static int listen_to(int fd, struct listener *listener, struct err *err)
{
	int64_t end = clock_ms() + listener->how->deadline_ms;
	char bytes[READ_BYTES];

	for (;;) {
		struct pollfd poller = { .fd = fd, .events = POLLIN };
		int64_t left = end - clock_ms();
		int ready = left > 0 ? poll(&poller, 1, left < LOOK_MS ? (int)left : LOOK_MS) : 0;
		if (listener->how->given_up && atomic_load(listener->how->given_up))
			return err_set(err, -ECANCELED, "nobody waits for the engine's word any more");
		if ((ready < 0 && errno == EINTR) || (ready == 0 && left > LOOK_MS))
			continue;
		if (ready <= 0)
			return err_set(err, -ETIMEDOUT, "the engine did not tell what it takes within %d s",
			               listener->how->deadline_ms / 1000);
		ssize_t count = read(fd, bytes, sizeof(bytes));
		if (count < 0 && errno == EINTR)
			continue;
		if (count > 0 && take(listener, bytes, (size_t)count))
			return 1;
		if (count <= 0)
			return 0;
		if (listener->told > TOLD_MOST)
			return err_set(err, -ENODATA, "the engine said more than any log of a start: %.300s",
			               listener->last);
	}
}

/* How it ended, where it is about to; who closed its ends and goes on living is as good as one that hangs. */
static bool ended_well(pid_t pid, int deadline_ms)
{
	int64_t end = clock_ms() + deadline_ms;
	siginfo_t info = { 0 };

	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0 &&
	       clock_ms() < end)
		poll(NULL, 0, 1);
	return info.si_pid == pid && info.si_code == CLD_EXITED && info.si_status == 0;
}

int hear(const struct launch *launch, const struct hear *how, struct err *err)
{
	enum { LAST_MS = 1000 };
	struct listener listener = { .how = how };
	pid_t pid = 0;
	int fd = -1;
	int code = start(launch, &pid, &fd, err);

	if (code < 0)
		return code;
	code = listen_to(fd, &listener, err);
	if (code == 0 && !ended_well(pid, LAST_MS))
		code = err_set(err, -ENODATA, "the engine ended without telling what it takes: %.300s", listener.last);
	kill(-pid, SIGKILL);
	close(fd);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return code < 0 ? code : 0;
}
