/*
 * What stands between the engine and ggml: two functions that the engine's
 * libraries call by name through the dynamic linker. A program that has ggml
 * inside itself does not come by here; then `reached` says so and all is as ever.
 *
 * The functions' signatures are ggml-backend.h's; a buffer is only ever a pointer here.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/lazy.h"
#include "lazy/listener.h"
#include "lazy/ranges.h"

typedef struct ggml_backend_buffer *buffer_t;

__attribute__((visibility("default"))) void ggml_backend_buffer_clear(buffer_t buffer, uint8_t value);
__attribute__((visibility("default"))) void ggml_backend_buffer_free(buffer_t buffer);

/* Looked up before main(): read only from then on. */
static struct functions {
	void (*clear)(buffer_t buffer, uint8_t value);
	void (*free)(buffer_t buffer);
	bool (*is_host)(buffer_t buffer);
	void *(*base)(buffer_t buffer);
	size_t (*size)(buffer_t buffer);
	bool on;
} ggml;

static atomic_bool reached;
static atomic_uint_fast64_t plain_clears;

static struct listener_facts facts(void)
{
	return (struct listener_facts){ atomic_load(&reached), atomic_load(&plain_clears) };
}

/* A function by its name; through memcpy, as ISO C has no way from one kind of pointer to the other. */
static bool find(const char *name, void *out)
{
	void *at = dlsym(RTLD_NEXT, name);

	memcpy(out, &at, sizeof(at));
	return at != NULL;
}

static bool find_all(void)
{
	bool found = find("ggml_backend_buffer_clear", &ggml.clear);

	found &= find("ggml_backend_buffer_free", &ggml.free);
	found &= find("ggml_backend_buffer_is_host", &ggml.is_host);
	found &= find("ggml_backend_buffer_get_base", &ggml.base);
	found &= find("ggml_backend_buffer_get_size", &ggml.size);
	return found;
}

/* Without our doing; also for a program that brought ggml in after its start. */
static const struct functions *plain(void)
{
	if (!ggml.clear || !ggml.free)
		find_all();
	return &ggml;
}

/* Whoever the engine starts is to start without us. */
static void leave_environment(void)
{
	const char *value = getenv("LD_PRELOAD");
	char *kept = value ? calloc(1, strlen(value) + 1) : NULL;
	size_t length = 0;

	unsetenv(LAZY_SOCKET_VARIABLE);
	if (!kept)
		return;
	while (*value) {
		size_t word = strcspn(value, " :");
		size_t name = strlen(LAZY_LIBRARY_NAME);
		bool ours = word >= name &&
		            strncmp(value + word - name, LAZY_LIBRARY_NAME, name) == 0;
		if (word && !ours) {
			if (length)
				kept[length++] = ':';
			memcpy(kept + length, value, word);
			length += word;
		}
		value += word + (value[word] != '\0');
	}
	if (length)
		setenv("LD_PRELOAD", kept, 1);
	else
		unsetenv("LD_PRELOAD");
	free(kept);
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv(LAZY_SOCKET_VARIABLE);
	bool found = find_all();

	/* A shell that will start the engine, say: not us, but what comes after it. */
	if (!found || !path)
		return;
	ranges_begin();
	ggml.on = listener_start(path, facts);
	leave_environment();
}

void ggml_backend_buffer_clear(buffer_t buffer, uint8_t value)
{
	if (ggml.on && buffer && value == 0 && ggml.is_host(buffer)) {
		size_t bytes = ggml.size(buffer);
		atomic_store(&reached, true);
		if (bytes >= RANGE_LEAST_BYTES && ggml.base(buffer)) {
			if (ranges_take(ggml.base(buffer), bytes))
				return;
			atomic_fetch_add(&plain_clears, 1);
		}
	}
	plain()->clear(buffer, value);
}

void ggml_backend_buffer_free(buffer_t buffer)
{
	if (ggml.on && buffer && ggml.is_host(buffer))
		ranges_forget(ggml.base(buffer));
	plain()->free(buffer);
}
