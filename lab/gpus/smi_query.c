/* --query-gpu of nvidia-smi. See smi.h. Part of nvidia-smi (flags: see smi.c). */
#define _GNU_SOURCE
#include "smi.h"

#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum kind {
    INDEX, UUID, BUS, NAME, TOTAL, USED, FREE, RESERVED, UTIL, MEM_UTIL, TEMPERATURE, POWER, DRIVER, COUNT, STAMP,
    SM_CLOCK, MEM_CLOCK, RECOVERY, RESET_NEEDED, MIG_MODE, SCREEN, PERSISTENCE, FIXED
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
    {"mig.mode.current", "mig.mode.current", "", MIG_MODE, ""},
    {"ecc.mode.current", "ecc.mode.current", "", FIXED, "Enabled"},
    {"ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.volatile.total", "", FIXED, "0"},
    {"compute_mode", "compute_mode", "", FIXED, "Default"},
    {"persistence_mode", "persistence_mode", "", PERSISTENCE, ""},
    {"pstate", "pstate", "", FIXED, "P0"},
    {"clocks.sm", "clocks.current.sm", "MHz", SM_CLOCK, ""},
    {"clocks.current.sm", "clocks.current.sm", "MHz", SM_CLOCK, ""},
    {"clocks.mem", "clocks.current.memory", "MHz", MEM_CLOCK, ""},
    {"clocks.current.memory", "clocks.current.memory", "MHz", MEM_CLOCK, ""},
    {"serial", "serial", "", FIXED, "[N/A]"},
    {"fan.speed", "fan.speed", "%", FIXED, "[N/A]"},
    {"display_active", "display_active", "", SCREEN, ""},
    {"display_mode", "display_mode", "", FIXED, "Disabled"},
    {"gpu_recovery_action", "gpu_recovery_action", "", RECOVERY, ""},
    {"fabric.state", "fabric.state", "", FIXED, "N/A"},
    {"fabric.status", "fabric.status", "", FIXED, "N/A"},
    {"reset_status.reset_required", "reset_status.reset_required", "", RESET_NEEDED, ""},
};

enum { NEWER_FIELDS_FROM = 580 };

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

void smi_print_stamp(FILE *out) {
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
    case STAMP: smi_print_stamp(out); break;
    case SM_CLOCK: fputs(load ? "1980" : "345", out); break;
    case MEM_CLOCK: fputs(load ? "3201" : "2619", out); break;
    case RECOVERY: fputs("None", out); break;
    case RESET_NEEDED: fputs("No", out); break;
    case MIG_MODE: fputs(card->instance_count ? "Enabled" : "Disabled", out); break;
    case SCREEN: fputs(card->desktop ? "Enabled" : "Disabled", out); break;
    case PERSISTENCE: fputs(card->desktop ? "Disabled" : "Enabled", out); break;
    case FIXED: fputs(field->fixed, out); break;
    }
}

static void print_cell(const struct smi_request *request, const struct smi_snapshot *look, const struct fg_card *card,
                       const struct field *field, FILE *out) {
    const char *text = fg_fault_cell(&look->faults, card, field->canonical);
    if (!text) text = fg_fault_cell(&look->faults, card, field->name);
    if (!text && field->kind == FIXED && field->fixed[0] == '[') text = field->fixed;
    if (text) fputs(text, out);
    else print_value(look, card, field, out);
    int number = !text || (*text >= '0' && *text <= '9');
    if (number && request->units && field->unit[0]) fprintf(out, " %s", field->unit);
}

void smi_print_heading(const char *canonical, const char *unit, int first, FILE *out) {
    fprintf(out, "%s%s", first ? "" : ", ", canonical);
    if (unit[0]) fprintf(out, " [%s]", unit); /* stays even with nounits */
}

int smi_refuse_field(const char *name, FILE *out) {
    fprintf(out, "Field \"%s\" is not a valid field to query.\n\n", name);
    return 2;
}

int smi_query_gpu(const struct smi_request *request, const struct smi_snapshot *look, int header, FILE *out) {
    const struct field *chosen[64];
    int count = 0;
    char *copy = strdup(request->fields), *rest = copy;
    for (char *word; count < 64 && *request->fields && (word = strsep(&rest, ","));)
        if (!(chosen[count++] = find_field(look, word))) return smi_refuse_field(word, out);
    for (int i = 0; header && i < count; i++) smi_print_heading(chosen[i]->canonical, chosen[i]->unit, i == 0, out);
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
