/*
 * fake_nvidia - preloaded, and found as libnvidia-ml.so.1, it lets the machine seem to have one card of NVIDIA's. Each
 * opening of the library adds a byte to the file named in NVML_OPENED.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct memory {
	unsigned long long total, free, used;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);

int access(const char *path, int mode)
{
	static int (*next)(const char *, int);

	if (!next)
		memcpy(&next, &(void *){ dlsym(RTLD_NEXT, "access") }, sizeof(void *));
	return strcmp(path, "/dev/nvidiactl") == 0 ? 0 : next(path, mode);
}

int nvmlInit_v2(void)
{
	const char *path = getenv("NVML_OPENED");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

	if (fd >= 0 && write(fd, "o", 1) != 1)
		perror(path);
	if (fd >= 0)
		close(fd);
	return 0;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 1;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	static int card;

	*device = &card;
	return index == 0 ? 0 : 1;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
	(void)device;
	snprintf(name, length, "NVIDIA GeForce RTX 3090");
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
	(void)device;
	*memory = (struct memory){ 24ull << 30, 20ull << 30, 4ull << 30 };
	return 0;
}
