/* A library that answers as NVML: one card, one unified device without memory of its own. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct memory {
	unsigned long long total, free, used;
};

struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

int fake_opened(void); /* how often, ever */
int fake_closed(void);
void fake_processes(unsigned count); /* of the first device, beside the others: pids from 1000 on, a MiB more each */
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *list);
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, struct process *list);

enum { NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };

static int opened, closed;
static unsigned more;

int fake_opened(void)
{
	return opened;
}

int fake_closed(void)
{
	return closed;
}

void fake_processes(unsigned count)
{
	more = count;
}

int nvmlInit_v2(void)
{
	opened++;
	return 0;
}

int nvmlShutdown(void)
{
	closed++;
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 2;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = (void *)(uintptr_t)(index + 1);
	return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
	memset(name, device == (void *)1 ? 'A' : 'B', length); /* without an end */
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
	if (device != (void *)1)
		return NOT_SUPPORTED;
	*memory = (struct memory){ 24ull << 30, 20ull << 30, 4ull << 30 };
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *list)
{
	unsigned room = *count, others = device == (void *)1 ? more : 0;

	*count = 2 + others;
	if (room < *count)
		return INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < others; i++)
		list[2 + i] = (struct process){ .pid = 1000 + i, .used = (unsigned long long)(i + 1) << 20 };
	list[0] = (struct process){ .pid = 11, .used = device == (void *)1 ? 3ull << 30 : 5ull << 30 };
	list[1] = (struct process){ .pid = 12, .used = ~0ull }; /* not available */
	return 0;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, struct process *list)
{
	(void)device;
	*count = 1;
	list[0] = (struct process){ .pid = 11, .used = 1ull << 30 };
	return 0;
}
