# Give the card locks back and end.
say done
