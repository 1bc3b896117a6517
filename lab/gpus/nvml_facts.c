/* The NVML calls that describe a card or the system. Part of libnvidia-ml.so.1 (flags: see nvml.c). */
#define _GNU_SOURCE
#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int driver_version(char *out, unsigned size) {
    struct fg_card cards[FG_MAX_CARDS];
    if (!nvml_ready) return FG_UNINITIALIZED;
    return nvml_copy(out, size, fg_read_cards(cards) > 0 ? cards[0].driver : "0");
}

API int nvmlSystemGetDriverVersion(char *out, unsigned size) { return driver_version(out, size); }

API int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    char driver[32], text[48];
    int code = driver_version(driver, sizeof driver);
    if (code) return code;
    snprintf(text, sizeof text, "12.%s", driver);
    return nvml_copy(out, size, text);
}

API int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = 12040;
    return FG_OK;
}
API int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

API int nvmlDeviceGetName(nvml_device device, char *out, unsigned size) {
    int code = nvml_check_cell(device, "name");
    return code ? code : nvml_copy(out, size, device->name);
}

API int nvmlDeviceGetUUID(nvml_device device, char *out, unsigned size) {
    int code = nvml_check_cell(device, "uuid");
    return code ? code : nvml_copy(out, size, device->uuid);
}

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

API int nvmlDeviceGetPciInfo_v3(nvml_device device, struct pci *out) {
    int code = nvml_check_cell(device, "pci.bus_id");
    if (code) return code;
    memset(out, 0, sizeof *out);
    sscanf(device->bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", device->bus_id);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff, out->device & 0xff);
    out->id = 0x233510de;
    out->subsystem = 0x18be10de;
    return FG_OK;
}
API int nvmlDeviceGetPciInfo_v2(nvml_device device, struct pci *out) { return nvmlDeviceGetPciInfo_v3(device, out); }
API int nvmlDeviceGetPciInfo(nvml_device device, struct pci *out) { return nvmlDeviceGetPciInfo_v3(device, out); }

static unsigned busy(nvml_device device, unsigned when_busy, unsigned idle) {
    return nvml_used(device) > device->baseline ? when_busy : idle;
}

API int nvmlDeviceGetUtilizationRates(nvml_device device, unsigned *gpu_and_memory) {
    int code = nvml_check_cell(device, "utilization.gpu");
    if (code) return code;
    gpu_and_memory[0] = nvml_number(device, "utilization.gpu", busy(device, 12, 0));
    gpu_and_memory[1] = gpu_and_memory[0] / 2;
    return FG_OK;
}

API int nvmlDeviceGetTemperature(nvml_device device, unsigned sensor, unsigned *celsius) {
    (void)sensor;
    int code = nvml_check_cell(device, "temperature.gpu");
    if (!code) *celsius = nvml_number(device, "temperature.gpu", busy(device, 48, 31));
    return code;
}

struct temperature {
    unsigned version, sensor;
    int celsius;
};

API int nvmlDeviceGetTemperatureV(nvml_device device, struct temperature *out) {
    unsigned celsius = 0;
    int code = nvmlDeviceGetTemperature(device, out->sensor, &celsius);
    if (!code) out->celsius = (int)celsius;
    return code;
}

API int nvmlDeviceGetPowerUsage(nvml_device device, unsigned *milliwatts) {
    int code = nvml_check_cell(device, "power.draw");
    if (!code) *milliwatts = busy(device, 180000, 76540);
    return code;
}

API int nvmlDeviceGetPerformanceState(nvml_device device, unsigned *state) {
    int code = nvml_check_cell(device, "pstate");
    if (!code) *state = 0;
    return code;
}

API int nvmlDeviceGetCudaComputeCapability(nvml_device device, int *major, int *minor) {
    int code = nvml_check(device);
    *major = 9;
    *minor = 0;
    return code;
}

/* A call whose answer is one constant. */
#define CONSTANT(name, type, cell, value)               \
    API int name(nvml_device device, type *out) {       \
        int code = nvml_check_cell(device, cell);       \
        if (!code) *out = (value);                      \
        return code;                                    \
    }
CONSTANT(nvmlDeviceGetIndex, unsigned, "index", (unsigned)device->index)
CONSTANT(nvmlDeviceGetMinorNumber, unsigned, "minor", (unsigned)device->minor)
CONSTANT(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power.limit", 700000)
CONSTANT(nvmlDeviceGetPowerManagementLimit, unsigned, "power.limit", 700000)
CONSTANT(nvmlDeviceGetPersistenceMode, unsigned, "persistence_mode", !device->desktop)
CONSTANT(nvmlDeviceGetDisplayActive, unsigned, "display_active", (unsigned)device->desktop)
CONSTANT(nvmlDeviceGetDisplayMode, unsigned, "display_mode", 0)
CONSTANT(nvmlDeviceGetComputeMode, unsigned, "compute_mode", 0)

enum { BAR1_MIB = 32767 };

struct bar1 {
    unsigned long long total, free, used;
};

API int nvmlDeviceGetBAR1MemoryInfo(nvml_device device, struct bar1 *out) {
    int code = nvml_check(device);
    if (code || device->unified) return code ? code : FG_NOT_SUPPORTED;
    *out = (struct bar1){(unsigned long long)BAR1_MIB << 20, (unsigned long long)BAR1_MIB << 20, 0};
    return FG_OK;
}

/* A call that this card does not support, like the consumer card it could be. */
#define UNSUPPORTED(name)                              \
    API int name(nvml_device device) {                 \
        int code = nvml_check(device);                 \
        return code ? code : FG_NOT_SUPPORTED;         \
    }
UNSUPPORTED(nvmlDeviceGetFanSpeed)
UNSUPPORTED(nvmlDeviceGetTemperatureThreshold)
UNSUPPORTED(nvmlDeviceGetClockInfo)
UNSUPPORTED(nvmlDeviceGetMaxClockInfo)
UNSUPPORTED(nvmlDeviceGetEncoderUtilization)
UNSUPPORTED(nvmlDeviceGetDecoderUtilization)
UNSUPPORTED(nvmlDeviceGetTotalEccErrors)
UNSUPPORTED(nvmlDeviceGetDriverModel)
UNSUPPORTED(nvmlDeviceGetDriverModel_v2)
/* nvitop tells the layout of the process list from these two: it must find both, or neither. */
UNSUPPORTED(nvmlDeviceGetConfComputeMemSizeInfo)
UNSUPPORTED(nvmlDeviceGetRunningProcessDetailList)
