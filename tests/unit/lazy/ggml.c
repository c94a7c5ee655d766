/* The five calls of ggml-backend that the library knows, with buffers of our choosing. */
#include "ggml.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct ggml_backend_buffer {
	void *base;
	size_t size;
	bool host;
};

struct ggml_backend_buffer *ggml_fake_buffer(void *base, size_t size, bool host)
{
	struct ggml_backend_buffer *buffer = malloc(sizeof(*buffer));

	*buffer = (struct ggml_backend_buffer){ base, size, host };
	return buffer;
}

void ggml_backend_buffer_clear(struct ggml_backend_buffer *buffer, uint8_t value)
{
	memset(buffer->base, value, buffer->size);
}

void ggml_backend_buffer_free(struct ggml_backend_buffer *buffer)
{
	munmap(buffer->base, buffer->size);
	free(buffer);
}

bool ggml_backend_buffer_is_host(struct ggml_backend_buffer *buffer)
{
	return buffer->host;
}

void *ggml_backend_buffer_get_base(struct ggml_backend_buffer *buffer)
{
	return buffer->base;
}

size_t ggml_backend_buffer_get_size(struct ggml_backend_buffer *buffer)
{
	return buffer->size;
}
