/* Taking memory of the simulated cards for the calling process. */
#ifndef FG_HOLD_H
#define FG_HOLD_H

/* Why memory could not be taken. */
enum { FG_HOLD_OK = 0, FG_HOLD_NO_CARD = -1, FG_HOLD_NO_ROOM = -2, FG_HOLD_FAILED = -3 };

/* `card` is everywhere the index that the driver gives the card here, as for CUDA.
 *
 * Takes `mib` of card `card` for this process until it ends; mode "normal", "delay" or "leak", `delay` in
 * seconds. The device files are opened too, as a real client's are. Returns the descriptor of the
 * context (>= 0, survives exec when `across_exec`), or a negative reason (with errno for FAILED). */
int fg_take(int card, unsigned long long mib, const char *mode, double delay, int across_exec);

/* The same for a MIG device of the card (0: the first; without MIG too) and as a process of this kind: "C" computes,
 * "G" draws, "C+G" does both. */
int fg_take_as(int card, unsigned long long mib, const char *mode, double delay, int across_exec, int instance,
               const char *kind);

/* Sets the size of a context of this process. Returns FG_HOLD_OK or a reason. */
int fg_resize(int fd, unsigned long long mib);

/* Free, total and reserved memory of a card in MiB; FG_HOLD_OK or FG_HOLD_NO_CARD. */
int fg_room(int card, unsigned long long *available, unsigned long long *total, unsigned long long *reserved);

/* Number of cards that can be used from here. */
int fg_count(void);
/* Uuid of a card into `out` (64 bytes); FG_HOLD_OK or FG_HOLD_NO_CARD. */
int fg_uuid(int card, char *out);

#endif
