/* MIG devices as NVML shows them: handles of their own below a card. Part of libnvidia-ml.so.1 (flags: see nvml.c). */
#define _GNU_SOURCE
#include "nvml.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct {
    struct fg_card card; /* first: the handle */
    const struct fg_card *parent;
    int instance;
} devices[FG_MAX_CARDS * FG_MAX_INSTANCES];
static int device_count;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static int place_of(nvml_device device) {
    for (int i = 0; i < device_count; i++)
        if (&devices[i].card == device) return i;
    return -1;
}

int nvml_is_instance(nvml_device device) { return place_of(device) >= 0; }

const struct fg_card *nvml_parent(nvml_device device, int *instance) {
    int place = place_of(device);
    if (place < 0) return NULL;
    *instance = devices[place].instance;
    return devices[place].parent;
}

/* The handle of a MIG device, the same one every time. */
static nvml_device hand_out(nvml_device parent, int instance) {
    int place = 0;
    pthread_mutex_lock(&guard);
    while (place < device_count && (devices[place].parent != parent || devices[place].instance != instance)) place++;
    if (place == device_count) {
        struct fg_card *card = &devices[device_count++].card;
        *card = *parent;
        snprintf(card->name, sizeof card->name, "%.70s MIG %s", parent->name, parent->instances[instance].profile);
        snprintf(card->uuid, sizeof card->uuid, "%s", parent->instances[instance].uuid);
        card->total = parent->instances[instance].total;
        card->reserved = 0;
        devices[place].parent = parent;
        devices[place].instance = instance;
    }
    pthread_mutex_unlock(&guard);
    return &devices[place].card;
}

API int nvmlDeviceGetMigMode(nvml_device device, unsigned *current, unsigned *pending) {
    int code = nvml_check_cell(device, "mig.mode.current");
    if (!code) *current = *pending = device->instance_count > 0;
    return code;
}

API int nvmlDeviceGetMaxMigDeviceCount(nvml_device device, unsigned *count) {
    int code = nvml_check(device);
    if (!code) *count = device->instance_count ? FG_MAX_INSTANCES : 0;
    return code;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device device, unsigned index, nvml_device *out) {
    int code = nvml_check(device);
    if (code) return code;
    if (!device->instance_count || nvml_is_instance(device)) return FG_NOT_SUPPORTED;
    if (index >= (unsigned)device->instance_count) return FG_NOT_FOUND;
    *out = hand_out(device, (int)index);
    return FG_OK;
}

API int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml_device device, nvml_device *out) {
    int instance, code = nvml_check(device);
    if (code) return code;
    return (*out = nvml_parent(device, &instance)) ? FG_OK : FG_INVALID_ARGUMENT;
}

API int nvmlDeviceIsMigDeviceHandle(nvml_device device, unsigned *answer) {
    int code = nvml_check(device);
    if (!code) *answer = (unsigned)nvml_is_instance(device);
    return code;
}

API int nvmlDeviceGetGpuInstanceId(nvml_device device, unsigned *id) {
    int instance, code = nvml_check(device);
    const struct fg_card *parent = code ? NULL : nvml_parent(device, &instance);
    if (parent) *id = parent->instances[instance].gpu_instance;
    return code ? code : parent ? FG_OK : FG_NOT_SUPPORTED;
}

API int nvmlDeviceGetComputeInstanceId(nvml_device device, unsigned *id) {
    int code = nvml_check(device);
    if (!code) *id = 0;
    return code ? code : nvml_is_instance(device) ? FG_OK : FG_NOT_SUPPORTED;
}
