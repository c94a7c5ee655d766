#include "engine/preload.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/str.h"
#include "lazy/lazy.h"

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_NONE
#endif

enum { PATH_BYTES = 4096, HEADERS_MAX = 64 };

/* LD_PRELOAD divides by blanks and colons, and knows no quotes. */
static int try_path(const char *path, char *out, size_t out_bytes, struct err *err)
{
	if (access(path, R_OK) < 0)
		return -ENOENT;
	if (strpbrk(path, " :\t\n"))
		return err_set(err, -ENOTSUP, "its path %s holds a blank or a colon", path);
	if (strlen(path) >= out_bytes)
		return -ENOENT;
	str_copy(out, out_bytes, str_from(path));
	return 0;
}

int preload_find(char *out, size_t out_bytes, struct err *err)
{
	static const char *const places[] = {
		"", "../lib/cotenant/", "../lib/x86_64-linux-gnu/cotenant/", "../lib/aarch64-linux-gnu/cotenant/",
	};
	const char *given = getenv("COTENANT_LAZY_LIBRARY");
	char program[PATH_BYTES], path[PATH_BYTES + 100];

	if (given) {
		int code = *given ? try_path(given, out, out_bytes, err) : -ENOENT;
		return code == -ENOENT ? err_set(err, code, "no " LAZY_LIBRARY_NAME " at COTENANT_LAZY_LIBRARY=%s",
		                                 given) : code;
	}
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (length <= 0)
		return err_set(err, -ENOENT, "our own program's folder is not known");
	program[length] = '\0';
	char *slash = strrchr(program, '/');
	if (slash)
		slash[1] = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s" LAZY_LIBRARY_NAME, program, places[i]);
		int code = try_path(path, out, out_bytes, err);
		if (code != -ENOENT)
			return code;
	}
	return err_set(err, -ENOENT, "no " LAZY_LIBRARY_NAME " beside %s or in its ../lib/cotenant", program);
}

/* Its program interpreter; "" = none. False: not readable as a program of this machine. */
static bool read_interpreter(int fd, char *out, size_t out_bytes)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;

	out[0] = '\0';
	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != OUR_MACHINE ||
	    head.e_phentsize != sizeof(part))
		return false;
	for (unsigned i = 0; i < head.e_phnum && i < HEADERS_MAX; i++) {
		off_t at = (off_t)(head.e_phoff + i * sizeof(part));
		if (pread(fd, &part, sizeof(part), at) != (ssize_t)sizeof(part))
			return false;
		if (part.p_type != PT_INTERP)
			continue;
		size_t bytes = part.p_filesz < out_bytes ? part.p_filesz : out_bytes - 1;
		if (pread(fd, out, bytes, (off_t)part.p_offset) != (ssize_t)bytes)
			return false;
		out[bytes] = '\0';
		return true;
	}
	return true;
}

static int judge(int fd, const struct stat *st, struct err *err)
{
	char magic[4] = "", interpreter[512], capability[64];

	if (st->st_mode & (S_ISUID | S_ISGID))
		return err_set(err, -ENOTSUP, "it is set-user-id: nothing is preloaded into it");
	if (fgetxattr(fd, "security.capability", capability, sizeof(capability)) > 0)
		return err_set(err, -ENOTSUP, "it has file capabilities: nothing is preloaded into it");
	if (pread(fd, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic))
		return err_set(err, -ENOTSUP, "it is no program");
	if (memcmp(magic, ELFMAG, SELFMAG) != 0)
		return 0; /* a script */
	if (!read_interpreter(fd, interpreter, sizeof(interpreter)))
		return err_set(err, -ENOTSUP, "it is no program of this machine's kind");
	if (!interpreter[0])
		return err_set(err, -ENOTSUP, "it is linked statically");
	const char *name = strrchr(interpreter, '/');
	name = name ? name + 1 : interpreter;
	if (strncmp(name, "ld-linux", 8) != 0)
		return err_set(err, -ENOTSUP, "it is built for another C library (%.100s)", name);
	return 0;
}

int preload_suits(const char *program, struct err *err)
{
	struct stat st;
	int fd = open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_set(err, -ENOENT, "it cannot be read: %s", strerror(errno));
	int code = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? err_set(err, -ENOTSUP, "it is no program")
	                                                      : judge(fd, &st, err);
	close(fd);
	return code;
}
