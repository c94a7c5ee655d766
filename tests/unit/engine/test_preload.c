/* Which programs can take the preload library, and where it is found. */
#include "../cmocka_all.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/preload.h"
#include "folder.h"

static const char *put(const char *name, const void *bytes, size_t length, mode_t mode)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	unlink(path);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), (ssize_t)length);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

/* A program's head of this machine's kind with one part, its interpreter; "" = none: linked statically. */
static size_t program(const char *interpreter, char out[512])
{
	Elf64_Ehdr head = { .e_phoff = sizeof(head), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1 };
	Elf64_Phdr part = { .p_type = *interpreter ? PT_INTERP : PT_LOAD,
		            .p_offset = sizeof(head) + sizeof(part),
		            .p_filesz = strlen(interpreter) + 1 };

	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = ELFCLASS64;
#if defined(__aarch64__)
	head.e_machine = EM_AARCH64;
#else
	head.e_machine = EM_X86_64;
#endif
	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), &part, sizeof(part));
	memcpy(out + sizeof(head) + sizeof(part), interpreter, part.p_filesz);
	return sizeof(head) + sizeof(part) + strlen(interpreter) + 1;
}

static void expect(const char *path, int code, const char *reason)
{
	struct err err = { 0 };

	assert_int_equal(preload_suits(path, &err), code);
	if (reason && !strstr(err.text, reason))
		fail_msg("'%s' is not in '%s'", reason, err.text);
}

static void programs_are_told_apart(void **state)
{
	char bytes[512];
	(void)state;

	expect("/proc/self/exe", 0, NULL);
	expect("/nonexistent", -ENOENT, "cannot be read");
	expect(folder, -ENOTSUP, "no program");
	expect("/dev/null", -ENOTSUP, "no program");
	expect(put("script", "#!/bin/sh\n", 10, 0700), 0, NULL);
	expect(put("short", "#", 1, 0700), -ENOTSUP, "no program");
	size_t length = program("/lib64/ld-linux-x86-64.so.2", bytes);
	expect(put("ours", bytes, length, 0700), 0, NULL);
	expect(put("suid", bytes, length, 04700), -ENOTSUP, "set-user-id");
	expect(put("sgid", bytes, length, 02700), -ENOTSUP, "set-user-id");
	expect(put("cut", bytes, 40, 0700), -ENOTSUP, "of this machine's kind");
	expect(put("no-parts", bytes, sizeof(Elf64_Ehdr), 0700), -ENOTSUP, "of this machine's kind");
	length = program("", bytes);
	expect(put("static", bytes, length, 0700), -ENOTSUP, "statically");
	length = program("/lib/ld-musl-x86_64.so.1", bytes);
	expect(put("musl", bytes, length, 0700), -ENOTSUP, "another C library (ld-musl");
	((Elf64_Ehdr *)(void *)bytes)->e_machine = EM_S390;
	expect(put("foreign", bytes, length, 0700), -ENOTSUP, "of this machine's kind");
}

static void the_library_is_found_or_said_to_be_missing(void **state)
{
	char found[300];
	struct err err = { 0 };
	(void)state;

	const char *path = put("lib.so", "x", 1, 0600);
	setenv("COTENANT_LAZY_LIBRARY", path, 1);
	assert_int_equal(preload_find(found, sizeof(found), &err), 0);
	assert_string_equal(found, path);
	assert_int_equal(preload_find(found, 4, &err), -ENOENT); /* no room for its path */
	setenv("COTENANT_LAZY_LIBRARY", "", 1);
	assert_int_equal(preload_find(found, sizeof(found), &err), -ENOENT);
	assert_non_null(strstr(err.text, "libcotenant-lazy.so"));
	/* LD_PRELOAD has no quotes: such a path cannot be given. */
	path = put("a b.so", "x", 1, 0600);
	setenv("COTENANT_LAZY_LIBRARY", path, 1);
	assert_int_equal(preload_find(found, sizeof(found), &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "blank"));
	unsetenv("COTENANT_LAZY_LIBRARY");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_are_told_apart),
		cmocka_unit_test(the_library_is_found_or_said_to_be_missing),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
