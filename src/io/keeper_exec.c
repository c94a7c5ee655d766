#include "io/keeper_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/keeper_proc.h"

enum { REFUSAL_FD = 3 };

static void append(char *out, size_t out_bytes, const char *text)
{
	size_t at = strlen(out);
	size_t length = strlen(text);

	if (length >= out_bytes - at)
		length = out_bytes - at - 1;
	memcpy(out + at, text, length);
	out[at + length] = '\0';
}

static _Noreturn void refuse(int error, const char *verb, const char *object)
{
	struct keeper_refusal refusal = { .error = error };

	append(refusal.what, sizeof(refusal.what), verb);
	append(refusal.what, sizeof(refusal.what), object);
	/* Below PIPE_BUF: whole or not at all. */
	ssize_t written = write(REFUSAL_FD, &refusal, sizeof(refusal));
	_exit(written == sizeof(refusal) ? 127 : 126);
}

static void set_oom_score(int value)
{
	char text[22] = "-";
	bool negative = value < 0;
	size_t length = keeper_decimal(text + negative, (unsigned long long)(negative ? -value : value));
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	/* Lowering it needs a capability that we may not have; then it stays as it is. */
	if (write(fd, text, length + negative) < 0)
		errno = 0;
	close(fd);
}

static const char *variable(char *const *env, const char *name)
{
	const size_t length = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
			return *env + length + 1;
	return NULL;
}

/* execve in each folder of PATH, as a shell looks: a folder without it is passed over. */
static int exec_in_path(const struct keeper_launch *launch)
{
	const char *program = launch->argv[0];
	const size_t program_bytes = strlen(program) + 1;
	const char *path = variable(launch->env, "PATH");
	char candidate[4096];
	int error = ENOENT;

	if (!path)
		path = "/usr/local/bin:/usr/bin:/bin";
	while (*path) {
		size_t length = strcspn(path, ":");
		if (length && length + 1 + program_bytes <= sizeof(candidate)) {
			memcpy(candidate, path, length);
			candidate[length] = '/';
			memcpy(candidate + length + 1, program, program_bytes);
			execve(candidate, launch->argv, launch->env);
			if (errno == EACCES)
				error = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				return errno;
		}
		path += length + (path[length] == ':');
	}
	return error;
}

static void reset_signals(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		sigaction(number, &action, NULL); /* KILL and STOP refuse, rightly */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(const struct keeper_launch *launch, int refusal_fd, pid_t keeper)
{
	setsid();
	/* The keeper may have died before the wish was heard: then nobody would ever end us. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != keeper)
		_exit(126);
	if (launch->log_fd >= 0 && (dup2(launch->log_fd, 1) < 0 || dup2(launch->log_fd, 2) < 0))
		_exit(126);
	if (refusal_fd != REFUSAL_FD && dup3(refusal_fd, REFUSAL_FD, O_CLOEXEC) < 0)
		_exit(126);
	syscall(SYS_close_range, REFUSAL_FD + 1, ~0U, 0); /* before 5.9 close-on-exec does it */
	set_oom_score(launch->oom_score_adj);
	setpriority(PRIO_PROCESS, 0, launch->nice);
	if (chdir(launch->directory) < 0)
		refuse(errno, "chdir ", launch->directory);
	reset_signals();

	int error;
	if (strchr(launch->argv[0], '/')) {
		execve(launch->argv[0], launch->argv, launch->env);
		error = errno;
	} else {
		error = exec_in_path(launch);
	}
	refuse(error, "exec ", launch->argv[0]);
}

static pid_t clone_into(int cgroup_fd, int *out_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)out_pidfd,
		.exit_signal = SIGCHLD,
	};

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* Into the cgroup where that is allowed; without it where not; by fork where clone3 is unknown. */
static pid_t split(const char *cgroup, int *out_pidfd)
{
	pid_t pid = -1;

	if (*cgroup) {
		int fd = open(cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0) {
			pid = clone_into(fd, out_pidfd);
			if (pid != 0)
				close(fd);
		}
	}
	if (pid < 0)
		pid = clone_into(-1, out_pidfd);
	if (pid < 0) {
		pid = fork();
		if (pid > 0)
			*out_pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	}
	return pid;
}

pid_t keeper_start(const struct keeper_launch *launch, int *out_pidfd, int *out_pipe)
{
	int ends[2];
	pid_t keeper = getpid();

	*out_pidfd = -1;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;

	pid_t pid = split(launch->cgroup, out_pidfd);
	int error = errno;
	if (pid == 0)
		become(launch, ends[1], keeper);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return -error;
	}
	*out_pipe = ends[0];
	return pid;
}
