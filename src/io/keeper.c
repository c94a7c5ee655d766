/*
 * The daemon's end: requests go out, reports come back as callbacks, and the
 * death of the keeper itself is mended.
 */
#include "io/keeper.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/list.h"
#include "io/keeper_proc.h"
#include "io/keeper_proto.h"

enum { MEND_EVERY_MS = 5, CLOSE_WAIT_MS = 5000, STRAYS_MAX = 1024 };

/* One spawn that was asked for and is not gone. */
struct child {
	struct list node;
	uint64_t id;
	pid_t pid;    /* 0: not forked yet */
	int pidfd;    /* -1: none; keeps the process nameable once the keeper is dead */
	bool spawned; /* on_spawned was delivered */
	bool ended;   /* on_ended was delivered */
};

/* A request the socket had no room for. */
struct parked {
	struct list node;
	int fd;
	size_t bytes;
	char message[];
};

struct keeper {
	pid_t pid;
	int socket;           /* -1: the keeper is dead and not yet replaced */
	bool reaped;          /* the dead keeper's own exit was taken */
	bool closing;
	int nice;             /* as we began: what engines run at */
	uv_loop_t *loop;      /* NULL until attached */
	uv_poll_t *poll;
	uv_timer_t *mending;
	struct keeper_events events;
	struct list children;
	struct list parked;
};

static int start(struct keeper *keeper, struct err *err)
{
	int ends[2];
	sigset_t all;
	sigset_t before;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_set(err, -errno, "keeper: socketpair: %s", strerror(errno));
	/* No handler of ours may run in the child before it has put the default ones back. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = fork();
	int error = errno;
	if (pid == 0)
		keeper_main(ends[1], keeper->nice);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return err_set(err, -error, "keeper: fork: %s", strerror(error));
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	keeper->pid = pid;
	keeper->socket = ends[0];
	keeper->reaped = false;
	return 0;
}

struct keeper *keeper_fork(struct err *err)
{
	struct keeper *keeper = xcalloc(1, sizeof(*keeper));

	list_init(&keeper->children);
	list_init(&keeper->parked);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	keeper->nice = getpriority(PRIO_PROCESS, 0);
	if (start(keeper, err) < 0) {
		free(keeper);
		return NULL;
	}
	return keeper;
}

pid_t keeper_pid(const struct keeper *keeper)
{
	return keeper->pid;
}

static struct child *child_by_id(struct keeper *keeper, uint64_t id)
{
	LIST_EACH(node, &keeper->children) {
		struct child *child = LIST_ENTRY(node, struct child, node);
		if (child->id == id)
			return child;
	}
	return NULL;
}

static struct child *child_by_pid(struct keeper *keeper, pid_t pid)
{
	LIST_EACH(node, &keeper->children) {
		struct child *child = LIST_ENTRY(node, struct child, node);
		if (child->pid == pid)
			return child;
	}
	return NULL;
}

static void child_free(struct child *child)
{
	list_remove(&child->node);
	if (child->pidfd >= 0)
		close(child->pidfd);
	free(child);
}

static void parked_free(struct parked *parked)
{
	list_remove(&parked->node);
	if (parked->fd >= 0)
		close(parked->fd);
	free(parked);
}

static void free_handle(uv_handle_t *handle)
{
	free(handle);
}

static void stop_polling(struct keeper *keeper)
{
	if (keeper->poll) {
		uv_poll_stop(keeper->poll);
		uv_close((uv_handle_t *)keeper->poll, free_handle);
		keeper->poll = NULL;
	}
	if (keeper->socket >= 0)
		close(keeper->socket);
	keeper->socket = -1;
}

/* ---- reports */

static void failed(struct keeper *keeper, struct child *child, int error, const char *what)
{
	uint64_t id = child->id;

	child_free(child);
	keeper->events.on_failed(keeper->events.ctx, id, error, what);
}

static void gone(struct keeper *keeper, uint64_t id)
{
	struct child *child = child_by_id(keeper, id);

	if (!child || keeper->closing)
		return;
	child_free(child);
	keeper->events.on_gone(keeper->events.ctx, id);
}

static void handle_report(struct keeper *keeper, struct keeper_report *report, int fd)
{
	const struct keeper_events *events = &keeper->events;
	struct child *child = child_by_id(keeper, report->spawn_id);

	if (!child) {
		if (fd >= 0)
			close(fd);
		return;
	}
	switch ((enum keeper_type)report->type) {
	case KEEPER_SPAWNED:
		child->pid = report->pid;
		if (fd >= 0)
			child->pidfd = fd;
		if (report->status != EINPROGRESS) {
			child->spawned = true;
			events->on_spawned(events->ctx, child->id, child->pid);
		}
		break;
	case KEEPER_FAILED:
		report->what[sizeof(report->what) - 1] = '\0';
		failed(keeper, child, report->status, report->what);
		break;
	case KEEPER_ENDED:
		child->ended = true;
		events->on_ended(events->ctx, child->id, report->status, &report->usage);
		if (report->gone)
			gone(keeper, report->spawn_id);
		break;
	case KEEPER_GONE:
		gone(keeper, report->spawn_id);
		break;
	case KEEPER_SPAWN:
	case KEEPER_SIGNAL:
		assert(!"a request is no report");
	}
}

static void mend(struct keeper *keeper);

static void flush_parked(struct keeper *keeper)
{
	LIST_EACH(node, &keeper->parked) {
		struct parked *parked = LIST_ENTRY(node, struct parked, node);
		if (keeper_send(keeper->socket, parked->message, parked->bytes, parked->fd,
		                MSG_DONTWAIT) == -EAGAIN)
			return;
		parked_free(parked);
	}
}

static void on_socket(uv_poll_t *poll, int status, int events);

static void watch(struct keeper *keeper)
{
	int wanted = UV_READABLE | (list_is_empty(&keeper->parked) ? 0 : UV_WRITABLE);

	uv_poll_start(keeper->poll, wanted, on_socket);
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
	struct keeper *keeper = poll->data;
	struct keeper_report report;
	int fd;
	(void)status;

	if (events & UV_WRITABLE) {
		flush_parked(keeper);
		watch(keeper);
	}
	/* A callback may close us or, by a dead keeper, this socket. */
	while (!keeper->closing && keeper->socket >= 0) {
		ssize_t length = keeper_receive(keeper->socket, &report, sizeof(report), &fd, MSG_DONTWAIT);
		if (length == sizeof(report)) {
			handle_report(keeper, &report, fd);
		} else if (length == -EAGAIN) {
			return;
		} else if (length != -ECONNRESET) { /* that is said once, ahead of what is left to read */
			mend(keeper);
			return;
		}
	}
}

static int open_poll(struct keeper *keeper)
{
	keeper->poll = xcalloc(1, sizeof(*keeper->poll));
	int status = uv_poll_init(keeper->loop, keeper->poll, keeper->socket);
	if (status < 0) {
		free(keeper->poll);
		keeper->poll = NULL;
		return status;
	}
	keeper->poll->data = keeper;
	watch(keeper);
	return 0;
}

int keeper_attach(struct keeper *keeper, struct uv_loop_s *loop, const struct keeper_events *events,
                  struct err *err)
{
	assert(!keeper->loop);
	keeper->loop = loop;
	keeper->events = *events;
	int status = open_poll(keeper);
	if (status < 0) {
		keeper->loop = NULL;
		return err_set(err, status, "keeper: %s", uv_strerror(status));
	}
	keeper->mending = xcalloc(1, sizeof(*keeper->mending));
	uv_timer_init(loop, keeper->mending);
	keeper->mending->data = keeper;
	return 0;
}

/* ---- the keeper's own death */

/* A pid that the keeper reaped on its last breath may name somebody else; a pidfd does not. */
static void kill_child(const struct child *child)
{
	if (child->pidfd < 0 || child->ended)
		return; /* PDEATHSIG and kill_strays() have the rest */
	if (syscall(SYS_pidfd_send_signal, child->pidfd, 0, NULL, 0) == 0)
		kill(-child->pid, SIGKILL);
}

static void kill_strays(void)
{
	pid_t pids[STRAYS_MAX];
	ssize_t count = keeper_children_by_scan(pids, STRAYS_MAX);

	for (ssize_t i = 0; i < count; i++)
		kill(pids[i], SIGKILL);
}

/* Everything of the old keeper is gone: say so, and begin anew. */
static void mended(struct keeper *keeper)
{
	const struct keeper_events *events = &keeper->events;
	const struct rusage unknown = { 0 };

	while (!list_is_empty(&keeper->children) && !keeper->closing) {
		struct child *child = LIST_ENTRY(keeper->children.next, struct child, node);
		uint64_t id = child->id;
		if (!child->spawned) {
			failed(keeper, child, EIO, "spawn (the keeper died)");
			continue;
		}
		/* Its status went with the keeper, which had reaped it. */
		if (!child->ended)
			events->on_ended(events->ctx, id, SIGKILL, &unknown);
		if (keeper->closing)
			return;
		child_free(child);
		events->on_gone(events->ctx, id);
	}
	if (keeper->closing || start(keeper, NULL) < 0)
		return; /* no process to be had now: the timer tries again */
	if (open_poll(keeper) < 0) {
		stop_polling(keeper);
		return;
	}
	uv_timer_stop(keeper->mending);
	events->on_restarted(events->ctx);
}

static void mend_step(uv_timer_t *timer)
{
	struct keeper *keeper = timer->data;
	const struct keeper_events *events = &keeper->events;
	struct rusage usage;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
		if (pid == keeper->pid)
			keeper->reaped = true;
		struct child *child = child_by_pid(keeper, pid);
		if (!child || !child->spawned || child->ended)
			continue;
		child->ended = true;
		events->on_ended(events->ctx, child->id, status, &usage);
		if (keeper->closing)
			return;
	}
	if (pid < 0 && errno == ECHILD)
		mended(keeper);
	else if (keeper->reaped)
		kill_strays(); /* the keeper's children are ours only from its end on */
}

static void mend(struct keeper *keeper)
{
	stop_polling(keeper);
	/* It is our child and not reaped, so the pid is its own. It may be stuck, not dead. */
	kill(keeper->pid, SIGKILL);
	LIST_EACH(node, &keeper->parked)
		parked_free(LIST_ENTRY(node, struct parked, node));
	LIST_EACH(node, &keeper->children)
		kill_child(LIST_ENTRY(node, struct child, node));
	uv_timer_start(keeper->mending, mend_step, 0, MEND_EVERY_MS);
}

/* ---- requests */

static void send_or_park(struct keeper *keeper, const void *message, size_t bytes, int fd)
{
	if (list_is_empty(&keeper->parked)) {
		int status = keeper_send(keeper->socket, message, bytes, fd, MSG_DONTWAIT);
		if (status != -EAGAIN)
			return; /* sent; or the keeper is dead, which its socket is about to tell */
	}
	struct parked *parked = xmalloc(sizeof(*parked) + bytes);
	parked->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	parked->bytes = bytes;
	memcpy(parked->message, message, bytes);
	list_append(&keeper->parked, &parked->node);
	if (keeper->poll)
		watch(keeper);
}

/* Appends `text` with its terminator. False where it does not fit. */
static bool put(char *message, size_t *at, const char *text)
{
	size_t bytes = strlen(text) + 1;

	if (bytes > KEEPER_MESSAGE_BYTES - *at)
		return false;
	memcpy(message + *at, text, bytes);
	*at += bytes;
	return true;
}

static bool put_all(char *message, size_t *at, const char *const *texts, uint32_t max, uint32_t *out_count)
{
	*out_count = 0;
	for (; *texts; texts++, ++*out_count)
		if (*out_count == max || !put(message, at, *texts))
			return false;
	return true;
}

int keeper_spawn(struct keeper *keeper, const struct keeper_command *command, struct err *err)
{
	_Alignas(struct keeper_request) char message[KEEPER_MESSAGE_BYTES];
	struct keeper_request request = {
		.type = KEEPER_SPAWN,
		.spawn_id = command->spawn_id,
		.oom_score_adj = command->oom_score_adj,
	};
	size_t at = sizeof(request);

	assert(command->argv[0] && keeper->loop && !child_by_id(keeper, command->spawn_id));
	if (keeper->socket < 0)
		return err_set(err, -EAGAIN, "the keeper died and is being replaced");
	if (!put_all(message, &at, command->argv, KEEPER_ARGV_MAX, &request.argc) ||
	    !put_all(message, &at, command->env, KEEPER_ENV_MAX, &request.envc) ||
	    !put(message, &at, command->directory ? command->directory : "/") ||
	    !put(message, &at, command->cgroup ? command->cgroup : ""))
		return err_set(err, -E2BIG,
		               "the command line of '%.200s' is too long (at most %d arguments, %d variables "
		               "and %d bytes)",
		               command->argv[0], KEEPER_ARGV_MAX, KEEPER_ENV_MAX, KEEPER_MESSAGE_BYTES);
	memcpy(message, &request, sizeof(request));

	struct child *child = xcalloc(1, sizeof(*child));
	child->id = command->spawn_id;
	child->pidfd = -1;
	list_append(&keeper->children, &child->node);
	send_or_park(keeper, message, at, command->log_fd);
	return 0;
}

void keeper_signal(struct keeper *keeper, uint64_t spawn_id, int signal_number)
{
	struct keeper_request request = {
		.type = KEEPER_SIGNAL, .spawn_id = spawn_id, .signal_number = signal_number
	};

	/* A dead keeper's engines are being killed anyway. */
	if (keeper->socket >= 0 && child_by_id(keeper, spawn_id))
		send_or_park(keeper, &request, sizeof(request), -1);
}

static void free_keeper(uv_handle_t *handle)
{
	free(handle->data);
	free(handle);
}

void keeper_close(struct keeper *keeper)
{
	int pidfd = (int)syscall(SYS_pidfd_open, keeper->pid, 0);

	keeper->closing = true;
	stop_polling(keeper); /* the keeper sees the end of its socket and finishes */
	LIST_EACH(node, &keeper->parked)
		parked_free(LIST_ENTRY(node, struct parked, node));
	LIST_EACH(node, &keeper->children)
		child_free(LIST_ENTRY(node, struct child, node));
	if (!keeper->reaped) {
		struct pollfd end = { .fd = pidfd, .events = POLLIN };
		int ready = pidfd >= 0 ? poll(&end, 1, CLOSE_WAIT_MS) : 0;
		waitpid(keeper->pid, NULL, ready > 0 ? 0 : WNOHANG);
	}
	if (pidfd >= 0)
		close(pidfd);
	if (!keeper->mending) {
		free(keeper);
		return;
	}
	uv_timer_stop(keeper->mending);
	uv_close((uv_handle_t *)keeper->mending, free_keeper);
}
