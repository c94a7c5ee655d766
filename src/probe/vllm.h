#ifndef PROBE_VLLM_H
#define PROBE_VLLM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * vllm - how much of the memory a running vLLM was told to take.
 */
struct vllm {
	int permille;     /* --gpu-memory-utilization; 900 where it is not given */
	bool given;
	bool cache_given; /* --kv-cache-memory-bytes: then that share is only a bound */
};

/* False: the process is no vLLM, or cannot be read. */
bool vllm_read(const char *root, pid_t pid, struct vllm *out);

#endif
