/*
 * The keeper process. It may have been forked from a daemon with threads, so
 * from here on there are system calls and this one struct, and no heap.
 *
 * Who belongs to an engine is found from below: whatever an engine's death
 * leaves behind is adopted by the keeper, the nearest subreaper. So an engine is
 * gone once its leader is reaped and no child of the keeper is its own; killing
 * such a child brings up the next layer. A child is an engine's own by its
 * session, or, where it made one of its own, by the tag in its environment.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/keeper_exec.h"
#include "io/keeper_proc.h"
#include "io/keeper_proto.h"

enum { SOCKET_FD = 3, CHILDREN_MAX = 4096, SWEEP_AGAIN_MS = 50, TAG_BYTES = 64, NICE_AHEAD = 10 };

enum spawn_state {
	SPAWN_FREE,
	SPAWN_STARTING, /* forked; its refusal pipe is still open */
	SPAWN_RUNNING,
	SPAWN_ENDED,    /* the leader is reaped; others of it may live */
};

struct spawn {
	enum spawn_state state;
	pid_t pid;
	int refusal_fd;
	bool survived; /* by the last sweep: somebody of it was still there */
	bool untold;   /* it ended, the daemon does not know yet */
	int status;
	struct rusage usage;
	uint64_t id;
};

struct loop {
	pid_t self;
	int engines_nice;
	int signal_fd;
	size_t used; /* spawns beyond this were never used */
	struct spawn spawns[KEEPER_SPAWNS_MAX];
	struct pollfd polls[KEEPER_SPAWNS_MAX + 2];
	pid_t children[CHILDREN_MAX];
	struct keeper_launch launch;
	_Alignas(struct keeper_request) char message[KEEPER_MESSAGE_BYTES + 1];
};

static void report(const struct keeper_report *message, int fd)
{
	/* It fails only where the daemon is gone, and that is told by the socket itself. */
	keeper_send(SOCKET_FD, message, sizeof(*message), fd, 0);
}

static void report_failed(uint64_t id, int error, const char *what)
{
	struct keeper_report message = { .type = KEEPER_FAILED, .spawn_id = id, .status = error };
	size_t length = strlen(what);

	if (length >= sizeof(message.what))
		length = sizeof(message.what) - 1;
	memcpy(message.what, what, length);
	report(&message, -1);
}

static struct spawn *spawn_new(struct loop *loop)
{
	for (size_t i = 0; i < loop->used; i++)
		if (loop->spawns[i].state == SPAWN_FREE)
			return &loop->spawns[i];
	return loop->used < KEEPER_SPAWNS_MAX ? &loop->spawns[loop->used++] : NULL;
}

static struct spawn *spawn_by_id(struct loop *loop, uint64_t id)
{
	for (size_t i = 0; i < loop->used; i++)
		if (loop->spawns[i].state != SPAWN_FREE && loop->spawns[i].id == id)
			return &loop->spawns[i];
	return NULL;
}

/* By the leader's pid, which is also the session's and the group's number. */
static struct spawn *spawn_by_pid(struct loop *loop, pid_t pid)
{
	for (size_t i = 0; i < loop->used; i++)
		if (loop->spawns[i].state != SPAWN_FREE && loop->spawns[i].pid == pid)
			return &loop->spawns[i];
	return NULL;
}

/* Ours alone: a keeper of an engine that is itself a keeper's has another pid. */
static void tag_of(const struct loop *loop, uint64_t id, char out[TAG_BYTES])
{
	static const char name[] = "COTENANT_SPAWN=";
	size_t at = sizeof(name) - 1;

	memcpy(out, name, at);
	at += keeper_decimal(out + at, (unsigned long long)loop->self);
	out[at++] = '-';
	keeper_decimal(out + at, id);
}

static char *next_text(char **at)
{
	char *text = *at;

	*at += strlen(text) + 1;
	return text;
}

static void handle_spawn(struct loop *loop, const struct keeper_request *request, int log_fd)
{
	struct keeper_launch *launch = &loop->launch;
	struct spawn *spawn = spawn_new(loop);
	char *at = loop->message + sizeof(*request);
	char tag[TAG_BYTES];
	int pidfd;

	if (!spawn) {
		report_failed(request->spawn_id, EAGAIN, "spawn (too many processes)");
		return;
	}
	assert(request->argc <= KEEPER_ARGV_MAX && request->envc <= KEEPER_ENV_MAX);
	for (uint32_t i = 0; i < request->argc; i++)
		launch->argv[i] = next_text(&at);
	launch->argv[request->argc] = NULL;
	for (uint32_t i = 0; i < request->envc; i++)
		launch->env[i] = next_text(&at);
	tag_of(loop, request->spawn_id, tag);
	launch->env[request->envc] = tag;
	launch->env[request->envc + 1] = NULL;
	launch->directory = next_text(&at);
	launch->cgroup = next_text(&at);
	launch->oom_score_adj = request->oom_score_adj;
	launch->nice = loop->engines_nice;
	launch->log_fd = log_fd;

	pid_t pid = keeper_start(launch, &pidfd, &spawn->refusal_fd);
	if (pid < 0) {
		report_failed(request->spawn_id, -pid, "fork");
		return;
	}
	spawn->state = SPAWN_STARTING;
	spawn->pid = pid;
	spawn->id = request->spawn_id;

	/* The pidfd goes ahead of the verdict, so that no exec is waited for with it in hand. */
	struct keeper_report message = {
		.type = KEEPER_SPAWNED, .spawn_id = spawn->id, .pid = pid, .status = EINPROGRESS
	};
	report(&message, pidfd);
	if (pidfd >= 0)
		close(pidfd);
}

/* The refusal pipe has an end or a word: exec succeeded, or it is known why not. */
static void handle_verdict(struct spawn *spawn)
{
	struct keeper_refusal refusal;
	ssize_t length = read(spawn->refusal_fd, &refusal, sizeof(refusal));

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	close(spawn->refusal_fd);
	if (length == sizeof(refusal)) {
		/* It is about to exit by itself; it was never an engine, so its end is not one. */
		report_failed(spawn->id, refusal.error, refusal.what);
		spawn->state = SPAWN_FREE;
		return;
	}
	spawn->state = SPAWN_RUNNING;
	struct keeper_report message = {
		.type = KEEPER_SPAWNED, .spawn_id = spawn->id, .pid = spawn->pid
	};
	report(&message, -1);
}

static void handle_signal(struct loop *loop, const struct keeper_request *request)
{
	struct spawn *spawn = spawn_by_id(loop, request->spawn_id);

	if (!spawn || spawn->state == SPAWN_ENDED)
		return;
	/* Not reaped, so the pid is still its own. A child just forked has no group yet. */
	if (kill(-spawn->pid, request->signal_number) < 0 && errno == ESRCH)
		kill(spawn->pid, request->signal_number);
}

/* The next sweep tells of it, together with whether somebody else is left: one message wakes the daemon once. */
static void end_of_leader(struct spawn *spawn)
{
	if (spawn->state == SPAWN_STARTING)
		handle_verdict(spawn);
	bool was_engine = spawn->state == SPAWN_RUNNING;

	/* While it is not reaped its group's number cannot be given to others. */
	kill(-spawn->pid, SIGKILL);
	wait4(spawn->pid, &spawn->status, 0, &spawn->usage);
	if (!was_engine)
		return;
	spawn->untold = true;
	spawn->state = SPAWN_ENDED;
}

static void reap(struct loop *loop)
{
	for (;;) {
		siginfo_t info = { .si_pid = 0 };
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
			return;
		struct spawn *spawn = spawn_by_pid(loop, info.si_pid);
		if (spawn && spawn->state != SPAWN_ENDED)
			end_of_leader(spawn);
		else
			waitpid(info.si_pid, NULL, 0);
	}
}

static struct spawn *owner_of(struct loop *loop, pid_t child)
{
	struct spawn *owner = spawn_by_pid(loop, keeper_session(child));
	char tag[TAG_BYTES];

	if (owner)
		return owner;
	for (size_t i = 0; i < loop->used; i++) {
		if (loop->spawns[i].state == SPAWN_FREE)
			continue;
		tag_of(loop, loop->spawns[i].id, tag);
		if (keeper_environ_has(child, tag))
			return &loop->spawns[i];
	}
	return NULL;
}

static ssize_t list_children(struct loop *loop)
{
	ssize_t count = keeper_children_by_list(loop->children, CHILDREN_MAX);

	return count >= 0 ? count : keeper_children_by_scan(loop->children, CHILDREN_MAX);
}

static void tell_of_ended(struct spawn *spawn, bool gone)
{
	struct keeper_report message = { .type = KEEPER_GONE, .spawn_id = spawn->id };

	if (spawn->untold) {
		message.type = KEEPER_ENDED;
		message.pid = spawn->pid;
		message.status = spawn->status;
		message.gone = gone;
		message.usage = spawn->usage;
	}
	if (spawn->untold || gone)
		report(&message, -1);
	spawn->untold = false;
	if (gone)
		spawn->state = SPAWN_FREE;
}

/* Kill what ended engines left behind; tell of the ends, and of those that left nothing more. */
static void sweep(struct loop *loop)
{
	bool any_ended = false;
	bool any_alive = false;
	bool hidden = false; /* somebody of an ended one, nobody knows of which */

	for (size_t i = 0; i < loop->used; i++) {
		struct spawn *spawn = &loop->spawns[i];
		spawn->survived = false;
		any_ended |= spawn->state == SPAWN_ENDED;
		any_alive |= spawn->state == SPAWN_STARTING || spawn->state == SPAWN_RUNNING;
	}
	if (!any_ended)
		return;

	ssize_t count = list_children(loop);
	for (ssize_t i = 0; i < count; i++) {
		struct spawn *leader = spawn_by_pid(loop, loop->children[i]);
		if (leader && leader->state != SPAWN_ENDED)
			continue;
		struct spawn *owner = owner_of(loop, loop->children[i]);
		if (owner && owner->state != SPAWN_ENDED)
			continue;
		/* Nobody's: it hid its descent. While others live it may be theirs. */
		if (!owner && any_alive)
			continue;
		kill(loop->children[i], SIGKILL);
		if (owner)
			owner->survived = true;
		else
			hidden = true;
	}
	for (size_t i = 0; i < loop->used; i++) {
		struct spawn *spawn = &loop->spawns[i];
		if (spawn->state == SPAWN_ENDED)
			tell_of_ended(spawn, !spawn->survived && !hidden);
	}
}

/* The daemon is gone: so is everything that was started for it. */
static _Noreturn void finish(struct loop *loop)
{
	for (;;) {
		for (size_t i = 0; i < loop->used; i++) {
			struct spawn *spawn = &loop->spawns[i];
			if (spawn->state == SPAWN_STARTING || spawn->state == SPAWN_RUNNING)
				kill(-spawn->pid, SIGKILL);
		}
		ssize_t count = list_children(loop);
		for (ssize_t i = 0; i < count; i++)
			kill(loop->children[i], SIGKILL);

		siginfo_t info;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) < 0 && errno == ECHILD)
			_exit(0);
		reap(loop);
	}
}

static void handle_message(struct loop *loop)
{
	int fd;
	ssize_t length =
		keeper_receive(SOCKET_FD, loop->message, KEEPER_MESSAGE_BYTES, &fd, MSG_DONTWAIT);

	if (length == -EAGAIN)
		return;
	if (length <= 0)
		finish(loop);
	assert((size_t)length >= sizeof(struct keeper_request));
	loop->message[length] = '\0';

	struct keeper_request request;
	memcpy(&request, loop->message, sizeof(request));
	if (request.type == KEEPER_SPAWN)
		handle_spawn(loop, &request, fd);
	else if (request.type == KEEPER_SIGNAL)
		handle_signal(loop, &request);
	if (fd >= 0)
		close(fd);
}

static void turn(struct loop *loop)
{
	size_t count = 0;
	int wait_ms = -1;

	loop->polls[count++] = (struct pollfd){ .fd = SOCKET_FD, .events = POLLIN };
	loop->polls[count++] = (struct pollfd){ .fd = loop->signal_fd, .events = POLLIN };
	for (size_t i = 0; i < loop->used; i++) {
		if (loop->spawns[i].state == SPAWN_ENDED)
			wait_ms = SWEEP_AGAIN_MS; /* each death signals us; this is for what we may miss */
		if (loop->spawns[i].state == SPAWN_STARTING)
			loop->polls[count++] =
				(struct pollfd){ .fd = loop->spawns[i].refusal_fd, .events = POLLIN };
	}
	if (poll(loop->polls, count, wait_ms) < 0)
		return;

	struct signalfd_siginfo info;
	while (read(loop->signal_fd, &info, sizeof(info)) == sizeof(info))
		;
	for (size_t i = 0; i < loop->used; i++)
		if (loop->spawns[i].state == SPAWN_STARTING)
			handle_verdict(&loop->spawns[i]);
	reap(loop);
	sweep(loop);
	if (loop->polls[0].revents)
		handle_message(loop);
}

/* Nothing of the daemon's stays open: a held pipe would look like a daemon that still lives. */
static void let_go_of_files(int socket)
{
	if (socket != SOCKET_FD && dup3(socket, SOCKET_FD, O_CLOEXEC) < 0)
		_exit(1);
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= 2; fd++)
		if (null_fd >= 0)
			dup2(null_fd, fd);
	if (syscall(SYS_close_range, SOCKET_FD + 1, ~0U, 0) < 0)
		for (int fd = SOCKET_FD + 1; fd < 65536; fd++)
			close(fd);
}

_Noreturn void keeper_main(int socket, int engines_nice)
{
	struct loop loop; /* its tables are bounded by `used`, so most of it stays untouched */
	struct sigaction standard = { .sa_handler = SIG_DFL };
	sigset_t all;
	sigset_t deaths;

	/* Blocked, all of them stay without effect: when to end is the daemon's word alone. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (int number = 1; number < NSIG; number++)
		sigaction(number, &standard, NULL);
	setsid();
	prctl(PR_SET_NAME, "cotenant-keeper");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	let_go_of_files(socket);
	if (chdir("/") < 0)
		_exit(1);

	setpriority(PRIO_PROCESS, 0, engines_nice - NICE_AHEAD);

	loop.self = getpid();
	loop.engines_nice = engines_nice;
	loop.used = 0;
	sigemptyset(&deaths);
	sigaddset(&deaths, SIGCHLD);
	loop.signal_fd = signalfd(-1, &deaths, SFD_CLOEXEC | SFD_NONBLOCK);
	if (loop.signal_fd < 0)
		_exit(1);
	for (;;)
		turn(&loop);
}
