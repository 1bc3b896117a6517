/* The CSV queries of nvidia-smi. See smi.h. Part of nvidia-smi (flags: see smi.c). */
#define _GNU_SOURCE
#include "smi.h"

#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum kind {
    INDEX, UUID, BUS, NAME, TOTAL, USED, FREE, RESERVED, UTIL, MEM_UTIL, TEMPERATURE, POWER, DRIVER, COUNT, STAMP,
    SM_CLOCK, MEM_CLOCK, RECOVERY, RESET_NEEDED, FIXED
};

struct field {
    const char *name, *canonical, *unit;
    enum kind kind;
    const char *fixed;
};

static const struct field FIELDS[] = {
    {"index", "index", "", INDEX, ""},
    {"uuid", "uuid", "", UUID, ""},
    {"gpu_uuid", "uuid", "", UUID, ""},
    {"pci.bus_id", "pci.bus_id", "", BUS, ""},
    {"gpu_bus_id", "pci.bus_id", "", BUS, ""},
    {"name", "name", "", NAME, ""},
    {"gpu_name", "name", "", NAME, ""},
    {"memory.total", "memory.total", "MiB", TOTAL, ""},
    {"memory.used", "memory.used", "MiB", USED, ""},
    {"memory.free", "memory.free", "MiB", FREE, ""},
    {"memory.reserved", "memory.reserved", "MiB", RESERVED, ""},
    {"utilization.gpu", "utilization.gpu", "%", UTIL, ""},
    {"utilization.memory", "utilization.memory", "%", MEM_UTIL, ""},
    {"temperature.gpu", "temperature.gpu", "", TEMPERATURE, ""},
    {"temperature.memory", "temperature.memory", "", FIXED, "N/A"},
    {"power.draw", "power.draw", "W", POWER, ""},
    {"power.limit", "power.limit", "W", FIXED, "700.00"},
    {"driver_version", "driver_version", "", DRIVER, ""},
    {"count", "count", "", COUNT, ""},
    {"timestamp", "timestamp", "", STAMP, ""},
    {"mig.mode.current", "mig.mode.current", "", FIXED, "Disabled"},
    {"ecc.mode.current", "ecc.mode.current", "", FIXED, "Enabled"},
    {"ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.volatile.total", "", FIXED, "0"},
    {"compute_mode", "compute_mode", "", FIXED, "Default"},
    {"persistence_mode", "persistence_mode", "", FIXED, "Enabled"},
    {"pstate", "pstate", "", FIXED, "P0"},
    {"clocks.sm", "clocks.current.sm", "MHz", SM_CLOCK, ""},
    {"clocks.current.sm", "clocks.current.sm", "MHz", SM_CLOCK, ""},
    {"clocks.mem", "clocks.current.memory", "MHz", MEM_CLOCK, ""},
    {"clocks.current.memory", "clocks.current.memory", "MHz", MEM_CLOCK, ""},
    {"serial", "serial", "", FIXED, "[N/A]"},
    {"fan.speed", "fan.speed", "%", FIXED, "[N/A]"},
    {"display_active", "display_active", "", FIXED, "Disabled"},
    {"display_mode", "display_mode", "", FIXED, "Disabled"},
    {"gpu_recovery_action", "gpu_recovery_action", "", RECOVERY, ""},
    {"reset_status.reset_required", "reset_status.reset_required", "", RESET_NEEDED, ""},
};

enum { NEWER_FIELDS_FROM = 590 };

static int known_to_driver(const struct smi_snapshot *look, const struct field *field) {
    int major = smi_driver_major(look);
    if (field->kind == RECOVERY && major < NEWER_FIELDS_FROM) return 0;
    if (field->kind == RESET_NEEDED && major >= NEWER_FIELDS_FROM) return 0;
    return !fg_fault_misses(&look->faults, field->name);
}

static const struct field *find_field(const struct smi_snapshot *look, const char *name) {
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        if (!strcmp(FIELDS[i].name, name)) return known_to_driver(look, &FIELDS[i]) ? &FIELDS[i] : NULL;
    return NULL;
}

static void print_stamp(FILE *out) {
    char text[32];
    struct timeval now;
    gettimeofday(&now, NULL);
    strftime(text, sizeof text, "%Y/%m/%d %H:%M:%S", localtime(&now.tv_sec));
    fprintf(out, "%s.%03d", text, (int)(now.tv_usec / 1000));
}

/* Memory in use beyond the baseline, as per mille of the card: stands in for load. */
static unsigned load_of(const struct smi_snapshot *look, const struct fg_card *card) {
    unsigned long long used = fg_used(card, look->contexts, look->context_count) - card->baseline;
    return card->total ? (unsigned)(used * 1000 / card->total) : 0;
}

static void print_value(const struct smi_snapshot *look, const struct fg_card *card, const struct field *field, FILE *out) {
    unsigned long long used = fg_used(card, look->contexts, look->context_count);
    unsigned load = load_of(look, card);
    switch (field->kind) {
    case INDEX: fprintf(out, "%d", card->index); break;
    case UUID: fputs(card->uuid, out); break;
    case BUS: fputs(card->bus_id, out); break;
    case NAME: fputs(card->name, out); break;
    case TOTAL: fprintf(out, "%llu", card->total); break;
    case USED: fprintf(out, "%llu", used); break;
    case FREE: fprintf(out, "%llu", fg_free(card, look->contexts, look->context_count)); break;
    case RESERVED: fprintf(out, "%llu", card->reserved); break;
    case UTIL: fprintf(out, "%u", load ? 12 : 0); break;
    case MEM_UTIL: fprintf(out, "%u", load ? 6 : 0); break;
    case TEMPERATURE: fprintf(out, "%u", 31 + load / 50); break;
    case POWER: fprintf(out, "%.2f", 76.54 + load * 0.2); break;
    case DRIVER: fputs(card->driver, out); break;
    case COUNT: fprintf(out, "%d", look->card_count); break;
    case STAMP: print_stamp(out); break;
    case SM_CLOCK: fputs(load ? "1980" : "345", out); break;
    case MEM_CLOCK: fputs(load ? "3201" : "2619", out); break;
    case RECOVERY: fputs("None", out); break;
    case RESET_NEEDED: fputs("No", out); break;
    case FIXED: fputs(field->fixed, out); break;
    }
}

static void print_cell(const struct smi_request *request, const struct smi_snapshot *look, const struct fg_card *card,
                       const struct field *field, FILE *out) {
    const char *text = fg_fault_cell(&look->faults, card, field->canonical);
    if (!text && field->kind == FIXED && field->fixed[0] == '[') text = field->fixed;
    if (text) {
        fputs(text, out);
        return;
    }
    print_value(look, card, field, out);
    if (request->units && field->unit[0]) fprintf(out, " %s", field->unit);
}

static void print_heading(const char *canonical, const char *unit, int first, FILE *out) {
    fprintf(out, "%s%s", first ? "" : ", ", canonical);
    if (unit[0]) fprintf(out, " [%s]", unit); /* stays even with nounits */
}

static int refuse_field(const char *name, FILE *out) {
    fprintf(out, "Field \"%s\" is not a valid field to query.\n\n", name);
    return 2;
}

int smi_query_gpu(const struct smi_request *request, const struct smi_snapshot *look, int header, FILE *out) {
    const struct field *chosen[64];
    int count = 0;
    char *copy = strdup(request->fields), *rest = copy;
    for (char *word; count < 64 && *request->fields && (word = strsep(&rest, ","));)
        if (!(chosen[count++] = find_field(look, word))) return refuse_field(word, out);
    for (int i = 0; header && i < count; i++) print_heading(chosen[i]->canonical, chosen[i]->unit, i == 0, out);
    if (header) fputc('\n', out);
    for (int row = 0; row < look->shown_count; row++) {
        for (int i = 0; i < count; i++) {
            if (i) fputs(", ", out);
            print_cell(request, look, &look->cards[look->shown[row]], chosen[i], out);
        }
        fputc('\n', out);
    }
    free(copy);
    return 0;
}

int smi_processes(const struct smi_snapshot *look, const struct fg_card *card, struct smi_process *out) {
    int count = 0;
    if (fg_fault(&look->faults, "hide")) return 0;
    for (int i = 0; i < look->context_count; i++) {
        const struct fg_context *context = &look->contexts[i];
        if (context->card != card->slot || !context->live || !context->pid) continue;
        int at = 0;
        while (at < count && out[at].pid != context->pid) at++;
        if (at == count) {
            out[count++] = (struct smi_process){.pid = context->pid};
            if (fg_process_name(context->pid, out[at].name, sizeof out[at].name)) strcpy(out[at].name, "[Not Found]");
        }
        out[at].mib += context->mib;
    }
    return count;
}

enum app_kind { A_STAMP, A_NAME, A_BUS, A_SERIAL, A_UUID, A_PID, A_PROCESS, A_MEMORY };

static const struct app_field {
    const char *name, *canonical, *unit;
    enum app_kind kind;
} APP_FIELDS[] = {
    {"timestamp", "timestamp", "", A_STAMP},       {"gpu_name", "gpu_name", "", A_NAME},
    {"gpu_bus_id", "gpu_bus_id", "", A_BUS},       {"gpu_serial", "gpu_serial", "", A_SERIAL},
    {"gpu_uuid", "gpu_uuid", "", A_UUID},          {"pid", "pid", "", A_PID},
    {"process_name", "process_name", "", A_PROCESS}, {"name", "process_name", "", A_PROCESS},
    {"used_gpu_memory", "used_gpu_memory", "MiB", A_MEMORY},
    {"used_memory", "used_gpu_memory", "MiB", A_MEMORY},
};

static void print_app(const struct smi_request *request, const struct smi_snapshot *look, const struct fg_card *card,
                      const struct smi_process *process, enum app_kind kind, FILE *out) {
    const char *refused = fg_fault(&look->faults, "apps"), *memory;
    int own = kind == A_PID || kind == A_PROCESS || kind == A_MEMORY;
    if (refused && own) fputs(refused, out);
    else if (kind == A_STAMP) print_stamp(out);
    else if (kind == A_NAME) fputs(card->name, out);
    else if (kind == A_BUS) fputs(card->bus_id, out);
    else if (kind == A_SERIAL) fputs("[N/A]", out);
    else if (kind == A_UUID) fputs(card->uuid, out);
    else if (kind == A_PID) fprintf(out, "%d", (int)process->pid);
    else if (kind == A_PROCESS)
        for (const char *c = process->name; *c; c++) fputc(*c == ',' ? '?' : *c, out);
    else if ((memory = fg_fault_cell(&look->faults, card, "used_gpu_memory"))) fputs(memory, out);
    else fprintf(out, request->units ? "%llu MiB" : "%llu", process->mib);
}

static int choose_app_fields(const struct smi_request *request, const struct app_field **chosen, FILE *out) {
    const size_t known = sizeof APP_FIELDS / sizeof *APP_FIELDS;
    char *copy = strdup(request->fields), *rest = copy;
    int count = 0;
    for (char *word; count < 32 && *request->fields && (word = strsep(&rest, ","));) {
        size_t i = 0;
        while (i < known && strcmp(APP_FIELDS[i].name, word)) i++;
        if (i == known) return -refuse_field(word, out);
        chosen[count++] = &APP_FIELDS[i];
    }
    free(copy);
    return count;
}

int smi_query_apps(const struct smi_request *request, const struct smi_snapshot *look, int header, FILE *out) {
    const struct app_field *chosen[32];
    static struct smi_process processes[FG_MAX_CONTEXTS];
    int count = choose_app_fields(request, chosen, out);
    if (count < 0) return -count;
    for (int i = 0; header && i < count; i++) print_heading(chosen[i]->canonical, chosen[i]->unit, i == 0, out);
    if (header) fputc('\n', out);
    for (int c = 0; c < look->shown_count; c++) {
        const struct fg_card *card = &look->cards[look->shown[c]];
        int rows = fg_fault(&look->faults, "apps") ? 1 : smi_processes(look, card, processes);
        for (int row = 0; row < rows; row++) {
            for (int i = 0; i < count; i++) {
                if (i) fputs(", ", out);
                print_app(request, look, card, &processes[row], chosen[i]->kind, out);
            }
            fputc('\n', out);
        }
    }
    return 0;
}
