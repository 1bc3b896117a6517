/* libnvidia-ml.so.1 over the simulated GPUs: start, devices, memory. Processes are in nvml_process.c.
 * Written for nvidia-ml-py, gpustat and nvitop, which run on it unmodified.
 * build: cc -shared -fPIC -O2 -Wall -Wextra -fvisibility=hidden -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 \
 *           nvml.c nvml_facts.c nvml_mig.c nvml_process.c process.c fault.c hold.c device.c watcher.c context.c state.c */
#define _GNU_SOURCE
#include "nvml.h"
#include "device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int nvml_ready;
static int references, card_count;
static struct fg_card cards[FG_MAX_CARDS];
static int device_fds[FG_MAX_CARDS + 1]; /* the last one is nvidiactl; 0 = not open */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

int nvml_copy(char *out, unsigned size, const char *text) {
    if (strlen(text) >= size) return FG_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return FG_OK;
}

int nvml_check(nvml_device device) {
    struct fg_faults faults;
    if (!nvml_ready) return FG_UNINITIALIZED;
    if ((device < cards || device >= cards + FG_MAX_CARDS) && !nvml_is_instance(device)) return FG_INVALID_ARGUMENT;
    fg_read_faults(&faults);
    fg_fault_wait(&faults);
    return fg_fault_card_code(&faults, device);
}

int nvml_check_cell(nvml_device device, const char *cell) {
    struct fg_faults faults;
    int code = nvml_check(device);
    if (code) return code;
    fg_read_faults(&faults);
    return fg_code_of_cell(fg_fault_cell(&faults, device, cell));
}

unsigned nvml_number(nvml_device device, const char *cell, unsigned value) {
    struct fg_faults faults;
    fg_read_faults(&faults);
    const char *text = fg_fault_cell(&faults, device, cell);
    return text && *text >= '0' && *text <= '9' ? (unsigned)strtoul(text, NULL, 10) : value;
}

unsigned long long nvml_used(nvml_device device) {
    struct fg_context contexts[FG_MAX_CONTEXTS]; /* on the stack: callers use several threads */
    int instance;
    const struct fg_card *parent = nvml_parent(device, &instance);
    if (parent) return fg_instance_used(parent, instance, contexts, fg_read_contexts(contexts));
    return fg_used(device, contexts, fg_read_contexts(contexts));
}

static void keep(int place, int fd) {
    if (fd > 0 && !device_fds[place]) device_fds[place] = fd;
    else if (fd >= 0) close(fd);
}

static int start(void) {
    struct fg_faults faults;
    fg_read_faults(&faults);
    fg_fault_wait(&faults);
    int code = fg_fault_init_code(&faults);
    if (code) return code;
    fg_make_nodes();
    code = fg_driver_code();
    if (code) return code;
    card_count = fg_fault(&faults, "no-devices") ? 0 : fg_visible_cards(cards);
    keep(FG_MAX_CARDS, fg_open_device("nvidiactl", 0));
    return FG_OK;
}

API int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&guard);
    int code = references ? FG_OK : start();
    if (!code) nvml_ready = ++references > 0;
    pthread_mutex_unlock(&guard);
    return code;
}

API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API int nvmlInit(void) { return nvmlInitWithFlags(0); }

API int nvmlShutdown(void) {
    pthread_mutex_lock(&guard);
    int code = references ? FG_OK : FG_UNINITIALIZED;
    if (references && --references == 0) {
        nvml_ready = 0;
        for (int i = 0; i <= FG_MAX_CARDS; i++) {
            if (device_fds[i]) close(device_fds[i]);
            device_fds[i] = 0;
        }
    }
    pthread_mutex_unlock(&guard);
    return code;
}

API const char *nvmlErrorString(int code) { return fg_code_text(code); }

API int nvmlDeviceGetCount_v2(unsigned *count) {
    struct fg_faults faults;
    if (!nvml_ready) return FG_UNINITIALIZED;
    fg_read_faults(&faults);
    if (fg_fault(&faults, "count-failed")) return FG_UNKNOWN;
    *count = (unsigned)card_count;
    return FG_OK;
}
API int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

/* As in the real library a bad card costs its own handle only. */
static int hand_out(int index, nvml_device *device) {
    int code = nvml_check(&cards[index]);
    if (code) return code;
    pthread_mutex_lock(&guard);
    keep(index, fg_open_card(cards[index].minor, 0));
    pthread_mutex_unlock(&guard);
    *device = &cards[index];
    return FG_OK;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device) {
    if (!nvml_ready) return FG_UNINITIALIZED;
    return index < (unsigned)card_count ? hand_out((int)index, device) : FG_INVALID_ARGUMENT;
}
API int nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *device) {
    if (!nvml_ready) return FG_UNINITIALIZED;
    for (int i = 0; i < card_count; i++)
        if (!strcmp(cards[i].uuid, uuid)) return hand_out(i, device);
    return FG_NOT_FOUND;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvml_device *device) {
    if (!nvml_ready) return FG_UNINITIALIZED;
    for (int i = 0; i < card_count; i++)
        if (!strcasecmp(cards[i].bus_id, bus_id)) return hand_out(i, device);
    return FG_NOT_FOUND;
}

struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

static int check_memory(nvml_device device) {
    int code = nvml_check_cell(device, "memory.used");
    return code ? code : nvml_check_cell(device, "memory.total");
}

/* Version 1 counts what the driver reserves as used; version 2 does not. */
API int nvmlDeviceGetMemoryInfo(nvml_device device, struct memory *out) {
    int code = check_memory(device);
    if (code) return code;
    unsigned long long used = nvml_used(device) + device->reserved;
    *out = (struct memory){device->total << 20, (device->total > used ? device->total - used : 0) << 20, used << 20};
    return FG_OK;
}

API int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct memory_v2 *out) {
    int code = check_memory(device);
    if (code) return code;
    unsigned long long used = nvml_used(device), taken = used + device->reserved;
    out->total = device->total << 20;
    out->reserved = device->reserved << 20;
    out->used = used << 20;
    out->free = (device->total > taken ? device->total - taken : 0) << 20;
    return FG_OK;
}
