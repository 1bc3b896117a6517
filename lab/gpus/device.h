/* The device files of the simulated driver: nvidiactl, nvidia-uvm, and nvidia<minor> for each card.
 *
 * They lie in FAKEGPU_DEV, else in DIR/dev where that exists (a machine without a /dev of its own), else in /dev.
 * What cannot be opened there does not exist for the driver's clients: that is how a container has some cards. */
#ifndef FG_DEVICE_H
#define FG_DEVICE_H

/* Opens a device file by name ("nvidiactl"). Returns the descriptor, or -1 with errno. */
int fg_open_device(const char *name, int across_exec);

/* The same for a card's file. */
int fg_open_card(int minor, int across_exec);

/* Can a card be used from here? */
int fg_can_open_card(int minor);

/* As clients of the real driver do before anything else: where no device file exists yet after a boot, root makes
 * them all, on the machine itself but not in a container. */
void fg_make_nodes(void);

#endif
