# Take the card locks and end (a container's cards are locked on its node).
say taken
