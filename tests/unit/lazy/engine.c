/*
 * A program that uses ggml's buffers as it is told, a line a command, and answers
 * each with one line. Sizes are MiB; N is a buffer's number.
 *
 *   map KIND SIZE   anon, shared, file, locked, device (anonymous, but no host buffer)
 *   fill N BYTE     write it all        clear N VALUE   ggml's clear
 *   sum N           of its bytes        free N          ggml's free
 *   steal N         unmap it behind ggml's back; other memory comes there, full of 7
 *   resident N      KiB of it in memory
 *   forks           children that clear, fill and free their own: how many came to no good end
 *   storm           eight threads clear, fill and free their own
 *   variable NAME   its value in the environment
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ggml.h"

#define MIB ((size_t)1 << 20)

static struct ggml_backend_buffer *buffers[16];
static int count;

static void *mapping(const char *kind, size_t bytes)
{
	int flags = MAP_ANONYMOUS | MAP_PRIVATE, fd = -1;

	if (strcmp(kind, "shared") == 0)
		flags = MAP_ANONYMOUS | MAP_SHARED;
	if (strcmp(kind, "file") == 0) {
		flags = MAP_PRIVATE;
		fd = memfd_create("kv", MFD_CLOEXEC);
		if (ftruncate(fd, (off_t)bytes) < 0)
			return NULL;
	}
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (strcmp(kind, "locked") == 0 && mlock(at, bytes) < 0)
		return NULL;
	return at;
}

static unsigned long sum(struct ggml_backend_buffer *buffer)
{
	const unsigned char *at = ggml_backend_buffer_get_base(buffer);
	unsigned long total = 0;

	for (size_t i = 0; i < ggml_backend_buffer_get_size(buffer); i++)
		total += at[i];
	return total;
}

static unsigned long resident_kib(struct ggml_backend_buffer *buffer)
{
	size_t pages = ggml_backend_buffer_get_size(buffer) / 4096;
	unsigned char *there = calloc(pages, 1);
	unsigned long found = 0;

	mincore(ggml_backend_buffer_get_base(buffer), pages * 4096, there);
	for (size_t i = 0; i < pages; i++)
		found += there[i] & 1;
	free(there);
	return found * 4;
}

static void steal(struct ggml_backend_buffer *buffer)
{
	void *at = ggml_backend_buffer_get_base(buffer);
	size_t bytes = ggml_backend_buffer_get_size(buffer);

	munmap(at, bytes);
	mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_FIXED, -1, 0);
	memset(at, 7, bytes);
}

/* True: what was cleared is clear. */
static bool use_once(void)
{
	struct ggml_backend_buffer *buffer = ggml_fake_buffer(mapping("anon", 40 * MIB), 40 * MIB, true);
	const char *at = ggml_backend_buffer_get_base(buffer);

	memset(ggml_backend_buffer_get_base(buffer), 3, MIB);
	ggml_backend_buffer_clear(buffer, 0);
	bool clear = !at[0] && !at[MIB - 1];
	ggml_backend_buffer_free(buffer);
	return clear;
}

static void *churn(void *failed)
{
	for (int i = 0; i < 20; i++)
		if (!use_once())
			*(int *)failed = 1;
	return NULL;
}

static int storm(void)
{
	pthread_t threads[8];
	int failed[8] = { 0 }, any = 0;

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, churn, &failed[i]);
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		any |= failed[i];
	}
	return any;
}

static unsigned long forks(void)
{
	unsigned long failed = 0;

	for (int i = 0; i < 200; i++) {
		int status = 0;
		pid_t child = fork();
		if (child == 0) {
			alarm(2);
			_exit(!use_once());
		}
		waitpid(child, &status, 0);
		failed += status != 0;
	}
	return failed;
}

static unsigned long obey(const char *verb, const char *first, int number)
{
	struct ggml_backend_buffer *buffer = buffers[first[0] >= '0' && first[0] <= '9' ? first[0] - '0' : 15];

	if (strcmp(verb, "map") == 0) {
		size_t bytes = (size_t)number * MIB;
		buffers[count] = ggml_fake_buffer(mapping(first, bytes), bytes, strcmp(first, "device") != 0);
		return (unsigned long)count++;
	}
	if (strcmp(verb, "fill") == 0)
		memset(ggml_backend_buffer_get_base(buffer), number, ggml_backend_buffer_get_size(buffer));
	else if (strcmp(verb, "clear") == 0)
		ggml_backend_buffer_clear(buffer, (uint8_t)number);
	else if (strcmp(verb, "free") == 0)
		ggml_backend_buffer_free(buffer);
	else if (strcmp(verb, "steal") == 0)
		steal(buffer);
	else if (strcmp(verb, "sum") == 0)
		return sum(buffer);
	else if (strcmp(verb, "resident") == 0)
		return resident_kib(buffer);
	else if (strcmp(verb, "forks") == 0)
		return forks();
	else if (strcmp(verb, "storm") == 0)
		return (unsigned long)storm();
	return 0;
}

int main(void)
{
	char line[100], verb[20], first[40];

	while (fgets(line, sizeof(line), stdin)) {
		int number = 0;
		first[0] = '\0';
		if (sscanf(line, "%19s %39s %d", verb, first, &number) < 1)
			continue;
		if (strcmp(verb, "variable") == 0)
			printf("%s\n", getenv(first) ? getenv(first) : "-");
		else
			printf("%lu\n", obey(verb, first, number));
		fflush(stdout);
	}
	return 0;
}
