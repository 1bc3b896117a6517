/* What nvidia-smi prints for people: the table, -L, --version, -r. Part of nvidia-smi (flags: see smi.c). */
#define _GNU_SOURCE
#include "smi.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int smi_driver_major(const struct smi_snapshot *look) {
    return look->card_count ? atoi(look->cards[0].driver) : 0;
}

const char *smi_cuda(const struct smi_snapshot *look) {
    static const struct {
        int from;
        const char *cuda;
    } TABLE[] = {{590, "13.1"}, {580, "13.0"}, {575, "12.9"}, {570, "12.8"}, {560, "12.6"}, {550, "12.4"}};
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        if (smi_driver_major(look) >= TABLE[i].from) return TABLE[i].cuda;
    return "12.2";
}

int smi_list(const struct smi_snapshot *look, FILE *out) {
    for (int i = 0; i < look->shown_count; i++) {
        const struct fg_card *card = &look->cards[look->shown[i]];
        fprintf(out, "GPU %d: %s (UUID: %s)\n", card->index, card->name, card->uuid);
        for (int n = 0; n < card->instance_count; n++)
            fprintf(out, "  MIG %-11s Device %2d: (UUID: %s)\n", card->instances[n].profile, n, card->instances[n].uuid);
    }
    return 0;
}

int smi_version(const struct smi_snapshot *look, FILE *out) {
    const char *driver = look->card_count ? look->cards[0].driver : "";
    const char *end = strrchr(driver, '.');
    fprintf(out, "NVIDIA-SMI version  : %s\nNVML version        : %.*s\nDRIVER version      : %s\nCUDA Version        : %s\n",
            driver, (int)(end ? end - driver : 0), driver, driver, smi_cuda(look));
    return 0;
}

static const char WIDE_RULE[] = "---------------------------------------------------------------------------------------";
static const char RULE[] = "+-----------------------------------------+----------------------+----------------------+\n";

/* A cell as the table words it: "[N/A]" is "N/A" there; NULL when the value itself can be told. */
static const char *odd(const struct smi_snapshot *look, const struct fg_card *card, const char *field) {
    const char *cell = fg_fault_cell(&look->faults, card, field);
    return cell && !strcmp(cell, "[N/A]") ? "N/A" : cell;
}

static void print_card(const struct smi_snapshot *look, const struct fg_card *card, FILE *out) {
    unsigned long long used = fg_used(card, look->contexts, look->context_count);
    int busy = used > card->baseline;
    char memory[64], power[16], load[16];
    const char *cell = odd(look, card, "memory.used");
    if (cell) snprintf(memory, sizeof memory, "%s", strcmp(cell, "N/A") ? cell : "Not Supported");
    else snprintf(memory, sizeof memory, "%lluMiB / %5lluMiB", used, card->total);
    if ((cell = odd(look, card, "power.draw"))) snprintf(power, sizeof power, "%s", cell);
    else snprintf(power, sizeof power, "%dW", busy ? 180 : 77);
    if ((cell = odd(look, card, "utilization.gpu"))) snprintf(load, sizeof load, "%s", cell);
    else snprintf(load, sizeof load, "%d%%", busy ? 12 : 0);
    const char *fan = odd(look, card, "fan.speed"), *ecc = odd(look, card, "ecc.errors.uncorrected.volatile.total");
    fprintf(out, "| %3d  %-30.30s %-3s | %s %-3s | %20.20s |\n", card->index, card->name, card->desktop ? "Off" : "On",
            card->bus_id, card->desktop ? "On" : "Off", ecc ? ecc : "0");
    fprintf(out, "| %-4.4s  %2dC    P0             %4.4s / 700W | %20.20s | %7.7s      Default |\n", fan ? fan : "N/A",
            busy ? 48 : 31, power, memory, load);
    const char *mig = odd(look, card, "mig.mode.current");
    fprintf(out, "|                                         |                      | %20.20s |\n%s",
            mig ? mig : card->instance_count ? "Enabled" : "Disabled", RULE);
}

static const char MIG_RULE[] = "+------------------+--------------------------------+-----------+-----------------------+\n";

static void print_instances(const struct smi_snapshot *look, FILE *out) {
    int printed = 0;
    for (int c = 0; c < look->shown_count; c++) {
        const struct fg_card *card = &look->cards[look->shown[c]];
        for (int n = 0; n < card->instance_count; n++) {
            const struct fg_instance *instance = &card->instances[n];
            if (!printed++)
                fprintf(out, "%89s\n+%87.87s+\n| MIG devices:%74s|\n%s"
                        "| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |\n"
                        "|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |\n"
                        "|                  |                                |        ECC|                       |\n"
                        "|==================+================================+===========+=======================|\n",
                        "", WIDE_RULE, "", MIG_RULE);
            fprintf(out, "|%3d  %3u   0  %2d  |        %8lluMiB / %5lluMiB  | 16      0 |  1   0    1    0    0 |\n",
                    card->index, instance->gpu_instance, n,
                    fg_instance_used(card, n, look->contexts, look->context_count), instance->total);
            fprintf(out, "|                  |               0MiB / 32767MiB  |           |                       |\n%s",
                    MIG_RULE);
        }
    }
}

static void print_process(const struct fg_card *card, const struct fg_process *process, FILE *out) {
    char name[256], size[32], gi[16] = "N/A", ci[8] = "N/A";
    smi_process_name(process, name, sizeof name);
    snprintf(size, sizeof size, "%lluMiB", process->mib);
    if (process->cell[0]) snprintf(size, sizeof size, "%s", strcmp(process->cell, "[N/A]") ? process->cell : "N/A");
    if (card->instance_count) {
        snprintf(gi, sizeof gi, "%u", card->instances[process->instance].gpu_instance);
        strcpy(ci, "0");
    }
    fprintf(out, "|  %3d %5.5s %4.4s %9d %6s   %-38.38s %11.11s |\n", card->index, gi, ci, (int)process->pid, process->kind,
            name, size);
}

static void print_processes(const struct smi_snapshot *look, FILE *out) {
    static struct fg_process processes[FG_MAX_PROCESSES];
    int printed = 0;
    for (int c = 0; c < look->shown_count; c++) {
        const struct fg_card *card = &look->cards[look->shown[c]];
        if (fg_fault_apps(&look->faults, card)) continue;
        int count = fg_list_processes(card, look->contexts, look->context_count, &look->faults, processes);
        for (int i = 0; i < count; i++, printed++) print_process(card, &processes[i], out);
    }
    if (!printed) fprintf(out, "|  No running processes found%59s|\n", "");
}

int smi_table(const struct smi_snapshot *look, FILE *out) {
    static const char LINE[] = "+---------------------------------------------------------------------------------------+\n";
    const char *driver = look->card_count ? look->cards[0].driver : "";
    char stamp[64];
    time_t now = time(NULL);
    strftime(stamp, sizeof stamp, "%a %b %e %H:%M:%S %Y", localtime(&now));
    fprintf(out, "%s       \n%s| NVIDIA-SMI %-22s Driver Version: %-12s CUDA Version: %-8s |\n", stamp, LINE, driver, driver,
            smi_cuda(look));
    fputs("|-----------------------------------------+----------------------+----------------------+\n"
          "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
          "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |\n"
          "|                                         |                      |               MIG M. |\n"
          "|=========================================+======================+======================|\n", out);
    for (int i = 0; i < look->shown_count; i++) print_card(look, &look->cards[look->shown[i]], out);
    print_instances(look, out);
    fprintf(out, "%89s\n%s", "", LINE);
    fputs("| Processes:                                                                            |\n"
          "|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |\n"
          "|        ID   ID                                                             Usage      |\n"
          "|=======================================================================================|\n", out);
    print_processes(look, out);
    fputs(LINE, out);
    return 0;
}

static int any_live(const struct smi_snapshot *look, int card) {
    for (int i = 0; i < look->context_count; i++)
        if (look->contexts[i].card == card && look->contexts[i].live) return 1;
    return 0;
}

/* Removes what dead processes left on the shown cards. */
static void drop_leaks(const struct smi_snapshot *look) {
    char path[4096], file[4400], line[8];
    DIR *directory = opendir(fg_path(path, sizeof path, "contexts"));
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        FILE *record = fopen(file, "re");
        if (!record) continue;
        int known = fgets(line, sizeof line, record) != NULL;
        fclose(record);
        for (int i = 0; known && i < look->shown_count; i++)
            if (atoi(line) == look->cards[look->shown[i]].slot) unlink(file);
    }
    if (directory) closedir(directory);
}

int smi_reset(const struct smi_snapshot *look, FILE *out) {
    for (int i = 0; i < look->shown_count; i++) {
        const struct fg_card *card = &look->cards[look->shown[i]];
        if (!any_live(look, card->slot)) continue;
        fprintf(out, "The following GPUs could not be reset:\n  GPU %s: In use by another client\n\n", card->bus_id);
        fputs("1 device is currently being used by one or more other processes (e.g. Fabric Manager, CUDA application, "
              "graphics application such as an X server, or a monitoring application such as another instance of "
              "nvidia-smi). Please first kill all processes using this device and all compute applications running "
              "in the system.\n", out);
        return 255;
    }
    drop_leaks(look);
    for (int i = 0; i < look->shown_count; i++)
        fprintf(out, "GPU %s was successfully reset.\n", look->cards[look->shown[i]].bus_id);
    return 0;
}
