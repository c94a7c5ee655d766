#ifndef TEST_LAZY_GGML_H
#define TEST_LAZY_GGML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ggml_backend_buffer;

struct ggml_backend_buffer *ggml_fake_buffer(void *base, size_t size, bool host);
void ggml_backend_buffer_clear(struct ggml_backend_buffer *buffer, uint8_t value);
void ggml_backend_buffer_free(struct ggml_backend_buffer *buffer);
bool ggml_backend_buffer_is_host(struct ggml_backend_buffer *buffer);
void *ggml_backend_buffer_get_base(struct ggml_backend_buffer *buffer);
size_t ggml_backend_buffer_get_size(struct ggml_backend_buffer *buffer);

#endif
