/* The NVML calls that list processes. Part of libnvidia-ml.so.1 (flags: see nvml.c).
 * Tables are local to the call: nvitop asks from several threads. */
#define _GNU_SOURCE
#include "nvml.h"

#include <string.h>
#include <time.h>

struct process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

#define NO_INSTANCE 0xFFFFFFFFu

/* Visible processes of a card, contexts of one process summed. */
static unsigned list_processes(nvml_device device, struct process *out) {
    struct fg_context contexts[FG_MAX_CONTEXTS];
    struct fg_faults faults;
    unsigned count = 0;
    fg_read_faults(&faults);
    if (fg_fault(&faults, "hide")) return 0;
    int total = fg_read_contexts(contexts);
    for (int i = 0; i < total; i++) {
        if (contexts[i].card != device->slot || !contexts[i].live || !contexts[i].pid) continue;
        unsigned at = 0;
        while (at < count && out[at].pid != (unsigned)contexts[i].pid) at++;
        if (at == count) out[count++] = (struct process){(unsigned)contexts[i].pid, 0, NO_INSTANCE, NO_INSTANCE};
        out[at].memory += contexts[i].mib << 20;
    }
    return count;
}

/* With too little room the count is set and FG_INSUFFICIENT_SIZE returned; the caller asks again. */
API int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned *count, struct process *out) {
    struct process found[FG_MAX_CONTEXTS];
    struct fg_faults faults;
    int code = nvml_check_cell(device, "used_gpu_memory");
    if (code && code != FG_NOT_SUPPORTED) return code;
    fg_read_faults(&faults);
    if (fg_fault(&faults, "apps")) return fg_code_of_cell(fg_fault(&faults, "apps"));
    unsigned room = out ? *count : 0, total = list_processes(device, found);
    *count = total;
    if (total > room) return FG_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < total; i++) {
        out[i] = found[i];
        if (code) out[i].memory = ~0ULL; /* "not available" */
    }
    return FG_OK;
}
API int nvmlDeviceGetComputeRunningProcesses_v2(nvml_device device, unsigned *count, struct process *out) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, out);
}

static int list_none(nvml_device device, unsigned *count) {
    int code = nvml_check(device);
    if (!code) *count = 0;
    return code;
}
API int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device device, unsigned *count, struct process *out) {
    (void)out;
    return list_none(device, count);
}
API int nvmlDeviceGetGraphicsRunningProcesses_v2(nvml_device device, unsigned *count, struct process *out) {
    (void)out;
    return list_none(device, count);
}
API int nvmlDeviceGetMPSComputeRunningProcesses_v3(nvml_device device, unsigned *count, struct process *out) {
    (void)out;
    return list_none(device, count);
}

API int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
    char name[256];
    if (!nvml_ready) return FG_UNINITIALIZED;
    return fg_process_name((pid_t)pid, name, sizeof name) ? FG_NOT_FOUND : nvml_copy(out, size, name);
}

struct sample {
    unsigned pid;
    unsigned long long microseconds;
    unsigned sm, memory, encoder, decoder;
};

API int nvmlDeviceGetProcessUtilization(nvml_device device, struct sample *out, unsigned *count,
                                        unsigned long long since) {
    struct process found[FG_MAX_CONTEXTS];
    (void)since;
    int code = nvml_check(device);
    if (code) return code;
    unsigned room = out ? *count : 0, total = list_processes(device, found);
    *count = total;
    if (!total) return FG_NOT_FOUND;
    if (total > room) return FG_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < total; i++)
        out[i] = (struct sample){found[i].pid, (unsigned long long)time(NULL) * 1000000ULL, 12, 6, 0, 0};
    return FG_OK;
}
