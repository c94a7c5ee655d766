#include "probe/nvml.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "probe/lines.h"
#include "probe/reading.h"

typedef void *nvml_device;

/* As nvml.h has them; the library's versions of these calls keep the layout. */
struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

typedef int call_nothing(void);
typedef int call_count(unsigned *count);
typedef int call_handle(unsigned index, nvml_device *device);
typedef int call_name(nvml_device device, char *name, unsigned length);
typedef int call_memory(nvml_device device, struct nvml_memory *memory);
typedef int call_processes(nvml_device device, unsigned *count, struct nvml_process *list);

struct nvml {
	call_nothing *init, *shutdown;
	call_count *count;
	call_handle *handle;
	call_name *name;
	call_memory *memory;
	call_processes *compute, *graphics;
};

/* A function of the library by name; POSIX has functions come as object pointers. */
#define FIND(library, member, symbol)                                                              \
	memcpy(&(member), &(void *){ dlsym(library, symbol) }, sizeof(void *))

static bool find_all(void *library, struct nvml *nvml)
{
	FIND(library, nvml->init, "nvmlInit_v2");
	FIND(library, nvml->shutdown, "nvmlShutdown");
	FIND(library, nvml->count, "nvmlDeviceGetCount_v2");
	FIND(library, nvml->handle, "nvmlDeviceGetHandleByIndex_v2");
	FIND(library, nvml->name, "nvmlDeviceGetName");
	FIND(library, nvml->memory, "nvmlDeviceGetMemoryInfo");
	FIND(library, nvml->compute, "nvmlDeviceGetComputeRunningProcesses_v3");
	FIND(library, nvml->graphics, "nvmlDeviceGetGraphicsRunningProcesses_v3");
	return nvml->init && nvml->shutdown && nvml->count && nvml->handle;
}

/* A driver, and a device that is not asleep; opening the library would wake them all. */
static bool is_worth_asking(void)
{
	static const char folder_name[] = "/sys/bus/pci/drivers/nvidia";
	char name[320], text[16];
	struct dirent *entry;
	bool any = false, awake = false;

	if (access("/proc/driver/nvidia", F_OK) != 0 && access("/dev/nvidiactl", F_OK) != 0)
		return false;
	DIR *folder = opendir(folder_name);
	while (folder && (entry = readdir(folder))) {
		if (!strchr(entry->d_name, ':'))
			continue;
		any = true;
		snprintf(name, sizeof name, "%s/%s/power/runtime_status", folder_name,
		         entry->d_name);
		int length = lines_read_all("", name, text, sizeof text);
		awake = awake || length <= 0 || !str_starts(str_from(text), "suspended");
	}
	if (folder)
		closedir(folder);
	return awake || !any;
}

static int64_t bytes_of(unsigned long long value)
{
	return value == ~0ull ? -1 : value < 1ull << 50 ? (int64_t)value : INT64_C(1) << 50;
}

static void add_process(struct calls_nvml *gpu, const struct nvml_process *process)
{
	int64_t used = bytes_of(process->used);

	if (used >= 0 && process->pid != 0 && process->pid <= INT32_MAX)
		calls_add_process(gpu, (pid_t)process->pid, used);
}

/* Where there is no room for all it tells how many there are, and of none. */
static void ask_processes(call_processes *call, nvml_device device, struct calls_nvml *gpu)
{
	enum { FEW = 64, MOST = 8192, ASKED_MOST = 3, INSUFFICIENT_SIZE = 7 };
	unsigned room = FEW, count = FEW;
	struct nvml_process *list = xmalloc(room * sizeof *list);
	int code = call ? call(device, &count, list) : -1;

	for (int asked = 1; code == INSUFFICIENT_SIZE && asked < ASKED_MOST && count <= MOST; asked++) {
		room = count + FEW; /* more may come meanwhile */
		list = xrealloc(list, room * sizeof *list);
		count = room;
		code = call(device, &count, list);
	}
	if (code == INSUFFICIENT_SIZE)
		gpu->left_out += count;
	for (unsigned i = 0; code == 0 && i < count && i < room; i++)
		add_process(gpu, &list[i]);
	free(list);
}

static void ask_device(const struct nvml *nvml, unsigned index, struct calls_nvml *gpu)
{
	struct nvml_memory memory = { 0 };
	nvml_device device;

	*gpu = (struct calls_nvml){ .total_bytes = -1, .free_bytes = -1 };
	if (nvml->handle(index, &device) != 0)
		return;
	if (nvml->name && nvml->name(device, gpu->name, sizeof gpu->name) != 0)
		gpu->name[0] = '\0';
	gpu->name[sizeof gpu->name - 1] = '\0';
	if (nvml->memory && nvml->memory(device, &memory) == 0 && memory.total > 0) {
		gpu->total_bytes = bytes_of(memory.total);
		gpu->free_bytes = bytes_of(memory.free);
	}
	ask_processes(nvml->compute, device, gpu);
	ask_processes(nvml->graphics, device, gpu);
}

struct nvml_session {
	void *library;
	struct nvml nvml;
};

struct nvml_session *nvml_open(const char *library)
{
	struct nvml nvml;

	if (!library && !is_worth_asking())
		return NULL;
	reading_note("NVML (nvmlInit)");
	void *handle = dlopen(library ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return NULL;
	if (!find_all(handle, &nvml) || nvml.init() != 0) {
		dlclose(handle);
		return NULL;
	}
	struct nvml_session *session = xmalloc(sizeof(*session));
	*session = (struct nvml_session){ handle, nvml };
	return session;
}

void nvml_read(struct nvml_session *session, struct calls *calls)
{
	unsigned count = 0;

	calls->nvmls = 0;
	reading_note("NVML");
	if (session->nvml.count(&count) != 0)
		return;
	for (unsigned i = 0; i < count && i < CALLS_GPUS_MAX; i++)
		ask_device(&session->nvml, i, &calls->nvml[calls->nvmls++]);
}

void nvml_close(struct nvml_session *session)
{
	if (!session)
		return;
	reading_note("NVML (nvmlShutdown)");
	session->nvml.shutdown();
	dlclose(session->library);
	free(session);
}

void nvml_ask(const char *library, struct calls *calls)
{
	struct nvml_session *session = nvml_open(library);

	calls->nvmls = 0;
	if (session)
		nvml_read(session, calls);
	nvml_close(session);
}
