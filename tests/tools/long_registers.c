/*
 * Preloaded into user-mode-linux by tools/own-kernel. That kernel keeps 2.7 KiB of a process' vector
 * registers; a processor with AMX has 11 KiB of them, and the machine's kernel takes them whole or
 * not at all, so that the first process already cannot be started. What is missing is what the process has.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { VECTOR_REGISTERS = 0x202 }; /* NT_X86_XSTATE */

/* Not on the stack, which is a kernel's; it runs on one processor. */
static char whole[64 * 1024] __attribute__((aligned(64)));

static long set_registers(pid_t pid, const struct iovec *part)
{
	struct iovec all = { whole, sizeof(whole) };

	if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, VECTOR_REGISTERS, &all) < 0)
		return -1;
	memcpy(whole, part->iov_base, part->iov_len < all.iov_len ? part->iov_len : all.iov_len);
	return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, VECTOR_REGISTERS, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list rest;
	long peeked;

	va_start(rest, request);
	pid_t pid = va_arg(rest, pid_t);
	void *address = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);
	if (request == PTRACE_SETREGSET && (long)address == VECTOR_REGISTERS)
		return set_registers(pid, data);
	/* The system call writes what it found, the function returns it. */
	if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA && request != PTRACE_PEEKUSER)
		return syscall(SYS_ptrace, request, pid, address, data);
	if (syscall(SYS_ptrace, request, pid, address, &peeked) < 0)
		return -1;
	errno = 0;
	return peeked;
}
